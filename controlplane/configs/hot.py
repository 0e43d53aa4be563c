"""``GET /api/v1/config/me[/effective]`` for runtimes, as a plain ASGI application.

A runtime reads its configuration on every turn. This answers the usual case, a team or admin token that is valid and
may read, with one query for token, chain and versions together and with encoded bytes from the cache. Whatever is
unusual (a person, a query string, a token bound to addresses, a refusal) is left to the Django view, which answers the
usual case in the same words: so nothing is decided here that is not decided there.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson
from django.db import DatabaseError
from django.db.models import QuerySet

from controlplane.access import tokens
from controlplane.access.actors import is_touch_due, token_touch
from controlplane.access.authentication import TEAM_TOKEN_HEADER, bearer_of
from controlplane.access.limits.guard import token_subject
from controlplane.access.limits.limiter import limiter
from controlplane.configs.cache import effective_cache
from controlplane.configs.preconditions import matches as etag_matches
from controlplane.configs.selectors import Link, chain_etag, effective_of
from controlplane.core import clock, metrics
from controlplane.core.hot_query import HotLookup, Match, NoAnswer
from controlplane.core.permissions import RULES, Action
from controlplane.orgs.models import NodeAncestor

PATHS: Final = frozenset({"/api/v1/config/me", "/api/v1/config/me/effective"})
ROUTE: Final = "config-me-effective"
_KINDS: Final = frozenset({"team", "admin"})
_TOKEN_HEADER: Final = TEAM_TOKEN_HEADER.lower().encode()
_SCOPES: Final = RULES[Action.CONFIG_READ].scopes

Chain = tuple[Link, ...]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class _Row(NamedTuple):
    """One node of the chain of a token's node, with the token beside it."""

    public_id: str
    token_id: UUID
    digest: str
    pepper_version: int
    scopes: Sequence[str]
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    allowed_addresses: Sequence[str]
    node_id: UUID
    slug: str
    kind: str
    version: int | None
    revision: UUID | None


def _chain_of_token(match: Match) -> "QuerySet[Any, Any]":
    return (
        NodeAncestor.objects.filter(**match("descendant__tokens__public_id"))
        .order_by("-depth")
        .values_list(
            "descendant__tokens__public_id",
            "descendant__tokens__id",
            "descendant__tokens__digest",
            "descendant__tokens__pepper_version",
            "descendant__tokens__scopes",
            "descendant__tokens__expires_at",
            "descendant__tokens__revoked_at",
            "descendant__tokens__last_used_at",
            "descendant__tokens__allowed_addresses",
            "ancestor_id",
            "ancestor__slug",
            "ancestor__kind",
            "ancestor__config__version",
            "ancestor__config__revision",
        )
    )


def matches(scope: Scope) -> bool:
    """Return whether a request is one of those that can be answered here."""
    return scope["path"] in PATHS and scope["method"] == "GET" and not scope["query_string"]


class OwnEffective:
    """The application; one per process. ``otherwise`` answers what this does not."""

    def __init__(self, otherwise: Any) -> None:
        self._otherwise = otherwise
        self._query = HotLookup(_chain_of_token, name="config")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        headers = dict(scope["headers"])
        try:
            chain = await self._chain(headers, scope.get("client"))
        except (DatabaseError, NoAnswer, TimeoutError):
            chain = None  # the view says it in the words of every other route
        if chain is None:
            await self._otherwise(scope, receive, send)
            return
        status = await self._serve(chain, _text(headers, b"if-none-match") or None, send)
        metrics.observe_request(method="GET", route=ROUTE, status=status, duration_s=time.perf_counter() - started)

    async def _serve(self, chain: Chain, if_none_match: str | None, send: Send) -> int:
        etag = _frame(chain).etag
        if etag_matches(if_none_match, etag):
            await _answer(send, 304, etag, b"")
            return 304
        # What is merged may be newer than the chain that was read: the tag is that of what is sent.
        sent, document = await self._document(chain)
        frame = _frame(sent)
        await _answer(send, 200, frame.etag, frame.around(document))
        return 200

    async def close(self) -> None:
        """Close the connections."""
        await self._query.close()

    async def _chain(self, headers: dict[bytes, bytes], client: Sequence[Any] | None) -> Chain | None:
        """Return the chain of the token's node; ``None`` when the token is not one to be answered here."""
        bearer = bearer_of(_text(headers, b"authorization"), _text(headers, _TOKEN_HEADER))
        text = tokens.parse(bearer) if bearer else None
        if text is None or text.kind not in _KINDS:
            return None
        rows = [_Row(*row) for row in await self._query.rows(text.public_id)]
        if not rows:
            return None
        token = rows[0]
        now = clock.now()
        valid = token.revoked_at is None and (token.expires_at is None or token.expires_at > now)
        if not valid or not tokens.verify(text, digest=token.digest, pepper_version=token.pepper_version):
            return None
        if _SCOPES.isdisjoint(token.scopes) or token.allowed_addresses:
            return None
        if not await self._within_limits(text.public_id):
            return None
        stale = tokens.stale_text(text, token.pepper_version)
        if stale is not None or is_touch_due(token.last_used_at, now):
            await self._query.call(token_touch, token.token_id, client[0] if client else None, stale)
        return tuple(Link(row.node_id, row.slug, row.kind, row.version or 0, row.revision) for row in rows)

    async def _within_limits(self, public_id: str) -> bool:
        """Count the request; what the process holds answers nearly always, without a query."""
        subject = token_subject(public_id)
        verdict = limiter.spend_held("requests", subject)
        if verdict is None:
            verdict = await self._query.call(limiter.spend, "requests", subject)
        return verdict.allowed

    async def _document(self, chain: Chain) -> tuple[Chain, bytes]:
        """Return the chain that was merged, and the merged document as JSON."""
        computed = effective_cache.get(chain[-1].node_id, chain)
        if computed is not None:
            return chain, computed.body
        found = await self._query.call(effective_of, chain[-1].node_id, chain)
        return found.lineage, orjson.dumps(found.document, option=orjson.OPT_SORT_KEYS)


class _Frame(NamedTuple):
    """What stands around a document in an answer: the tag, and OpenSRE's fields before and after it."""

    etag: str
    before: bytes
    after: bytes

    def around(self, document: bytes) -> bytes:
        computed_at = clock.rfc3339(clock.now()).encode()
        return b'%b%b,"computed_at":"%b",%b' % (self.before, document, computed_at, self.after)


@lru_cache(maxsize=4096)
def _frame(chain: Chain) -> _Frame:
    slugs = [link.node for link in chain]
    before = b'{"node_id":%b,"effective_config":' % orjson.dumps(slugs[-1])
    return _Frame(chain_etag(chain), before, b'"hierarchy":%b}' % orjson.dumps(slugs))


def _text(headers: Mapping[bytes, bytes], name: bytes) -> str:
    return headers.get(name, b"").decode("latin-1")


async def _answer(send: Send, status: int, etag: str, body: bytes) -> None:
    headers = [
        (b"etag", etag.encode()),
        (b"cache-control", b"private, no-cache"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if status == 200:
        headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

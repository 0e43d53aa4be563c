"""``GET /api/v1/config/me[/effective]`` for runtimes, as a plain ASGI application.

A runtime reads its configuration on every turn. This answers the usual case, a team or admin token that is valid and
may read, with one query for token, chain and versions together and with encoded bytes from the cache. Whatever is
unusual (a person, a query string, a refusal) is left to the Django view, which answers the usual case in the same
words: so nothing is decided here that is not decided there.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson
import psycopg
from django.db import DatabaseError
from django.db.models import QuerySet
from psycopg_pool import PoolTimeout

from controlplane.access import tokens
from controlplane.access.actors import is_touch_due, token_touch
from controlplane.access.authentication import TEAM_TOKEN_HEADER, bearer_of
from controlplane.configs.cache import effective_cache
from controlplane.configs.preconditions import matches as etag_matches
from controlplane.configs.selectors import Link, chain_etag, effective_of
from controlplane.core import clock, metrics
from controlplane.core.hot_query import HotQuery
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

    token_id: UUID
    digest: str
    pepper_version: int
    scopes: Sequence[str]
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    node_id: UUID
    slug: str
    kind: str
    version: int | None
    revision: UUID | None


def _chain_of_token(parameters: Sequence[str]) -> "QuerySet[Any, Any]":
    public_id, kind = parameters
    return (
        NodeAncestor.objects.filter(descendant__tokens__public_id=public_id, descendant__tokens__kind=kind)
        .order_by("-depth")
        .values_list(
            "descendant__tokens__id",
            "descendant__tokens__digest",
            "descendant__tokens__pepper_version",
            "descendant__tokens__scopes",
            "descendant__tokens__expires_at",
            "descendant__tokens__revoked_at",
            "descendant__tokens__last_used_at",
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
        self._query = HotQuery(_chain_of_token, parameters=2, name="config")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        headers = dict(scope["headers"])
        try:
            chain = await self._chain(headers)
        except (DatabaseError, psycopg.Error, PoolTimeout):
            chain = None  # the view says it in the words of every other route
        if chain is None:
            await self._otherwise(scope, receive, send)
            return
        status = await self._serve(chain, _text(headers, b"if-none-match") or None, send)
        metrics.observe_request(method="GET", route=ROUTE, status=status, duration_s=time.perf_counter() - started)

    async def _serve(self, chain: Chain, if_none_match: str | None, send: Send) -> int:
        etag = chain_etag(chain)
        if etag_matches(if_none_match, etag):
            await _answer(send, 304, etag, b"")
            return 304
        # What is merged may be newer than the chain that was read: the tag is that of what is sent.
        sent, body = await self._body(chain)
        await _answer(send, 200, etag if sent is chain else chain_etag(sent), body)
        return 200

    async def close(self) -> None:
        """Close the connections."""
        await self._query.close()

    async def _chain(self, headers: dict[bytes, bytes]) -> Chain | None:
        """Return the chain of the token's node; ``None`` when the token is not one to be answered here."""
        bearer = bearer_of(_text(headers, b"authorization"), _text(headers, _TOKEN_HEADER))
        text = tokens.parse(bearer) if bearer else None
        if text is None or text.kind not in _KINDS:
            return None
        rows = [_Row(*row) for row in await self._query.rows(text.public_id, text.kind)]
        if not rows:
            return None
        token = rows[0]
        now = clock.now()
        valid = token.revoked_at is None and (token.expires_at is None or token.expires_at > now)
        if not valid or not tokens.verify(text, digest=token.digest, pepper_version=token.pepper_version):
            return None
        if _SCOPES.isdisjoint(token.scopes):
            return None
        if is_touch_due(token.last_used_at, now):
            await self._query.call(token_touch, token.token_id)
        return tuple(Link(row.node_id, row.slug, row.kind, row.version or 0, row.revision) for row in rows)

    async def _body(self, chain: Chain) -> tuple[Chain, bytes]:
        """Return the chain that was merged, and the answer's body in OpenSRE's form."""
        computed = effective_cache.get(chain[-1].node_id, chain)
        if computed is None:
            found = await self._query.call(effective_of, chain[-1].node_id, chain)
            chain, document = found.lineage, orjson.dumps(found.document, option=orjson.OPT_SORT_KEYS)
        else:
            document = computed.body
        slugs = [link.node for link in chain]
        return chain, b'{"node_id":%b,"effective_config":%b,"computed_at":"%b","hierarchy":%b}' % (
            orjson.dumps(slugs[-1]),
            document,
            clock.rfc3339(clock.now()).encode(),
            orjson.dumps(slugs),
        )


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

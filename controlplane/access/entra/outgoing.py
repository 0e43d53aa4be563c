"""Requests to identity providers, made by the outbound client: bounded, and to no private host that is not opened."""

import asyncio
import ssl
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson
from django.conf import settings

from controlplane.core import clock
from controlplane.core.outbound import Answer, OutboundClient, OutboundError

T = TypeVar("T")

TIMEOUT_S: Final = 5.0
MAX_BYTES: Final = 1024 * 1024
#: Documents kept in this process; an organization's owner may name any number of providers one after the other.
_KEPT: Final = 256


class Unreachable(Exception):
    """A request that got no usable answer. The text names the host and what went wrong; nothing of what was sent."""

    def __init__(self, words: str, code: str) -> None:
        self.code = code
        super().__init__(words)


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """An answer with a JSON object as its body, whatever its status."""

    status: int
    headers: Mapping[str, str]
    text: str = field(repr=False)
    document: dict[str, Any] = field(repr=False)


def ask(method: str, url: str, *, headers: Mapping[str, str] | None = None, content: bytes | None = None) -> JsonAnswer:
    """Make one request and return its answer. Blocks, so never call it on an event loop.

    Raises:
        Unreachable: no answer, one that is no JSON object, or a redirect.
    """
    host = url.split("/", 3)[2] if url.count("/") > 1 else url
    try:
        answer = _awaited(_request(method, url, headers, content))
    except OutboundError as error:
        raise Unreachable(str(error), error.code) from None
    except (OSError, ssl.SSLError):
        raise Unreachable("SSO_CA_FILE cannot be read.", "ca_file") from None
    try:
        document = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise Unreachable(f"{host} answered {answer.status} and no JSON object.", "no_json")
    return JsonAnswer(answer.status, answer.headers, answer.body.decode("utf-8"), document)


async def _request(method: str, url: str, headers: Mapping[str, str] | None, content: bytes | None) -> Answer:
    async with OutboundClient(timeout_s=TIMEOUT_S, max_bytes=MAX_BYTES, verify=_trust()) as client:
        return await client.request(method, url, headers=headers, content=content)


def _awaited(work: Coroutine[Any, Any, T]) -> T:
    # Not asyncio.run(): that would wait for a name lookup that hangs, long after the request has timed out.
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


def _trust() -> ssl.SSLContext | None:
    path = settings.SSO_CA_FILE
    return _context(path, Path(path).stat().st_mtime_ns) if path else None


@lru_cache(maxsize=4)
def _context(path: str, _changed: int) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.load_verify_locations(cafile=path)
    return context


@dataclass(frozen=True, slots=True)
class _Kept:
    document: dict[str, Any]
    at: float


_documents: dict[str, _Kept] = {}


def document_at(url: str, *, max_age_s: float) -> dict[str, Any]:
    """Return a public JSON document, from memory when it was fetched by this process at most ``max_age_s`` ago.

    Raises:
        Unreachable: also for any status but 200.
    """
    now = clock.now().timestamp()
    kept = _documents.get(url)
    if kept is not None and 0 <= now - kept.at <= max_age_s:
        return kept.document
    answer = ask("GET", url, headers={"Accept": "application/json"})
    if answer.status != 200:
        host = url.split("/", 3)[2]
        raise Unreachable(f"{host} answered {answer.status}.", "status")
    _documents.pop(url, None)
    while len(_documents) >= _KEPT:
        _documents.pop(next(iter(_documents)), None)
    _documents[url] = _Kept(answer.document, now)
    return answer.document


def forget_documents() -> None:
    """Fetch every document anew when it is asked for next."""
    _documents.clear()

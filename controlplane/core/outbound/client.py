"""The outbound client: bounded in time, size and reach."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self
from urllib.parse import urljoin

import httpcore
import httpx

from controlplane.core.outbound.bodies import ACCEPTED, BodyError, BoundedBody
from controlplane.core.outbound.errors import OutboundError
from controlplane.core.outbound.policy import OutboundPolicy, policy_from_settings
from controlplane.core.outbound.transport import GuardedTransport

MAX_REDIRECTS: Final = 3
DEFAULT_TIMEOUT_S: Final = 10.0
DEFAULT_MAX_BYTES: Final = 8 * 1024 * 1024
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer: status, lower-case header names, body (decoded from its content encoding)."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_json(self) -> bool:
        """Whether the server says that the body is JSON."""
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        return kind == "application/json" or kind.endswith("+json")


@dataclass(frozen=True, slots=True)
class Streamed:
    """An answer that is still coming: status, lower-case header names, the body's parts as they arrive."""

    status: int
    headers: Mapping[str, str]
    parts: AsyncIterator[bytes]


class OutboundClient:
    """Fetches URLs under the policy. Use as an async context manager; connections are kept within it.

    Args:
        policy: whom to reach; the installation's by default.
        timeout_s: seconds for a whole request, redirects and body included.
        max_bytes: the largest body in bytes, after decompression.
        verify: a TLS context for servers with a certificate authority of their own.
        follow_redirects: whether a redirect on the same origin is followed; else it is the answer.
    """

    def __init__(
        self,
        *,
        policy: OutboundPolicy | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_bytes: int = DEFAULT_MAX_BYTES,
        verify: ssl.SSLContext | None = None,
        follow_redirects: bool = True,
    ) -> None:
        self._follow_redirects = follow_redirects
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._client = httpx.AsyncClient(
            transport=GuardedTransport(policy or policy_from_settings(), verify=verify),
            follow_redirects=False,
            trust_env=False,
            timeout=httpx.Timeout(timeout_s),
            headers={"User-Agent": "opensre-controlplane", "Accept-Encoding": ACCEPTED},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def get(
        self, url: str, *, params: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Fetch ``url`` with GET; see :meth:`request`."""
        return await self.request("GET", url, params=params, headers=headers)

    async def request(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> Answer:
        """Make one request and return the complete answer, whatever its status.

        A redirect is followed on the same scheme, host and port alone, at most three times.

        Raises:
            OutboundError: see :data:`controlplane.core.outbound.errors.CODES`.
        """
        host = _checked_host(url)
        asked = _Request(method, url, params, headers, content)
        with _told(host):
            async with asyncio.timeout(self._timeout_s):
                return await self._follow(asked, host)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        idle_s: float,
    ) -> AsyncIterator[Streamed]:
        """Make one request and hand out the answer while it comes; no redirect is followed.

        ``timeout_s`` of the client bounds connecting and sending, ``max_bytes`` the whole body; the caller bounds the
        whole time.

        Args:
            idle_s: seconds without a single byte after which the server counts as stalled.

        Raises:
            OutboundError: on entering or while the parts are read; ``protocol_error`` for a body that is compressed.
        """
        host = _checked_host(url)
        asked = {**(headers or {}), "Accept-Encoding": "identity"}
        timeout = httpx.Timeout(self._timeout_s, read=idle_s)
        request = self._client.build_request(method, url, headers=asked, content=content, timeout=timeout)
        with _told(host):
            response = await self._client.send(request, stream=True)
        try:
            if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
                raise OutboundError("protocol_error", host)
            yield Streamed(response.status_code, dict(response.headers), self._parts(response, host))
        finally:
            await response.aclose()

    async def _parts(self, response: httpx.Response, host: str) -> AsyncIterator[bytes]:
        size = 0
        with _told(host):
            async for part in response.aiter_raw():
                size += len(part)
                if size > self._max_bytes:
                    raise OutboundError("too_large", host)
                yield part

    async def _follow(self, asked: "_Request", host: str) -> Answer:
        origin = _origin(asked.url)
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._once(asked, host)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or location is None or not self._follow_redirects:
                return answer
            asked = replace(asked, url=_joined(asked.url, location, host), params=None)
            if _origin(asked.url) != origin:
                raise OutboundError("redirect_refused", host)
            if answer.status == 303:
                asked = replace(asked, method="GET", content=None)
        raise OutboundError("too_many_redirects", host)

    async def _once(self, asked: "_Request", host: str) -> Answer:
        async with self._client.stream(
            asked.method, asked.url, params=asked.params, headers=asked.headers, content=asked.content
        ) as response:
            try:
                body = BoundedBody(response.headers.get("content-encoding", ""), self._max_bytes)
                async for part in response.aiter_raw():
                    body.feed(part)
            except BodyError as error:
                raise OutboundError(error.code, host) from None
            return Answer(response.status_code, dict(response.headers), body.content)


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: str
    params: Mapping[str, str] | None
    headers: Mapping[str, str] | None
    content: bytes | None


def host_of(url: str) -> str:
    """Return the host that :class:`OutboundClient` would ask for ``url``, in ASCII; empty where it would ask nobody."""
    try:
        _checked_host(url)
    except OutboundError:
        return ""
    return _parsed(url).raw_host.decode("ascii", "replace").lower()


@contextmanager
def _told(host: str) -> Iterator[None]:
    """Turn what the libraries raise into an :class:`OutboundError` that names the host alone."""
    try:
        yield
    except (TimeoutError, httpx.TimeoutException, httpcore.TimeoutException):
        raise OutboundError("timeout", host) from None
    except (httpx.NetworkError, httpcore.NetworkError, OSError) as error:
        raise OutboundError("tls_failed" if _is_tls(error) else "connection_failed", host) from None
    except (httpx.ProtocolError, httpcore.ProtocolError, httpx.DecodingError):
        raise OutboundError("protocol_error", host) from None


def _joined(url: str, location: str, host: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:  # no URL at all
        raise OutboundError("redirect_refused", host) from None


def _checked_host(url: str) -> str:
    parsed = _parsed(url)
    if parsed.scheme not in {"http", "https"}:
        raise OutboundError("scheme_not_allowed")
    if not parsed.host or parsed.userinfo or not 0 < (parsed.port or 80) < 65536:
        raise OutboundError("bad_url")
    return parsed.host


def _origin(url: str) -> tuple[str, str, int]:
    parsed = _parsed(url)
    return parsed.scheme, parsed.host, parsed.port or (443 if parsed.scheme == "https" else 80)


def _parsed(url: str) -> httpx.URL:
    try:
        return httpx.URL(url)
    except (httpx.InvalidURL, ValueError, TypeError):
        raise OutboundError("bad_url") from None


def _is_tls(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLError):
            return True
        seen = seen.__cause__ or seen.__context__
    return False

"""Connections that go only where the policy lets them.

The name is resolved here, every address is checked, and the connection is made to the checked address itself: a name
that resolves differently a moment later (DNS rebinding) changes nothing. TLS still verifies the certificate's name.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from functools import cache
from typing import Any

import httpcore
import httpx
from typing_extensions import override

from controlplane.core.outbound.errors import OutboundError
from controlplane.core.outbound.policy import Address, OutboundPolicy


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """httpcore's own network backend behind a resolver that knows the policy."""

    def __init__(self, policy: OutboundPolicy) -> None:
        self._policy = policy
        self._plain = httpcore.AnyIOBackend()

    @override
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = await resolve(host, port)
        for address in addresses:
            self._policy.check(address, host)
        failure: Exception | None = None
        for address in addresses:
            try:
                return await self._plain.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore.ConnectError("no address")

    @override
    async def sleep(self, seconds: float) -> None:
        await self._plain.sleep(seconds)


async def resolve(host: str, port: int) -> list[Address]:
    """Return the addresses of ``host``, in the resolver's order.

    Raises:
        OutboundError: ``host_unknown``.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise OutboundError("host_unknown", host) from None
    texts = [str(sockaddr[0]).partition("%")[0] for *_, sockaddr in found]
    return [ipaddress.ip_address(text) for text in dict.fromkeys(texts)]


@cache
def _trusted() -> ssl.SSLContext:
    """Return the context that trusts the system's authorities; reading them takes longer than most requests."""
    return ssl.create_default_context()


class GuardedTransport(httpx.AsyncBaseTransport):
    """httpx over an httpcore pool whose connections pass the :class:`GuardedBackend`; proxies are not used."""

    def __init__(self, policy: OutboundPolicy, *, verify: ssl.SSLContext | None = None) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=verify or _trusted(),
            max_connections=20,
            network_backend=GuardedBackend(policy),
        )

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        answer = await self._pool.handle_async_request(
            httpcore.Request(
                method=request.method,
                url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=_Stream(answer),
            extensions=answer.extensions,
        )

    @override
    async def aclose(self) -> None:
        await self._pool.aclose()


class _Stream(httpx.AsyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._answer.aiter_stream():
            yield part

    @override
    async def aclose(self) -> None:
        await self._answer.aclose()

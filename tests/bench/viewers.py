"""Viewers of a benchmark: connections that count what they receive and time a part of it, at little cost to themselves.

They share the machine with the server under measurement, so they parse no more than they must.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from typing_extensions import override

#: In every thought once, however it is sent.
MARK: Final = b'"type":"thought"'
_KEPT: Final = len(MARK) - 1
_SWITCHED: Final = b"HTTP/1.1 101"


class Viewer(asyncio.Protocol):
    """One connection. ``count`` grows with each thought received.

    Args:
        request: what is sent when connected.
        hello: what is said over a WebSocket once it is one.
        latencies_ms: gets the latency of the last event of some of the pieces received.
    """

    def __init__(self, request: bytes, latencies_ms: list[float], hello: bytes = b"") -> None:
        self._request = request
        self._hello = hello
        self._latencies_ms = latencies_ms
        self._tail = b""
        self._wanted = 0
        self._pieces = 0
        self.count = 0
        self.received = 0
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.enough: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._request)

    @override
    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        if not self.opened.done():
            self._open(data)
        self.count += data.count(MARK) + (self._tail + data[:_KEPT]).count(MARK)
        self._tail = data[-_KEPT:]
        self._pieces += 1
        if self._pieces % 7 == 0:
            self._note(data)
        if self.count >= self._wanted and not self.enough.done():
            self.enough.set_result(None)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        for future in (self.opened, self.enough):
            if not future.done():
                future.set_exception(exc or ConnectionError("the server closed the connection"))
                future.exception()

    def _open(self, data: bytes) -> None:
        if self._hello and data.startswith(_SWITCHED) and self.transport is not None:
            self.transport.write(self._hello)
            self.opened.set_result(None)
        elif b": open" in data:
            self.opened.set_result(None)

    def want(self, count: int) -> "asyncio.Future[None]":
        """Return what is done once ``count`` thoughts have arrived, from the beginning."""
        self._wanted = count
        if self.enough.done() and self.count < count and self.transport is not None and not self.transport.is_closing():
            self.enough = asyncio.get_running_loop().create_future()
        return self.enough

    def _note(self, data: bytes) -> None:
        begin = data.rfind(b'"at":')
        end = data.find(b",", begin)
        if begin < 0 or end < 0:
            return
        text = data[begin + 5 : end].decode()
        sent = datetime.fromisoformat(text.strip('"')).timestamp() if text.startswith('"') else float(text)
        self._latencies_ms.append((time.time() - sent) * 1000)


def handshake_of(path: str, headers: Mapping[str, str]) -> bytes:
    """Return the opening handshake of a WebSocket (RFC 6455, section 4.1), without compression."""
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    return request_of(path, {**headers, **upgrade})


def text_frame(text: str) -> bytes:
    """Return a short text as a client sends it (RFC 6455, section 5.2), masked with zeros: nobody listens here."""
    payload = text.encode()
    assert len(payload) < 126
    return bytes([0x81, 0x80 | len(payload), 0, 0, 0, 0]) + payload


def request_of(path: str, headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n".encode()


async def open_viewers(
    port: int, requests: list[bytes], latencies_ms: list[float], *, at_once: int = 100, hello: bytes = b""
) -> list[Viewer]:
    """Open a connection for each request, and return them once each has its first byte.

    Args:
        port: of the server, on this machine.
        requests: one for each viewer.
        latencies_ms: gets latencies, see :class:`Viewer`.
        at_once: how many are opened at a time.
        hello: the first message of WebSockets; empty for event streams.
    """
    loop = asyncio.get_running_loop()
    places = asyncio.Semaphore(at_once)

    async def one(request: bytes) -> Viewer:
        async with places:
            made: Callable[[], Viewer] = lambda: Viewer(request, latencies_ms, hello)  # noqa: E731
            _, viewer = await loop.create_connection(made, "127.0.0.1", port)
            await viewer.opened
            return viewer

    return await asyncio.gather(*(one(request) for request in requests))


def close_viewers(viewers: list[Viewer]) -> None:
    for viewer in viewers:
        if viewer.transport is not None:
            viewer.transport.abort()

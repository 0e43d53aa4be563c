"""``GET /api/v1/threads/{id}/stream``: server-sent events as a plain ASGI application.

A Django view would hold an OS thread for each open stream; this holds a task. It uses the same token check, selectors
and log as everything else.
"""

import asyncio
import contextlib
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qs
from uuid import UUID

import orjson
import structlog

from controlplane.core import errors
from controlplane.core.rest import as_app_error
from controlplane.investigations import metrics
from controlplane.investigations.hub import Frame, Hub
from controlplane.investigations.live import WRITE_SECONDS, Place, follow
from controlplane.investigations.viewing import (
    MethodNotAllowed,
    Receive,
    Scope,
    Send,
    Viewer,
    credentials_of,
    disconnected,
    header_of,
    require_known_host,
    send_problem,
    viewer_open,
)
from controlplane.investigations.waiting import Alarm

log = structlog.get_logger(__name__)

PATH: Final = re.compile(r"/api/v1/threads/(?P<thread>[0-9a-fA-F-]{36})/stream/?\Z")
ROUTE: Final = "thread-stream"
RETRY_MS: Final = 1000
PIECE_BYTES: Final = 64 * 1024
#: How long a stream may take to end by itself when the server stops.
DRAIN_SECONDS: Final = 1.0


def matches(path: str) -> bool:
    """Return whether this application serves ``path``."""
    return PATH.match(path) is not None


class ThreadStream:
    """The application; one per process, beside the hub it reads."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.ExitStack() as held:
            try:
                _check_request(scope)
                thread_id = _thread_id(scope["path"])
                cursor = _cursor(scope)
                credentials = credentials_of(scope)
                known = self._hub.rights.known
                viewer = await self._hub.database.call(viewer_open, credentials, thread_id, ROUTE)
                held.enter_context(self._hub.places.take(viewer.organization_id))
            except Exception as error:  # noqa: BLE001 (as_app_error logs what it does not know)
                await send_problem(send, as_app_error(error))
                return
            held.enter_context(metrics.streams_open.track_inprogress())
            await self._serve(Place(viewer, credentials, known, cursor), receive, send)

    async def _serve(self, place: Place, receive: Receive, send: Send) -> None:
        """Run the pump until it ends, the client leaves or the server stops; then the rest is cancelled."""
        loop = asyncio.get_running_loop()
        body = Body(send, place.viewer)
        pump = asyncio.create_task(self._pump(place, body))
        gone = asyncio.create_task(disconnected(receive))
        try:
            with self._hub.on_drain(lambda: loop.call_later(DRAIN_SECONDS, pump.cancel)):
                await asyncio.wait((pump, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            pump.cancel()
            gone.cancel()
            outcomes = await asyncio.gather(pump, gone, return_exceptions=True)
            body.close()
        failure = outcomes[0]
        if isinstance(failure, TimeoutError):
            log.info("stream.client_too_slow", thread=str(place.viewer.thread_id))
        elif isinstance(failure, Exception) and not isinstance(failure, OSError):
            log.warning("stream.broken", error=type(failure).__name__, thread=str(place.viewer.thread_id))

    async def _pump(self, place: Place, body: "Body") -> None:
        await body.open()
        await follow(self._hub, place, body)  # one that is refused meanwhile comes back and is told why
        await body.end()


_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]


def _check_request(scope: Scope) -> None:
    """Hold the stream to what Django's own middleware demands of every other route."""
    if scope["method"] != "GET":
        raise MethodNotAllowed("A stream is read with GET.", headers={"Allow": "GET"})
    require_known_host(scope)


def _thread_id(path: str) -> UUID:
    found = PATH.match(path)
    try:
        return UUID(found["thread"] if found else "")
    except ValueError:
        raise errors.NotFound from None


def _cursor(scope: Scope) -> int:
    """Return the larger valid one of ``Last-Event-ID`` and ``?after=``: an automatic reconnect repeats the old URL."""
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    last_seen = header_of(scope, b"last-event-id")
    after = query.get("after", [""])[-1]
    if after and not _is_seq(after):
        raise errors.MalformedRequest("after must be a whole number, 0 or larger.", code="bad_cursor")
    return max([int(value) for value in (last_seen, after) if _is_seq(value)], default=0)


def _is_seq(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


class Body:
    """The body of one answer, written in pieces; a client that does not read one in time ends the stream.

    A server takes a write whole into its memory and makes the next one wait, so a piece is what a client that never
    reads costs, beside the buffers of the server.
    """

    def __init__(self, send: Send, viewer: Viewer) -> None:
        self._send = send
        self._viewer = viewer
        self._too_slow = False
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm(self._loop, self._give_up)

    async def open(self) -> None:
        """Begin, with a first byte for proxies and for the browser's ``onopen``."""
        self._task = asyncio.current_task()
        await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await self.write(b"retry: %d\n: open\n\n" % RETRY_MS)

    async def write(self, piece: bytes) -> None:
        """Send a piece of at most ``PIECE_BYTES``.

        Raises:
            TimeoutError: the client does not read.
        """
        self._alarm.set(self._loop.time() + WRITE_SECONDS)
        try:
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        except asyncio.CancelledError:
            if self._too_slow:
                raise TimeoutError from None
            raise
        self._alarm.unset()

    async def frames(self, frames: Sequence[Frame]) -> bool:
        """Send events: a burst costs few writes.

        Raises:
            TimeoutError: the client does not read.
        """
        starter = self._viewer.starter
        whole = b"".join([frame.bytes_for(starter=starter) for frame in frames])
        if len(whole) <= PIECE_BYTES:
            await self.write(whole)
            return True
        for begin in range(0, len(whole), PIECE_BYTES):
            await self.write(whole[begin : begin + PIECE_BYTES])
        return True

    async def beat(self, head: int) -> None:
        """Send a comment: it has no id, so it moves no cursor."""
        await self.write(b": hb %d\n\n" % head)

    async def reset(self, head: int, reason: str) -> None:
        """Tell the client to forget what it has, for ``reason``; it has no id, and what follows is all there is."""
        data = {"type": "reset", "thread_id": str(self._viewer.thread_id), "data": {"reason": reason, "head": head}}
        await self.write(b"event: reset\ndata: %s\n\n" % orjson.dumps(data))

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def close(self) -> None:
        """Let go of the timer."""
        self._alarm.close()

    def _give_up(self) -> None:
        if self._task is not None:
            self._too_slow = True
            self._task.cancel()

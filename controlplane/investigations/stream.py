"""``GET /api/v1/threads/{id}/stream``: server-sent events as a plain ASGI application.

A Django view would hold an OS thread for each open stream; this holds a task. It uses the same token check, selectors
and log as everything else.
"""

import asyncio
import random
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import parse_qs
from uuid import UUID

import orjson
import structlog
from django.conf import settings

from controlplane.core import errors
from controlplane.core.rest import as_app_error
from controlplane.investigations import metrics
from controlplane.investigations.hub import Frame, Hub, WatchedThread
from controlplane.investigations.rights_watch import Stamps
from controlplane.investigations.viewing import (
    Credentials,
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
    viewer_again,
    viewer_open,
)

log = structlog.get_logger(__name__)

PATH: Final = re.compile(r"/api/v1/threads/(?P<thread>[0-9a-fA-F-]{36})/stream/?\Z")
ROUTE: Final = "thread-stream"
RECHECK_SECONDS: Final = 60.0
RETRY_MS: Final = 1000
MAX_WRITE_BYTES: Final = 256 * 1024
#: How long a client may take to accept one write; one that reads nothing is let go, and resumes when it comes back.
WRITE_SECONDS: Final = 30.0
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
        try:
            _check_request(scope)
            thread_id = _thread_id(scope["path"])
            credentials = credentials_of(scope)
            known = self._hub.rights.known
            viewer = await self._hub.database.call(viewer_open, credentials, thread_id, ROUTE)
            cursor = _cursor(scope)
        except Exception as error:  # noqa: BLE001 (as_app_error logs what it does not know)
            await send_problem(send, as_app_error(error))
            return
        with metrics.streams_open.track_inprogress():
            await self._serve(viewer, credentials, known, cursor, receive, send)

    async def _serve(
        self, viewer: Viewer, credentials: Credentials, known: Stamps, cursor: int, receive: Receive, send: Send
    ) -> None:
        """Run the pump until it ends, the client leaves or the server stops; then the rest is cancelled."""
        pump = asyncio.create_task(self._pump(viewer, credentials, known, cursor, send))
        gone = asyncio.create_task(disconnected(receive))
        draining = asyncio.create_task(self._hub.draining.wait())
        try:
            await asyncio.wait({pump, gone, draining}, return_when=asyncio.FIRST_COMPLETED)
            if draining.done() and not gone.done():
                await asyncio.wait({pump}, timeout=DRAIN_SECONDS)
        finally:
            for task in (pump, gone, draining):
                task.cancel()
            outcomes = await asyncio.gather(pump, gone, draining, return_exceptions=True)
        failure = outcomes[0]
        if isinstance(failure, TimeoutError):
            log.info("stream.client_too_slow", thread=str(viewer.thread_id))
        elif isinstance(failure, Exception) and not isinstance(failure, OSError):
            log.warning("stream.broken", error=type(failure).__name__, thread=str(viewer.thread_id))

    async def _pump(self, viewer: Viewer, credentials: Credentials, known: Stamps, cursor: int, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await _write(send, b"retry: %d\n: open\n\n" % RETRY_MS)
        loop = asyncio.get_running_loop()
        closes_at = loop.time() + settings.STREAM_LIFETIME_SECONDS * random.uniform(0.8, 1.15)  # noqa: S311 (jitter)
        recheck_at = loop.time() + RECHECK_SECONDS
        async with self._hub.watch(viewer.thread_id) as watched:
            cursor = await self._valid_cursor(viewer, watched, cursor, send)
            rights = self._hub.rights
            with watched.waiter() as changed, rights.watch(viewer.organization_id, changed, known) as mine:
                while not self._hub.draining.is_set() and loop.time() < closes_at:
                    if mine.due or loop.time() >= recheck_at:
                        mine.checking(rights.known)
                        if not await self._still_allowed(credentials, viewer.thread_id):
                            break  # the client comes back and is told why
                        recheck_at = loop.time() + RECHECK_SECONDS
                    changed.clear()
                    if mine.due:
                        continue  # told between the check and the clearing
                    frames = await self._next_frames(viewer, watched, cursor)
                    if frames:
                        for body in _batches(frames, starter=viewer.starter):
                            await _write(send, body)
                        cursor = frames[-1].seq
                    elif not await _wait(changed, min(settings.STREAM_HEARTBEAT_SECONDS, recheck_at - loop.time())):
                        await _write(send, b": hb %d\n\n" % watched.head)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _valid_cursor(self, viewer: Viewer, watched: WatchedThread, cursor: int, send: Send) -> int:
        """Return the cursor to go on from; one from another history is answered by ``reset`` and the whole log."""
        if cursor > watched.head:  # ahead of us only if another process told it more than ours has read yet
            await watched.catch_up(self._hub.database)
        if cursor <= watched.head:
            return cursor
        await _write(send, _reset(viewer.thread_id, watched.head))
        return 0

    async def _next_frames(self, viewer: Viewer, watched: WatchedThread, cursor: int) -> list[Frame]:
        """Return what comes after ``cursor``, from the ring or, behind it, from the log; empty when nothing does."""
        frames = watched.after(cursor)
        return await self._hub.read(viewer.thread_id, after=cursor) if frames is None else frames

    async def _still_allowed(self, credentials: Credentials, thread_id: UUID) -> bool:
        try:
            await self._hub.database.call(viewer_again, credentials, thread_id)
        except errors.AppError:
            return False
        return True


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


def _reset(thread_id: UUID, head: int) -> bytes:
    """Return the frame that tells a client to forget what it has: its cursor is from another history. It has no id."""
    data = {"type": "reset", "thread_id": str(thread_id), "data": {"reason": "cursor_ahead", "head": head}}
    return b"event: reset\ndata: %s\n\n" % orjson.dumps(data)


def _batches(frames: list[Frame], *, starter: bool) -> Iterator[bytes]:
    """Join frames into writes of bounded size: a burst costs few writes, a long replay little memory."""
    batch: list[bytes] = []
    size = 0
    for frame in frames:
        body = frame.bytes_for(starter=starter)
        batch.append(body)
        size += len(body)
        if size >= MAX_WRITE_BYTES:
            yield b"".join(batch)
            batch, size = [], 0
    if batch:
        yield b"".join(batch)


async def _write(send: Send, body: bytes) -> None:
    """Send a part of the body.

    Raises:
        TimeoutError: the client does not read.
    """
    async with asyncio.timeout(WRITE_SECONDS):
        await send({"type": "http.response.body", "body": body, "more_body": True})


async def _wait(event: asyncio.Event, timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            return await event.wait()
    except TimeoutError:
        return False

"""``GET /api/v1/threads/{id}/stream``: server-sent events as a plain ASGI application.

A Django view would hold an OS thread for each open stream; this holds a task. It uses the same token check, selectors
and log as everything else.
"""

import asyncio
import contextlib
import random
import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs
from uuid import UUID

import orjson
import structlog
from django.conf import settings
from django.http.cookie import parse_cookie
from django.http.request import split_domain_port, validate_host

from controlplane.access.actors import actor_for_bearer, actor_for_session_cookie
from controlplane.access.authentication import TEAM_TOKEN_HEADER, bearer_of
from controlplane.access.limits.guard import bearer_actor, limit_actor
from controlplane.core import errors
from controlplane.core.actor import Actor, Channel
from controlplane.core.rest import PROBLEM, as_app_error
from controlplane.investigations import metrics
from controlplane.investigations.hub import Frame, Hub, WatchedThread
from controlplane.investigations.rights_watch import Stamps
from controlplane.investigations.selectors import is_starter, thread_get
from controlplane.investigations.waiting import Alarm

log = structlog.get_logger(__name__)

PATH: Final = re.compile(r"/api/v1/threads/(?P<thread>[0-9a-fA-F-]{36})/stream/?\Z")
RECHECK_SECONDS: Final = 60.0
RETRY_MS: Final = 1000
PIECE_BYTES: Final = 64 * 1024
#: How long a client may take to accept one write; one that reads nothing is let go, and resumes when it comes back.
WRITE_SECONDS: Final = 30.0
#: How long a stream may take to end by itself when the server stops.
DRAIN_SECONDS: Final = 1.0

Scope = MutableMapping[str, Any]
Send = Callable[[Any], Awaitable[None]]
Receive = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the request carries; kept so that the permission can be checked again while the stream is open."""

    bearer: str | None = field(repr=False)
    session: str | None = field(repr=False)
    address: str | None

    def first_actor(self) -> Actor:
        """Return who this is, and count the request; for the opening of a stream.

        Raises:
            NotAuthenticated: nobody.
            TooManyRequests: ``rate_limited``.
        """
        if self.bearer is not None:
            actor = bearer_actor(self.bearer, channel=Channel.API, address=self.address)
        else:
            actor = self.actor()
        limit_actor("requests", actor)
        return actor

    def actor(self) -> Actor:
        """Return who this is now.

        Raises:
            NotAuthenticated: nobody (any more).
        """
        if self.bearer is not None:
            return actor_for_bearer(self.bearer, channel=Channel.API, address=self.address)
        if self.session:
            actor = actor_for_session_cookie(self.session, channel=Channel.WEB, address=self.address)
            if actor is not None:
                return actor
        raise errors.NotAuthenticated


@dataclass(frozen=True, slots=True)
class Viewer:
    """A reader that may see the thread; ``starter`` also sees what is addressed to its starter alone."""

    thread_id: UUID
    organization_id: UUID
    starter: bool


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
                credentials = _credentials(scope)
                known = self._hub.rights.known
                viewer = await self._hub.database.call(_open, credentials, thread_id)
                held.enter_context(self._hub.places.take(viewer.organization_id))
            except Exception as error:  # noqa: BLE001 (as_app_error logs what it does not know)
                await _send_problem(send, as_app_error(error))
                return
            held.enter_context(metrics.streams_open.track_inprogress())
            await self._serve(viewer, credentials, known, cursor, receive, send)

    async def _serve(
        self, viewer: Viewer, credentials: Credentials, known: Stamps, cursor: int, receive: Receive, send: Send
    ) -> None:
        """Run the pump until it ends, the client leaves or the server stops; then the rest is cancelled."""
        loop = asyncio.get_running_loop()
        body = Body(send)
        pump = asyncio.create_task(self._pump(viewer, credentials, known, cursor, body))
        gone = asyncio.create_task(_disconnected(receive))
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
            log.info("stream.client_too_slow", thread=str(viewer.thread_id))
        elif isinstance(failure, Exception) and not isinstance(failure, OSError):
            log.warning("stream.broken", error=type(failure).__name__, thread=str(viewer.thread_id))

    async def _pump(self, viewer: Viewer, credentials: Credentials, known: Stamps, cursor: int, body: "Body") -> None:
        await body.open()
        loop = asyncio.get_running_loop()
        closes_at = loop.time() + settings.STREAM_LIFETIME_SECONDS * random.uniform(0.8, 1.15)  # noqa: S311 (jitter)
        recheck_at = loop.time() + RECHECK_SECONDS
        async with self._hub.watch(viewer.thread_id) as watched:
            cursor = await self._valid_cursor(viewer, watched, cursor, body)
            rights = self._hub.rights
            with watched.waiter() as changed, rights.watch(viewer.organization_id, changed, known) as mine:
                while not self._hub.draining.is_set() and (now := loop.time()) < closes_at:
                    if mine.due or now >= recheck_at:
                        mine.checking(rights.known)
                        if not await self._still_allowed(credentials, viewer.thread_id):
                            break  # the client comes back and is told why
                        recheck_at = loop.time() + RECHECK_SECONDS
                    changed.clear()
                    if mine.due:
                        continue  # told between the check and the clearing
                    frames = watched.after(cursor)
                    if frames is None:
                        frames = await self._older(viewer, cursor, body)
                    if frames:
                        await body.write_frames(frames, starter=viewer.starter)
                        cursor = frames[-1].seq
                    elif not await changed.wait(min(settings.STREAM_HEARTBEAT_SECONDS, recheck_at - now)):
                        await body.write(b": hb %d\n\n" % watched.head)
        await body.end()

    async def _older(self, viewer: Viewer, cursor: int, body: "Body") -> list[Frame]:
        """Return events from the log; where those after the cursor are gone, the client is told to begin anew first."""
        frames = await self._hub.read(viewer.thread_id, after=cursor)
        if frames and frames[0].seq != cursor + 1:
            await body.write(_reset(viewer.thread_id, frames[-1].seq, "events_removed"))
        return frames

    async def _valid_cursor(self, viewer: Viewer, watched: WatchedThread, cursor: int, body: "Body") -> int:
        """Return the cursor to go on from; one from another history is answered by ``reset`` and the whole log."""
        if cursor > watched.head:  # ahead of us only if another process told it more than ours has read yet
            await watched.catch_up(self._hub.database)
        if cursor <= watched.head:
            return cursor
        await body.write(_reset(viewer.thread_id, watched.head, "cursor_ahead"))
        return 0

    async def _still_allowed(self, credentials: Credentials, thread_id: UUID) -> bool:
        try:
            await self._hub.database.call(_authorise, credentials, thread_id)
        except errors.AppError:
            return False
        return True


_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]


def _open(credentials: Credentials, thread_id: UUID) -> Viewer:
    return _viewer(credentials.first_actor(), thread_id)


def _authorise(credentials: Credentials, thread_id: UUID) -> Viewer:
    return _viewer(credentials.actor(), thread_id)


def _viewer(actor: Actor, thread_id: UUID) -> Viewer:
    thread = thread_get(actor, thread_id)
    return Viewer(thread.pk, thread.organization_id, is_starter(actor, thread))


def _check_request(scope: Scope) -> None:
    """Hold the stream to what Django's own middleware demands of every other route."""
    if scope["method"] != "GET":
        raise _MethodNotAllowed("A stream is read with GET.", headers={"Allow": "GET"})
    domain, _ = split_domain_port(_header(scope, b"host"))
    if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
        raise errors.MalformedRequest("This host is not served here.", code="host_not_allowed")


class _MethodNotAllowed(errors.AppError):
    status, default_code, title = 405, "method_not_allowed", "Method not allowed"


def _thread_id(path: str) -> UUID:
    found = PATH.match(path)
    try:
        return UUID(found["thread"] if found else "")
    except ValueError:
        raise errors.NotFound from None


def _credentials(scope: Scope) -> Credentials:
    client = scope.get("client")
    cookies = parse_cookie(_header(scope, b"cookie"))
    return Credentials(
        bearer=bearer_of(_header(scope, b"authorization"), _header(scope, TEAM_TOKEN_HEADER.lower().encode())),
        session=cookies.get(settings.SESSION_COOKIE_NAME),
        address=client[0] if client else None,
    )


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def _cursor(scope: Scope) -> int:
    """Return the larger valid one of ``Last-Event-ID`` and ``?after=``: an automatic reconnect repeats the old URL."""
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    last_seen = _header(scope, b"last-event-id")
    after = query.get("after", [""])[-1]
    if after and not _is_seq(after):
        raise errors.MalformedRequest("after must be a whole number, 0 or larger.", code="bad_cursor")
    return max([int(value) for value in (last_seen, after) if _is_seq(value)], default=0)


def _is_seq(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def _reset(thread_id: UUID, head: int, reason: str) -> bytes:
    """Return the frame that tells a client to forget what it has, and what follows is all there is. It has no id.

    ``cursor_ahead``: the cursor is from another history; ``events_removed``: what came after it is no longer kept.
    """
    data = {"type": "reset", "thread_id": str(thread_id), "data": {"reason": reason, "head": head}}
    return b"event: reset\ndata: %s\n\n" % orjson.dumps(data)


class Body:
    """The body of one answer, written in pieces; a client that does not read one in time ends the stream.

    A server takes a write whole into its memory and makes the next one wait, so a piece is what a client that never
    reads costs, beside the buffers of the server.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
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

    async def write_frames(self, frames: list[Frame], *, starter: bool) -> None:
        """Send frames: a burst costs few writes.

        Raises:
            TimeoutError: the client does not read.
        """
        whole = b"".join([frame.bytes_for(starter=starter) for frame in frames])
        if len(whole) <= PIECE_BYTES:
            await self.write(whole)
            return
        for begin in range(0, len(whole), PIECE_BYTES):
            await self.write(whole[begin : begin + PIECE_BYTES])

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def close(self) -> None:
        """Let go of the timer."""
        self._alarm.close()

    def _give_up(self) -> None:
        if self._task is not None:
            self._too_slow = True
            self._task.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_problem(send: Send, error: errors.AppError) -> None:
    headers = [(b"content-type", PROBLEM.encode())]
    headers += [(name.lower().encode(), value.encode()) for name, value in error.headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": orjson.dumps(error.as_problem())})

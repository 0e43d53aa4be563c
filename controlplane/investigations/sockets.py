"""``/ws/threads/{id}``: the event log over a WebSocket, and commands the other way.

The envelopes are those of the event stream. A connection holds two tasks and no thread: one follows the hub, the other
reads what the client says. Nothing goes through a channel layer, which may lose messages without a word.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

import orjson
import structlog
from channels.consumer import AsyncConsumer
from channels.exceptions import StopConsumer
from channels.routing import URLRouter
from django.urls import path, re_path

from controlplane.core import errors
from controlplane.core.db import DatabaseThreads
from controlplane.core.rest import PROBLEM, as_app_error
from controlplane.investigations import commands, metrics
from controlplane.investigations.hub import Frame, Hub
from controlplane.investigations.live import WRITE_SECONDS, End, Place, Why, follow
from controlplane.investigations.rights_watch import Stamps
from controlplane.investigations.viewing import (
    Credentials,
    Receive,
    Scope,
    Send,
    Viewer,
    credentials_of,
    require_known_host,
    viewer_open,
)

log = structlog.get_logger(__name__)

#: The subprotocol of this protocol; a client that offers it gets it.
PROTOCOL: Final = "opensre.v1"
#: Offered before a token, for pages that can set no header: it is read, and never answered.
TOKEN_PROTOCOL: Final = "opensre.token."  # noqa: S105 (a prefix)
HELLO_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 1.0
#: A client may send so many messages in so many seconds, and so many that cannot be read at all.
MOST_MESSAGES: Final = 100
PACE_SECONDS: Final = 10.0
MOST_FAULTS: Final = 10

NOT_TEXT: Final = 1003
TOO_LARGE: Final = 1009
FAILED: Final = 1011
RESTARTING: Final = 1012
LIFETIME_OVER: Final = 4000
MALFORMED: Final = 4400
HELLO_MISSING: Final = 4408
TOO_FAST: Final = 4429


def websockets(hub: Hub, database: DatabaseThreads) -> Any:
    """Return the application of all WebSockets.

    Args:
        hub: of this process.
        database: threads for what clients ask: writes must not hold up the hub's readers.
    """
    socket = ThreadSocket.as_asgi(hub=hub, database=database)
    unknown: Any = _unknown
    return URLRouter([path("ws/threads/<uuid:thread_id>", socket), re_path("", unknown)])


async def _unknown(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await _refuse(scope, send, errors.NotFound())


class ThreadSocket(AsyncConsumer):  # type: ignore[misc]  # channels has no types
    """One connection."""

    def __init__(self, hub: Hub, database: DatabaseThreads) -> None:
        self._hub = hub
        self._database = database
        self._over = asyncio.Event()
        self._hello: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._serving: asyncio.Task[None] | None = None
        self._came: deque[float] = deque(maxlen=MOST_MESSAGES)
        self._faults = 0
        self._held = contextlib.ExitStack()
        self._client: _Client
        self._credentials: Credentials
        self._thread_id: UUID

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve until the client is gone or was let go; then whatever is left is cancelled."""
        self._client = _Client(send)
        dispatching = asyncio.create_task(super().__call__(scope, receive, send))
        over = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait({dispatching, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            left = [task for task in (dispatching, over, self._serving) if task is not None]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            self._held.close()
        if not dispatching.cancelled() and (failure := dispatching.exception()) is not None:
            log.error("socket.broken", exc_info=failure)

    async def websocket_connect(self, _message: Any) -> None:
        """Accept a client that may read the thread; refuse another as REST does, where the server can say it."""
        self._thread_id = self.scope["url_route"]["kwargs"]["thread_id"]
        try:
            require_known_host(self.scope)
            self._credentials, protocol = _offered(self.scope)
            known = self._hub.rights.known
            viewer = await self._hub.database.call(viewer_open, self._credentials, self._thread_id, commands.ROUTE)
            self._held.enter_context(self._hub.places.take(viewer.organization_id))
        except Exception as error:  # noqa: BLE001 (as_app_error logs what it does not know)
            await _refuse(self.scope, self.base_send, as_app_error(error))
            raise StopConsumer from None
        await self.base_send({"type": "websocket.accept", "subprotocol": protocol})
        self._serving = asyncio.create_task(self._serve(viewer, known))

    async def websocket_receive(self, message: Any) -> None:
        """Take what the client says, one after another: the next is not read before."""
        try:
            await self._take(message)
        except OSError:
            pass  # gone meanwhile; what it asked for is done all the same
        except Exception:
            log.exception("socket.command_failed", thread=str(self._thread_id))
            await self._leave(FAILED, "internal error; come back with your last seq")

    async def websocket_disconnect(self, _message: Any) -> None:
        raise StopConsumer

    async def _take(self, message: Any) -> None:
        text = message.get("text")
        now = time.monotonic()
        if len(self._came) == MOST_MESSAGES and now - self._came[0] < PACE_SECONDS:
            await self._leave(TOO_FAST, f"more than {MOST_MESSAGES} messages in {PACE_SECONDS:.0f} s")
            return
        self._came.append(now)
        if text is None:
            await self._leave(NOT_TEXT, "messages are text, in JSON")
        elif len(text) > commands.MAX_BYTES:
            await self._leave(TOO_LARGE, f"at most {commands.MAX_BYTES} bytes a message")
        else:
            await self._take_text(text)

    async def _take_text(self, text: str) -> None:
        try:
            message = commands.parse(text)
            if not self._hello.done():
                self._hello.set_result(commands.hello_of(message).after)
                return
            command = commands.command_of(message)
        except errors.AppError as error:
            await self._client.tell(commands.fault(error))
            self._faults += 1
            if not self._hello.done() or self._faults >= MOST_FAULTS:
                await self._leave(MALFORMED, "this is not the protocol of /ws/threads")
            return
        await self._client.tell(
            await self._database.call(commands.command_run, self._credentials, self._thread_id, command)
        )

    async def _leave(self, code: int, reason: str) -> None:
        metrics.sockets_closed_total.labels(code=str(code)).inc()
        await self._client.close(code, reason)
        self._over.set()

    async def _serve(self, viewer: Viewer, known: Stamps) -> None:
        """Follow the thread for the client, and close with the code that says why it is over."""
        with metrics.sockets_open.track_inprogress():
            try:
                code, reason = await self._followed(viewer, known)
            except OSError as error:
                if isinstance(error, TimeoutError):
                    log.info("socket.client_too_slow", thread=str(viewer.thread_id))
                self._over.set()
                return
            except Exception:
                log.exception("socket.failed", thread=str(viewer.thread_id))
                code, reason = FAILED, "internal error; come back with your last seq"
            await self._leave(code, reason)

    async def _followed(self, viewer: Viewer, known: Stamps) -> tuple[int, str]:
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                cursor = await self._hello
        except TimeoutError:
            return HELLO_MISSING, f"no hello within {HELLO_SECONDS:.0f} s"
        place = Place(viewer, self._credentials, known, cursor)
        return _closing(await follow(self._hub, place, _SocketSink(self._client, viewer)))


def _closing(end: End) -> tuple[int, str]:
    """Return the close code, and words for people, of a following that is over."""
    if end.error is not None:
        return 4000 + end.error.status, end.error.code
    if end.why is Why.STOPPING:
        return RESTARTING, "the server stops; come back with your last seq"
    return LIFETIME_OVER, "long enough; come back with your last seq"


class _Client:
    """The way to the client: one message at a time, nothing after the close, no waiting for one that does not read."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lock = asyncio.Lock()
        self._closed = False

    async def tell(self, value: dict[str, Any]) -> None:
        await self.texts((orjson.dumps(value).decode(),))

    async def texts(self, texts: Iterable[str]) -> None:
        """Send messages one after another; the client has so long for all of them.

        Raises:
            TimeoutError: the client does not read.
            OSError: it is gone.
        """
        async with asyncio.timeout(WRITE_SECONDS), self._lock:
            for text in texts:
                if self._closed:
                    return
                await self._send({"type": "websocket.send", "text": text})

    async def close(self, code: int, reason: str) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS), self._lock:
                if not self._closed:
                    self._closed = True
                    await self._send({"type": "websocket.close", "code": code, "reason": reason})
        except OSError:
            self._closed = True  # it is gone, or reads nothing and will not read this either


class _SocketSink:
    """The events as WebSocket messages."""

    def __init__(self, client: _Client, viewer: Viewer) -> None:
        self._client = client
        self._viewer = viewer

    async def frames(self, frames: Sequence[Frame]) -> bool:
        starter = self._viewer.starter
        await self._client.texts(frame.envelope_for(starter=starter) for frame in frames)
        return True

    async def beat(self, head: int) -> None:
        await self._client.tell({"type": "heartbeat", "head": head})

    async def reset(self, head: int, reason: str) -> None:
        data = {"reason": reason, "head": head}
        await self._client.tell({"type": "reset", "thread_id": str(self._viewer.thread_id), "data": data})


def _offered(scope: Scope) -> tuple[Credentials, str | None]:
    """Return the credentials of a handshake and the subprotocol to answer.

    A page of another origin that this installation trusts has no cookie here and can set no header: it offers its token
    as a subprotocol (RFC 6455, section 1.9, leaves their names to us), which no log of addresses holds.
    """
    offered: Sequence[str] = scope.get("subprotocols") or ()
    credentials = credentials_of(scope)
    token = next((item.removeprefix(TOKEN_PROTOCOL) for item in offered if item.startswith(TOKEN_PROTOCOL)), None)
    if token is not None and credentials.bearer is None:
        credentials = Credentials(token, None, credentials.address)
    return credentials, PROTOCOL if PROTOCOL in offered else None


async def _refuse(scope: Scope, send: Send, error: errors.AppError) -> None:
    """Refuse a handshake with a problem document, or, where the server can answer none, with a close code."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 4000 + error.status, "reason": error.code})
        return
    headers = [(b"content-type", PROBLEM.encode())]
    headers += [(name.lower().encode(), value.encode()) for name, value in error.headers.items()]
    await send({"type": "websocket.http.response.start", "status": error.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": orjson.dumps(error.as_problem())})

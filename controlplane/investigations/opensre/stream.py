"""``POST /investigate``: starts or continues a thread and streams its run, as a plain ASGI application.

One line of data for each event and a comment while nothing happens; the end of the run is the end of the stream. A
client that goes away changes nothing for the run.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import orjson
import structlog
from django.conf import settings

from controlplane.access.limits.guard import limit_actor
from controlplane.core import clock, errors
from controlplane.core.actor import Actor
from controlplane.core.db import DatabaseThreads
from controlplane.core.rest import as_app_error
from controlplane.core.strict_json import parse_json
from controlplane.investigations import metrics
from controlplane.investigations.hub import Frame, Hub
from controlplane.investigations.live import WRITE_SECONDS, Place, Why, follow
from controlplane.investigations.log import read_page
from controlplane.investigations.opensre.names import Begun, asked_of, client_investigate
from controlplane.investigations.opensre.projection import event, projected
from controlplane.investigations.rights_watch import Stamps
from controlplane.investigations.viewing import (
    Credentials,
    MethodNotAllowed,
    Receive,
    Scope,
    Send,
    Viewer,
    asked_by,
    credentials_of,
    disconnected,
    require_known_host,
    send_problem,
    viewer_of,
)
from controlplane.runtimes.events import EventType

log = structlog.get_logger(__name__)

PATH: Final = "/investigate"
ROUTE: Final = "opensre-investigate"
#: A stream cannot be resumed, so it lives as long as any run should, questions to people included.
LIFETIME_SECONDS: Final = 4 * 3600.0
DRAIN_SECONDS: Final = 1.0
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]
_PARTING: Final = {
    Why.STOPPING: "The server stops. What runs goes on or is kept: ask again in this thread.",
    Why.LIFETIME: "The stream was open for too long. The run goes on: ask again in this thread.",
    Why.REFUSED: "This token may not read the thread any more.",
}


def matches(path: str) -> bool:
    """Return whether this application serves ``path``."""
    return path == PATH


class Investigate:
    """The application; one per process.

    Args:
        hub: of this process.
        database: threads for starting runs: writes must not hold up the hub's readers.
    """

    def __init__(self, hub: Hub, database: DatabaseThreads) -> None:
        self._hub = hub
        self._database = database

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            credentials = _checked(scope)
            body = await _body(receive)
            known = self._hub.rights.known
            begun, viewer = await self._database.call(_begin, credentials, body)
        except Exception as error:  # noqa: BLE001 (as_app_error logs what it does not know)
            await send_problem(send, as_app_error(error))
            return
        with self._hub.places.hold(viewer.organization_id), metrics.streams_open.track_inprogress():
            await self._serve(begun, viewer, credentials, known, receive, send)

    async def _serve(
        self, begun: Begun, viewer: Viewer, credentials: Credentials, known: Stamps, receive: Receive, send: Send
    ) -> None:
        """Run the pump until it ends or the client leaves; then the rest is cancelled."""
        pump = asyncio.create_task(self._pump(begun, Place(viewer, credentials, known, begun.after), send))
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
        if isinstance(failure, Exception) and not isinstance(failure, OSError):
            log.warning("investigate.broken", exc_info=failure, thread=str(begun.thread_id))

    async def _pump(self, begun: Begun, place: Place, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        sink = _RunSink(self._hub, begun, place.viewer, send)
        await sink.write(b": open\n\n")
        end = await follow(self._hub, place, sink, lifetime_s=LIFETIME_SECONDS)
        if end.why in _PARTING:
            await sink.part(_PARTING[end.why])
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _checked(scope: Scope) -> Credentials:
    if scope["method"] != "POST":
        raise MethodNotAllowed("An investigation is started with POST.", headers={"Allow": "POST"})
    require_known_host(scope)
    credentials = credentials_of(scope)
    if credentials.bearer is None:  # a browser's session alone: any page could have it sent
        raise errors.NotAuthenticated
    return credentials


def _begin(credentials: Credentials, body: bytes) -> tuple[Begun, Viewer]:
    return asked_by(credentials, ROUTE, lambda actor: _begun(actor, body))


def _begun(actor: Actor, body: bytes) -> tuple[Begun, Viewer]:
    limit_actor("investigations", actor)
    members = parse_json(body, max_bytes=settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    if not isinstance(members, dict):
        raise errors.MalformedRequest("The body must be a JSON object.", code="not_an_object")
    begun = client_investigate(actor=actor, asked=asked_of(members))
    return begun, viewer_of(actor, begun.thread_id)


class _RunSink:
    """Events of one run as their lines, and of the runs that follow from what was said to it meanwhile."""

    def __init__(self, hub: Hub, begun: Begun, viewer: Viewer, send: Send) -> None:
        self._hub = hub
        self._name = begun.name
        self._run_id = str(begun.run_id)
        self._went_on = False
        self._viewer = viewer
        self._send = send

    async def frames(self, frames: Sequence[Frame]) -> bool:
        lines: list[bytes] = []
        wanted = True
        for frame in frames:
            envelope = orjson.loads(frame.envelope_for(starter=self._viewer.starter))
            if envelope["run_id"] != self._run_id:
                continue
            line = projected(envelope, name=self._name)
            if line is not None and not (envelope["type"] == EventType.RUN_STARTED and self._went_on):
                lines.append(_line(line))
            if envelope["type"] == EventType.RUN_ENDED:
                wanted = await self._next_run(envelope, lines)
                if not wanted:
                    break
        if lines:
            await self.write(b"".join(lines))
        return wanted

    async def _next_run(self, ended: Any, lines: list[bytes]) -> bool:
        """Go on with the run that what was queued has started, as their server does in the same stream.

        It is the very next event, written in the transaction that ended the run before.
        """
        page = await self._hub.database.call(read_page, self._viewer.thread_id, after=ended["seq"], limit=1)
        following = page.events[0] if page.events else None
        if following is None or following.type != EventType.RUN_STARTED:
            return False
        self._run_id, self._went_on = str(following.run_id), True
        lines.append(_line(event("message_queued", {"pending_count": 0}, name=self._name, at=ended["at"])))
        return True

    async def beat(self, _head: int) -> None:
        await self.write(b": keepalive\n\n")

    async def reset(self, _head: int, _reason: str) -> None:
        """Nothing to say: the cursor of a run that has just begun is never ahead of the log."""

    async def part(self, words: str) -> None:
        """End the stream before its run has ended."""
        data = {"message": words, "recoverable": True}
        await self.write(_line(event("error", data, name=self._name, at=clock.rfc3339(clock.now()))))

    async def write(self, body: bytes) -> None:
        """Send a part of the body.

        Raises:
            TimeoutError: the client does not read.
        """
        async with asyncio.timeout(WRITE_SECONDS):
            await self._send({"type": "http.response.body", "body": body, "more_body": True})


def _line(value: Any) -> bytes:
    return b"data: %s\n\n" % orjson.dumps(value)


async def _body(receive: Receive) -> bytes:
    """Return the whole body, read no further than is accepted.

    Raises:
        PayloadTooLarge: it is larger.
        MalformedRequest: the client left before its end.
    """
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise errors.MalformedRequest("The body is not whole.")
        body += message.get("body", b"")
        if len(body) > limit:
            raise errors.PayloadTooLarge(f"At most {limit} bytes are accepted.")
        if not message.get("more_body", False):
            return bytes(body)

"""The AG-UI routes as a plain ASGI application: an open stream holds a task and no thread.

A stream is our own event stream, translated as it passes: who may read it, when that is looked at again, heartbeats and
slow readers are that one's business, and it stays the only place where they are decided.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from uuid import UUID

import orjson
import structlog
from django.conf import settings
from django.http.request import split_domain_port, validate_host

from controlplane.access.authentication import TEAM_TOKEN_HEADER, bearer_of
from controlplane.access.limits.guard import bearer_actor, limit_actor
from controlplane.core import errors
from controlplane.core.actor import Actor, Channel
from controlplane.core.db import DatabaseThreads
from controlplane.core.rest import PROBLEM, as_app_error
from controlplane.investigations.agui.acting import agents_info, run_begin, run_stop, thread_join
from controlplane.investigations.agui.inputs import MAX_BODY_BYTES, read_body, run_input
from controlplane.investigations.agui.projection import AguiEvent, Projector

log = structlog.get_logger(__name__)

ROOT: Final = "/api/v1/agui"
_PATH: Final = re.compile(
    rf"{ROOT}(?:/(?P<info>info)"
    r"|/agent/(?P<agent>[^/]{1,200})/(?:(?P<act>run|connect)|stop/(?P<thread>[^/]{1,200})))?/?\Z"
)
#: The methods of the envelope that single-route clients post.
_METHODS: Final = ("info", "agent/run", "agent/connect", "agent/stop")
#: How long the end of a run waits for another one that takes up what was said to it: both commit together.
HELD_SECONDS: Final = 1.0
#: A stream of ours that ends sooner is not taken up again.
SHORTEST_SECONDS: Final = 5.0

Scope = MutableMapping[str, Any]
Send = Callable[[Any], Awaitable[None]]
Receive = Callable[[], Awaitable[Any]]


class Streams(Protocol):
    """Our event stream, see :mod:`controlplane.investigations.stream`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


@dataclass(frozen=True, slots=True)
class Call:
    """What is asked for, whichever route it came by."""

    act: str
    agent: str = ""
    thread: str = ""
    body: Mapping[str, Any] | None = None


def matches(path: str) -> bool:
    """Return whether this application serves ``path``."""
    return path.startswith(ROOT) and _PATH.match(path) is not None


class Agui:
    """The application; one per process. ``streams`` is the process's own event stream."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._database = DatabaseThreads(threads=2, name="agui-db")

    async def close(self) -> None:
        """Close the database connections."""
        await asyncio.to_thread(self._database.close)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            call = await _call(scope, receive)
            caller = _Caller(_bearer(scope), (scope.get("client") or [None])[0])
            if call.act == "info":
                return await _send_json(send, await self._database.call(caller.do, agents_info))
            if call.act == "stop":
                return await _send_json(send, await self._database.call(caller.do, run_stop, call.thread))
            begin = self._starting if call.act == "run" else self._joining
            translation = await begin(scope, call, caller)
        except Exception as error:  # noqa: BLE001 (as_app_error logs what it does not know)
            return await _send_problem(send, as_app_error(error))
        return await translation(receive, send)

    async def _starting(self, scope: Scope, call: Call, caller: "_Caller") -> "_Translation":
        wanted = run_input(call.body or {}, new=True)
        followed = await self._database.call(caller.do, run_begin, call.agent, wanted, rule="investigations")
        projector = Projector(wanted.thread, wanted.run, str(followed.run_id), followed.awaited)
        first = [projector.started(seq=followed.after)]
        return _Translation(self._streams, scope, followed.thread_id, followed.after, projector, first)

    async def _joining(self, scope: Scope, call: Call, caller: "_Caller") -> "_Translation":
        wanted = run_input(call.body or {}, new=False)
        joined = await self._database.call(caller.do, thread_join, wanted)
        found = joined.snapshot
        run = str(joined.active or found.last_run or "")
        projector = Projector(wanted.thread, wanted.run, run)
        first: list[AguiEvent] = [
            projector.started(seq=found.head),
            {"type": "MESSAGES_SNAPSHOT", "messages": found.messages, "metadata": {"seq": found.head}},
            {"type": "STATE_SNAPSHOT", "snapshot": found.state, "metadata": {"seq": found.head}},
        ]
        if found.waits is not None:
            first.append(_finished(projector, {"type": "interrupt", "interrupts": [found.waits]}))
        elif found.last_status is not None:
            outcome = "cancelled" if found.last_status == "interrupted" else "success"
            first.append(_finished(projector, {"type": outcome}))
        return _Translation(self._streams, scope, joined.thread_id, found.head, projector, first)


def _finished(projector: Projector, outcome: Mapping[str, Any]) -> AguiEvent:
    projector.over = True
    return {"type": "RUN_FINISHED", "threadId": projector.thread, "runId": projector.run, "outcome": dict(outcome)}


class _Translation:
    """One AG-UI answer: the first events, then our own stream of the thread, translated, until the run is over."""

    def __init__(
        self,
        streams: Streams,
        scope: Scope,
        thread_id: UUID,
        after: int,
        projector: Projector,
        first: list[AguiEvent],
    ) -> None:
        self._streams = streams
        self._scope = scope
        self._thread_id = thread_id
        self._cursor = after
        self._projector = projector
        self._first = first
        self._over = asyncio.Event()
        self._gone = asyncio.Event()
        self._rest = b""
        self._refused = 0

    async def __call__(self, receive: Receive, send: Send) -> None:
        self._send = send
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await self._write(self._first)
        leaving = asyncio.create_task(self._disconnected(receive))
        try:
            await self._follow()
        finally:
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
        if not self._gone.is_set():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _follow(self) -> None:
        """Read our stream, again where it ended by its own limit of time, until the run is over."""
        loop = asyncio.get_running_loop()
        while not self._done():
            began = loop.time()
            self._rest = b""
            await self._streams(self._native(), self._until_over, self._take)
            if self._done():
                return
            if self._refused or loop.time() - began < SHORTEST_SECONDS:
                code = "no_longer_allowed" if self._refused in (401, 403, 404, 410) else "stream_closed"
                await self._write(self._projector.broken(code, "The stream has ended; the run goes on. Connect again."))

    def _done(self) -> bool:
        return self._projector.over or self._gone.is_set()

    def _native(self) -> Scope:
        """Return the request for our own stream that this one stands for."""
        passed = (b"host", b"authorization", TEAM_TOKEN_HEADER.lower().encode())
        return dict(self._scope) | {
            "method": "GET",
            "path": f"/api/v1/threads/{self._thread_id}/stream",
            "raw_path": f"/api/v1/threads/{self._thread_id}/stream".encode(),
            "query_string": b"after=%d" % self._cursor,
            "headers": [(name, value) for name, value in self._scope["headers"] if name in passed],
        }

    async def _until_over(self) -> dict[str, str]:
        await self._over.wait()
        return {"type": "http.disconnect"}

    async def _disconnected(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone.set()
        self._over.set()

    async def _take(self, message: Mapping[str, Any]) -> None:
        """Take what our stream sends: frames are translated, comments passed on."""
        if message["type"] == "http.response.start":
            self._refused = message["status"] if message["status"] != 200 else 0
            return
        if self._refused or self._over.is_set():
            return
        *frames, self._rest = (self._rest + message.get("body", b"")).split(b"\n\n")
        for frame in frames:
            await self._frame(frame)
            if self._projector.over:
                self._over.set()
                return

    async def _frame(self, frame: bytes) -> None:
        data = next((line[6:] for line in frame.split(b"\n") if line.startswith(b"data: ")), None)
        if data is None:
            comment = b"".join(line + b"\n" for line in frame.split(b"\n") if line.startswith(b":"))
            if comment:
                await self._send({"type": "http.response.body", "body": comment + b"\n", "more_body": True})
            return
        envelope = orjson.loads(data)
        if "seq" not in envelope:  # a reset: the log is another one than the client has seen
            await self._write(self._projector.broken("reset", "The log has begun anew. Connect again."))
            return
        self._cursor = envelope["seq"]
        await self._write(self._projector.project(envelope))
        if self._projector.held:
            asyncio.get_running_loop().call_later(HELD_SECONDS, self._let_go)

    def _let_go(self) -> None:
        if self._projector.held and not self._gone.is_set():
            self._ending = asyncio.create_task(self._end_held())

    async def _end_held(self) -> None:
        await self._write(self._projector.flush())
        self._over.set()

    async def _write(self, events: list[AguiEvent]) -> None:
        body = b"".join(_frame_of(event) for event in events)
        if body:
            await self._send({"type": "http.response.body", "body": body, "more_body": True})


def _frame_of(event: AguiEvent) -> bytes:
    id_ = event.get("metadata", {}).get("id")
    prefix = f"id: {id_}\n".encode() if id_ else b""
    return prefix + b"data: " + orjson.dumps(event) + b"\n\n"


_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]


# ---- the request -----------------------------------------------------------------------------------------------------


async def _call(scope: Scope, receive: Receive) -> Call:
    """Return what a request asks for.

    Raises:
        AppError: it is not one that is served here.
    """
    found = _PATH.match(scope["path"])
    if found is None:
        raise errors.NotFound
    domain, _ = split_domain_port(_header(scope, b"host"))
    if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
        raise errors.MalformedRequest("This host is not served here.", code="host_not_allowed")
    needed = "GET" if found["info"] else "POST"
    if scope["method"] != needed:
        raise _MethodNotAllowed(f"This is called with {needed}.", headers={"Allow": needed})
    if found["info"]:
        return Call("info")
    if found["thread"]:
        return Call("stop", found["agent"], found["thread"])
    body = read_body(await _read(receive))
    return Call(found["act"], found["agent"], body=body) if found["act"] else _enveloped(body)


class _MethodNotAllowed(errors.AppError):
    status, default_code, title = 405, "method_not_allowed", "Method not allowed"


def _enveloped(envelope: Mapping[str, Any]) -> Call:
    """Return the call in the envelope ``{"method", "params", "body"}`` of clients that know one address."""
    method, params, body = envelope.get("method"), envelope.get("params") or {}, envelope.get("body") or {}
    if method not in _METHODS:
        raise errors.invalid("/method", "unknown_method", f"A method is one of {', '.join(_METHODS)}.")
    if not isinstance(params, Mapping) or not isinstance(body, Mapping):
        raise errors.invalid("/params", "not_an_object", "params and body are objects.")
    if method == "info":
        return Call("info")
    names = {name: params.get(name, "") for name in ("agentId", "threadId")}
    for name, value in names.items():
        if not isinstance(value, str):
            raise errors.invalid(f"/params/{name}", "not_text", "This must be a string.")
    agent = names["agentId"] or "default"
    return Call(str(method).removeprefix("agent/"), agent, names["threadId"], body)


async def _read(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise errors.MalformedRequest("The request broke off.", code="request_broken")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            detail = f"A request has at most {MAX_BODY_BYTES:,} bytes."
            raise errors.PayloadTooLarge(detail)
        if not message.get("more_body"):
            return b"".join(parts)


def _bearer(scope: Scope) -> str:
    """Return the bearer token; a browser's cookie opens nothing here, so no other site can make it act."""
    bearer = bearer_of(_header(scope, b"authorization"), _header(scope, TEAM_TOKEN_HEADER.lower().encode()))
    if bearer is None:
        raise errors.NotAuthenticated
    return bearer


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


@dataclass(frozen=True, slots=True)
class _Caller:
    """Whoever the token names."""

    bearer: str = field(repr=False)
    address: str | None

    def do(self, act: Callable[..., Any], *args: Any, rule: str = "") -> Any:
        """Do ``act`` as the actor of the token, and count it; the job of a database thread."""
        actor: Actor = bearer_actor(self.bearer, channel=Channel.API, address=self.address)
        limit_actor("requests", actor)
        if rule:
            limit_actor(rule, actor)
        return act(actor, *args)


async def _send_json(send: Send, value: Any) -> None:
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": orjson.dumps(value)})


async def _send_problem(send: Send, error: errors.AppError) -> None:
    headers = [(b"content-type", PROBLEM.encode())]
    headers += [(name.lower().encode(), value.encode()) for name, value in error.headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": orjson.dumps(error.as_problem())})

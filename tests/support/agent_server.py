"""An OpenSRE-compatible agent server over the wire, which breaks as it is told."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from tests.support.runs import wait_until


def frame(type_: str, **data: Any) -> bytes:
    """Return one event as the protocol sends it."""
    event = {"type": type_, "data": data, "thread_id": "t", "timestamp": f"2026-09-01T10:00:00.{frame_number():06d}"}
    return b"data: " + json.dumps(event).encode() + b"\n\n"


_counter = iter(range(10**9))


def frame_number() -> int:
    return next(_counter)


@dataclass
class Play:
    """How one ``/investigate`` is answered: parts one after another, then what becomes of the connection.

    A part that is a number is a pause in seconds, ``"interrupt"`` and ``"message"`` wait for such a call.
    """

    parts: list[bytes | float | str] = field(default_factory=list)
    status: int = 200
    cut: bool = False


@dataclass
class AgentDouble:
    """``plays`` are used up one by one; ``calls`` are the requests as ``(method, path, headers, body)``."""

    url: str = ""
    plays: list[Play] = field(default_factory=list)
    calls: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)
    active: list[dict[str, Any]] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)

    def bodies(self, path: str) -> list[Any]:
        """Return the bodies of the requests whose path ends with ``path``."""
        return [body for _, called, _, body in self.calls if called.endswith(path)]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        raw, more = b"", True
        while more:
            message = await receive()
            raw, more = raw + message.get("body", b""), message.get("more_body", False)
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        path = scope["path"]
        self.calls.append((scope["method"], path, headers, json.loads(raw) if raw else None))
        if path == "/investigate":
            await self._investigate(send)
            return
        last = path.rpartition("/")[2]
        body: dict[str, Any] = {"status": "ok", "queued": True, "pending_count": 1}
        if last == "active":
            body = self.active.pop(0) if self.active else {"active": False, "sdk_session_id": None}
        await _start(send, self.statuses.get(last, 200), b"application/json")
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})

    async def _investigate(self, send: Any) -> None:
        play = self.plays.pop(0) if self.plays else Play([frame("result", text="done", success=True)])
        await _start(send, play.status, b"text/event-stream")
        for part in play.parts:
            if isinstance(part, bytes):
                await send({"type": "http.response.body", "body": part, "more_body": True})
            elif isinstance(part, str):
                while not any(part in path for _, path, _, _ in self.calls):  # noqa: ASYNC110 (calls are a list)
                    await asyncio.sleep(0.01)
            else:
                await asyncio.sleep(part)
        if not play.cut:
            await send({"type": "http.response.body", "body": b""})


async def _start(send: Any, status: int, kind: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})


@contextmanager
def agent_server() -> Iterator[AgentDouble]:
    """Serve on a free port of this machine for the length of the block."""
    double = AgentDouble()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        double.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        options: dict[str, Any] = {"log_config": None, "lifespan": "off", "timeout_graceful_shutdown": 1}
        server = uvicorn.Server(uvicorn.Config(double, loop="asyncio", **options))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), name="agent-double")
        thread.start()
        try:
            wait_until(lambda: server.started, what="the agent server to start")
            yield double
        finally:
            server.should_exit = True
            thread.join(15)

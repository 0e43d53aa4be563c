"""The real ASGI application under uvicorn, in a thread of the test process, on a free port."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn

from controlplane.asgi import make_application
from tests.support.runs import wait_until


@dataclass
class Server:
    """A running server: ``url`` without a trailing slash, and the loop it serves on."""

    url: str
    uvicorn: uvicorn.Server
    application: Any


@contextmanager
def serving(**config: Any) -> Iterator[Server]:
    """Serve for the length of the block."""
    application = make_application()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        listener.listen(512)
        options = {"log_config": None, "lifespan": "on", "timeout_graceful_shutdown": 3, "loop": "asyncio"} | config
        server = uvicorn.Server(uvicorn.Config(application, **options))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), name="test-server")
        thread.start()
        try:
            wait_until(lambda: server.started or not thread.is_alive(), what="the server to start")
            assert server.started, "the server did not start"
            yield Server(f"http://127.0.0.1:{port}", server, application)
        finally:
            server.should_exit = True
            thread.join(15)
            assert not thread.is_alive(), "the server did not stop"


def parse_sse(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Yield the frames of an event stream as ``{"id", "event", "data"}``; comments come as ``{"comment": …}``."""
    frame: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            yield {"comment": line[1:].strip()}
        elif line:
            name, _, value = line.partition(": ")
            frame[name] = value
        elif frame:
            yield frame
            frame = {}

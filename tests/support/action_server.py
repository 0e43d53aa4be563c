"""A server of a team's automation: it keeps every request, and answers as it is told."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from typing_extensions import override


@dataclass(frozen=True)
class Done:
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class ActionServer:
    """``status`` and ``answer`` are what it says; ``held`` keeps requests waiting until it is set."""

    url: str = ""
    status: int = 200
    answer: str = '{"ok": true}'
    done: list[Done] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)
    came: threading.Event = field(default_factory=threading.Event)


@contextmanager
def action_server() -> Iterator[ActionServer]:
    """Serve on a free port of this machine for the length of the block."""
    server = ActionServer()
    server.held.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server.done.append(Done(self.command, self.path, dict(self.headers), json.loads(body)))
            server.came.set()
            server.held.wait(30)
            said = server.answer.encode()
            self.send_response(server.status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    server.url = f"http://127.0.0.1:{listening.server_port}/hooks/restart"
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.held.set()
        listening.shutdown()
        thread.join(10)
        listening.server_close()

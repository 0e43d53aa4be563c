"""Local servers that answer as Prometheus, Alertmanager and Loki do, in a thread, on a free port."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

Params = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Asked:
    """One request that a peer got."""

    path: str
    params: Params
    headers: Mapping[str, str]

    def first(self, name: str) -> str:
        return next(iter(self.params.get(name, ())), "")


@dataclass(frozen=True)
class Raw:
    """An answer: its body whole, or in pieces until the client has had enough."""

    status: int = 200
    body: bytes | Iterator[bytes] = b""
    type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


def answer(value: Any, status: int = 200) -> Raw:
    """Return a JSON answer."""
    return Raw(status, json.dumps(value).encode())


@dataclass
class Peer:
    """A server. ``respond`` gives an answer; ``stall`` keeps every request waiting until the test is over."""

    respond: Callable[[Asked], Raw]
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    stall: bool = False
    most_at_once: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _over: threading.Event = field(default_factory=threading.Event)

    def handle(self, asked: Asked) -> Raw:
        with self._lock:
            self.asked.append(asked)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            if self.stall:
                self._over.wait(10)
            return self.respond(asked)
        finally:
            with self._lock:
                self._now -= 1

    def to(self, path: str) -> list[Asked]:
        """Return the requests whose path ends so."""
        return [one for one in self.asked if one.path.endswith(path)]

    def queries(self) -> list[Asked]:
        """Return the requests that make a Prometheus evaluate something over its samples."""
        return [one for one in self.asked if "/query" in one.path and one.first("query") != "time()"]


@contextmanager
def serving(peer: Peer) -> Iterator[Peer]:
    """Serve for the length of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 65_536  # head and body in one packet

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            raw = peer.handle(Asked(parts.path, parse_qs(parts.query), headers))
            try:
                self._send(raw)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _send(self, raw: Raw) -> None:
            self.send_response(raw.status)
            self.send_header("Content-Type", raw.type)
            for name, value in raw.headers.items():
                self.send_header(name, value)
            if isinstance(raw.body, bytes):
                self.send_header("Content-Length", str(len(raw.body)))
                self.end_headers()
                self.wfile.write(raw.body)
                return
            self.send_header("Connection", "close")
            self.end_headers()
            for piece in raw.body:
                self.wfile.write(piece)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02), name="test-peer", daemon=True)
    thread.start()
    peer.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield peer
    finally:
        peer._over.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


Curve = Callable[[float], Any]
_MATCHER = re.compile(r'([a-zA-Z_]+)(=~|=)"((?:[^"\\]|\\.)*)"')


def matches(selector: str, labels: Mapping[str, str]) -> bool:
    """Return whether labels fit the matchers of a selector (``=`` and ``=~``)."""
    for name, operator, value in _MATCHER.findall(selector):
        wanted, there = json.loads(f'"{value}"'), labels.get(name, "")
        if (there != wanted) if operator == "=" else (re.fullmatch(wanted, there) is None):
            return False
    return True


@dataclass
class PrometheusStub:
    """The HTTP API v1 over ``series`` (labels with ``__name__``), and ``answers`` to expressions that contain a text.

    An answer gives labels with a curve of Unix seconds; the first whose text occurs in the expression is used.
    """

    series: list[dict[str, str]] = field(default_factory=list)
    answers: list[tuple[str, list[tuple[dict[str, str], Curve]]]] = field(default_factory=list)
    alerts: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, tuple[str, str]] = field(default_factory=dict)
    now: Callable[[], float] = lambda: datetime.now().timestamp()  # noqa: DTZ005
    errors: Mapping[str, Raw] = field(default_factory=dict)

    def respond(self, asked: Asked) -> Raw:
        path = asked.path.removeprefix("/prom")
        failed = next((raw for text, raw in self.errors.items() if text in asked.first("query") or text in path), None)
        if failed is not None:
            return failed
        views: dict[str, Callable[[Asked], Raw]] = {
            "/api/v1/query": self._query,
            "/api/v1/query_range": self._range,
            "/api/v1/labels": lambda one: success(sorted({name for labels in self._fitting(one) for name in labels})),
            "/api/v1/alerts": lambda _: success({"alerts": self.alerts}),
            "/api/v1/metadata": self._metadata,
            "/api/v1/status/buildinfo": lambda _: success({"version": "2.53.1", "revision": "14cfec3f6048"}),
        }
        if match := re.fullmatch(r"/api/v1/label/(\w+)/values", path):
            name = match.group(1)
            return success(sorted({labels[name] for labels in self._fitting(asked) if name in labels}))
        view = views.get(path)
        return view(asked) if view else Raw(404, b"404 page not found\n", "text/plain; charset=utf-8")

    def _metadata(self, _: Asked) -> Raw:
        entries = self.metadata.items()
        return success({name: [{"type": kind, "unit": unit, "help": ""}] for name, (kind, unit) in entries})

    def _fitting(self, asked: Asked) -> list[dict[str, str]]:
        selectors = asked.params.get("match[]", [""])
        return [labels for labels in self.series if any(self._fits(selector, labels) for selector in selectors)]

    @staticmethod
    def _fits(selector: str, labels: Mapping[str, str]) -> bool:
        name = selector.partition("{")[0]
        return (not name or labels["__name__"] == name) and matches(selector, labels)

    def _query(self, asked: Asked) -> Raw:
        expression = asked.first("query")
        if expression == "time()":
            now = self.now()
            return success({"resultType": "scalar", "result": [now, f"{now}"]})
        at = float(asked.first("time"))
        result = [{"metric": labels, "value": [at, str(curve(at))]} for labels, curve in self._curves(expression)]
        return success({"resultType": "vector", "result": result})

    def _range(self, asked: Asked) -> Raw:
        expression = asked.first("query")
        if not expression:
            return failure(400, "bad_data", 'invalid parameter "query": 1:1: parse error: no expression found in input')
        start, end, step = (float(asked.first(name)) for name in ("start", "end", "step"))
        if (end - start) / step > 11_000:
            return failure(400, "bad_data", "exceeded maximum resolution of 11,000 points per timeseries.")
        times = [start + index * step for index in range(int((end - start) / step) + 1)]
        result = []
        for labels, curve in self._curves(expression):
            values = [[at, str(value)] for at in times if (value := curve(at)) is not None]
            if values:
                result.append({"metric": labels, "values": values})
        return success({"resultType": "matrix", "result": result})

    def _curves(self, expression: str) -> list[tuple[dict[str, str], Curve]]:
        return next((curves for text, curves in self.answers if text in expression), [])


def success(data: Any) -> Raw:
    """Return an answer as Prometheus and Loki wrap it."""
    return answer({"status": "success", "data": data})


def failure(status: int, kind: str, words: str) -> Raw:
    """Return an error as Prometheus words it."""
    return answer({"status": "error", "errorType": kind, "error": words}, status)

"""``bench stream``: one run writing, many viewers watching; CPU per delivery and latency, against a bare Starlette hub.

All servers run as processes of their own under uvicorn; rounds are interleaved, medians are reported. Ours is measured
in two forms: *embedded*, where one process appends each event durably to SQLite and serves it, so that its CPU time
holds the producer's too; and *bus*, where a worker of its own appends to PostgreSQL and the server hears of it by the
bus. The floor's producer is in its process and keeps nothing.
"""

import asyncio
import json
import os
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.bench.servers import cpu_s, fresh_database
from tests.bench.stream_targets import Target, floor, ours
from tests.bench.viewers import close_viewers, handshake_of, open_viewers, request_of, text_frame


@dataclass(frozen=True)
class Shape:
    """So many viewers, so many events, so many microseconds between two."""

    viewers: int
    events: int
    pause_us: int

    @property
    def name(self) -> str:
        return f"{self.viewers} x {1_000_000 // self.pause_us}/s"


#: The same number of deliveries a second, and at last more than either can do one by one.
SHAPES: Final = (Shape(50, 150, 20_000), Shape(200, 60, 50_000), Shape(1000, 14, 250_000), Shape(200, 400, 1_000))
ROUNDS: Final = 3
OURS: Final = ("embedded", "bus")
TRANSPORTS: Final = ("sse", "websocket")
DATABASE: Final = os.environ.get("BENCH_STREAM_DATABASE", "opensre_bench_stream")
#: Events before the measurement begins.
WARM_UP: Final = 4


@dataclass(frozen=True)
class Round:
    """One measurement: deliveries in all and while measured, seconds of server CPU, latencies in milliseconds."""

    received: int
    deliveries: int
    cpu_s: float
    latencies_ms: list[float]

    @property
    def cpu_us(self) -> float:
        return self.cpu_s / self.deliveries * 1e6

    def percentile(self, share: float) -> float:
        values = sorted(self.latencies_ms)
        return values[min(int(len(values) * share), len(values) - 1)]


def run(say: Callable[[str], Any]) -> dict[str, Any]:
    """Measure and return the figures: medians over the rounds and the ratios of ours to the floor, for each shape."""
    shapes: dict[str, list[dict[str, Any]]] = {transport: [] for transport in TRANSPORTS}
    with ExitStack() as servers:
        folders = [Path(servers.enter_context(tempfile.TemporaryDirectory(prefix="opensre-bench-"))) for _ in range(2)]
        targets = {"floor": servers.enter_context(floor())}
        targets["embedded"] = servers.enter_context(ours(folders[0])).target
        database = servers.enter_context(fresh_database(DATABASE))
        targets["bus"] = servers.enter_context(ours(folders[1], postgres=database)).target
        for transport in TRANSPORTS:
            for shape in SHAPES:
                say(f"{transport}, {shape.name}: {ROUNDS} rounds")
                rounds: dict[str, list[Round]] = {name: [] for name in targets}
                for _ in range(ROUNDS):
                    for name, target in targets.items():
                        rounds[name].append(asyncio.run(_measure(target, shape, transport)))
                shapes[transport].append({"shape": shape.name, **_figures(shape, rounds)})
    return {"benchmark": "stream", "rounds": ROUNDS, "transports": shapes}


def table(result: dict[str, Any]) -> str:
    """Return the figures as lines for a terminal."""
    lines = [f"medians of {result['rounds']} rounds; ratios are to the floor"]
    lines += [
        f"{'viewers x events':>18}{'':10}{'delivered':>10}{'CPU us':>8}{'p50 ms':>8}{'p99 ms':>8}{'CPU':>8}{'p99':>8}"
    ]
    for transport, shapes in result["transports"].items():
        lines.append(transport)
        lines += [_row(row, name) for row in shapes for name in ("floor", *OURS)]
    return "\n".join(lines)


def _row(row: dict[str, Any], name: str) -> str:
    part = row[name]
    ratios = "" if name == "floor" else f"{part['ratio_cpu']:>8}{part['ratio_p99']:>8}"
    return (
        f"{row['shape'] if name == 'floor' else '':>18} {name:9}{part['delivered']:>10}{part['cpu_us']:>8}"
        f"{part['p50_ms']:>8}{part['p99_ms']:>8}{ratios}"
    )


def _figures(shape: Shape, rounds: dict[str, list[Round]]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name, measured in rounds.items():
        figures[name] = {
            "delivered": f"{min(item.received for item in measured) / (shape.viewers * (WARM_UP + shape.events)):.0%}",
            "cpu_us": round(statistics.median(item.cpu_us for item in measured), 1),
            "p50_ms": round(statistics.median(item.percentile(0.5) for item in measured), 1),
            "p99_ms": round(statistics.median(item.percentile(0.99) for item in measured), 1),
        }
    for name in OURS:
        pairs = list(zip(rounds[name], rounds["floor"], strict=True))
        cpu = statistics.median(mine.cpu_us / least.cpu_us for mine, least in pairs)
        p99 = statistics.median(mine.percentile(0.99) / least.percentile(0.99) for mine, least in pairs)
        figures[name] |= {"ratio_cpu": round(cpu, 2), "ratio_p99": round(p99, 2)}
    return figures


async def _measure(target: Target, shape: Shape, transport: str) -> Round:
    """Measure from the moment at which all have the first events: what a run costs to start is no delivery."""
    total = WARM_UP + shape.events
    watch = await asyncio.to_thread(target.prepare, total, shape.pause_us)
    latencies: list[float] = []
    request, hello = request_of(watch.path, watch.headers), b""
    if transport == "websocket":
        request = handshake_of(watch.socket, watch.headers)
        hello = text_frame(json.dumps({"type": "hello", "after": watch.after}))
    viewers = await open_viewers(target.port, [request] * shape.viewers, latencies, hello=hello)
    producing = asyncio.create_task(asyncio.to_thread(watch.produce))
    await asyncio.wait([viewer.want(WARM_UP) for viewer in viewers], timeout=60)
    had = sum(viewer.count for viewer in viewers)
    latencies.clear()
    before = cpu_s(target.pid)
    await asyncio.wait([viewer.want(total) for viewer in viewers], timeout=60)
    spent = cpu_s(target.pid) - before
    await producing
    received = sum(viewer.count for viewer in viewers)
    close_viewers(viewers)
    await asyncio.sleep(0.2)  # not a moment of the closing belongs to the next round
    return Round(received, received - had, spent, latencies)

"""``bench stream``: one run writing, many viewers watching; CPU per delivery and latency, against a bare Starlette hub.

Both servers run as processes of their own under uvicorn; rounds are interleaved, medians are reported. Ours does the
whole job in one process: a worker appends each event durably to SQLite, the hub reads on, streams are authorised and
resumable. The server's CPU time holds all of that, the producer included.
"""

import asyncio
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.bench.servers import cpu_s
from tests.bench.stream_targets import Target, floor, ours
from tests.bench.viewers import close_viewers, open_viewers, request_of


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


@dataclass(frozen=True)
class Round:
    """One measurement: deliveries, seconds of server CPU, and latencies in milliseconds."""

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
    with tempfile.TemporaryDirectory(prefix="opensre-bench-") as folder, floor() as bare, ours(Path(folder)) as opensre:
        shapes = []
        for shape in SHAPES:
            say(f"{shape.name}: {ROUNDS} rounds")
            rounds: dict[str, list[Round]] = {"floor": [], "opensre": []}
            for _ in range(ROUNDS):
                rounds["floor"].append(asyncio.run(_measure(bare, shape)))
                rounds["opensre"].append(asyncio.run(_measure(opensre.target, shape)))
            shapes.append({"shape": shape.name, **_figures(shape, rounds)})
    return {"benchmark": "stream", "transport": "sse", "rounds": ROUNDS, "shapes": shapes}


def table(result: dict[str, Any]) -> str:
    """Return the figures as lines for a terminal."""
    lines = [f"medians of {result['rounds']} rounds; the server's CPU, producer included"]
    lines += [f"{'viewers x events':>18}{'':10}{'delivered':>10}{'CPU us':>8}{'p50 ms':>8}{'p99 ms':>8}{'ratios':>18}"]
    for row in result["shapes"]:
        for name in ("floor", "opensre"):
            part = row[name]
            ratios = f"CPU {row['ratio_cpu']}, p99 {row['ratio_p99']}" if name == "opensre" else ""
            lines.append(
                f"{row['shape'] if name == 'floor' else '':>18} {name:9}{part['delivered']:>10}{part['cpu_us']:>8}"
                f"{part['p50_ms']:>8}{part['p99_ms']:>8}{ratios:>18}"
            )
    return "\n".join(lines)


def _figures(shape: Shape, rounds: dict[str, list[Round]]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name, measured in rounds.items():
        figures[name] = {
            "delivered": f"{min(item.deliveries for item in measured) / (shape.viewers * shape.events):.0%}",
            "cpu_us": round(statistics.median(item.cpu_us for item in measured), 1),
            "p50_ms": round(statistics.median(item.percentile(0.5) for item in measured), 1),
            "p99_ms": round(statistics.median(item.percentile(0.99) for item in measured), 1),
        }
    pairs = list(zip(rounds["opensre"], rounds["floor"], strict=True))
    figures["ratio_cpu"] = round(statistics.median(mine.cpu_us / least.cpu_us for mine, least in pairs), 2)
    figures["ratio_p99"] = round(
        statistics.median(mine.percentile(0.99) / least.percentile(0.99) for mine, least in pairs), 2
    )
    return figures


async def _measure(target: Target, shape: Shape) -> Round:
    watch = await asyncio.to_thread(target.prepare, shape.events, shape.pause_us)
    latencies: list[float] = []
    viewers = await open_viewers(target.port, [request_of(watch.path, watch.headers)] * shape.viewers, latencies)
    wanted = [viewer.want(shape.events) for viewer in viewers]
    latencies.clear()
    before = cpu_s(target.pid)
    await asyncio.to_thread(watch.produce)
    await asyncio.wait(wanted, timeout=60)
    spent = cpu_s(target.pid) - before
    close_viewers(viewers)
    await asyncio.sleep(0.2)  # not a moment of the closing belongs to the next round
    return Round(sum(viewer.count for viewer in viewers), spent, latencies)

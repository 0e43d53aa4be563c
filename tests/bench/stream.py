"""``bench stream``: one run writing, many viewers watching; CPU per delivery and latency, against a bare ASGI floor.

Both servers run as processes of their own under uvicorn; rounds are interleaved, medians are reported. Ours does the
whole job: a worker appends each event durably to SQLite, the hub reads on, streams are authorised and resumable.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.servers import ROOT, cpu_s, get, get_json, post, uvicorn

VIEWERS = 200
EVENTS = 400
ROUNDS = 3
PAUSE_US = 1000


@dataclass(frozen=True)
class Round:
    """One measurement: deliveries, seconds of server CPU, and latencies in milliseconds."""

    deliveries: int
    cpu_s: float
    latencies_ms: list[float]

    @property
    def cpu_us(self) -> float:
        return self.cpu_s / self.deliveries * 1e6


def run(say: Callable[[str], Any]) -> dict[str, Any]:
    """Measure and return the figures: medians over the rounds and the ratios of ours to the floor."""
    with tempfile.TemporaryDirectory(prefix="opensre-bench-") as folder, _floor() as floor, _ours(Path(folder)) as ours:
        rounds: dict[str, list[Round]] = {"floor": [], "opensre": []}
        for number in range(1, ROUNDS + 1):
            say(f"round {number} of {ROUNDS}: {VIEWERS} viewers, {EVENTS} events")
            rounds["floor"].append(_measure(floor))
            rounds["opensre"].append(_measure(ours))
    figures = {name: _summary(measured) for name, measured in rounds.items()}
    return {
        "benchmark": "stream",
        "viewers": VIEWERS,
        "events": EVENTS,
        **figures,
        "ratio_cpu_per_delivery": round(figures["opensre"]["cpu_us"] / figures["floor"]["cpu_us"], 2),
        "ratio_p99": round(figures["opensre"]["p99_ms"] / figures["floor"]["p99_ms"], 2),
    }


def table(result: dict[str, Any]) -> str:
    """Return the figures as lines for a terminal."""
    lines = [f"{result['viewers']} viewers, {result['events']} events a round, medians of {ROUNDS} rounds"]
    lines += [f"{'':10}{'delivered':>12}{'CPU us/delivery':>18}{'p50 ms':>10}{'p99 ms':>10}"]
    for name in ("floor", "opensre"):
        row = result[name]
        lines.append(f"{name:10}{row['delivered']:>12}{row['cpu_us']:>18}{row['p50_ms']:>10}{row['p99_ms']:>10}")
    lines.append(f"CPU per delivery {result['ratio_cpu_per_delivery']} x the floor, p99 {result['ratio_p99']} x")
    return "\n".join(lines)


def _summary(rounds: list[Round]) -> dict[str, Any]:
    latencies = [sorted(item.latencies_ms) for item in rounds]
    return {
        "delivered": f"{min(item.deliveries for item in rounds) / (VIEWERS * EVENTS):.0%}",
        "cpu_us": round(statistics.median(item.cpu_us for item in rounds), 1),
        "p50_ms": round(statistics.median(values[len(values) // 2] for values in latencies), 1),
        "p99_ms": round(statistics.median(values[int(len(values) * 0.99)] for values in latencies), 1),
    }


@dataclass(frozen=True)
class Target:
    """A server under measurement; ``prepare`` gives the stream's path and what makes the producer start."""

    pid: int
    port: int
    prepare: Callable[[], tuple[str, dict[str, str], Callable[[], None]]]


def _measure(target: Target) -> Round:
    path, headers, produce = target.prepare()
    return asyncio.run(_watch(target, path, headers, produce))


async def _watch(target: Target, path: str, headers: dict[str, str], produce: Callable[[], None]) -> Round:
    latencies: list[float] = []
    opened = asyncio.Semaphore(0)
    viewers = [asyncio.create_task(_viewer(target.port, path, headers, opened, latencies)) for _ in range(VIEWERS)]
    for _ in range(VIEWERS):
        await opened.acquire()
    before = cpu_s(target.pid)
    await asyncio.to_thread(produce)
    counts = await asyncio.wait_for(asyncio.gather(*viewers), timeout=120)
    return Round(sum(counts), cpu_s(target.pid) - before, latencies)


async def _viewer(
    port: int, path: str, headers: dict[str, str], opened: asyncio.Semaphore, latencies: list[float]
) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n".encode())
    await reader.readuntil(b": open")
    opened.release()
    seen = 0
    while seen < EVENTS:
        line = await reader.readline()
        if line.startswith(b"data: ") and b'"thought"' in line:
            seen += 1
            if seen % 10 == 0:
                latencies.append((time.time() - _sent_at(line)) * 1000)
    writer.close()
    return seen


def _sent_at(line: bytes) -> float:
    at = json.loads(line[6:])["at"]
    if isinstance(at, float):
        return at
    from datetime import datetime

    return datetime.fromisoformat(at).timestamp()


@contextmanager
def _floor() -> Iterator[Target]:
    with uvicorn("tests.bench.floor_app:application", dict(os.environ)) as (pid, port):

        def prepare() -> tuple[str, dict[str, str], Callable[[], None]]:
            return "/", {}, lambda: get(f"http://127.0.0.1:{port}/emit/{EVENTS}/{PAUSE_US}")

        yield Target(pid, port, prepare)


@contextmanager
def _ours(folder: Path) -> Iterator[Target]:
    env = os.environ | {
        "OPENSRE_DATA_DIR": str(folder),
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "OPENSRE_TEST_SQLITE": str(folder / "bench.sqlite3"),
        "EMBEDDED_WORKER_IN_TESTS": "1",
        "OPENSRE_TEST_RUNTIME": "scripted",
    }
    env.pop("TEST_DATABASE_URL", None)
    manage = [sys.executable, "manage.py"]
    subprocess.run([*manage, "migrate", "-v0"], cwd=ROOT, env=env, check=True)
    boot = subprocess.run([*manage, "bootstrap", "--json"], cwd=ROOT, env=env, check=True, capture_output=True)
    token = json.loads(boot.stdout)["team_token"]
    headers = {"Authorization": f"Bearer {token}"}
    with uvicorn("controlplane.asgi:application", env) as (pid, port):
        base = f"http://127.0.0.1:{port}/api/v1"

        def prepare() -> tuple[str, dict[str, str], Callable[[], None]]:
            thread_id = post(f"{base}/investigations", headers, {"prompt": "ready?"})["thread_id"]
            while not get_json(f"{base}/threads/{thread_id}", headers)["runs"][0]["ended_at"]:
                time.sleep(0.05)
            head = get_json(f"{base}/threads/{thread_id}", headers)["head"]
            burst = {"burst": EVENTS, "chars": 180, "pause_ms": PAUSE_US // 1000}
            start = {"text": json.dumps({"steps": [burst]})}
            stream = f"/api/v1/threads/{thread_id}/stream?after={head}"
            return stream, headers, lambda: post(f"{base}/threads/{thread_id}/messages", headers, start)

        yield Target(pid, port, prepare)

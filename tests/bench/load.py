"""``bench load``: what many open streams, a crowd that comes back, a long replay and a stop cost one server.

One uvicorn process on SQLite, a thread with 100,000 events. Memory is resident memory of the server.
"""

import asyncio
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.bench.servers import ROOT, cpu_s
from tests.bench.stream_targets import Installation, ours
from tests.bench.viewers import close_viewers, open_viewers, request_of

EVENTS: Final = 100_000
VIEWERS: Final = 1_000
#: More than the hub keeps of a thread nobody watched: whoever asks for these has them read from the log.
MISSED: Final = 600
STALLED: Final = 20


def run(say: Callable[[str], Any]) -> dict[str, Any]:
    """Measure and return the figures."""
    result: dict[str, Any] = {"benchmark": "load", "events": EVENTS, "viewers": VIEWERS}
    with tempfile.TemporaryDirectory(prefix="opensre-bench-") as folder, ours(Path(folder)) as opensre:
        say(f"a thread with {EVENTS:,} events")
        thread_id, head = opensre.finished_thread()
        seed = [sys.executable, "-m", "tests.bench.seed", thread_id, str(EVENTS)]
        subprocess.run(seed, cwd=ROOT, env=dict(opensre.env), check=True)
        head += EVENTS
        for name, part in (("idle", _idle), ("replay", _replay), ("stalled", _stalled), ("storm", _storm)):
            say(name)
            result[name] = asyncio.run(part(opensre, thread_id, head))
        say("stop")
        result["stop"] = asyncio.run(_stop(opensre, thread_id, head))
    return result


def table(result: dict[str, Any]) -> str:
    """Return the figures as lines for a terminal."""
    replay, storm, idle, stalled = (result[name] for name in ("replay", "storm", "idle", "stalled"))
    return "\n".join(
        [
            f"replay of {result['events']:,} events: {replay['mb_per_s']} MB/s, memory +{replay['grown_mb']} MB",
            f"  {replay['mb_per_cpu_s']} MB for a second of CPU",
            f"{STALLED} clients that never read: {stalled['kb_per_client']} KB each",
            f"storm of {result['viewers']:,}, each {MISSED} events behind: delivered {storm['delivered']}",
            f"  in {storm['seconds']} s, {storm['cpu_us']} us of CPU each, {storm['log_reads']} pages read in all",
            f"idle: {idle['kb_per_viewer']} KB and {idle['threads_per_viewer']} threads for each viewer",
            f"SIGTERM with {result['viewers']:,} open: down after {result['stop']['seconds']} s",
        ]
    )


def _request(opensre: Installation, thread_id: str, after: int) -> bytes:
    return request_of(f"/api/v1/threads/{thread_id}/stream?after={after}", opensre.headers)


async def _replay(opensre: Installation, thread_id: str, head: int) -> dict[str, Any]:
    before, cpu, began = _memory_kb(opensre), cpu_s(opensre.target.pid), time.perf_counter()
    most = before
    [viewer] = await open_viewers(opensre.target.port, [_request(opensre, thread_id, head - EVENTS)], [])
    enough = viewer.want(EVENTS)
    while not enough.done():
        await asyncio.wait([enough], timeout=0.1)
        most = max(most, _memory_kb(opensre))
    seconds = time.perf_counter() - began
    spent = cpu_s(opensre.target.pid) - cpu
    close_viewers([viewer])
    return {
        "mb_per_s": round(viewer.received / seconds / 1e6, 1),
        "mb_per_cpu_s": round(viewer.received / spent / 1e6, 1),
        "delivered": viewer.count,
        "grown_mb": round((most - before) / 1024, 1),
    }


async def _stalled(opensre: Installation, thread_id: str, head: int) -> dict[str, Any]:
    before = _memory_kb(opensre)
    writers = []
    for _ in range(STALLED):
        reader, writer = await asyncio.open_connection("127.0.0.1", opensre.target.port, limit=1)
        reader._transport.pause_reading()  # type: ignore[attr-defined]  # a client that never reads
        writer.write(_request(opensre, thread_id, head - EVENTS))
        writers.append(writer)
    most = before
    for _ in range(20):
        await asyncio.sleep(0.1)
        most = max(most, _memory_kb(opensre))
    for writer in writers:
        writer.transport.abort()
    await asyncio.sleep(0.5)
    return {"kb_per_client": round((most - before) / STALLED)}


async def _storm(opensre: Installation, thread_id: str, head: int) -> dict[str, Any]:
    reads, cpu, began = _log_reads(opensre), cpu_s(opensre.target.pid), time.perf_counter()
    # Not all at the same place: each has lost its connection a moment before or after the others.
    requests = [_request(opensre, thread_id, head - MISSED - number % 50) for number in range(VIEWERS)]
    viewers = await open_viewers(opensre.target.port, requests, [], at_once=VIEWERS)
    wanted = [viewer.want(MISSED + number % 50) for number, viewer in enumerate(viewers)]
    await asyncio.wait(wanted, timeout=120)
    seconds, spent = time.perf_counter() - began, cpu_s(opensre.target.pid) - cpu
    count = sum(viewer.count for viewer in viewers)
    close_viewers(viewers)
    await asyncio.sleep(1)
    return {
        "seconds": round(seconds, 1),
        "cpu_us": round(spent / VIEWERS * 1e6),
        "log_reads": await asyncio.to_thread(_log_reads, opensre) - reads,
        "delivered": f"{count / sum(MISSED + number % 50 for number in range(VIEWERS)):.0%}",
    }


async def _idle(opensre: Installation, thread_id: str, head: int) -> dict[str, Any]:
    memory, threads = _memory_kb(opensre), _threads(opensre)
    viewers = await open_viewers(opensre.target.port, [_request(opensre, thread_id, head)] * VIEWERS, [])
    await asyncio.sleep(1)
    grown, more = _memory_kb(opensre) - memory, _threads(opensre) - threads
    close_viewers(viewers)
    await asyncio.sleep(1)
    return {"kb_per_viewer": round(grown / VIEWERS, 1), "threads_per_viewer": more / VIEWERS}


async def _stop(opensre: Installation, thread_id: str, head: int) -> dict[str, Any]:
    """Send SIGTERM while a thousand watch, and wait until all have been let go and the process has ended."""
    viewers = await open_viewers(opensre.target.port, [_request(opensre, thread_id, head)] * VIEWERS, [])
    gone = [viewer.want(1) for viewer in viewers]
    began = time.perf_counter()
    opensre.signal(signal.SIGTERM)
    await asyncio.wait(gone, timeout=30)
    await asyncio.to_thread(opensre.wait)
    return {"seconds": round(time.perf_counter() - began, 1)}


def _status(opensre: Installation, name: str) -> int:
    text = Path(f"/proc/{opensre.target.pid}/status").read_text()
    found = re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)
    assert found is not None
    return int(found[1])


def _memory_kb(opensre: Installation) -> int:
    return _status(opensre, "VmRSS")


def _threads(opensre: Installation) -> int:
    return _status(opensre, "Threads")


def _log_reads(opensre: Installation) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{opensre.target.port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return sum(
        int(float(value)) for value in re.findall(r"^opensre_hub_log_reads_total\{.*\} (\S+)", text, re.MULTILINE)
    )

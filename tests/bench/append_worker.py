"""One process of ``bench append``: ``single``, or one of the ways of many writers (``silent``, ``bus``, ``notify``)."""

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID, uuid4

import django

django.setup()

from django.db import connection, connections, transaction  # noqa: E402 (after the setup)

from controlplane.core import clock  # noqa: E402
from controlplane.investigations import buses  # noqa: E402
from controlplane.investigations.appending import insert_events  # noqa: E402
from controlplane.investigations.lifecycle import run_claim  # noqa: E402
from controlplane.investigations.log import Fence, NewEvent, append, new_event  # noqa: E402
from controlplane.runtimes.events import EventType, Thought  # noqa: E402
from tests.factories import make_tree  # noqa: E402
from tests.support.runs import start_run, wait_until  # noqa: E402

BLOCKS: Final = 15
BLOCK: Final = 200
THREADS: Final = 8
SECONDS: Final = 3.0


def claimed() -> tuple[UUID, Fence]:
    """Return a thread whose run this process holds, and its fence."""
    tree = make_tree(f"bench-{uuid4().hex[:8]}")
    started = start_run(tree.system, tree.payments)
    claim = run_claim(owner="bench", only=started.run.pk)
    assert claim is not None
    return claim.thread_id, claim.fence


def event(fence: Fence) -> NewEvent:
    return new_event(EventType.THOUGHT, Thought(text="x" * 180), run_id=fence.run_id)


def single() -> dict[str, Any]:
    thread_id, fence = claimed()
    one = event(fence)
    bare = _bare(fence.run_id, one)
    ways: dict[str, Callable[[], object]] = {
        "bare": bare,
        "append": lambda: insert_events(thread_id, [one], fence, clock.now()),
    }
    walls: dict[str, list[float]] = {name: [] for name in ways}
    cpus: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(BLOCKS):
        for name, job in ways.items():
            cpu, wall = time.process_time(), time.perf_counter()
            for _ in range(BLOCK):
                job()
            walls[name].append((time.perf_counter() - wall) / BLOCK * 1e6)
            cpus[name].append((time.process_time() - cpu) / BLOCK * 1e6)
    ratios = sorted(bare_us / append_us for bare_us, append_us in zip(walls["bare"], walls["append"], strict=True))
    return {
        **{f"{name}_us": round(_median(found)) for name, found in walls.items()},
        **{f"{name}_cpu_us": round(_median(found)) for name, found in cpus.items()},
        "ratio": round(ratios[len(ratios) // 2], 2),
    }


def _bare(run_id: UUID, one: NewEvent) -> Callable[[], object]:
    """Return what inserts a like row into the same table, for another thread, with the driver alone, in autocommit."""
    thread_id, _ = claimed()
    driver = connection.connection
    adapted: Any = connection.ops.adapt_datetimefield_value
    postgres = connection.vendor == "postgresql"
    marks = ", ".join(["%s" if postgres else "?"] * 7)
    sql = f"INSERT INTO investigations_event (thread_id, seq, run_id, type, at, audience, data) VALUES ({marks})"  # noqa: S608
    number = iter(range(1_000, 10_000_000))
    thread, run = (thread_id, run_id) if postgres else (thread_id.hex, run_id.hex)

    def insert() -> object:
        at = adapted(clock.now())
        return driver.execute(sql, (thread, next(number), run, "thought", at, "thread", one.data))

    return insert


def writers(way: str) -> dict[str, Any]:
    """Append from several threads, each to a thread of its own; wait for the word before."""
    leave = buses.join()
    if way == "bus":
        wait_until(buses.is_connected, what="the bus")
    held = [claimed() for _ in range(THREADS)]
    say("ready")
    sys.stdin.readline()
    until = time.perf_counter() + SECONDS
    counts: list[int] = []
    threads = [threading.Thread(target=lambda one=one: counts.append(_write(way, until, *one))) for one in held]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    leave()
    return {"commits_per_s": sum(counts) / SECONDS}


def _write(way: str, until: float, thread_id: UUID, fence: Fence) -> int:
    one, count = event(fence), 0
    while time.perf_counter() < until:
        if way == "notify":
            with transaction.atomic(), connection.cursor() as cursor:
                append(thread_id=thread_id, events=[one], fence=fence)
                cursor.execute("SELECT pg_notify('bench', %s)", [one.data])
        else:
            append(thread_id=thread_id, events=[one], fence=fence)
        count += 1
    connections.close_all()
    return count


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    say(json.dumps(single() if sys.argv[1] == "single" else writers(sys.argv[1])))

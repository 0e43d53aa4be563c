"""Starting, working and reading runs in tests."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import orjson
from django.db import connections

from controlplane.core.actor import Actor
from controlplane.investigations.envelope import LoggedEvent
from controlplane.investigations.log import read_page
from controlplane.investigations.models import END_STATUSES, Run
from controlplane.investigations.starting import Started, investigation_start
from controlplane.investigations.worker import Worker, WorkerThread
from controlplane.orgs.models import Node

PATIENCE_S = 20.0


def script(*steps: dict[str, Any]) -> str:
    """Return the prompt that makes the scripted runtime do ``steps``."""
    return json.dumps({"steps": list(steps)})


def start_run(actor: Actor, team: Node, *steps: dict[str, Any], **fields: Any) -> Started:
    """Start an investigation for the scripted runtime."""
    fields.setdefault("runtime", "scripted")
    prompt = script(*steps) if steps else fields.pop("prompt", "what is wrong?")
    return investigation_start(actor=actor, team=team, prompt=prompt, **fields)


def work_on(run: Run) -> Run:
    """Have a worker of this process work on ``run`` until it has ended or waits, and return it fresh."""
    worker = Worker(concurrency=1, only=run.pk)
    thread = threading.Thread(target=worker.run)
    thread.start()
    thread.join(PATIENCE_S)
    alive = thread.is_alive()
    if alive:
        worker.stop()
        thread.join(PATIENCE_S)
    assert not alive, "the worker did not finish in time"
    run.refresh_from_db()
    return run


@contextmanager
def working(concurrency: int = 4) -> Iterator[WorkerThread]:
    """Run an embedded worker for the length of the block."""
    thread = WorkerThread(concurrency=concurrency)
    thread.start()
    try:
        yield thread
    finally:
        thread.end()
        assert not thread.is_alive()


def wait_until(condition: Callable[[], Any], *, what: str, patience_s: float = PATIENCE_S) -> Any:
    """Return the first truthy value of ``condition``; fail, naming ``what``, when patience runs out."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {patience_s} s in vain for: {what}")


def wait_for_status(run: Run, *statuses: str) -> Run:
    """Wait until ``run`` has one of ``statuses`` (default: any end) and return it fresh."""
    wanted = statuses or tuple(END_STATUSES)

    def reached() -> bool:
        run.refresh_from_db()
        return run.status in wanted

    wait_until(reached, what=f"run to be {' or '.join(wanted)}")
    return run


def envelopes(thread_id: UUID) -> list[dict[str, Any]]:
    """Return the whole log of a thread as decoded envelopes, checked to be gapless from 1."""
    log = [orjson.loads(event.envelope()) for event in _whole_log(thread_id)]
    assert [event["seq"] for event in log] == list(range(1, len(log) + 1)), "the log has a gap"
    return log


def _whole_log(thread_id: UUID) -> Iterator[LoggedEvent]:
    after, more = 0, True
    while more:
        events, more = read_page(thread_id, after=after, limit=10_000)
        yield from events
        after = events[-1].seq if events else after


def types(thread_id: UUID) -> list[str]:
    """Return the types of a thread's events in order."""
    return [event["type"] for event in envelopes(thread_id)]


def thoughts(thread_id: UUID) -> list[str]:
    """Return the texts of a thread's thoughts in order."""
    return [event["data"]["text"] for event in envelopes(thread_id) if event["type"] == "thought"]


def in_threads(*jobs: Callable[[], Any]) -> list[Any]:
    """Run ``jobs`` at the same moment, each in a thread of its own; return results or exceptions in order."""
    outcomes: list[Any] = [None] * len(jobs)
    barrier = threading.Barrier(len(jobs))

    def run(index: int, job: Callable[[], Any]) -> None:
        try:
            barrier.wait(PATIENCE_S)
            outcomes[index] = job()
        except Exception as error:  # noqa: BLE001 (handed to the test)
            outcomes[index] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(index, job)) for index, job in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S * 3)
    assert not any(thread.is_alive() for thread in threads), "a job hangs"
    return outcomes

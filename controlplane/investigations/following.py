"""Following one run to its end from a plain thread, working on it here if nobody else does."""

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Final
from uuid import UUID

import orjson

from controlplane.core.actor import Actor, Channel, system_actor
from controlplane.core.errors import Conflict
from controlplane.investigations import bus
from controlplane.investigations.log import read_page
from controlplane.investigations.models import Run
from controlplane.investigations.services import Started, run_interrupt
from controlplane.investigations.sweeper import Sweeper
from controlplane.investigations.worker import Worker
from controlplane.orgs.models import Node

POLL_SECONDS: Final = 0.2


def follow(started: Started, show: Callable[[dict[str, Any]], None]) -> str:
    """Show every event of the run until it has ended, and return its status.

    A worker of this process offers to do the work; where a server with a worker runs on the same database the faster
    one has it, and the log is the same. Ctrl-C asks the run to stop, a second one leaves at once.

    Args:
        started: the thread and run.
        show: called with each envelope, in order.
    """
    worker = Worker(concurrency=1, only=started.run.pk)
    working = threading.Thread(target=worker.run, name="cli-worker", daemon=True)
    sweeper = Sweeper()
    changed = threading.Event()
    unsubscribe = bus.subscribe(lambda _events: changed.set())
    restore = _stop_on_interrupt(started)
    working.start()
    sweeper.start()
    try:
        _show_until_ended(started, show, changed)
    finally:
        signal.signal(signal.SIGINT, restore)
        unsubscribe()
        worker.stop()
        working.join(timeout=20)
        sweeper.end()
    return Run.objects.values_list("status", flat=True).get(pk=started.run.pk)


def _show_until_ended(started: Started, show: Callable[[dict[str, Any]], None], changed: threading.Event) -> None:
    seq = 0
    while True:
        changed.clear()
        page = read_page(started.thread.pk, after=seq, limit=500)
        for event in page:
            envelope = orjson.loads(event.envelope())
            show(envelope)
            seq = event.seq
            if event.type == "run_ended" and event.run_id == started.run.pk:
                return
        if not page:
            changed.wait(POLL_SECONDS)


def _stop_on_interrupt(started: Started) -> Any:
    asked: list[float] = []

    def handle(_number: int, _frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(time.monotonic())
        threading.Thread(target=_ask_to_stop, args=(started,), daemon=True).start()

    return signal.signal(signal.SIGINT, handle)


def _ask_to_stop(started: Started) -> None:
    try:
        run_interrupt(actor=_installation(started), thread_id=started.thread.pk)
    except Conflict:
        return  # it has just ended


def _installation(started: Started) -> Actor:
    organization_id: UUID = started.thread.organization_id
    root = Node.objects.get(organization_id=organization_id, parent__isnull=True)
    return system_actor(name="cli", organization_id=organization_id, root_id=root.pk, channel=Channel.CLI)

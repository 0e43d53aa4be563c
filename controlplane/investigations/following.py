"""Following one run to its end from a plain thread, working on it here if nobody else does."""

import os
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
from controlplane.investigations.models import Run, RunStatus
from controlplane.investigations.services import run_interrupt
from controlplane.investigations.starting import Started
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
    working = _Working(started.run.pk)
    sweeper = Sweeper()
    changed = threading.Event()
    unsubscribe = bus.events.add(lambda _events: changed.set())
    restore = _stop_on_interrupt(started)
    sweeper.start()
    try:
        _show_until_ended(started, show, changed, working)
    finally:
        signal.signal(signal.SIGINT, restore)
        unsubscribe()
        working.stop()
        sweeper.end()
    return Run.objects.values_list("status", flat=True).get(pk=started.run.pk)


class _Working:
    """This process's offer to work on the run: again and again, since a run that waited for a person is queued anew."""

    def __init__(self, run_id: UUID) -> None:
        self._run_id = run_id
        self._worker: Worker | None = None
        self._thread: threading.Thread | None = None

    def keep_on(self) -> None:
        """Have a worker ready for the run while it is queued."""
        if self._thread is not None and self._thread.is_alive():
            return
        if Run.objects.filter(pk=self._run_id, status=RunStatus.QUEUED).exists():
            self._worker = Worker(concurrency=1, only=self._run_id)
            self._thread = threading.Thread(target=self._worker.run, name="cli-worker", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        if self._worker is not None and self._thread is not None:
            self._worker.stop()
            self._thread.join(timeout=20)


def _show_until_ended(
    started: Started, show: Callable[[dict[str, Any]], None], changed: threading.Event, working: _Working
) -> None:
    seq = 0
    while True:
        working.keep_on()
        changed.clear()
        page = read_page(started.thread.pk, after=seq, limit=500)
        for event in page.events:
            envelope = orjson.loads(event.envelope())
            show(envelope)
            seq = event.seq
            if event.type == "run_ended" and event.run_id == started.run.pk:
                return
        if not page.events:
            changed.wait(POLL_SECONDS)


def _stop_on_interrupt(started: Started) -> Any:
    asked: list[float] = []

    def handle(_number: int, _frame: FrameType | None) -> None:
        if asked:
            os._exit(130)  # at once; the run ends as interrupted when its lease runs out
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

"""The worker: claims runs, works on several at once, keeps their leases, parts with them when told to stop.

The same class is the embedded worker (a thread of the web process with a loop of its own) and ``manage.py worker``.
"""

import asyncio
import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Final
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connections
from typing_extensions import override

from controlplane.core.db import DatabaseThreads, run_job
from controlplane.investigations import bus, buses, metrics
from controlplane.investigations.execution import Execution
from controlplane.investigations.fleet import Facts, beat_every_s, worker_beat, worker_sign_off
from controlplane.investigations.lifecycle import Claim, lease_renew, run_claim, run_hand_over
from controlplane.investigations.models import Run
from controlplane.investigations.turns import messages_pending

log = structlog.get_logger(__name__)

POLL_SECONDS: Final = 1.0
#: How long runs that a stopping worker ends may take for it, after their time to finish is over.
ENDING_SECONDS: Final = 10.0


class Keeper(threading.Thread):
    """Looks after the runs a worker holds. A thread of its own: a blocked loop must not look dead, a dead process must.

    Every second it reads who asked to stop and what was said; every third of the lease period it renews. It also shows
    operators that the worker lives.

    Args:
        show: shows it; ``None`` for a worker that operators need not see.
    """

    def __init__(self, *, show: Callable[[], None] | None) -> None:
        super().__init__(name="run-keeper", daemon=True)
        self._show = show
        self._show_at = 0.0
        self._held: dict[UUID, Execution] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ending = False

    def hold(self, execution: Execution) -> None:
        with self._lock:
            self._held[execution.claim.run_id] = execution

    def let_go(self, execution: Execution) -> None:
        with self._lock:
            self._held.pop(execution.claim.run_id, None)

    def wake(self) -> None:
        self._wake.set()

    def show_now(self) -> None:
        """Show what has changed of the worker at once."""
        self._show_at = 0.0
        self._wake.set()

    def end(self) -> None:
        self._ending = True
        self._wake.set()
        self.join(timeout=10)

    @override
    def run(self) -> None:
        while not self._ending:
            self._wake.wait(POLL_SECONDS)
            self._wake.clear()
            with self._lock:
                held = list(self._held.values())
            for execution in held:
                try:
                    run_job(_look_after, execution)
                except Exception:
                    log.exception("keeper.tick_failed", run_id=str(execution.claim.run_id))
            self._show_if_due()
        connections.close_all()

    def _show_if_due(self) -> None:
        if self._show is None or time.monotonic() < self._show_at:
            return
        self._show_at = time.monotonic() + beat_every_s()
        try:
            run_job(self._show)
        except Exception:  # the next time tries again; until then the worker may look lost
            log.warning("worker.not_shown", exc_info=True)


def _look_after(execution: Execution) -> None:
    """Renew the lease when a third of it has passed, and bring in what people asked and said.

    A renewal that failed is due again at the next tick, while two thirds of the lease are left.
    """
    claim = execution.claim
    if time.monotonic() >= execution.renew_at:
        if not lease_renew(claim):
            execution.control.lose()
            return
        execution.renew_at = time.monotonic() + settings.LEASE_SECONDS / 3
    execution.control.deliver(messages_pending(claim.thread_id))
    if execution.control.interrupted:
        return
    if Run.objects.filter(pk=claim.run_id, interrupt_requested_at__isnull=False).exists():
        execution.stop("interrupted", "stopped")


class Worker:
    """Claims and executes runs until stopped.

    Args:
        concurrency: how many runs at once.
        only: work on this run alone and return when it has ended or waits (the command line's way).
        embedded: part of a web process.
    """

    def __init__(self, *, concurrency: int, only: UUID | None = None, embedded: bool = False) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}:{id(self):x}"[:100]
        self._concurrency = concurrency
        self._only = only
        self._facts = Facts(self.name, concurrency, embedded)
        self._keeper = Keeper(show=None if only else self._show)
        self._running: dict[asyncio.Task[None], Execution] = {}
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._hurry: asyncio.Event | None = None
        self._beat = 0.0

    @property
    def is_alive(self) -> bool:
        """Whether the worker's loop turned within the last ten seconds."""
        return self._loop is not None and time.monotonic() - self._beat < 10

    def stop(self) -> None:
        """Claim nothing more, let running runs finish for a moment, then end; called from any thread.

        Those that do not finish in ``WORKER_DRAIN_SECONDS`` are handed over where they can be resumed, else ended.
        """
        self._stopping = True
        self._keeper.show_now()
        self.wake()

    def stop_now(self) -> None:
        """Do not wait for running runs: hand them over or end them at once; called from any thread."""
        self.stop()
        if self._loop is not None and self._hurry is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._hurry.set)

    def wake(self) -> None:
        """Look for work now; called from any thread."""
        self._keeper.wake()
        if self._loop is not None and self._wake is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake.set)

    def run(self) -> None:
        """Work, on this thread, until stopped."""
        asyncio.run(self.serve())

    async def serve(self) -> None:
        """Work, on the running loop, until stopped."""
        self._loop = asyncio.get_running_loop()
        self._wake, self._hurry = asyncio.Event(), asyncio.Event()
        database = DatabaseThreads(threads=2 + self._concurrency // 2, name="worker-db")
        unsubscribe, leave_bus = bus.work.add(self.wake), buses.join()
        self._keeper.start()
        log.info("worker.started", worker=self.name, concurrency=self._concurrency)
        try:
            await self._claim_until_stopped(database, self._wake)
            await self._drain(database, self._hurry)
        finally:
            unsubscribe()
            await asyncio.to_thread(self._keeper.end)
            if not self._only:
                with contextlib.suppress(Exception):  # without a database the worker is shown as lost, which it is
                    await database.call(worker_sign_off, self.name)
            await asyncio.to_thread(database.close)
            await asyncio.to_thread(leave_bus)
            log.info("worker.stopped", worker=self.name)

    async def _claim_until_stopped(self, database: DatabaseThreads, wake: asyncio.Event) -> None:
        while not self._stopping:
            wake.clear()
            self._beat = time.monotonic()
            claimed = await self._claim_what_fits(database)
            if self._only and (claimed or self._running):
                await asyncio.gather(*self._running)
                return  # ended, or waiting for a person; whoever follows the run decides whether to come back
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await wake.wait()
            except TimeoutError:
                pass

    async def _claim_what_fits(self, database: DatabaseThreads) -> int:
        claimed = 0
        while len(self._running) < self._concurrency and not self._stopping:
            try:
                claim = await database.call(run_claim, owner=self.name, only=self._only)
            except Exception:  # a locked or restarting database: the next poll tries again
                log.exception("worker.claim_failed")
                return claimed
            if claim is None:
                return claimed
            self._begin(claim, database)
            claimed += 1
        return claimed

    def _begin(self, claim: Claim, database: DatabaseThreads) -> None:
        execution = Execution(claim, database=database)
        self._keeper.hold(execution)
        task = asyncio.create_task(execution.run(), name=f"execute-{claim.run_id}")
        self._running[task] = execution
        metrics.runs_running.inc()
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        execution = self._running.pop(task)
        self._keeper.let_go(execution)
        metrics.runs_running.dec()
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.error("run.not_concluded", run_id=str(execution.claim.run_id), exc_info=failure)
        if self._wake is not None:
            self._wake.set()

    def _show(self) -> None:
        worker_beat(self._facts, draining=self._stopping)

    async def _drain(self, database: DatabaseThreads, hurry: asyncio.Event) -> None:
        """Let the runs in hand finish, then hand them over or end them, so that nobody waits for a lease to run out."""
        if not self._running:
            return
        hurried = asyncio.create_task(hurry.wait())
        finished = asyncio.create_task(asyncio.wait(set(self._running)))
        await asyncio.wait(
            {hurried, finished}, timeout=settings.WORKER_DRAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        hurried.cancel()
        finished.cancel()
        for execution in list(self._running.values()):
            await self._part_with(execution, database)
        if self._running:
            await asyncio.wait(set(self._running), timeout=ENDING_SECONDS)

    async def _part_with(self, execution: Execution, database: DatabaseThreads) -> None:
        """Hand a run over to another worker, or have it end here."""
        handed_over = False
        if not self._only:
            try:
                handed_over = await database.call(run_hand_over, execution.claim)
            except Exception:
                log.exception("run.not_handed_over", run_id=str(execution.claim.run_id))
        if handed_over:
            log.info("run.handed_over", run_id=str(execution.claim.run_id))
            execution.control.lose()  # it writes nothing more, which its fence would not let it anyway
        else:
            execution.stop("interrupted", "worker_stopped")


class WorkerThread(threading.Thread):
    """The embedded worker."""

    def __init__(self, *, concurrency: int) -> None:
        super().__init__(name="embedded-worker", daemon=True)
        self.worker = Worker(concurrency=concurrency, embedded=True)

    @override
    def run(self) -> None:
        self.worker.run()

    def end(self, timeout_s: float = 0.0) -> None:
        """Stop the worker and wait for its thread, ``timeout_s`` seconds, or as long as a stop can take."""
        self.worker.stop()
        self.join(timeout_s or settings.WORKER_DRAIN_SECONDS + ENDING_SECONDS + 5)

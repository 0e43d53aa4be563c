"""The worker: claims runs, works on several at once, keeps their leases, stops when told.

The same class is the embedded worker (a thread of the web process with a loop of its own) and ``manage.py worker``.
"""

import asyncio
import os
import socket
import threading
import time
from typing import Final
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connections
from typing_extensions import override

from controlplane.core.db import DatabaseThreads, run_job
from controlplane.investigations import bus, buses, metrics
from controlplane.investigations.execution import Execution
from controlplane.investigations.lifecycle import Claim, lease_renew, run_claim
from controlplane.investigations.models import Run
from controlplane.investigations.turns import messages_pending

log = structlog.get_logger(__name__)

POLL_SECONDS: Final = 1.0
#: How long a stopping worker lets its runs finish before it ends them.
DRAIN_SECONDS: Final = 5.0


class Keeper(threading.Thread):
    """Looks after the runs a worker holds. A thread of its own: a blocked loop must not look dead, a dead process must.

    Every second it reads who asked to stop and what was said; every third of the lease period it renews.
    """

    def __init__(self) -> None:
        super().__init__(name="run-keeper", daemon=True)
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
        connections.close_all()


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
    """

    def __init__(self, *, concurrency: int, only: UUID | None = None) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}:{id(self):x}"[:100]
        self._concurrency = concurrency
        self._only = only
        self._keeper = Keeper()
        self._running: dict[asyncio.Task[None], Execution] = {}
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._beat = 0.0

    @property
    def is_alive(self) -> bool:
        """Whether the worker's loop turned within the last ten seconds."""
        return self._loop is not None and time.monotonic() - self._beat < 10

    def stop(self) -> None:
        """Claim nothing more, let running runs finish for a moment, then end; called from any thread."""
        self._stopping = True
        self.wake()

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
        self._wake = asyncio.Event()
        database = DatabaseThreads(threads=2 + self._concurrency // 2, name="worker-db")
        unsubscribe, leave_bus = bus.work.add(self.wake), buses.join()
        self._keeper.start()
        log.info("worker.started", worker=self.name, concurrency=self._concurrency)
        try:
            await self._claim_until_stopped(database, self._wake)
            await self._drain()
        finally:
            unsubscribe()
            await asyncio.to_thread(self._keeper.end)
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

    async def _drain(self) -> None:
        """Let the runs in hand finish, then end them, so that nobody waits for a lease to run out."""
        if not self._running:
            return
        await asyncio.wait(set(self._running), timeout=DRAIN_SECONDS)
        for execution in self._running.values():
            execution.stop("interrupted", "worker_stopped")
        if self._running:
            await asyncio.wait(set(self._running), timeout=DRAIN_SECONDS * 2)


class WorkerThread(threading.Thread):
    """The embedded worker."""

    def __init__(self, *, concurrency: int) -> None:
        super().__init__(name="embedded-worker", daemon=True)
        self.worker = Worker(concurrency=concurrency)

    @override
    def run(self) -> None:
        self.worker.run()

    def end(self, timeout_s: float = 20.0) -> None:
        """Stop the worker and wait for its thread."""
        self.worker.stop()
        self.join(timeout_s)

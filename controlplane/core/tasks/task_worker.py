"""The part of a worker process that does background tasks and periodic jobs, by Procrastinate, on PostgreSQL.

A thread with an event loop of its own: a task that blocks, a heartbeat that fails or a database that restarts ends at
most this thread's work for a moment. It begins again by itself, and runs never notice.
"""

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any, Final

import structlog
from django.conf import settings
from procrastinate import App, JobContext, PsycopgConnector
from procrastinate.contrib.django.utils import connector_params
from procrastinate.jobs import Job, Status
from procrastinate.retry import BaseRetryStrategy, RetryDecision
from procrastinate.worker import Worker
from typing_extensions import override

from controlplane.core import clock, metrics
from controlplane.core.db import run_job
from controlplane.core.periodic import Job as PeriodicJob
from controlplane.core.periodic import shared_jobs
from controlplane.core.tasks.retries import NEVER, retries_of
from controlplane.core.tasks.scaled import TASK_JOB, run_stored

log = structlog.get_logger(__name__)

#: A job whose worker has not shown itself for so long is taken from it.
STALLED_AFTER_S: Final = 30
#: A job that so many workers died over is given up: it may be what kills them.
STALLED_ATTEMPTS: Final = 3
FAILED_KEPT_HOURS: Final = 7 * 24
#: How long tasks in hand may go on when the process stops; below what a process has to stop.
GRACE_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 30.0
#: A worker that held out for so long had started well: the next failure is a new one.
_STEADY_S: Final = 60.0


class TaskWorker(threading.Thread):
    """Does stored tasks until :meth:`end`; begins again after whatever ended it before."""

    def __init__(self) -> None:
        super().__init__(name="task-worker", daemon=True)
        self._ending = threading.Event()
        self._worker: Worker | None = None
        #: How often it had to begin again; for tests and metrics.
        self.restarts = 0

    @override
    def run(self) -> None:
        pause = 1.0
        while not self._ending.is_set():
            began = time.monotonic()
            try:
                asyncio.run(self._serve())
            except Exception:
                log.exception("tasks.worker_failed")
            if self._ending.is_set():
                return
            self.restarts += 1
            metrics.tasks_worker_restarts_total.inc()
            pause = 1.0 if time.monotonic() - began > _STEADY_S else min(pause * 2, _LONGEST_PAUSE_S)
            self._ending.wait(pause)

    def end(self, timeout_s: float = GRACE_S + 5) -> None:
        """Take no more tasks, let those in hand finish for a moment, end the thread."""
        self._ending.set()
        deadline = time.monotonic() + timeout_s
        while self.is_alive() and time.monotonic() < deadline:
            if self._worker is not None:
                self._worker.stop()  # type: ignore[no-untyped-call]  # again and again: one that is only starting forgets what it was told before
            self.join(0.1)

    async def _serve(self) -> None:
        app = worker_app(pool_size=settings.TASKS_CONCURRENCY + 3)
        async with app.open_async():
            self._worker = Worker(
                app,
                name="opensre",
                concurrency=settings.TASKS_CONCURRENCY,
                install_signal_handlers=False,
                listen_notify=settings.TASKS_LISTEN,
                delete_jobs="successful",
                shutdown_graceful_timeout=GRACE_S,
                stalled_worker_timeout=STALLED_AFTER_S,
            )
            if not self._ending.is_set():
                await self._worker.run()  # type: ignore[no-untyped-call]


def worker_app(*, pool_size: int) -> App:
    """Return the application of a worker: the job of every task, the periodic jobs, the tidying of stalled ones.

    Not the one through which tasks are enqueued: that uses Django's connection, this one a pool of its own.
    """
    parameters = connector_params()
    parameters.pop("pool", None)
    app = App(connector=PsycopgConnector(kwargs=parameters, min_size=1, max_size=pool_size))
    app.task(name=TASK_JOB, pass_context=True, retry=_AsTheTaskSays())(_run_task)
    for job in shared_jobs():
        _add_periodic(app, job)
    _add_tidying(app)
    return app


def _run_task(context: JobContext, /, **stored: Any) -> None:
    assert context.job.id is not None  # noqa: S101 (a job that runs has a row)
    run_stored(job_id=context.job.id, attempts=context.job.attempts, **stored)


class _AsTheTaskSays(BaseRetryStrategy):
    """Tries again as :func:`controlplane.core.tasks.retried` says of the function; by default never."""

    @override
    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        from django.utils.module_loading import import_string

        try:
            retries = retries_of(import_string(str(job.task_kwargs["path"])).func)
        except ImportError:
            retries = NEVER
        pause = retries.pause_after(job.attempts + 1)
        return None if pause is None else RetryDecision(retry_at=clock.now() + timedelta(seconds=pause))


def _add_periodic(app: App, job: PeriodicJob) -> None:
    """Have ``job`` deferred at each of its times by whichever worker is first; the database admits one of each."""

    def run(**_occurrence: int) -> None:
        try:
            run_job(job.run)
        except Exception:
            log.exception("periodic.failed", job=job.name)
            raise

    name = f"opensre.periodic.{job.name}"
    # One waiting occurrence is enough: after an outage each job is done once, not once for every time missed.
    app.periodic(cron=job.cron, periodic_id=job.name)(app.task(name=name, queueing_lock=name, queue="periodic")(run))


def _add_tidying(app: App) -> None:
    async def retry_stalled(**_occurrence: int) -> None:
        await stalled_retry(app)

    async def delete_finished(**_occurrence: int) -> None:
        await app.job_manager.delete_old_jobs(
            nb_hours=FAILED_KEPT_HOURS, include_failed=True, include_cancelled=True, include_aborted=True
        )

    for cron, run in (("* * * * * 30", retry_stalled), ("17 * * * *", delete_finished)):
        name = f"opensre.{run.__name__}"
        app.periodic(cron=cron, periodic_id=name)(app.task(name=name, queueing_lock=name, queue="periodic")(run))


async def stalled_retry(app: App) -> int:
    """Queue again the jobs whose worker is gone, and give up those that several workers died over. Returns how many."""
    await app.job_manager.prune_stalled_workers(STALLED_AFTER_S)
    stalled = list(await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=STALLED_AFTER_S))
    for job in stalled:
        again = job.attempts + 1 < STALLED_ATTEMPTS
        log.warning("tasks.stalled", job=job.task_name, job_id=job.id, attempts=job.attempts, again=again)
        if again:
            await app.job_manager.retry_job(job)
        else:
            await app.job_manager.finish_job(job, Status.FAILED, delete_job=False)
    return len(stalled)

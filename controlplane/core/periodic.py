"""Jobs that are done again and again. Each is safe to run twice, and at the same time.

A lower app registers its job in ``AppConfig.ready()``. Embedded, the sweeper of each process runs what is due. Scaled,
Procrastinate runs each occurrence once, in whichever worker takes it (:mod:`controlplane.core.tasks.task_worker`), and
the sweeper only what belongs to the process itself.
"""

import random
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from controlplane.core.db import run_job

log = structlog.get_logger(__name__)

#: After a start each job waits this long at least, so that none is in the way of the first requests.
FIRST_AFTER_S: Final = 60.0
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


@dataclass(slots=True)
class Job:
    """A registered job; ``own`` when it tends what the process holds in memory, so that each process does it."""

    name: str
    run: Callable[[], object]
    every_s: float
    own: bool
    due_at: float

    @property
    def cron(self) -> str:
        """When the job is due, as a cron line in UTC, with seconds as a sixth field. See :func:`cron_of`."""
        return cron_of(self.name, self.every_s)


_lock: Final = threading.Lock()
_jobs: Final[dict[str, Job]] = {}


def register_periodic(name: str, run: Callable[[], object], *, every_s: float, own: bool = False) -> None:
    """Have ``run`` done every ``every_s`` seconds.

    Args:
        name: unique, ``domain.what``.
        run: safe to run twice, and at the same time.
        every_s: seconds that divide a minute, or whole minutes that divide an hour, or whole hours that divide a day.
        own: every process does it for itself, because it tends what that process holds in memory.

    In the embedded way the first time is after a minute and some chance: processes start together.

    Raises:
        ValueError: for another ``every_s``.
    """
    cron_of(name, every_s)
    first = time.monotonic() + FIRST_AFTER_S + random.uniform(0, min(every_s, 300.0))  # noqa: S311 (no secret)
    with _lock:
        _jobs[name] = Job(name, run, every_s, own, first)


def shared_jobs() -> list[Job]:
    """Return the jobs of which one process does each occurrence, for all."""
    with _lock:
        return [job for job in _jobs.values() if not job.own]


def run_due(now: float | None = None, *, own_only: bool = False) -> list[str]:
    """Run the jobs that are due, one after the other; return their names. What one raises is logged and stops no other.

    Args:
        now: of the monotonic clock; the present when left out.
        own_only: leave the shared jobs to somebody else.
    """
    moment = time.monotonic() if now is None else now
    with _lock:
        due = [job for job in _jobs.values() if job.due_at <= moment and (job.own or not own_only)]
        for job in due:
            job.due_at = moment + job.every_s
    for job in due:
        try:
            run_job(job.run)
        except Exception:  # the next time tries again
            log.exception("periodic.failed", job=job.name)
    return [job.name for job in due]


def cron_of(name: str, every_s: float) -> str:
    """Return the cron line of a job that is due every ``every_s`` seconds.

    What is due hourly or less often has a minute of its own, taken from its name: not everything at the full hour.
    The form is that of croniter: five fields, then the seconds.

    Raises:
        ValueError: when the day does not divide evenly that way.
    """
    whole = int(every_s)
    minute, second = zlib.crc32(name.encode()) % 60, zlib.crc32(name.encode()) // 60 % 60
    if whole != every_s or whole < 1 or _DAY % whole:
        raise ValueError(f"{name}: {every_s} seconds do not divide a day")
    if whole < _MINUTE and _MINUTE % whole == 0:
        return f"* * * * * */{whole}"
    if whole < _HOUR and whole % _MINUTE == 0 and _HOUR % whole == 0:
        return f"*/{whole // _MINUTE} * * * * {second}"
    if whole == _DAY:
        return f"{minute} 0 * * * {second}"
    if whole % _HOUR == 0:
        return f"{minute} */{whole // _HOUR} * * * {second}"
    raise ValueError(f"{name}: {every_s} seconds divide no minute, hour or day")

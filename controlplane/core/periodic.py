"""Jobs that are done again and again in every process that sweeps. Each is safe to run twice, and at the same time.

A lower app registers its job in ``AppConfig.ready()``; the sweeper, which the investigations own, runs what is due.
"""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from controlplane.core.db import run_job

log = structlog.get_logger(__name__)

#: After a start each job waits this long at least, so that none is in the way of the first requests.
FIRST_AFTER_S: Final = 60.0


@dataclass(slots=True)
class _Job:
    name: str
    run: Callable[[], object]
    every_s: float
    due_at: float


_lock: Final = threading.Lock()
_jobs: Final[dict[str, _Job]] = {}


def register_periodic(name: str, run: Callable[[], object], *, every_s: float) -> None:
    """Have ``run`` done every ``every_s`` seconds, first after a minute and some chance: processes start together."""
    first = time.monotonic() + FIRST_AFTER_S + random.uniform(0, min(every_s, 300.0))  # noqa: S311 (no secret)
    with _lock:
        _jobs[name] = _Job(name, run, every_s, first)


def run_due(now: float | None = None) -> list[str]:
    """Run the jobs that are due, one after the other; return their names. What one raises is logged and stops no other.

    Args:
        now: of the monotonic clock; the present when left out.
    """
    moment = time.monotonic() if now is None else now
    with _lock:
        due = [job for job in _jobs.values() if job.due_at <= moment]
        for job in due:
            job.due_at = moment + job.every_s
    for job in due:
        try:
            run_job(job.run)
        except Exception:  # the next time tries again
            log.exception("periodic.failed", job=job.name)
    return [job.name for job in due]

"""The sweep, in every process, so that a dead worker is noticed whichever process is left."""

import threading
from collections.abc import Callable

import structlog
from django.conf import settings
from django.db import connections
from typing_extensions import override

from controlplane.core.db import run_job
from controlplane.core.periodic import run_due
from controlplane.core.tasks import is_scaled
from controlplane.investigations.lifecycle import runs_sweep

log = structlog.get_logger(__name__)

_steps: list[Callable[[], object]] = [runs_sweep]


def sweep_register(step: Callable[[], object]) -> None:
    """Have every process do ``step`` each ``SWEEP_SECONDS`` too: for apps above this one, in ``AppConfig.ready()``.

    Args:
        step: may be called at any time by several processes at once; what it raises is logged.
    """
    if step not in _steps:
        _steps.append(step)


class Sweeper(threading.Thread):
    """Calls what is registered every ``SWEEP_SECONDS``, and the periodic jobs as they are due.

    Where workers share the periodic jobs, only those that are this process's own. Survives a locked or restarting
    database.
    """

    def __init__(self) -> None:
        super().__init__(name="run-sweeper", daemon=True)
        self._ending = threading.Event()

    @override
    def run(self) -> None:
        while not self._ending.wait(settings.SWEEP_SECONDS):
            for step in tuple(_steps):
                try:
                    run_job(step)
                except Exception:  # the next sweep tries again
                    log.exception("sweep.failed")
            run_due(own_only=is_scaled())
        connections.close_all()

    def end(self) -> None:
        self._ending.set()
        self.join(timeout=10)

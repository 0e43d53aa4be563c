"""The sweep, in every process, so that a dead worker is noticed whichever process is left."""

import threading

import structlog
from django.conf import settings
from django.db import connections
from typing_extensions import override

from controlplane.core.db import run_job
from controlplane.core.periodic import run_due
from controlplane.investigations.lifecycle import runs_sweep

log = structlog.get_logger(__name__)


class Sweeper(threading.Thread):
    """Calls :func:`runs_sweep` every ``SWEEP_SECONDS`` and the other periodic jobs as they are due.

    Survives a locked or restarting database.
    """

    def __init__(self) -> None:
        super().__init__(name="run-sweeper", daemon=True)
        self._ending = threading.Event()

    @override
    def run(self) -> None:
        while not self._ending.wait(settings.SWEEP_SECONDS):
            try:
                run_job(runs_sweep)
            except Exception:  # the next sweep tries again
                log.exception("sweep.failed")
            run_due()
        connections.close_all()

    def end(self) -> None:
        self._ending.set()
        self.join(timeout=10)

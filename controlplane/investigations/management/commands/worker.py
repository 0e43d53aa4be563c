"""``manage.py worker``: claims and works on runs, and does background tasks, until told to stop."""

import signal
from argparse import ArgumentParser
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from typing_extensions import override

from controlplane.investigations.lifespan import start_task_worker
from controlplane.investigations.sweeper import Sweeper
from controlplane.investigations.worker import Worker


class Command(BaseCommand):
    help = (
        "Work on queued runs and background tasks. SIGTERM or Ctrl-C: claim no more, let the runs in hand finish for "
        "WORKER_DRAIN_SECONDS, then hand them over or end them. A second one: do so at once."
    )

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--concurrency", type=int, default=settings.WORKER_CONCURRENCY, help="runs at once (default: %(default)s)"
        )

    @override
    def handle(self, *args: Any, concurrency: int, **options: Any) -> None:
        worker = Worker(concurrency=max(1, concurrency))
        told = False

        def stop(_number: int, _frame: FrameType | None) -> None:
            nonlocal told
            (worker.stop_now if told else worker.stop)()
            told = True

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        sweeper = Sweeper()
        sweeper.start()
        tasks = start_task_worker()
        try:
            worker.run()
        finally:
            if tasks is not None:
                tasks.end()
            sweeper.end()

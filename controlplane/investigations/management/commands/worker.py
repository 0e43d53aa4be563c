"""``manage.py worker``: claims and works on runs until told to stop."""

import signal
from argparse import ArgumentParser
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from typing_extensions import override

from controlplane.investigations.sweeper import Sweeper
from controlplane.investigations.worker import Worker


class Command(BaseCommand):
    help = "Work on queued runs. SIGTERM or Ctrl-C: claim no more, let the runs in hand finish briefly, then end them."

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--concurrency", type=int, default=settings.WORKER_CONCURRENCY, help="runs at once (default: %(default)s)"
        )

    @override
    def handle(self, *args: Any, concurrency: int, **options: Any) -> None:
        worker = Worker(concurrency=max(1, concurrency))

        def stop(_number: int, _frame: FrameType | None) -> None:
            worker.stop()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        sweeper = Sweeper()
        sweeper.start()
        try:
            worker.run()
        finally:
            sweeper.end()

"""``manage.py workers``: the workers there are, and whether they live."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from typing_extensions import override

from controlplane.core.clock import rfc3339
from controlplane.investigations.fleet import workers_all


class Command(BaseCommand):
    help = "List the workers of the last day: working, draining, stopped, or lost (silent for LEASE_SECONDS)."

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help='one JSON object, {"workers": […]}')

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        workers = [
            {
                "name": worker.name,
                "host": worker.host,
                "pid": worker.pid,
                "version": worker.version,
                "embedded": worker.embedded,
                "state": worker.state,
                "running": worker.running,
                "concurrency": worker.concurrency,
                "started_at": rfc3339(worker.started_at),
                "seen_at": rfc3339(worker.seen_at),
            }
            for worker in workers_all()
        ]
        if options["json"]:
            self.stdout.write(json.dumps({"workers": workers}))
            return
        if not workers:
            self.stdout.write("No worker has shown itself in the last day.")
        for worker in workers:
            self.stdout.write(
                f"{worker['state']:<9} {worker['running']}/{worker['concurrency']} runs  {worker['name']}  "
                f"{worker['version']}  seen {worker['seen_at']}"
            )

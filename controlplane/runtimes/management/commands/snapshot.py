"""``manage.py snapshot``: recorded evidence of a folder as the JSON that the API takes inline."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from controlplane.core.errors import AppError
from controlplane.runtimes.sources.snapshot import snapshot_from_folder


class Command(BaseCommand):
    help = "Print the evidence recorded in a folder as snapshot/1, to be given to the API as evidence."
    requires_system_checks: list[str] = []  # nothing of the installation is used, so nothing of it can be wrong

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, metavar="DIR", help="a folder of recorded evidence")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            snapshot = snapshot_from_folder(options["path"])
        except AppError as error:
            raise CommandError(f"{error.detail} ({error.code})") from None
        self.stdout.write(json.dumps(snapshot, ensure_ascii=False))
        for name, reason in snapshot["unreadable"].items():
            self.stderr.write(f"{name}: {reason}")

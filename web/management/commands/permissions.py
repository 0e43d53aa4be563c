"""``manage.py permissions``: the permission matrix as ``docs/permissions.md``, or as JSON."""

import json
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from web.permission_document import permission_data, permission_document

PATH: Final = Path("docs") / "permissions.md"


class Command(BaseCommand):
    help = "Write docs/permissions.md from the code that decides; --check only compares, --json prints it as JSON."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        how = parser.add_mutually_exclusive_group()
        how.add_argument("--check", action="store_true", help="change nothing; fail when the page is out of date")
        how.add_argument("--json", action="store_true", help="print the matrix as JSON")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if options["json"]:
            self.stdout.write(json.dumps(permission_data(), indent=2))
            return
        path, text = Path(settings.BASE_DIR) / PATH, permission_document()
        current = path.read_text(encoding="utf-8") if path.exists() else ""
        if options["check"]:
            if current != text:
                raise CommandError(f"{PATH} is out of date; run manage.py permissions.")
            self.stdout.write(f"{PATH} says what the code does.")
            return
        path.write_text(text, encoding="utf-8")
        self.stdout.write(f"{PATH} is written.")

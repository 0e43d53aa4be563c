"""``manage.py bootstrap``: an organization, its owner, the operator, fresh tokens."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from controlplane.access.bootstrap import DEFAULT_ORGANIZATION, Bootstrapped, bootstrap
from controlplane.core.errors import AppError


class Command(BaseCommand):
    help = (
        "Make an organization with its tree where missing, reset the passwords of its owner and of the operator, and "
        "issue fresh tokens. Secrets are shown once, here; tokens issued earlier stay valid."
    )

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--organization", metavar="SLUG", default=DEFAULT_ORGANIZATION, help="default: %(default)s")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            made = bootstrap(organization_slug=options["organization"])
        except AppError as error:
            raise CommandError(f"{error.detail} ({error.code})") from None
        self.stdout.write(json.dumps(made.as_dict(), indent=2) if options["json"] else _for_people(made))


def _for_people(made: Bootstrapped) -> str:
    rows = [
        ("organization", made.organization),
        ("teams", ", ".join(made.teams)),
        ("owner", f"{made.owner.username}  {made.owner.password}"),
        ("operator (/admin)", f"{made.operator.username}  {made.operator.password}"),
        ("owner's token", made.owner_token),
        ("admin token", made.admin_token),
        (f"team token ({made.team})", made.team_token),
    ]
    width = max(len(label) for label, _ in rows)
    lines = [f"{label:<{width}}  {value}" for label, value in rows]
    return "\n".join(["These secrets are shown once.", "", *lines])

"""``manage.py tokens``: what tokens there are that should go, and revoking those nobody uses."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import QuerySet
from typing_extensions import override

from controlplane.access.models import AccessToken
from controlplane.access.services import tokens_revoke_unused
from controlplane.access.token_selectors import (
    EXPIRING_DAYS,
    LONGEST_DAYS,
    UNUSED_DAYS,
    TokenReport,
    report_of,
    working,
)
from controlplane.core import clock
from controlplane.orgs.models import Organization

_WORDS = {
    "working": "working tokens",
    "unused": "not used for {unused_days} days",
    "expiring": "ending within {expiring_days} days",
    "endless": "without end",
    "outside_policy": "living longer than the policy lets new ones",
    "old_pepper": "under an older pepper (re-stored at their next use)",
}


class Command(BaseCommand):
    help = "Report on access tokens, or revoke those that nobody uses."

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        report = commands.add_parser("report", help="count what should go, for each organization")
        report.add_argument("--expiring-days", type=int, default=EXPIRING_DAYS)
        revoke = commands.add_parser("revoke-unused", help="revoke tokens not used for --days")
        revoke.add_argument("--dry-run", action="store_true", help="say what would be revoked, and revoke nothing")
        for each, days in ((report, "--unused-days"), (revoke, "--days")):
            each.add_argument(days, type=int, default=UNUSED_DAYS, dest="unused_days")
            each.add_argument("--organization", help="slug; every organization when left out")
            each.add_argument("--json", action="store_true", help="one JSON object")

    @override
    def handle(self, *args: Any, command: str, unused_days: int, **options: Any) -> None:
        if not 1 <= unused_days <= LONGEST_DAYS:
            raise CommandError(f"Days must be from 1 to {LONGEST_DAYS}.")
        organizations = Organization.objects.order_by("slug")
        if options["organization"]:
            organizations = organizations.filter(slug=options["organization"])
            if not organizations.exists():
                raise CommandError(f"There is no organization {options['organization']!r}.")
        if command == "report":
            self._report(organizations, unused_days, options)
        else:
            self._revoke(organizations, unused_days, options)

    def _report(self, organizations: QuerySet[Organization], unused_days: int, options: dict[str, Any]) -> None:
        days = {"unused_days": unused_days, "expiring_days": options["expiring_days"]}
        found = {one.slug: _report_of(one, **days) for one in organizations}
        if options["json"]:
            self.stdout.write(json.dumps(days | {"organizations": {slug: asdict(one) for slug, one in found.items()}}))
            return
        for slug, report in found.items():
            self.stdout.write(slug)
            for name, words in _WORDS.items():
                self.stdout.write(f"  {getattr(report, name):>7}  {words.format(**days)}")

    def _revoke(self, organizations: QuerySet[Organization], unused_days: int, options: dict[str, Any]) -> None:
        dry_run = options["dry_run"]
        done = {
            one.slug: tokens_revoke_unused(organization=one, unused_days=unused_days, dry_run=dry_run)
            for one in organizations
        }
        if options["json"]:
            counts = {slug: one.count if dry_run else len(one.ids) for slug, one in done.items()}
            self.stdout.write(json.dumps({"dry_run": dry_run, "unused_days": unused_days, "organizations": counts}))
            return
        for slug, one in done.items():
            words = "would be revoked" if dry_run else "revoked"
            self.stdout.write(f"{slug}: {one.count if dry_run else len(one.ids)} {words}")


def _report_of(organization: Organization, *, unused_days: int, expiring_days: int) -> TokenReport:
    rows = AccessToken.objects.filter(working(clock.now()), node__organization=organization)
    return report_of(rows, organization, unused_days=unused_days, expiring_days=expiring_days)

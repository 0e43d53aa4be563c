"""``manage.py audit verify``: recompute the chains and name the first break."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from controlplane.audit.directory import directory
from controlplane.audit.selectors import audit_verify, audited_organizations


class Command(BaseCommand):
    help = "Verify the audit log: every event's MAC, the order, and that nothing is missing. Exits with 1 at a break."

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="operation", required=True)
        verify = actions.add_parser("verify", help="recompute the chains")
        verify.add_argument("--organization", metavar="SLUG", help="one organization only")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        organizations = dict(directory().organization_ids())
        wanted = options["organization"]
        if wanted is not None and wanted not in organizations:
            raise CommandError(f"There is no organization {wanted[:63]!r}.")
        names = {pk: slug for slug, pk in organizations.items()}
        chains = [organizations[wanted]] if wanted is not None else list(audited_organizations())
        reports = [audit_verify(pk) for pk in chains]
        for report in reports:
            name = names.get(report.organization_id, str(report.organization_id))
            if report.intact:
                self.stdout.write(f"{name}: {report.events} events, intact")
            else:
                self.stderr.write(f"{name}: broken at seq {report.broken_seq}: {report.problem}")
        if not all(report.intact for report in reports):
            sys.exit(1)

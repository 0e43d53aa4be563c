"""``manage.py audit``: verify the chains, sign where they are, apply the retention."""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from controlplane.audit.checkpoints import Pin, checkpoint_write
from controlplane.audit.directory import directory
from controlplane.audit.models import INSTALLATION
from controlplane.audit.retention import retention_apply
from controlplane.audit.selectors import audited_organizations
from controlplane.audit.verification import verification_keep
from controlplane.audit.verifying import ChainReport, audit_verify
from controlplane.core.errors import AppError

#: Exit code of ``verify`` when it finds a break.
BROKEN: Final = 1
INSTALLATION_NAME: Final = "(installation)"


class Command(BaseCommand):
    help = "The audit log: verify its chains, write signed checkpoints, remove what is older than is kept."

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="operation", required=True)
        verify = actions.add_parser(
            "verify", help="recompute the chains and name the first broken link; exits with 1 at a break"
        )
        verify.add_argument("--checkpoint", metavar="FILE", help="what `audit checkpoint --json` printed before")
        checkpoint = actions.add_parser("checkpoint", help="sign where the chains are; keep the output elsewhere")
        retain = actions.add_parser("retain", help="remove what is older than is kept, behind a signed checkpoint")
        retain.add_argument("--days", type=int, help="instead of AUDIT_RETENTION_DAYS")
        retain.add_argument("--security-days", type=int, help="instead of SECURITY_RETENTION_DAYS")
        for action in (verify, checkpoint, retain):
            action.add_argument("--organization", metavar="SLUG", help="one organization only")
            action.add_argument("--json", action="store_true", help="print JSON")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        names = {INSTALLATION: INSTALLATION_NAME}
        names |= {pk: slug for slug, pk in directory().organization_ids().items()}
        chains = _chains(names, options["organization"])
        operations = {"verify": self._verify, "checkpoint": self._checkpoint, "retain": self._retain}
        operations[options["operation"]](names, chains, options)

    def _verify(self, names: Mapping[UUID, str], chains: list[UUID], options: Mapping[str, Any]) -> None:
        pins = _pins(options["checkpoint"]) if options["checkpoint"] else []
        unknown = [pin for pin in pins if pin.organization not in {str(pk) for pk in chains}]
        if unknown and options["organization"] is None:
            raise CommandError(f"The chain of the checkpoint for {unknown[0].organization[:63]!r} is gone.")
        reports = [audit_verify(pk, pins=pins) for pk in chains]
        for report in reports:
            verification_keep(report)
        if options["json"]:
            listed = [_as_json(names, report) for report in reports]
            body = {"intact": all(report.intact for report in reports), "chains": listed}
            self.stdout.write(json.dumps(body, indent=2))
        else:
            for report in reports:
                self._print(names, report)
        if not all(report.intact for report in reports):
            sys.exit(BROKEN)

    def _print(self, names: Mapping[UUID, str], report: ChainReport) -> None:
        name, found = names.get(report.organization_id, str(report.organization_id)), report.found
        if found is None:
            since = f" (from {report.first_seq}: older ones were removed)" if report.first_seq > 1 else ""
            self.stdout.write(f"{name}: {report.events} events, intact{since}")
            return
        which = f" ({found.action}, {found.event_id})" if found.event_id else ""
        self.stderr.write(f"{name}: broken at seq {found.seq}{which}: {found.kind}: {found.problem}")

    def _checkpoint(self, names: Mapping[UUID, str], chains: list[UUID], options: Mapping[str, Any]) -> None:
        written = [found for pk in chains if (found := checkpoint_write(organization_id=pk)) is not None]
        if options["json"]:
            self.stdout.write(json.dumps({"checkpoints": [Pin.of(found).as_dict() for found in written]}, indent=2))
            return
        for found in written:
            name = names.get(found.organization_id, str(found.organization_id))
            self.stdout.write(f"{name}: checkpoint {found.number} at seq {found.org_seq}, signature {found.signature}")

    def _retain(self, names: Mapping[UUID, str], chains: list[UUID], options: Mapping[str, Any]) -> None:
        days = settings.AUDIT_RETENTION_DAYS if options["days"] is None else options["days"]
        security = settings.SECURITY_RETENTION_DAYS if options["security_days"] is None else options["security_days"]
        if days < 0 or security < 0:
            raise CommandError("Days are 0 (keep for ever) or more.")
        removed = {}
        for pk in chains:
            try:
                done = retention_apply(organization_id=pk, days=days, security_days=security)
            except AppError as error:
                raise CommandError(f"{names.get(pk, str(pk))}: {error.detail}") from None
            removed[names.get(pk, str(pk))] = {
                "events": done.events, "security_events": done.security_events, "anchor": done.anchor,
            }  # fmt: skip
        if options["json"]:
            self.stdout.write(json.dumps({"removed": removed}, indent=2))
            return
        for name, counts in removed.items():
            self.stdout.write(
                f"{name}: {counts['events']} events and {counts['security_events']} security events removed"
            )


def _chains(names: Mapping[UUID, str], wanted: str | None) -> list[UUID]:
    if wanted is None:
        return list(audited_organizations())
    found = [pk for pk, name in names.items() if name == wanted]
    if not found:
        raise CommandError(f"There is no organization {wanted[:63]!r}.")
    return found


def _pins(path: str) -> list[Pin]:
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
        return [Pin.read(each) for each in value["checkpoints"]]
    except (OSError, ValueError, KeyError, TypeError, AppError):
        raise CommandError(f"{path} is no file as `audit checkpoint --json` prints it.") from None


def _as_json(names: Mapping[UUID, str], report: ChainReport) -> dict[str, Any]:
    found = report.found
    return {
        "organization": names.get(report.organization_id),
        "organization_id": str(report.organization_id),
        "intact": report.intact,
        "events": report.events,
        "first_seq": report.first_seq,
        "last_seq": report.last_seq,
        "checkpoints": report.checkpoints,
        "break": found
        and {
            "kind": found.kind.value,
            "seq": found.seq,
            "id": found.event_id or None,
            "action": found.action or None,
            "problem": found.problem,
        },
    }

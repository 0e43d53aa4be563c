"""``manage.py config export|plan|apply|import-opensre``: configuration as files."""

import getpass
import json
import logging
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from typing_extensions import override

from controlplane.configs.gitops.applying import Applied, config_apply, config_rehearse
from controlplane.configs.gitops.files import FileTree, read_tree, write_tree
from controlplane.configs.gitops.opensre import tree_from_dump
from controlplane.configs.gitops.plans import PLAN_FORMAT, tree_of
from controlplane.configs.gitops.rendering import rendered
from controlplane.configs.locks import lock_tree
from controlplane.core.actor import Actor, Channel, system_actor
from controlplane.core.errors import AppError, FieldError, InvalidInput
from controlplane.core.strict_json import parse_json
from controlplane.orgs.models import Node, Organization, is_slug

MAX_PLAN_BYTES: Final = 16 * 1024 * 1024
MAX_DUMP_BYTES: Final = 256 * 1024 * 1024
EXIT_CHANGES: Final = 2


class Command(BaseCommand):
    help = (
        "Configuration as files. plan, and import-opensre --dry-run, end with 0 when nothing would change, 2 when "
        "something would, 1 at an error; the others with 0 or 1."
    )

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        operations = parser.add_subparsers(dest="operation", required=True)
        export = operations.add_parser("export", help="write an organization as files")
        export.add_argument("folder", type=Path, metavar="DIR")
        export.add_argument("--organization", metavar="SLUG", help="which one (default: the only one)")
        export.add_argument("--prune", action="store_true", help="remove files of nodes that are no longer there")
        plan = operations.add_parser("plan", help="say what the files would change; change nothing")
        plan.add_argument("--out", type=Path, metavar="FILE", help="keep the plan for apply --plan")
        apply = operations.add_parser("apply", help="make the organization as the files say, wholly or not at all")
        apply.add_argument("--plan", type=Path, metavar="FILE", help="apply nothing but this plan")
        apply.add_argument("--reason", default="", help="one line for the history")
        for one in (plan, apply):
            one.add_argument("folder", type=Path, metavar="DIR")
            one.add_argument("--organization", metavar="SLUG", help="which one, where DIR has several")
            one.add_argument("--prune", action="store_true", help="delete nodes that have no file")
        imported = operations.add_parser("import-opensre", help="take over a dump of OpenSRE's configuration service")
        imported.add_argument("file", type=Path, metavar="FILE")
        imported.add_argument("--organization", metavar="SLUG", help="into which one (default: the only one)")
        imported.add_argument("--dry-run", action="store_true", help="plan only")
        for one in (export, plan, apply, imported):
            one.add_argument("--json", action="store_true", help="one JSON object instead of text")

    @override
    def handle(self, *args: Any, operation: str, **options: Any) -> None:
        if options["verbosity"] < 2:
            logging.getLogger().setLevel(logging.WARNING)
        runs = {"export": self._export, "plan": self._plan, "apply": self._apply, "import-opensre": self._import}
        try:
            runs[operation](options)
        except AppError as error:
            if options["json"]:
                self.stdout.write(json.dumps({"error": error.as_problem()}, ensure_ascii=False))
                sys.exit(1)
            raise CommandError(told(error)) from None

    def _export(self, options: Mapping[str, Any]) -> None:
        organization = _organization(options["organization"])
        with transaction.atomic():  # a node that is moved meanwhile would be read here and there, or nowhere
            lock_tree(organization.pk)
            tree = tree_of(organization)
        written, removed = write_tree(options["folder"], tree, prune=options["prune"])
        said = {"organization": organization.slug, "nodes": len(tree.nodes), "written": written, "removed": removed}
        text = f"{organization.slug}: {len(tree.nodes)} nodes; {written} files written, {len(removed)} removed."
        self.stdout.write(json.dumps(said) if options["json"] else text)

    def _plan(self, options: Mapping[str, Any]) -> None:
        tree = read_tree(options["folder"], organization=options["organization"])
        organization = _organization(tree.organization)
        self._foresee(options, organization, tree, prune=options["prune"], out=options["out"])

    def _apply(self, options: Mapping[str, Any]) -> None:
        tree = read_tree(options["folder"], organization=options["organization"])
        organization = _organization(tree.organization)
        expected, prune = None, options["prune"]
        if options["plan"] is not None:
            expected, prune = _expected(options["plan"], organization, prune)
        applied = config_apply(
            actor=_actor(organization),
            organization=organization,
            tree=tree,
            prune=prune,
            reason=options["reason"] or "Applied from files",
            expected=expected,
        )
        self._show(options, applied)
        self._confirm(options, applied)

    def _import(self, options: Mapping[str, Any]) -> None:
        organization = _organization(options["organization"])
        tree = tree_from_dump(_read_json(options["file"], MAX_DUMP_BYTES), organization)
        if options["dry_run"]:
            self._foresee(options, organization, tree, prune=False, out=None)
            return
        applied = config_apply(
            actor=_actor(organization), organization=organization, tree=tree, reason="Imported from OpenSRE"
        )
        self._show(options, applied)
        self._confirm(options, applied)

    def _foresee(
        self, options: Mapping[str, Any], organization: Organization, tree: FileTree, *, prune: bool, out: Path | None
    ) -> None:
        applied = config_rehearse(actor=_actor(organization), organization=organization, tree=tree, prune=prune)
        if out is not None:
            _write_json(out, applied.plan.as_file())
        self._show(options, applied)
        if applied.plan.changes:
            sys.exit(EXIT_CHANGES)

    def _show(self, options: Mapping[str, Any], applied: Applied) -> None:
        if not options["json"]:
            self.stdout.write(rendered(applied))
            return
        warnings = [{"path": path, **warning.as_dict()} for path, warning in applied.warnings]
        self.stdout.write(json.dumps({**applied.plan.as_dict(), "warnings": warnings}, ensure_ascii=False))

    def _confirm(self, options: Mapping[str, Any], applied: Applied) -> None:
        if applied.plan.changes and not options["json"]:
            self.stdout.write("Applied.")


def told(error: AppError) -> str:
    """Return an error as lines: what, then where."""
    lines = [f"{error.detail} ({error.code})"]
    lines += [f"  {item.pointer or '/'}: {item.detail}" for item in error.errors if not _is_said(error, item)]
    return "\n".join(lines)


def _is_said(error: AppError, item: FieldError) -> bool:
    """Whether the first line has where and what already."""
    return item.pointer in error.detail and item.detail in error.detail


def _organization(slug: str | None) -> Organization:
    organizations = Organization.objects.order_by("slug")
    if slug is not None:
        found = organizations.filter(slug=slug).first() if is_slug(slug) else None
        if found is None:
            raise CommandError(f"There is no organization {slug[:63]!r}. Run: manage.py bootstrap --organization SLUG")
        return found
    listed = list(organizations[:20])
    if len(listed) != 1:
        names = ", ".join(one.slug for one in listed) or "none"
        raise CommandError(f"Name one with --organization; there are: {names}.")
    return listed[0]


def _actor(organization: Organization) -> Actor:
    """Return who acts: the machine's own user, as owner of the organization."""
    root = Node.objects.get(organization=organization, parent__isnull=True)
    name = f"cli:{getpass.getuser()}"
    return system_actor(name=name, organization_id=organization.pk, root_id=root.pk, channel=Channel.CLI)


def _expected(path: Path, organization: Organization, prune: bool) -> tuple[dict[str, str], bool]:
    """Return the digests of a kept plan, and whether it prunes.

    Raises:
        InvalidInput: ``invalid_plan``: it is none, of another organization, or was made without the ``--prune`` given.
    """
    plan = _read_json(path, MAX_PLAN_BYTES)
    changes = plan.get("changes") if isinstance(plan, dict) else None
    if plan is None or not isinstance(changes, dict) or plan.get("format") != PLAN_FORMAT:
        raise InvalidInput(f"{path} is no plan.", code="invalid_plan")
    if plan.get("organization") != organization.slug:
        raise InvalidInput(f"{path} is a plan of another organization.", code="invalid_plan")
    if prune and plan.get("prune") is not True:
        raise InvalidInput(f"{path} was made without --prune.", code="invalid_plan")
    return {str(slug): str(digest) for slug, digest in changes.items()}, plan.get("prune") is True


def _read_json(path: Path, most: int) -> Any:
    try:
        with path.open("rb") as file:
            return parse_json(file.read(most + 1), max_bytes=most)
    except OSError as error:
        raise CommandError(f"{path} cannot be read ({error.strerror or 'error'}).") from None


def _write_json(path: Path, value: Any) -> None:
    try:
        path.write_text(json.dumps(value, indent=2) + "\n", "utf-8")
    except OSError as error:
        raise CommandError(f"{path} cannot be written ({error.strerror or 'error'}).") from None

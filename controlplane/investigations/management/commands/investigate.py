"""``manage.py investigate``: ask a question at the terminal and watch the answer come."""

import getpass
import json
import logging
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from typing_extensions import override

from controlplane.core.actor import Actor, Channel, system_actor
from controlplane.core.errors import AppError
from controlplane.core.permissions import Action
from controlplane.core.strict_json import parse_json
from controlplane.investigations.following import follow
from controlplane.investigations.inputs import MAX_ALERT_BYTES
from controlplane.investigations.starting import Started, investigation_start
from controlplane.investigations.terminal import TerminalView
from controlplane.orgs.models import Node, Organization
from controlplane.orgs.selectors import team_for
from controlplane.runtimes.replay import MAX_BYTES, is_recording
from controlplane.runtimes.sources.snapshot import snapshot_from_folder

EXIT_BY_STATUS = {"completed": 0, "failed": 1, "timeout": 3, "interrupted": 130}


class Command(BaseCommand):
    help = "Investigate an incident, showing what happens. Ends with 0 completed, 1 failed, 3 timeout, 130 interrupted."

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("text", nargs="?", help='what to find out, for example "why is checkout slow?"')
        parser.add_argument("--alert", type=Path, metavar="FILE", help="the alert as a JSON file")
        parser.add_argument("--evidence", type=Path, metavar="DIR", help="a folder of recorded evidence")
        parser.add_argument("--replay", type=Path, metavar="FILE", help="play a recorded run instead")
        parser.add_argument("--speed", type=float, default=1.0, help="of --replay: 1 as it was, 0 without pauses")
        parser.add_argument("--runtime", metavar="NAME", help="a runtime instead of the configured one")
        parser.add_argument("--team", metavar="ORG/TEAM", help="the team to ask for (default: the first one)")
        parser.add_argument("--json", action="store_true", help="one JSON event a line, as the stream sends them")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if options["verbosity"] < 2:
            logging.getLogger().setLevel(logging.WARNING)  # the terminal shows the run, not the process
        try:
            started = _start(options)
        except AppError as error:
            raise CommandError(_told(error)) from None
        view = None if options["json"] else TerminalView(self.stdout, color=self.stdout.isatty())
        if view is not None:
            view.opening(started)
        status = follow(started, lambda event: self._show(view, event))
        sys.exit(EXIT_BY_STATUS[status])

    def _show(self, view: TerminalView | None, event: dict[str, Any]) -> None:
        if view is None:
            self.stdout.write(json.dumps(event, ensure_ascii=False))
            self.stdout.flush()
        else:
            view.show(event)


def _start(options: dict[str, Any]) -> Started:
    if "investigations_thread" not in connection.introspection.table_names():
        raise CommandError("The database is not set up yet. Run: make setup")
    actor, team = _actor_and_team(options["team"])
    if options["replay"] is not None:
        recording = _read(options["replay"], "--replay", MAX_BYTES)
        if not is_recording(recording):
            raise CommandError(f"--replay: {options['replay']} is no recording (replay/1).")
        prompt = options["text"] or str(recording.get("prompt", ""))
        played = {**recording, "speed": options["speed"]}
        return investigation_start(actor=actor, team=team, prompt=prompt, evidence=played)
    if not options["text"]:
        raise CommandError("Say what to find out, or give a recording with --replay.")
    evidence = None if options["evidence"] is None else snapshot_from_folder(options["evidence"])
    alert = None if options["alert"] is None else _read(options["alert"], "--alert", MAX_ALERT_BYTES)
    if alert is None and evidence is not None:
        alert = evidence.get("alert")
    return investigation_start(
        actor=actor, team=team, prompt=options["text"], alert=alert, evidence=evidence, runtime=options["runtime"]
    )


def _actor_and_team(reference: str | None) -> tuple[Actor, Node]:
    """Return who asks: the machine's own user, as owner of the organization the team belongs to."""
    slug = reference.partition("/")[0] if reference and "/" in reference else None
    organizations = Organization.objects.order_by("created_at")
    organization = organizations.filter(slug=slug).first() if slug else organizations.first()
    if organization is None:
        missing = f"There is no organization {slug!r}." if slug else "There is no organization yet."
        raise CommandError(f"{missing} Run: manage.py bootstrap" + (f" --organization {slug}" if slug else ""))
    root = Node.objects.get(organization=organization, parent__isnull=True)
    actor = system_actor(
        name=f"cli:{getpass.getuser()}", organization_id=organization.pk, root_id=root.pk, channel=Channel.CLI
    )
    if reference is None:
        first = (
            Node.objects.filter(organization=organization, kind="team", archived_at__isnull=True)
            .order_by("slug")
            .first()
        )
        if first is None:
            raise CommandError(f"The organization {organization.slug} has no team yet.")
        return actor, first
    return actor, team_for(actor, reference, Action.RUN_CREATE)


def _read(path: Path, option: str, most: int) -> Any:
    try:
        with path.open("rb") as file:
            raw = file.read(most + 1)
    except OSError as error:
        raise CommandError(f"{option}: {path} cannot be read ({error.strerror or 'error'}).") from None
    try:
        return parse_json(raw, max_bytes=most)
    except AppError as error:
        raise CommandError(f"{option}: {path}: {error.detail}") from None


def _told(error: AppError) -> str:
    lines = [f"{error.detail} ({error.code})"]
    lines += [f"  {item.pointer or '/'}: {item.detail}" for item in error.errors if item.detail != error.detail]
    return "\n".join(lines)

"""Taking in what agents elsewhere report of their runs: bounded, redacted, each once however often it is sent."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from controlplane.audit.services import audit_record
from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.core.errors import NotFound, PermissionDenied, invalid
from controlplane.core.permissions import Action, nodes_that_allow
from controlplane.core.redaction import redact_json, redact_text
from controlplane.investigations.models import ReportedRun
from controlplane.orgs.models import NodeAncestor
from controlplane.orgs.selectors import node_is_archived, team_for

MAX_NAME: Final = 128
MAX_TEXT: Final = 64_000
MAX_ENTRY_TEXT: Final = 4_000
MAX_ENTRIES: Final = 2_000
MAX_JSON_BYTES: Final = 512 * 1024
END_STATUSES: Final = ("completed", "failed", "timeout", "interrupted")
STATUSES: Final = ("running", *END_STATUSES)
#: Short texts, each with the characters its column holds; what is longer is cut.
_NAMES: Final = {
    "correlation_id": 240,
    "agent_name": 128,
    "trigger_source": 64,
    "trigger_actor": 128,
    "trigger_channel_id": 240,
    "sdk_session_id": 128,
}
_TEXTS: Final = ("trigger_message", "output_summary", "error_message")
_NUMBERS: Final = ("duration_seconds", "confidence", "tool_calls_count")
_DOCUMENTS: Final = ("metadata", "output_json")
#: What a report may say when it begins; the rest of these names comes when it ends.
OPENING: Final = frozenset({*_NAMES, "trigger_message", "metadata"}) - {"sdk_session_id"}


def reported_visible(actor: Actor, action: Action = Action.RUN_READ) -> QuerySet[ReportedRun]:
    """Return the reported runs of the teams on which ``actor`` may do ``action``."""
    if actor.organization_id is None:
        return ReportedRun.objects.none()
    permitted = NodeAncestor.objects.filter(
        descendant_id=OuterRef("node_id"), ancestor_id__in=nodes_that_allow(actor, action)
    )
    return ReportedRun.objects.filter(Exists(permitted), organization_id=actor.organization_id)


def reported_get(actor: Actor, name: str, action: Action = Action.RUN_READ) -> ReportedRun:
    """Return a reported run by the agent's id of it.

    Raises:
        NotFound: the actor sees none of that id.
        PermissionDenied: it sees the run and may not do ``action``.
    """
    found = reported_visible(actor, action).filter(name=name[:MAX_NAME]).first()
    if found is not None:
        return found
    if action is not Action.RUN_READ and reported_visible(actor).filter(name=name[:MAX_NAME]).exists():
        raise PermissionDenied(f"You may not do this here (it needs {action.value}).")
    raise NotFound


@transaction.atomic
def reported_begin(*, actor: Actor, body: Mapping[str, Any]) -> ReportedRun:
    """Take down that a run began; said again it is the same run.

    Args:
        actor: needs ``run.create`` on the team: its own, or the one ``team_node_id`` names.
        body: ``run_id`` and any of :data:`OPENING`; members of other names are let pass.

    Raises:
        InvalidInput: naming the member; or the team is not named, not in reach or archived.
    """
    name = body.get("run_id")
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise invalid("/run_id", "bad_run_id", f"run_id is a text of 1 to {MAX_NAME} printable characters.")
    wanted = body.get("team_node_id")
    team = team_for(actor, wanted if isinstance(wanted, str) else None, Action.RUN_CREATE)
    if node_is_archived(team.pk):
        raise invalid("/team_node_id", "team_archived", "This team is archived and takes no new runs.")
    fields = _fields({key: value for key, value in body.items() if key in OPENING})
    run, made = ReportedRun.objects.get_or_create(
        node=team, name=name, defaults=fields | {"organization_id": team.organization_id, "by": actor.principal}
    )
    if made:
        audit_record(
            actor=actor,
            organization_id=team.organization_id,
            action="run.report",
            object_kind="reported_run",
            object_id=str(run.pk),
            node_id=team.pk,
        )
    return run


def reported_change(*, actor: Actor, name: str, body: Mapping[str, Any]) -> ReportedRun:
    """Take down how a run goes or ended.

    Raises:
        NotFound, PermissionDenied: see :func:`reported_get`, for ``run.create``.
        InvalidInput: naming the member.
    """
    fields = _fields(body)
    status = body.get("status")
    if status is not None and status not in STATUSES:
        raise invalid("/status", "unknown_status", f"A status is one of {', '.join(STATUSES)}.")

    def change(run: ReportedRun) -> list[str]:
        for key, value in fields.items():
            setattr(run, key, value)
        if status is not None:
            run.status = status
            run.ended_at = (run.ended_at or clock.now()) if status in END_STATUSES else None
        return [*fields, "status", "ended_at"]

    return _changed(actor, name, change)


def reported_thoughts(*, actor: Actor, name: str, thoughts: object) -> int:
    """Add thoughts to a run and return how many it has; those of a ``seq`` it has already are left out."""
    added = _entries("thoughts", thoughts)

    def change(run: ReportedRun) -> list[str]:
        known = {item.get("seq") for item in run.thoughts if item.get("seq") is not None}
        run.thoughts = [*run.thoughts, *(item for item in added if item.get("seq") not in known)][:MAX_ENTRIES]
        return ["thoughts"]

    return len(_changed(actor, name, change).thoughts)


def reported_tool_calls(*, actor: Actor, name: str, tool_calls: object) -> int:
    """Add tool calls to a run, or change those it has by their ``id``; return how many it has."""
    added = _entries("tool_calls", tool_calls)

    def change(run: ReportedRun) -> list[str]:
        calls = {str(item.get("id")): item for item in run.tool_calls}
        for item in added:
            calls[str(item.get("id"))] = calls.get(str(item.get("id")), {}) | item
        run.tool_calls = list(calls.values())[:MAX_ENTRIES]
        run.tool_calls_count = max(run.tool_calls_count, len(run.tool_calls))
        return ["tool_calls", "tool_calls_count"]

    return len(_changed(actor, name, change).tool_calls)


@transaction.atomic
def _changed(actor: Actor, name: str, change: Callable[[ReportedRun], list[str]]) -> ReportedRun:
    found = reported_get(actor, name, Action.RUN_CREATE)
    run = ReportedRun.objects.select_for_update().get(pk=found.pk)
    run.save(update_fields=change(run))
    return run


# ---- what is taken ---------------------------------------------------------------------------------------------------


def _fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a body; what is ``null`` is left out, and so is what nobody knows here."""
    found: dict[str, Any] = {}
    for key, value in body.items():
        if value is None:
            continue
        if key in _NAMES:
            found[key] = _text(key, value)[: _NAMES[key]]
        elif key in _TEXTS:
            found[key] = _text(key, value)[:MAX_TEXT]
        elif key in _NUMBERS:
            found[key] = _number(key, value)
        elif key in _DOCUMENTS:
            found[key] = _document(key, value)
    return found


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise invalid(f"/{key}", "not_text", "This must be a string.")
    return redact_text(value[: 2 * MAX_TEXT].replace("\x00", "\ufffd"))


def _number(key: str, value: object) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 2**31 - 1:
        raise invalid(f"/{key}", "not_a_number", "This must be a number, 0 or larger.")
    if not math.isfinite(value):
        raise invalid(f"/{key}", "not_a_number", "This must be a number, 0 or larger.")
    return int(value) if key == "tool_calls_count" else float(value)


def _document(key: str, value: object) -> Any:
    if not isinstance(value, dict) or len(orjson.dumps(value)) > MAX_JSON_BYTES:
        raise invalid(f"/{key}", "bad_document", f"This is an object of at most {MAX_JSON_BYTES:,} bytes.")
    return _bounded(redact_json(value))


def _entries(key: str, value: object) -> list[dict[str, Any]]:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > MAX_ENTRIES:
        raise invalid(f"/{key}", "not_a_list", f"This is a list of at most {MAX_ENTRIES:,} objects.")
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise invalid(f"/{key}/{index}", "not_an_object", "This must be an object.")
    return [_bounded(redact_json(item)) for item in value]


def _bounded(value: Any) -> Any:
    """Return JSON with its texts cut and without NUL, which PostgreSQL's jsonb refuses."""
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd")[:MAX_ENTRY_TEXT]
    if isinstance(value, dict):
        return {_bounded(key): _bounded(item) for key, item in value.items()}
    return [_bounded(item) for item in value] if isinstance(value, list) else value

"""Runs as OpenSRE's web interface and bots read them: their names of the fields over our rows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import orjson
from django.db.models import Count

from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.core.errors import NotFound, invalid
from controlplane.investigations.models import Audience, Event, Feedback, ReportedRun, Run, RunStatus, Thread, Verdict
from controlplane.investigations.reporting import reported_get, reported_visible
from controlplane.investigations.selectors import NEWEST_FIRST, is_starter, run_view, runs_visible
from controlplane.runtimes.events import EventType

MAX_TRACE_EVENTS: Final = 2_000
#: Their words for our states: a run that waits for a person is running to them.
_STATUS: Final = {RunStatus.QUEUED: "running", RunStatus.WAITING: "running"}


@dataclass(frozen=True, slots=True)
class AgentRuns:
    """A page of runs with what the list says of each beside its row."""

    runs: Sequence[Run]
    tool_calls: Mapping[UUID | None, int]
    ratings: Mapping[UUID, str]


def run_named(actor: Actor, run_id: object, correlation_id: object = None) -> tuple[UUID, UUID]:
    """Return the thread and run a client of OpenSRE names by the ids it has.

    Args:
        run_id: the run's id, or none.
        correlation_id: the thread's id: its last run is meant where ``run_id`` names none.

    Raises:
        InvalidInput: ``bad_run_id``: neither is an id.
        NotFound: the actor sees no such run.
    """
    run_uuid, thread_uuid = _uuid(run_id), _uuid(correlation_id)
    if run_uuid is None and thread_uuid is None:
        raise invalid("/run_id", "bad_run_id", "Name the run by the id it was started with.")
    runs = runs_visible(actor).order_by("-number").values_list("thread_id", "pk")
    found = runs.filter(pk=run_uuid).first() if run_uuid else None
    if found is None and thread_uuid is not None:
        found = runs.filter(thread_id=thread_uuid).first()
    if found is None:
        raise NotFound
    return found


def agent_runs_page(actor: Actor, *, limit: int, offset: int) -> list[dict[str, Any]]:
    """Return ``limit`` runs the actor sees, ours and reported ones, newest first, after the first ``offset``.

    Six queries: which they are, then what they say.
    """
    ours = runs_visible(actor).order_by(*NEWEST_FIRST).values_list("created_at", "pk")
    reported = reported_visible(actor).order_by(*NEWEST_FIRST).values_list("created_at", "pk")
    end = offset + limit
    newest = sorted([*ours[:end], *reported[:end]], reverse=True)[offset:end]
    ids = [id_ for _, id_ in newest]
    rows = runs_visible(actor).defer("alert", "resume", "config_chain").filter(pk__in=ids)
    page = _with_counts(list(rows))
    shown = {run.pk: agent_run_json(run, page) for run in page.runs}
    shown |= {run.pk: reported_json(run) for run in reported_visible(actor).filter(pk__in=ids)}
    return [shown[id_] for id_ in ids if id_ in shown]


def _with_counts(runs: Sequence[Run]) -> AgentRuns:
    ids = [run.pk for run in runs]
    calls = Event.objects.filter(run_id__in=ids, type=EventType.TOOL_START).order_by().values_list("run_id")
    said: dict[UUID, Counter[str]] = {}
    for run_id, verdict in Feedback.objects.filter(run_id__in=ids).values_list("run_id", "verdict"):
        said.setdefault(run_id, Counter())[verdict] += 1
    ratings = {run_id: _mostly(told) for run_id, told in said.items()}
    return AgentRuns(runs, dict(calls.annotate(number=Count("seq"))), ratings)


def _mostly(told: Counter[str]) -> str:
    return "positive" if told[Verdict.CORRECT] * 2 >= told.total() else "negative"


def agent_run(actor: Actor, name: str) -> dict[str, Any]:
    """Return one run, ours or a reported one, with its answer and report.

    Raises:
        NotFound: no such run that the actor sees.
    """
    run_id = _ours(actor, name)
    if run_id is None:
        return reported_json(reported_get(actor, name), whole=True)
    thread_id, _ = run_named(actor, name)
    view = run_view(actor, thread_id, run_id)
    run = runs_visible(actor).get(pk=run_id)
    cause = view.report.root_cause if view.report else None
    return agent_run_json(run, _with_counts([run])) | {
        "outputSummary": view.answer,
        "outputJson": view.report.model_dump(mode="json") if view.report else None,
        "confidence": cause.confidence if cause else None,
    }


def _ours(actor: Actor, name: str) -> UUID | None:
    """Return the id of a run of ours that the actor sees, ``None`` where the name is no such one."""
    run_id = _uuid(name)
    return run_id if run_id and runs_visible(actor).filter(pk=run_id).exists() else None


def agent_run_trace(actor: Actor, name: str) -> dict[str, Any]:
    """Return what a run thought and which tools it called, in the order of the log, 2,000 events at most.

    Raises:
        NotFound: no such run that the actor sees.
    """
    run_id = _ours(actor, name)
    if run_id is None:
        return reported_trace(reported_get(actor, name))
    thread_id, _ = run_named(actor, name)
    thread = Thread.objects.get(pk=thread_id)
    kinds = [EventType.THOUGHT, EventType.TOOL_START, EventType.TOOL_END]
    log = Event.objects.filter(thread=thread, run_id=run_id, type__in=kinds).order_by("seq")
    if not is_starter(actor, thread):
        log = log.filter(audience=Audience.THREAD)
    calls: dict[str, dict[str, Any]] = {}
    thoughts: list[dict[str, Any]] = []
    for seq, kind, at, data in log.values_list("seq", "type", "at", "data")[:MAX_TRACE_EVENTS]:
        told = orjson.loads(data)
        if kind == EventType.THOUGHT:
            thoughts.append({"text": told["text"], "ts": clock.rfc3339(at), "seq": seq, "agent": "investigator"})
        elif kind == EventType.TOOL_START:
            calls[told["tool_use_id"]] = _call(told, seq, clock.rfc3339(at))
        elif told["tool_use_id"] in calls:
            calls[told["tool_use_id"]] |= _end_of_call(told)
    return {"runId": str(run_id), "toolCalls": list(calls.values()), "thoughts": thoughts, "total": len(calls)}


def _call(told: Mapping[str, Any], seq: int, at: str) -> dict[str, Any]:
    return {
        "id": told["tool_use_id"],
        "toolName": told["name"],
        "agentName": told.get("agent_type") or "investigator",
        "parentAgent": told.get("parent_agent_type"),
        "toolInput": told.get("input") or {},
        "toolOutput": None,
        "startedAt": at,
        "durationMs": None,
        "status": "running",
        "errorMessage": None,
        "sequenceNumber": seq,
    }


def _end_of_call(told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "toolOutput": told.get("output") or told.get("summary"),
        "durationMs": told.get("duration_ms"),
        "status": "success" if told["success"] else "error",
        "errorMessage": told.get("error"),
    }


def agent_run_json(run: Run, page: AgentRuns) -> dict[str, Any]:
    """Return a run in their shape; ``feedback`` is ours, and of several ratings what at least half of them say."""
    ended = run.ended_at
    return {
        "id": str(run.pk),
        "correlationId": str(run.thread_id),
        "agentName": run.runtime,
        "triggerSource": run.thread.channel,
        "triggerActor": run.requested_by_label,
        "triggerMessage": run.prompt,
        "status": _STATUS.get(RunStatus(run.status), run.status),
        "startedAt": clock.rfc3339(run.started_at or run.created_at),
        "completedAt": clock.rfc3339(ended) if ended else None,
        "durationSeconds": (ended - run.created_at).total_seconds() if ended else None,
        "toolCallsCount": page.tool_calls.get(run.pk, 0),
        "outputSummary": run.headline,
        "outputJson": None,
        "errorMessage": run.reason or None,
        "confidence": None,
        "feedback": page.ratings.get(run.pk),
    }


def reported_json(run: ReportedRun, *, whole: bool = False) -> dict[str, Any]:
    """Return a reported run in their shape; ``whole`` with its output."""
    return {
        "id": run.name,
        "correlationId": run.correlation_id,
        "agentName": run.agent_name,
        "triggerSource": run.trigger_source,
        "triggerActor": run.trigger_actor,
        "triggerMessage": run.trigger_message,
        "status": run.status,
        "startedAt": clock.rfc3339(run.created_at),
        "completedAt": clock.rfc3339(run.ended_at) if run.ended_at else None,
        "durationSeconds": run.duration_seconds,
        "toolCallsCount": run.tool_calls_count,
        "outputSummary": run.output_summary if whole else run.output_summary[:300],
        "outputJson": run.output_json if whole else None,
        "errorMessage": run.error_message or None,
        "confidence": run.confidence,
        "feedback": None,
    }


def reported_trace(run: ReportedRun) -> dict[str, Any]:
    """Return what a run elsewhere was reported to have thought and called."""
    calls = [{ours: call.get(theirs) for ours, theirs in _CALL_MEMBERS.items()} for call in run.tool_calls]
    thoughts = [{name: item.get(name) for name in ("text", "ts", "seq", "agent")} for item in run.thoughts]
    return {"runId": run.name, "toolCalls": calls, "thoughts": thoughts, "total": len(calls)}


_CALL_MEMBERS: Final = {
    "id": "id",
    "toolName": "tool_name",
    "agentName": "agent_name",
    "parentAgent": "parent_agent",
    "toolInput": "tool_input",
    "toolOutput": "tool_output",
    "startedAt": "started_at",
    "durationMs": "duration_ms",
    "status": "status",
    "errorMessage": "error_message",
    "sequenceNumber": "sequence_number",
}


def _uuid(value: object) -> UUID | None:
    try:
        return UUID(value) if isinstance(value, str) and len(value) <= 40 else None
    except ValueError:
        return None

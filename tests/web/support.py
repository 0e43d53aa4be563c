"""Building what the pages show, with the project's own services and without a worker."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from django.test import Client
from pydantic import BaseModel

from controlplane.access.models import User
from controlplane.core.actor import Actor
from controlplane.investigations.lifecycle import Outcome, run_end_unclaimed
from controlplane.investigations.log import append, new_event
from controlplane.investigations.models import Run, RunStatus
from controlplane.investigations.starting import Started, investigation_start
from controlplane.orgs.models import Node
from controlplane.runtimes import events
from controlplane.runtimes.events import EventType
from controlplane.runtimes.evidence import Observation, ObservationKind, TimeRange
from controlplane.runtimes.report import (
    ActionItem,
    Category,
    Claim,
    Hypothesis,
    Impact,
    NotChecked,
    Report,
    ReportStatus,
    RuledOut,
    Severity,
    TimelineEntry,
)
from tests.factories import actor_for_user

EVIL = '<script>alert(1)</script><img src=x onerror="alert(2)">'


@dataclass(frozen=True)
class Person:
    """A user, its browser and its actor."""

    user: User
    client: Client

    @classmethod
    def signed_in(cls, user: User) -> Self:
        client = Client()
        client.force_login(user)
        return cls(user, client)

    @property
    def actor(self) -> Actor:
        return actor_for_user(self.user)


def start(person: Person, team: Node, prompt: str = "Why is checkout slow?", **fields: Any) -> Started:
    """Start an investigation that no worker takes up."""
    return investigation_start(actor=person.actor, team=team, prompt=prompt, runtime="scripted", **fields)


def finish(
    started: Started,
    *,
    status: Any = "completed",
    reason: str = "",
    result: events.Result | None = None,
    tool_end: events.ToolEnd | None = None,
) -> Started:
    """End the run as a worker would, by default with a full report on two observations."""
    if status == "completed" and result is None:
        result = events.Result(text="# Done\n\nIt was the **batch**.", success=True, report=report())
        tool_end = tool_end or observed()
    closing = [new_event(kind, data, run_id=started.run.pk) for kind, data in _closing(tool_end, result)]
    headline = result.text.partition("\n")[0] if result else ""
    if closing:
        append(thread_id=started.thread.pk, events=closing)
    run_end_unclaimed(started.thread, started.run, Outcome(status, reason=reason, headline=headline))
    started.run.refresh_from_db()
    return started


def _closing(tool_end: events.ToolEnd | None, result: events.Result | None) -> Sequence[tuple[EventType, BaseModel]]:
    pairs: list[tuple[EventType, BaseModel]] = []
    if tool_end is not None:
        pairs.append((EventType.TOOL_END, tool_end))
    if result is not None:
        pairs.append((EventType.RESULT, result))
    return pairs


def observed(*, object_: str = "payments-prod", quote: str = "WriteIOPS rose from 1,150 to 8,900") -> events.ToolEnd:
    """Return the end of a tool call that made the observations ``t1-1.1`` and ``t1-1.2``."""
    at = datetime(2026, 3, 26, 11, 22, tzinfo=UTC)
    first = Observation(
        id="t1-1.1",
        source="metrics",
        object=object_,
        kind=ObservationKind.METRIC,
        at=TimeRange(start=at, end=at),
        quote=quote,
    )
    second = Observation(
        id="t1-1.2", source="events", object="replica-1", kind=ObservationKind.EVENT, quote="fell behind"
    )
    return events.ToolEnd(tool_use_id="t1-1", name="read_metrics", success=True, observations=(first, second))


def report(**fields: Any) -> Report:
    """Return a report with something in every section; it cites t1-1.2, t1-1.1 and t9-9.9 (unknown), in this order."""
    cause = Hypothesis(
        category=Category.RESOURCE_EXHAUSTION,
        object="payments-prod",
        mechanism="A batch writes too much.",
        confidence=0.824,
        supports=("t1-1.2", "t1-1.1"),
    )
    other = Hypothesis(
        category=Category.INFRASTRUCTURE,
        object="replica-1",
        mechanism="Its disk is slow.",
        confidence=0.1,
        contradicts=("t1-1.1",),
    )
    values: dict[str, Any] = {
        "title": "Replica lags behind a batch",
        "status": ReportStatus.ONGOING,
        "severity": Severity.CRITICAL,
        "summary": "A bulk update outruns the replica.",
        "impact": Impact(summary="Stale reads.", affected=("analytics",), user_facing=True),
        "timeline": (
            TimelineEntry(at=datetime(2026, 3, 26, 11, 22, tzinfo=UTC), text="Writes rise", citations=("t1-1.1",)),
        ),
        "hypotheses": (cause, other),
        "root_cause": cause,
        "claims": (
            Claim(text="Lag grows.", citations=("t1-1.2", "t9-9.9")),
            Claim(text="It is the settlement job.", kind="inference"),
        ),
        "ruled_out": (RuledOut(hypothesis="CPU", reason="It was idle.", citations=("t1-1.1",)),),
        "not_checked": (NotChecked(what="Logs", why="None recorded."),),
        "actions": (ActionItem(priority="immediate", action="Pause the batch."),),
        "lessons": ("Alert on the slope.",),
    }
    return Report(**(values | fields))


def ask(started: Started, question: str, *options: str) -> str:
    """Let the run wait for an answer, as a worker would, and return the request's id."""
    request_id = f"{started.run.pk}-q1"
    item = events.QuestionItem(
        question=question, options=tuple(events.QuestionOption(label=label) for label in options)
    )
    asked = events.Question(request_id=request_id, questions=(item,))
    append(thread_id=started.thread.pk, events=[new_event(EventType.QUESTION, asked, run_id=started.run.pk)])
    Run.objects.filter(pk=started.run.pk).update(status=RunStatus.WAITING, waiting_for=request_id)
    return request_id

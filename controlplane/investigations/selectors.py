"""Reading investigations, restricted to what the actor may see.

A team thread is seen by everybody who may read runs of its node; a private one by its starter alone, whoever else asks,
administrators included.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import UUID

import orjson
from django.db.models import Count, Exists, F, IntegerField, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from controlplane.core.actor import Actor
from controlplane.core.errors import Gone, NotFound, PermissionDenied, invalid
from controlplane.core.pagination import Page, page_of
from controlplane.core.permissions import Action, nodes_that_allow
from controlplane.investigations.models import (
    ActionApproval,
    Audience,
    Event,
    Feedback,
    Run,
    RunStatus,
    Thread,
    ThreadTombstone,
    Verdict,
    Visibility,
)
from controlplane.orgs.models import NodeAncestor
from controlplane.reviews.models import ReviewState
from controlplane.reviews.selectors import review_actions
from controlplane.runtimes import events
from controlplane.runtimes.events import EventType
from controlplane.runtimes.evidence import JsonValue
from controlplane.runtimes.report import Report

#: What the list of runs can be filtered by.
STATUSES: Final[tuple[str, ...]] = tuple(RunStatus.values)
_TURN: Final = re.compile(r"t(\d{1,9})-")
#: What is seen as a thread is: threads, and what is left of them.
Seen = TypeVar("Seen", Thread, ThreadTombstone)
NEWEST_FIRST: Final = ("-created_at", "-id")


@dataclass(frozen=True, slots=True)
class ObservationRef:
    """Where a cited observation stands in the log, and what a reader sees of it; ``value`` is its measured content."""

    seq: int
    tool_use_id: str
    source: str
    object: str
    kind: str
    quote: str
    value: JsonValue = None


@dataclass(frozen=True, slots=True)
class RunView:
    """A run with its answer, as pages and the API show it."""

    run: Run
    answer: str
    subtype: str
    report: Report | None
    observations: Mapping[str, ObservationRef]


@dataclass(frozen=True, slots=True)
class ApprovalView:
    """A call that a run waits with. ``actions`` are what the reader may do: ``approve``, ``reject``, ``withdraw``."""

    request_id: str
    review_id: UUID
    tool: str
    arguments: Mapping[str, JsonValue]
    side_effect: str
    digest: str
    expires_at: datetime
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ThreadDetail:
    thread: Thread
    runs: Sequence[RunView]
    can_control: bool
    pending_question: Mapping[str, Any] | None
    pending_approval: ApprovalView | None

    @property
    def active_run(self) -> Run | None:
        return next((view.run for view in self.runs if view.run.is_active), None)


def threads_visible(actor: Actor, action: Action = Action.RUN_READ) -> QuerySet[Thread]:
    """Return the threads on which ``actor`` may do ``action``."""
    return _visible(actor, Thread.objects.all(), action)


def _visible(actor: Actor, rows: QuerySet[Seen], action: Action) -> QuerySet[Seen]:
    if actor.organization_id is None:
        return rows.none()
    permitted = NodeAncestor.objects.filter(
        descendant_id=OuterRef("node_id"), ancestor_id__in=nodes_that_allow(actor, action)
    )
    seen = Q(visibility=Visibility.TEAM)
    if actor.user_id is not None:
        seen |= Q(starter_id=actor.user_id)
    return rows.filter(seen, Exists(permitted), organization_id=actor.organization_id)


def thread_get(actor: Actor, thread_id: UUID, action: Action = Action.RUN_READ) -> Thread:
    """Return a thread with its team, for ``action``.

    Raises:
        NotFound: the actor does not see the thread.
        Gone: ``thread_removed``: it would have seen the thread, which retention has removed.
        PermissionDenied: it sees the thread and may not do ``action``.
    """
    related = ("node", "organization")
    thread = threads_visible(actor, action).filter(pk=thread_id).select_related(*related).first()
    if thread is not None:
        return thread
    if action is not Action.RUN_READ and threads_visible(actor).filter(pk=thread_id).exists():
        raise PermissionDenied(f"You may not do this here (it needs {action.value}).")
    removed = _visible(actor, ThreadTombstone.objects.all(), Action.RUN_READ).filter(pk=thread_id).first()
    if removed is not None:
        day = removed.removed_at.date().isoformat()
        kept = f"your organization keeps investigations for {removed.days} days"
        raise Gone(f"This investigation was removed on {day}: {kept}.", code="thread_removed")
    raise NotFound


def run_active(thread_id: UUID) -> UUID | None:
    """Return the thread's active run, for callers that know the thread as theirs. It may have ended the next moment."""
    return Thread.objects.values_list("active_run", flat=True).get(pk=thread_id)


def is_starter(actor: Actor, thread: Thread) -> bool:
    """Return whether the actor is the person who started the thread, and so gets what is addressed to the starter."""
    return actor.user_id is not None and thread.starter_id == actor.user_id


def threads_page(actor: Actor, *, cursor: str | None = None, limit: int | str = 50) -> Page[Thread]:
    """Return a page of the threads the actor sees, newest first. One query.

    Raises:
        MalformedRequest: ``bad_cursor`` or ``bad_limit``.
    """
    threads = threads_visible(actor).select_related("node", "organization")
    return page_of(threads, ordering=NEWEST_FIRST, params={"cursor": cursor, "limit": limit})


def runs_visible(actor: Actor) -> QuerySet[Run]:
    """Return the runs of the threads the actor sees, with thread and team."""
    return Run.objects.filter(thread__in=threads_visible(actor)).select_related("thread__node", "thread__organization")


def runs_page(
    actor: Actor,
    *,
    team: str | None = None,
    status: str | None = None,
    mine: bool = False,
    cursor: str | None = None,
    limit: int | str = 50,
) -> Page[Run]:
    """Return a page of runs, newest first, with the number of ratings of each verdict. One query.

    Args:
        team: only those of the team with this slug.
        status: one of :data:`STATUSES`.
        mine: only those this actor's principal asked for.

    Raises:
        InvalidInput: ``unknown_status``.
        MalformedRequest: ``bad_cursor`` or ``bad_limit``.
    """
    # An alert may be large, and a list shows none of these.
    runs = _with_ratings(runs_visible(actor).defer("alert", "resume", "config_chain"))
    if team:
        runs = runs.filter(thread__node__slug=team)
    if status:
        if status not in STATUSES:
            raise invalid("/status", "unknown_status", f"A status is one of {', '.join(STATUSES)}.")
        runs = runs.filter(status=status)
    if mine:
        runs = runs.filter(requested_by=actor.principal)
    return page_of(runs, ordering=NEWEST_FIRST, params={"cursor": cursor, "limit": limit})


def _with_ratings(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Return ``runs`` with ``rated_correct``, ``rated_partial`` and ``rated_wrong``, in the same query."""
    return runs.annotate(**{f"rated_{verdict}": _number_of(verdict) for verdict in Verdict.values})


def _number_of(verdict: str) -> Coalesce:
    ratings = Feedback.objects.filter(run=OuterRef("pk"), verdict=verdict).order_by()
    number = ratings.annotate(same=F("run")).values("same").annotate(number=Count("pk")).values("number")
    return Coalesce(Subquery(number, output_field=IntegerField()), Value(0))


def thread_detail(actor: Actor, thread_id: UUID) -> ThreadDetail:
    """Return a thread with all its runs and their answers. A fixed number of queries, however many runs."""
    thread = thread_get(actor, thread_id)
    runs = list(Run.objects.filter(thread=thread).order_by("number"))
    waiting = next((run for run in runs if run.status == RunStatus.WAITING), None)
    return ThreadDetail(
        thread=thread,
        runs=_views(actor, thread, runs),
        can_control=threads_visible(actor, Action.RUN_CONTROL).filter(pk=thread.pk).exists(),
        pending_question=_question(actor, thread, waiting),
        pending_approval=_approval(actor, waiting),
    )


def question_pending(actor: Actor, thread_id: UUID) -> tuple[Thread, Mapping[str, Any] | None]:
    """Return the thread and the question its run waits with, if there is one that ``actor`` may answer.

    Raises:
        NotFound, PermissionDenied: the thread is not the actor's to control.
    """
    thread = thread_get(actor, thread_id, Action.RUN_CONTROL)
    return thread, _question(actor, thread, Run.objects.filter(thread=thread, status=RunStatus.WAITING).first())


def run_waiting(thread: Thread) -> str:
    """Return the request that the thread's run waits for, ``""`` when none does. One query."""
    waiting = Run.objects.filter(thread=thread, status=RunStatus.WAITING).values_list("waiting_for", flat=True)
    return waiting.first() or ""


def answered_by(thread: Thread, request_id: str) -> str | None:
    """Return the label of who answered a question of the thread; ``None`` when nobody did. One query."""
    runs = Run.objects.filter(thread=thread).values("pk")
    answers = Event.objects.filter(run_id__in=runs, type=EventType.QUESTION_ANSWERED).order_by("-seq")
    told = (orjson.loads(data) for data in answers.values_list("data", flat=True))
    return next((answer["by"] for answer in told if answer["request_id"] == request_id), None)


def approval_pending(actor: Actor, thread_id: UUID) -> tuple[Thread, ApprovalView | None]:
    """Return a thread that the actor sees, and the approval its run waits with, if there is one.

    Raises:
        NotFound: the actor does not see the thread.
    """
    thread = thread_get(actor, thread_id)
    return thread, _approval(actor, Run.objects.filter(thread=thread, status=RunStatus.WAITING).first())


def run_view(actor: Actor, thread_id: UUID, run_id: UUID) -> RunView:
    """Return one run of a thread the actor sees.

    Raises:
        NotFound: no such thread or run that it may see.
    """
    thread = thread_get(actor, thread_id)
    run = Run.objects.filter(thread=thread, pk=run_id).first()
    if run is None:
        raise NotFound
    return _views(actor, thread, [run])[0]


def _views(actor: Actor, thread: Thread, runs: Sequence[Run]) -> list[RunView]:
    log = _readable(actor, thread)
    rows = log.filter(type=EventType.RESULT, run_id__in=[run.pk for run in runs]).order_by("seq")
    results = {run_id: events.Result.model_validate_json(data) for run_id, data in rows.values_list("run_id", "data")}
    observations = _observations(log, thread, results.values())
    return [_view(run, results.get(run.pk), observations) for run in runs]


def _observations(
    log: QuerySet[Event], thread: Thread, results: Iterable[events.Result]
) -> Mapping[str, ObservationRef]:
    """Return what the reports cite. A follow-up may cite an earlier turn; an id begins with its turn's number."""
    cited = frozenset().union(*(result.report.cited() for result in results if result.report))
    turns = {int(turn[1]) for id_ in cited if (turn := _TURN.match(id_))}
    if not turns:
        return {}
    run_ids = Run.objects.filter(thread=thread, number__in=turns).values("pk")
    found: dict[str, ObservationRef] = {}
    ends = log.filter(type=EventType.TOOL_END, run_id__in=run_ids).order_by("seq")
    for seq, data in ends.values_list("seq", "data"):
        end = orjson.loads(data)
        for item in end["observations"]:
            if item["id"] in cited:
                found[item["id"]] = ObservationRef(
                    seq,
                    end["tool_use_id"],
                    item["source"],
                    item["object"],
                    item["kind"],
                    item["quote"],
                    item.get("value"),
                )
    return found


def _readable(actor: Actor, thread: Thread) -> QuerySet[Event]:
    """Return the events whose data the actor gets."""
    log = Event.objects.filter(thread=thread)
    return log if is_starter(actor, thread) else log.filter(audience=Audience.THREAD)


def _view(run: Run, result: events.Result | None, observations: Mapping[str, ObservationRef]) -> RunView:
    if result is None:
        return RunView(run, "", "", None, {})
    cited = result.report.cited() if result.report else frozenset()
    refs = {id_: observations[id_] for id_ in cited if id_ in observations}
    return RunView(run, result.text, result.subtype, result.report, refs)


def _approval(actor: Actor, run: Run | None) -> ApprovalView | None:
    if run is None:
        return None
    waiting = ActionApproval.objects.filter(run=run, review__state=ReviewState.PENDING)
    approval = waiting.select_related("review__node").first()
    if approval is None or str(approval.pk) != run.waiting_for:
        return None
    return ApprovalView(
        request_id=str(approval.pk),
        review_id=approval.review_id,
        tool=approval.tool,
        arguments=approval.arguments,
        side_effect=approval.review.snapshot.get("side_effect", ""),
        digest=approval.digest,
        expires_at=approval.expires_at,
        actions=tuple(review_actions(actor, approval.review)),
    )


def _question(actor: Actor, thread: Thread, run: Run | None) -> Mapping[str, Any] | None:
    if run is None:
        return None
    asked = _readable(actor, thread).filter(run_id=run.pk, type=EventType.QUESTION).order_by("-seq").first()
    if asked is None:
        return None
    question = events.Question.model_validate_json(asked.data)
    return question.model_dump(mode="json") if question.request_id == run.waiting_for else None

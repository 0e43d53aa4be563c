"""Reading investigations, restricted to what the actor may see.

A team thread is seen by everybody who may read runs of its node; a private one by its starter alone, whoever else asks,
administrators included.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from controlplane.core.actor import Actor
from controlplane.core.errors import NotFound, PermissionDenied, invalid
from controlplane.core.pagination import Page, page_of
from controlplane.core.permissions import Action, nodes_that_allow
from controlplane.investigations.models import Event, Run, RunStatus, Thread, Visibility
from controlplane.orgs.models import NodeAncestor
from controlplane.runtimes import events
from controlplane.runtimes.events import EventType
from controlplane.runtimes.report import Report

#: What the list of runs can be filtered by.
STATUSES: Final[tuple[str, ...]] = tuple(RunStatus.values)
NEWEST_FIRST: Final = ("-created_at", "-id")


@dataclass(frozen=True, slots=True)
class ObservationRef:
    """Where a cited observation stands in the log, and what a reader sees of it."""

    seq: int
    tool_use_id: str
    source: str
    object: str
    kind: str
    quote: str


@dataclass(frozen=True, slots=True)
class RunView:
    """A run with its answer, as pages and the API show it."""

    run: Run
    answer: str
    subtype: str
    report: Report | None
    observations: Mapping[str, ObservationRef]


@dataclass(frozen=True, slots=True)
class ThreadDetail:
    thread: Thread
    runs: Sequence[RunView]
    can_control: bool
    pending_question: Mapping[str, Any] | None

    @property
    def active_run(self) -> Run | None:
        return next((view.run for view in self.runs if view.run.is_active), None)


def threads_visible(actor: Actor, action: Action = Action.RUN_READ) -> QuerySet[Thread]:
    """Return the threads on which ``actor`` may do ``action``."""
    if actor.organization_id is None:
        return Thread.objects.none()
    permitted = NodeAncestor.objects.filter(
        descendant_id=OuterRef("node_id"), ancestor_id__in=nodes_that_allow(actor, action)
    )
    seen = Q(visibility=Visibility.TEAM)
    if actor.user_id is not None:
        seen |= Q(starter_id=actor.user_id)
    return Thread.objects.filter(seen, Exists(permitted), organization_id=actor.organization_id)


def thread_get(actor: Actor, thread_id: UUID, action: Action = Action.RUN_READ) -> Thread:
    """Return a thread with its team, for ``action``.

    Raises:
        NotFound: the actor does not see the thread.
        PermissionDenied: it sees the thread and may not do ``action``.
    """
    related = ("node", "organization")
    thread = threads_visible(actor, action).filter(pk=thread_id).select_related(*related).first()
    if thread is not None:
        return thread
    if action is not Action.RUN_READ and threads_visible(actor).filter(pk=thread_id).exists():
        raise PermissionDenied(f"You may not do this here (it needs {action.value}).")
    raise NotFound


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
    """Return a page of runs, newest first. One query.

    Args:
        team: only those of the team with this slug.
        status: one of :data:`STATUSES`.
        mine: only those this actor's principal asked for.

    Raises:
        InvalidInput: ``unknown_status``.
        MalformedRequest: ``bad_cursor`` or ``bad_limit``.
    """
    runs = runs_visible(actor)
    if team:
        runs = runs.filter(thread__node__slug=team)
    if status:
        if status not in STATUSES:
            raise invalid("/status", "unknown_status", f"A status is one of {', '.join(STATUSES)}.")
        runs = runs.filter(status=status)
    if mine:
        runs = runs.filter(requested_by=actor.principal)
    return page_of(runs, ordering=NEWEST_FIRST, params={"cursor": cursor, "limit": limit})


def thread_detail(actor: Actor, thread_id: UUID) -> ThreadDetail:
    """Return a thread with all its runs and their answers. A fixed number of queries, however many runs."""
    thread = thread_get(actor, thread_id)
    runs = list(Run.objects.filter(thread=thread).order_by("number"))
    views = _views(thread, runs)
    waiting = next((run for run in runs if run.status == RunStatus.WAITING), None)
    return ThreadDetail(
        thread=thread,
        runs=views,
        can_control=threads_visible(actor, Action.RUN_CONTROL).filter(pk=thread.pk).exists(),
        pending_question=None if waiting is None else _question(thread, waiting),
    )


def run_view(actor: Actor, thread_id: UUID, run_id: UUID) -> RunView:
    """Return one run of a thread the actor sees.

    Raises:
        NotFound: no such thread or run that it may see.
    """
    thread = thread_get(actor, thread_id)
    run = Run.objects.filter(thread=thread, pk=run_id).first()
    if run is None:
        raise NotFound
    return _views(thread, [run])[0]


def _views(thread: Thread, runs: Sequence[Run]) -> list[RunView]:
    # A follow-up may cite what an earlier turn saw, so observations are looked up in the whole thread.
    wanted = Event.objects.filter(thread=thread, type__in=[EventType.TOOL_END, EventType.RESULT]).order_by("seq")
    results: dict[UUID | None, events.Result] = {}
    observations: dict[str, ObservationRef] = {}
    for seq, run_id, type_, data in wanted.values_list("seq", "run_id", "type", "data"):
        if type_ == EventType.RESULT:
            results[run_id] = events.Result.model_validate_json(data)
            continue
        end = events.ToolEnd.model_validate_json(data)
        for item in end.observations:
            ref = ObservationRef(seq, end.tool_use_id, item.source, item.object, item.kind, item.quote)
            observations[item.id] = ref
    return [_view(run, results.get(run.pk), observations) for run in runs]


def _view(run: Run, result: events.Result | None, observations: Mapping[str, ObservationRef]) -> RunView:
    if result is None:
        return RunView(run, "", "", None, {})
    cited = result.report.cited() if result.report else frozenset()
    refs = {id_: observations[id_] for id_ in cited if id_ in observations}
    return RunView(run, result.text, result.subtype, result.report, refs)


def _question(thread: Thread, run: Run) -> Mapping[str, Any] | None:
    asked = Event.objects.filter(thread=thread, run_id=run.pk, type=EventType.QUESTION).order_by("-seq").first()
    if asked is None:
        return None
    question = events.Question.model_validate_json(asked.data)
    return question.model_dump(mode="json") if question.request_id == run.waiting_for else None

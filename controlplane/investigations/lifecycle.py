"""The states of a run: ``queued → running ⇄ waiting → completed | failed | interrupted | timeout``.

Every transition begins with one conditional UPDATE of the thread's row, where the lease and its fence (``epoch``) live;
zero rows mean that somebody else was first, and nothing is written. Lock order: configuration → thread → run → audit.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal
from uuid import UUID

import orjson
import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet, Value
from django.db.models.functions import Coalesce

from controlplane.configs.limits import limits_for
from controlplane.configs.selectors import config_effective
from controlplane.core import clock
from controlplane.investigations import bus, metrics
from controlplane.investigations.log import Fence, LeaseLost, NewEvent, append, new_event
from controlplane.investigations.models import ActionApproval, Audience, Event, Message, Run, RunStatus, Thread
from controlplane.investigations.queueing import messages_settle
from controlplane.investigations.turn_taking import WaitingTeam, rank, room_for_one_more, teams_in_turn
from controlplane.investigations.webhooks.outbox import deliveries_queue
from controlplane.orgs.models import Node
from controlplane.runtimes import events
from controlplane.runtimes.events import EventType
from controlplane.runtimes.registry import runtime_resumes

log = structlog.get_logger(__name__)

EndStatus = Literal["completed", "failed", "interrupted", "timeout"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A run that this worker may work on, and the right to write about it. ``at`` is of this process's own clock."""

    thread_id: UUID
    fence: Fence
    attempt: int
    at: float = field(default_factory=time.monotonic, compare=False)

    @property
    def run_id(self) -> UUID:
        return self.fence.run_id


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ends.

    ``error``, if there is one, is appended just before ``run_ended``. A run that was cut short without a result or an
    error gets a result that says so: every client waits for one. Tool calls still open are closed with the words of
    ``open_tools``.
    """

    status: EndStatus
    reason: str = ""
    headline: str = ""
    error: events.Error | None = None
    open_tools: str = "The run ended before this tool answered."


def lease_period() -> timedelta:
    return timedelta(seconds=settings.LEASE_SECONDS)


# ---- claim and renew -------------------------------------------------------------------------------------------------


def run_claim(*, owner: str, only: UUID | None = None) -> Claim | None:
    """Claim the run whose turn it is (:mod:`controlplane.investigations.turn_taking`) and return it, or ``None``.

    A team at its limit holds up nobody else; the limit of the installation, ``RUNS_MAX_GLOBAL``, holds up everybody.

    Args:
        owner: the worker's name, for people; the fence is the epoch.
        only: claim this run or none.
    """
    for team in teams_in_turn(only=only):
        claim = _claim(owner, team, only)
        if claim is not None:
            metrics.runs_claimed_total.inc()
            return claim
    return None


@transaction.atomic
def _claim(owner: str, team: WaitingTeam, only: UUID | None) -> Claim | None:
    limit = limits_for(config_effective(node_id=team.node_id).document).concurrent_runs
    if team.running >= limit or not room_for_one_more():
        return None
    # The team's row is the lock under which its running runs are counted, or two workers would both see the last place.
    Node.objects.select_for_update(no_key=True).get(pk=team.node_id)
    runs = Run.objects.filter(thread__node_id=team.node_id)
    if runs.filter(status=RunStatus.RUNNING).count() >= limit:
        return None
    queued = runs.filter(status=RunStatus.QUEUED, **({"pk": only} if only else {})).order_by(rank(), "id")
    candidate = queued.values_list("pk", "thread_id").first()
    if candidate is None:
        return None
    run_id, thread_id = candidate
    taken = Thread.objects.filter(pk=thread_id, active_run=run_id, lease_until__isnull=True).update(
        epoch=F("epoch") + 1, lease_owner=owner, lease_until=clock.lease_now(plus=lease_period())
    )
    started = taken and Run.objects.filter(pk=run_id, status=RunStatus.QUEUED).update(
        status=RunStatus.RUNNING,
        attempt=F("attempt") + 1,
        waiting_for="",
        waiting_until=None,
        started_at=Coalesce("started_at", Value(clock.now())),
    )
    if not started:
        transaction.set_rollback(True)
        return None
    epoch = Thread.objects.values_list("epoch", flat=True).get(pk=thread_id)
    attempt = Run.objects.values_list("attempt", flat=True).get(pk=run_id)
    return Claim(thread_id, Fence(run_id, epoch), attempt)


def lease_renew(claim: Claim) -> bool:
    """Extend the claim's lease by the lease period from now; ``False`` when the claim no longer holds."""
    return bool(_held(claim).update(lease_until=clock.lease_now(plus=lease_period())))


def _held(claim: Claim) -> QuerySet[Thread]:
    return Thread.objects.filter(
        pk=claim.thread_id, epoch=claim.fence.epoch, active_run=claim.run_id, lease_until__isnull=False
    )


# ---- the transitions of the run's own worker -------------------------------------------------------------------------


@transaction.atomic
def run_suspend(
    claim: Claim,
    *,
    request_id: str,
    expires_at: datetime | None,
    asking: Sequence[NewEvent] = (),
    opening: Callable[[], object] | None = None,
    worked: timedelta = timedelta(),
) -> bool:
    """Put the run to ``waiting``: it gives up its lease and holds no worker until it is resumed.

    Args:
        asking: the ``question`` or ``approval``, appended in the same transaction, so that nobody can answer before the
            run waits.
        opening: writes what belongs to the request besides, in the same transaction.
        worked: how long the run was worked on in this claim, counted against its wall clock.

    Returns ``False``, changing nothing, when somebody asked the run to stop meanwhile: it must end instead.

    Raises:
        LeaseLost: the claim no longer holds.
    """
    if asking:
        append(thread_id=claim.thread_id, events=asking, fence=claim.fence)
    if not _held(claim).update(lease_owner="", lease_until=None):
        raise LeaseLost(str(claim.run_id))
    suspended = Run.objects.filter(pk=claim.run_id, interrupt_requested_at__isnull=True).update(
        status=RunStatus.WAITING,
        waiting_for=request_id,
        waiting_until=expires_at,
        resume=None,
        worked_seconds=F("worked_seconds") + worked.total_seconds(),
    )
    if not suspended:
        transaction.set_rollback(True)
    elif opening is not None:
        opening()
    return bool(suspended)


@transaction.atomic
def run_hand_over(claim: Claim) -> bool:
    """Queue a running run again, because its worker stops: another one goes on with what is in the log.

    Calls that had not answered are closed in the log, and messages that this attempt took up are pending again, so that
    the next attempt gets them. Returns ``False``, changing nothing, when the run must end here instead: its runtime
    does not resume, it acts on something, it has given its answer, somebody asked it to stop, or the claim no longer
    holds.
    """
    run = Run.objects.get(pk=claim.run_id)
    if not runtime_resumes(run.runtime) or _has_answer(claim.thread_id, claim.run_id):
        return False
    if ActionApproval.objects.filter(run=run).exists():
        return False  # whether an action was done must stay with the one who did it
    if not _held(claim).update(epoch=F("epoch") + 1, lease_owner="", lease_until=None):
        return False
    worked = F("worked_seconds") + (time.monotonic() - claim.at)
    queued = Run.objects.filter(pk=run.pk, status=RunStatus.RUNNING, interrupt_requested_at__isnull=True).update(
        status=RunStatus.QUEUED, worked_seconds=worked
    )
    if not queued:
        transaction.set_rollback(True)
        return False
    Message.objects.filter(run=run, delivered_at__gt=run.started_at).update(run=None, delivered_at=None)
    closing = _open_tools_closed(claim.thread_id, run.pk, "The worker stopped before this tool answered.")
    if closing:
        append(thread_id=claim.thread_id, events=closing)
    transaction.on_commit(metrics.runs_handed_over_total.inc)
    transaction.on_commit(bus.work.tell)
    return True


@transaction.atomic
def run_finish(claim: Claim, outcome: Outcome) -> None:
    """End the run under its claim: the last events, ``run_ended``, the lease given up, the next run if messages wait.

    Raises:
        LeaseLost: the claim no longer holds; nothing was written.
    """
    taken = _held(claim).update(epoch=F("epoch") + 1, lease_owner="", lease_until=None, active_run=None)
    if not taken:
        raise LeaseLost(str(claim.run_id))
    _end(claim.thread_id, claim.run_id, outcome)


def _end(thread_id: UUID, run_id: UUID, outcome: Outcome) -> None:
    """Record the end of a run whose thread's row this transaction has already taken: nobody else can write any more."""
    run = Run.objects.get(pk=run_id)
    ended_at = clock.now()
    duration = ended_at - run.created_at
    Run.objects.filter(pk=run_id).update(
        status=outcome.status,
        reason=outcome.reason,
        headline=outcome.headline[:300],
        ended_at=ended_at,
        waiting_for="",
        waiting_until=None,
    )
    closing = _open_tools_closed(thread_id, run_id, outcome.open_tools)
    if outcome.error is not None:
        closing.append(new_event(EventType.ERROR, outcome.error, run_id=run_id))
    elif outcome.status in _CUT_SHORT and not _has_answer(thread_id, run_id):
        closing.append(new_event(EventType.RESULT, _CUT_SHORT[outcome.status], run_id=run_id))
    ended = events.RunEnded(
        status=outcome.status, reason=outcome.reason, duration_ms=int(duration.total_seconds() * 1000)
    )
    append(thread_id=thread_id, events=[*closing, new_event(EventType.RUN_ENDED, ended, run_id=run_id)])
    transaction.on_commit(lambda: _count_end(outcome.status, duration))
    run.status, run.reason = RunStatus(outcome.status), outcome.reason
    deliveries_queue(run, at=ended_at)
    messages_settle(thread_id=thread_id, ended=run)


_CUT_SHORT: Final = {
    "interrupted": events.Result(
        text="Stopped before an answer was found; what was seen is kept.", success=False, subtype="interrupted"
    ),
    "timeout": events.Result(
        text="The time limit was reached before an answer was found; what was seen is kept.",
        success=False,
        subtype="error_timeout",
    ),
}


def _has_answer(thread_id: UUID, run_id: UUID) -> bool:
    answers = [EventType.RESULT, EventType.ERROR]
    return Event.objects.filter(thread_id=thread_id, run_id=run_id, type__in=answers).exists()


def _count_end(status: str, duration: timedelta) -> None:
    metrics.runs_ended_total.labels(status=status).inc()
    metrics.run_duration_seconds.labels(status=status).observe(duration.total_seconds())


# ---- transitions from outside the worker -----------------------------------------------------------------------------


def run_end_unclaimed(thread: Thread, run: Run, outcome: Outcome) -> None:
    """End a queued or waiting run, which no worker holds. The caller's transaction has locked the thread's row."""
    Thread.objects.filter(pk=thread.pk).update(epoch=F("epoch") + 1, lease_owner="", lease_until=None, active_run=None)
    _end(thread.pk, run.pk, outcome)


def run_resume(run_id: UUID, *, request_id: str, resume: dict[str, Any]) -> bool:
    """Queue a waiting run again with what it waited for. ``False`` when it does not wait for ``request_id`` any more.

    The caller's transaction has locked the thread's row; it appends the event that says why.
    """
    resumed = Run.objects.filter(pk=run_id, status=RunStatus.WAITING, waiting_for=request_id).update(
        status=RunStatus.QUEUED, waiting_for="", waiting_until=None, resume=resume
    )
    if resumed:
        transaction.on_commit(bus.work.tell)
    return bool(resumed)


# ---- the sweep -------------------------------------------------------------------------------------------------------


def runs_sweep() -> int:
    """Settle what no worker will: expired leases become ``interrupted``, expired questions resume their run.

    Any process may sweep at any time; each settlement is one conditional UPDATE, so it happens once. Returns how many.
    """
    settled = 0
    expired = Thread.objects.filter(lease_until__lt=clock.lease_now()).values_list(
        "pk", "epoch", "active_run", "lease_owner"
    )
    for thread_id, epoch, run_id, owner in list(expired):
        settled += _settle(lambda: _take_over(thread_id, epoch, run_id, owner))  # noqa: B023 (called at once)
    overdue = Run.objects.filter(status=RunStatus.WAITING, waiting_until__lt=clock.lease_now())
    for run_id, thread_id, request_id in list(overdue.values_list("pk", "thread_id", "waiting_for")):
        settled += _settle(lambda: _time_out_question(thread_id, run_id, request_id))  # noqa: B023
    return settled


def _settle(step: Any) -> int:
    """Run one settlement; a failing one is logged and left to the next sweep, so that it cannot hold up the others."""
    try:
        return 1 if step() else 0
    except Exception:
        log.exception("sweep.step_failed")
        return 0


@transaction.atomic
def _take_over(thread_id: UUID, epoch: int, run_id: UUID | None, owner: str) -> bool:
    taken = Thread.objects.filter(pk=thread_id, epoch=epoch, lease_until__lt=clock.lease_now()).update(
        epoch=F("epoch") + 1, lease_owner="", lease_until=None, active_run=None
    )
    if not taken or run_id is None:
        return bool(taken)
    log.warning("run.lease_expired", run_id=str(run_id), owner=owner)
    lost = "The worker was lost before this tool answered."
    _end(thread_id, run_id, Outcome("interrupted", reason="worker_lost", open_tools=lost))
    return True


def _open_tools_closed(thread_id: UUID, run_id: UUID, error: str) -> list[NewEvent]:
    """Return a ``tool_end`` for every tool call of the run that has none, so that no reader waits for one.

    Reads only what it needs of each event, leniently: an end must never fail over what was written before.
    """
    rows = Event.objects.filter(
        thread_id=thread_id, run_id=run_id, type__in=[EventType.TOOL_START, EventType.TOOL_END]
    ).order_by("seq")
    still_open: dict[str, tuple[dict[str, Any], str]] = {}
    for type_, data, audience in rows.values_list("type", "data", "audience"):
        call = orjson.loads(data)
        if type_ == EventType.TOOL_START:
            still_open[call["tool_use_id"]] = (call, audience)
        else:
            still_open.pop(call["tool_use_id"], None)
    return [_closed(run_id, call, audience, error) for call, audience in still_open.values()]


def _closed(run_id: UUID, call: dict[str, Any], audience: str, error: str) -> NewEvent:
    known = {name: call[name] for name in (*events.Attribution.model_fields, "name") if name in call}
    end = events.ToolEnd(**known, success=False, error=error, summary=events.CUT_OFF)
    return new_event(EventType.TOOL_END, end, run_id=run_id, audience=Audience(audience))


@transaction.atomic
def _time_out_question(thread_id: UUID, run_id: UUID, request_id: str) -> bool:
    Thread.objects.select_for_update().get(pk=thread_id)
    if not run_resume(run_id, request_id=request_id, resume={"request_id": request_id, "outcome": "timeout"}):
        return False
    timeout = events.QuestionTimeout(request_id=request_id, message="Nobody answered in time; the agent goes on.")
    append(thread_id=thread_id, events=[new_event(EventType.QUESTION_TIMEOUT, timeout, run_id=run_id)])
    return True

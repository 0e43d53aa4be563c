"""What people say of a run's answer: correct, partial or wrong, with a reason. One rating a person and run."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db import transaction

from controlplane.audit.services import audit_record
from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.core.errors import Conflict, NotFound, invalid
from controlplane.core.permissions import Action
from controlplane.investigations import metrics
from controlplane.investigations.inputs import clean_text
from controlplane.investigations.models import END_STATUSES, Feedback, Miss, Run, Thread, Verdict
from controlplane.investigations.selectors import thread_get, threads_visible

MAX_REASON_CHARS: Final = 2_000
MAX_ON_BEHALF_CHARS: Final = 128
VERDICTS: Final[tuple[str, ...]] = tuple(Verdict.values)
MISSES: Final[tuple[str, ...]] = tuple(Miss.values)


@dataclass(frozen=True, slots=True)
class Ratings:
    """The ratings of one run, oldest first; ``mine`` is the actor's own."""

    all: tuple[Feedback, ...] = ()
    mine: Feedback | None = None

    @property
    def others(self) -> tuple[Feedback, ...]:
        """Those that are not the actor's own."""
        return tuple(item for item in self.all if item is not self.mine)

    @property
    def counts(self) -> dict[str, int]:
        """How many said what, every verdict named."""
        return {verdict: sum(item.verdict == verdict for item in self.all) for verdict in VERDICTS}


def feedback_give(
    *,
    actor: Actor,
    thread_id: UUID,
    verdict: object,
    reason: object = "",
    miss: object = None,
    run_id: UUID | None = None,
    on_behalf_of: str = "",
) -> Feedback:
    """Rate a run, or change one's rating of it. The audit row has a digest of what was said, never the words.

    Args:
        actor: needs ``run.control`` on the thread's team, which includes rating.
        thread_id: the thread.
        verdict: one of :data:`VERDICTS`.
        reason: at most 2,000 characters; redacted.
        miss: of a partial or wrong answer, what was missing: one of :data:`MISSES`. Left out, it stays what the rater
            said before, else it is ``unknown``. Nobody but the rater is shown it.
        run_id: a run of the thread that has ended; its last ended one when left out.
        on_behalf_of: whom a machine's credential speaks for, as its own system names the person. A person speaks for
            nobody else: of a person's credential it is left out of account.

    Raises:
        NotFound, PermissionDenied: the thread is not the actor's to rate, or it has no such run.
        InvalidInput: ``unknown_verdict``, ``unknown_miss``, ``miss_of_correct``, or ``reason`` or ``user_id`` is
            no text or too long.
        Conflict: ``run_not_ended``.
    """
    thread = thread_get(actor, thread_id, Action.RUN_CONTROL)
    if not isinstance(verdict, str) or verdict not in VERDICTS:
        raise invalid("/verdict", "unknown_verdict", f"A verdict is one of {', '.join(VERDICTS)}.")
    told_miss = _miss(verdict, miss)
    words = _reason(reason)
    speaker = "" if actor.is_person else _name(on_behalf_of)
    with transaction.atomic():
        run = _run_to_rate(thread, run_id)
        label = f"{speaker} via {actor.label}" if speaker else actor.label
        # The row of the run is the lock under which one person's two answers at once become one.
        Run.objects.select_for_update(no_key=True).only("pk").get(pk=run.pk)
        before = Feedback.objects.filter(run=run, by=actor.principal, on_behalf_of=speaker).first()
        given, _ = Feedback.objects.update_or_create(
            run=run,
            by=actor.principal,
            on_behalf_of=speaker,
            defaults={
                "verdict": verdict,
                "reason": words,
                "miss": _miss_kept(verdict, told_miss, before),
                "by_label": label[:200],
                "changed_at": clock.now(),
            },
        )
        audit_record(
            actor=actor,
            organization_id=thread.organization_id,
            action="run.rate",
            object_kind="run",
            object_id=str(run.pk),
            node_id=thread.node_id,
            before=None if before is None else _digest(before),
            after=_digest(given),
        )
        transaction.on_commit(lambda: _count(given, before))
    return given


def _count(given: Feedback, before: Feedback | None) -> None:
    if before is None or before.verdict != given.verdict:
        metrics.feedback_total.labels(verdict=given.verdict, change="changed" if before else "new").inc()


def _digest(feedback: Feedback) -> dict[str, str]:
    told = f"{feedback.pk}\n{feedback.verdict}\n{feedback.miss}\n{feedback.reason}"
    return {"feedback": str(feedback.pk), "sha256": hashlib.sha256(told.encode()).hexdigest()}


def _miss(verdict: str, miss: object) -> str:
    if miss is None or miss == "":
        return ""
    if not isinstance(miss, str) or miss not in MISSES:
        raise invalid("/miss", "unknown_miss", f"A miss is one of {', '.join(MISSES)}.")
    if verdict == Verdict.CORRECT:
        raise invalid("/miss", "miss_of_correct", "A correct answer missed nothing; leave this out.")
    return miss


def _miss_kept(verdict: str, miss: str, before: Feedback | None) -> str:
    if verdict == Verdict.CORRECT:
        return ""
    return miss or (before.miss if before else "") or Miss.UNKNOWN.value


def _reason(reason: object) -> str:
    if reason is None or (isinstance(reason, str) and not reason.strip()):
        return ""
    return clean_text(reason, pointer="/reason", limit=MAX_REASON_CHARS)


def _name(person: str) -> str:
    return clean_text(person, pointer="/user_id", limit=MAX_ON_BEHALF_CHARS) if person.strip() else ""


def _run_to_rate(thread: Thread, run_id: UUID | None) -> Run:
    runs = Run.objects.filter(thread=thread).only("pk", "status", "number")
    if run_id is None:
        run = runs.filter(status__in=END_STATUSES).order_by("-number").first()
        if run is None:
            raise Conflict("No run of this investigation has ended; there is nothing to rate.", code="run_not_ended")
        return run
    run = runs.filter(pk=run_id).first()
    if run is None:
        raise NotFound
    if run.is_active:
        raise Conflict("The run has not ended; there is nothing to rate yet.", code="run_not_ended")
    return run


# ---- reading ---------------------------------------------------------------------------------------------------------


def feedback_list(actor: Actor, thread_id: UUID) -> list[Feedback]:
    """Return all ratings of a thread's runs, oldest first.

    Raises:
        NotFound: the actor does not see the thread.
    """
    thread = thread_get(actor, thread_id)
    return list(Feedback.objects.filter(run__thread=thread).select_related("run"))


def ratings_of(actor: Actor, run_ids: Iterable[UUID]) -> Mapping[UUID, Ratings]:
    """Return the ratings of runs that the actor is known to see. One query."""
    found: dict[UUID, list[Feedback]] = {}
    for item in Feedback.objects.filter(run_id__in=list(run_ids)):
        found.setdefault(item.run_id, []).append(item)
    return {run_id: Ratings(tuple(items), _mine(actor, items)) for run_id, items in found.items()}


def may_rate(actor: Actor, thread_id: UUID) -> bool:
    """Return whether the actor may rate the thread's runs."""
    return threads_visible(actor, Action.RUN_CONTROL).filter(pk=thread_id).exists()


def _mine(actor: Actor, items: Iterable[Feedback]) -> Feedback | None:
    return next((item for item in items if item.by == actor.principal and not item.on_behalf_of), None)

"""Actions of agents that a person approves first: opened by a run, decided as any review, done at most once.

The review of kind ``agent_action`` is bound to the run, the tool, its exact arguments and a time. Deciding it queues
the waiting run again; the call itself is made by the worker that claims the run then (:mod:`.actions`). Lock order:
thread, then review, then audit.
"""

from typing import Any, Final
from uuid import UUID

from controlplane.access.selectors import token_makers
from controlplane.core import clock
from controlplane.core.actor import Actor, ActorKind, Channel
from controlplane.core.errors import Conflict, NotFound, invalid
from controlplane.core.permissions import Action
from controlplane.investigations.lifecycle import Claim, run_resume
from controlplane.investigations.log import append, new_event
from controlplane.investigations.models import ActionApproval, Run, RunStatus, Thread
from controlplane.investigations.selectors import thread_get
from controlplane.reviews.authors import author_require
from controlplane.reviews.kinds import Verdict
from controlplane.reviews.models import ReviewRequest, ReviewState
from controlplane.reviews.selectors import review_get
from controlplane.reviews.services import review_approve, review_cancel, review_open, review_reject
from controlplane.runtimes import events
from controlplane.runtimes.events import EventType
from controlplane.runtimes.toolbox import action_digest

KIND: Final = "agent_action"
DECISIONS: Final = ("approve", "reject")
_OUTCOMES: Final = {
    ReviewState.APPROVED: "approved",
    ReviewState.REJECTED: "rejected",
    ReviewState.WITHDRAWN: "rejected",
    ReviewState.EXPIRED: "expired",
}


class ApprovalNotBound(ValueError):
    """A runtime asks for something else than what it shows: an error of the runtime, which ends its run."""


class AgentAction:
    """A call with side effects that a run waits with."""

    name = KIND
    read_action = Action.RUN_READ

    def describe(self, review: ReviewRequest) -> str:
        return f"{review.snapshot['tool']} for {review.node.slug}"

    def may_decide(self, actor: Actor, review: ReviewRequest) -> bool:
        """The role on the node is all it takes, but nobody decides what a token of its own making has asked for."""
        return actor.principal not in token_makers(review.requested_by)

    def lock(self, review: ReviewRequest, *, applying: bool) -> None:
        Thread.objects.select_for_update(of=("self",)).filter(runs__approvals__review=review).first()

    def revalidate(self, review: ReviewRequest) -> Verdict:
        if review.requested_by.partition(":")[0] in ("user", "token"):
            author_require(review, Action.RUN_CREATE)
        approval = _of(review)
        if action_digest(approval.tool, approval.arguments) != approval.digest:
            raise Conflict("What is stored is not what was asked for.", code="digest_mismatch")
        waiting = Run.objects.filter(pk=approval.run_id, status=RunStatus.WAITING, waiting_for=str(approval.pk))
        if not waiting.exists():
            raise Conflict("The run does not wait for this any more.", code="not_waiting")
        return Verdict(diff=review.diff)

    def apply(self, review: ReviewRequest, actor: Actor) -> dict[str, Any]:
        _decided(review, ReviewState.APPROVED)
        return {"execution": "waiting"}

    def settle(self, review: ReviewRequest, state: ReviewState) -> None:
        _decided(review, state)


def approval_open(claim: Claim, asked: events.Approval) -> ActionApproval:
    """Keep what a run asks for, with its review, in the transaction that suspends the run.

    Raises:
        ApprovalNotBound: the digest is not that of tool and arguments, or there is no end.
    """
    if asked.digest != action_digest(asked.tool, asked.input) or asked.expires_at is None:
        raise ApprovalNotBound(asked.tool)
    run = Run.objects.select_related("thread__node", "thread__organization").get(pk=claim.run_id)
    thread = run.thread
    snapshot = {
        "tool": asked.tool,
        "input": asked.input,
        "digest": asked.digest,
        "side_effect": asked.side_effect,
        "thread": str(thread.pk),
        "run": str(run.pk),
    }
    review = review_open(
        actor=_asker(run),
        node=thread.node,
        kind=KIND,
        snapshot=snapshot,
        diff=[{"op": "call", "tool": asked.tool, "input": asked.input}],
        base={"digest": asked.digest},
        lifetime=asked.expires_at - clock.now(),
    )
    return ActionApproval.objects.create(
        id=UUID(asked.request_id),
        run=run,
        review=review,
        tool=asked.tool,
        arguments=asked.input,
        digest=asked.digest,
        expires_at=review.expires_at,
    )


def approval_decide(
    *, actor: Actor, thread_id: UUID, request_id: str, decision: str, reason: str = ""
) -> ReviewRequest:
    """Approve or reject what a thread's run waits with; the first decision wins.

    Args:
        actor: a person who decides reviews of the team and may read the thread; never who asked for the run.
        thread_id: the thread.
        request_id: of the ``approval`` event.
        decision: ``approve`` or ``reject``.
        reason: why, for the agent and the record; ≤ 500 characters, one line.

    Raises:
        NotFound: no such thread or request that the actor sees.
        PermissionDenied: the actor does not decide it; ``own_request`` when it asked for the run itself.
        InvalidInput: ``unknown_decision``, or a rule of the reason.
        Conflict: ``review_not_pending``, with its ``state`` and who was first (``by``); ``not_waiting``.
    """
    if decision not in DECISIONS:
        raise invalid("/decision", "unknown_decision", f"This must be one of {', '.join(DECISIONS)}.")
    thread = thread_get(actor, thread_id, Action.RUN_READ)
    approval = ActionApproval.objects.filter(run__thread=thread, pk=_id(request_id)).first()
    if approval is None:
        raise NotFound
    review = review_get(actor=actor, review_id=approval.review_id)
    decide = review_approve if decision == "approve" else review_reject
    return decide(actor=actor, review=review, reason=reason)


def approvals_cancel(run_id: UUID) -> None:
    """Withdraw what a run still waits with when it ends. The caller's transaction has locked the thread's row."""
    pending = ActionApproval.objects.filter(run_id=run_id, review__state=ReviewState.PENDING).select_related("review")
    for approval in pending:
        review_cancel(review=approval.review, reason="The run has ended.")


def _decided(review: ReviewRequest, state: ReviewState) -> None:
    """Queue the run again with the decision, and say it to everybody who watches; nothing when it waits no more."""
    approval = _of(review)
    outcome, by = _OUTCOMES[state], review.decided_label
    resume = {"request_id": str(approval.pk), "outcome": outcome, "by": by, "reason": review.decision_reason}
    if not run_resume(approval.run_id, request_id=str(approval.pk), resume=resume):
        return
    decided = events.ApprovalDecided.model_validate(
        {"request_id": str(approval.pk), "decision": outcome, "by": by, "reason": review.decision_reason}
    )
    run = approval.run
    append(thread_id=run.thread_id, events=[new_event(EventType.APPROVAL_DECIDED, decided, run_id=run.pk)])


def _of(review: ReviewRequest) -> ActionApproval:
    return ActionApproval.objects.select_related("run").get(review=review)


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise NotFound from None


def _asker(run: Run) -> Actor:
    """Return who asked for the run, for the records: it carries no right."""
    return Actor(
        ActorKind.USER if run.requested_by.startswith("user:") else ActorKind.SYSTEM,
        run.requested_by,
        run.requested_by_label,
        organization_id=run.thread.organization_id,
        channel=Channel(run.thread.channel),
    )

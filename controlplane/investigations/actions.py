"""Making an approved call: taken under the run's fence and recorded, so that it is made once, or known not to be."""

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from controlplane.audit.services import audit_record
from controlplane.core import clock
from controlplane.core.actor import Actor, ActorKind, Channel
from controlplane.core.db import DatabaseThreads
from controlplane.investigations.lifecycle import Claim
from controlplane.investigations.log import LeaseLost
from controlplane.investigations.models import ActionApproval, Execution, Thread
from controlplane.reviews.models import ReviewRequest, ReviewState
from controlplane.runtimes.events import ToolEnd
from controlplane.runtimes.evidence import JsonValue
from controlplane.runtimes.toolbox import Permit, action_digest

#: How long after its end an approval still lets a call pass: a worker has to come to it.
GRACE: Final = timedelta(minutes=5)
_UNKNOWN: Final = (
    "This was begun before and whether it was done is not known: it is not done again. Look at the system itself."
)


class RunGate:
    """The gate of one claim, a :class:`~controlplane.runtimes.toolbox.ActionGate`."""

    def __init__(self, claim: Claim, database: DatabaseThreads) -> None:
        self._claim = claim
        self._database = database

    async def begin(self, request_id: str, *, again: bool) -> Permit:
        """Take the one execution; see :func:`action_begin`.

        Raises:
            LeaseLost: the claim no longer holds.
        """
        permit: Permit = await self._database.call(action_begin, self._claim, request_id, again=again)
        return permit

    async def finish(self, request_id: str, end: ToolEnd) -> None:
        """Record the end; see :func:`action_finish`."""
        await self._database.call(action_finish, self._claim, request_id, end)


@transaction.atomic
def action_begin(claim: Claim, request_id: str, *, again: bool) -> Permit:
    """Take the one execution of an approved call, if this claim may make it.

    Raises:
        LeaseLost: the claim no longer holds.
    """
    thread = Thread.objects.select_for_update().filter(
        pk=claim.thread_id, epoch=claim.fence.epoch, active_run=claim.run_id, lease_until__isnull=False
    )
    if thread.first() is None:
        raise LeaseLost(str(claim.run_id))
    approval = ActionApproval.objects.filter(pk=UUID(request_id), run_id=claim.run_id).first()
    if approval is None:
        return Permit(refusal="Nobody was asked for this.")
    if approval.execution == Execution.FINISHED:
        return Permit(done=ToolEnd.model_validate_json(approval.outcome))
    review = ReviewRequest.objects.get(pk=approval.review_id)
    refusal = _refusal(review, approval, again=again)
    if refusal:
        return Permit(refusal=refusal)
    approval.execution, approval.epoch, approval.started_at = Execution.STARTED, claim.fence.epoch, clock.now()
    approval.save(update_fields=["execution", "epoch", "started_at"])
    _audit(review, approval, "action.execute")
    arguments: dict[str, JsonValue] = approval.arguments
    return Permit(arguments=arguments)


@transaction.atomic
def action_finish(claim: Claim, request_id: str, end: ToolEnd) -> None:
    """Record how a call ended that this claim began; of one that another claim began since, nothing."""
    ended = ActionApproval.objects.filter(
        pk=UUID(request_id), run_id=claim.run_id, execution=Execution.STARTED, epoch=claim.fence.epoch
    ).update(execution=Execution.FINISHED, finished_at=clock.now(), outcome=end.model_dump_json())
    if not ended:
        return
    approval = ActionApproval.objects.select_related("review").get(pk=UUID(request_id))
    became = {"execution": "done" if end.success else "failed", "summary": (end.error or end.summary)[:300]}
    ReviewRequest.objects.filter(pk=approval.review_id).update(result=became)
    _audit(approval.review, approval, "action.end", became)


def _refusal(review: ReviewRequest, approval: ActionApproval, *, again: bool) -> str:
    if review.state != ReviewState.APPROVED:
        return "This was not approved."
    if approval.execution == Execution.STARTED and not again:
        return _UNKNOWN
    if clock.now() > approval.expires_at + GRACE:
        return "The approval is over: it was given too long ago."
    if action_digest(approval.tool, approval.arguments) != approval.digest:
        return "What is stored is not what was approved."
    return ""


def _audit(review: ReviewRequest, approval: ActionApproval, action: str, became: dict[str, Any] | None = None) -> None:
    audit_record(
        actor=_agent(review),
        organization_id=review.organization_id,
        action=action,
        object_kind="run",
        object_id=str(approval.run_id),
        node_id=review.node_id,
        after={"tool": approval.tool, "digest": approval.digest, "review": str(review.pk)}
        | ({"execution": became["execution"]} if became else {}),
    )


def _agent(review: ReviewRequest) -> Actor:
    return Actor(ActorKind.SYSTEM, "system:agent", "agent", review.organization_id, channel=Channel.SYSTEM)

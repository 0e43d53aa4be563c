"""Opening and ending reviews. One ends once: by one conditional UPDATE of its row, with the audit row beside it."""

import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import orjson
from django.db import connection, transaction

from controlplane.audit.services import audit_record
from controlplane.core import clock
from controlplane.core.actor import Actor, ActorKind, Channel
from controlplane.core.errors import AppError, Conflict, NotFound, PermissionDenied
from controlplane.core.redaction import redact_text
from controlplane.core.text import single_line
from controlplane.orgs.models import Node
from controlplane.reviews.authors import author_mark
from controlplane.reviews.kinds import kind_of
from controlplane.reviews.metrics import review_transitions_total
from controlplane.reviews.models import ReviewRequest, ReviewState
from controlplane.reviews.selectors import may_decide

MAX_REASON: Final = 500
#: How long a request waits for somebody to decide.
LIFETIME: Final = timedelta(days=14)
#: How many due requests one sweep ends.
SWEPT: Final = 500


def review_open(
    *,
    actor: Actor,
    node: Node,
    kind: str,
    snapshot: dict[str, Any],
    diff: list[Any],
    base: dict[str, Any],
    evidence: Iterable[Any] = (),
    reason: str = "",
    lifetime: timedelta = LIFETIME,
    once: bool = False,
) -> ReviewRequest:
    """Queue something for approval, in the transaction of the caller, who has checked that ``actor`` may ask for it.

    With ``once`` a request that is open already is returned in place of a second one like it.

    Args:
        actor: the author.
        node: where it would happen; reviewers of its lineage decide.
        kind: the name of a registered kind.
        snapshot, diff, base, evidence: JSON, see :class:`ReviewRequest`; free of secrets.
        reason: why, for the reviewer; ≤ 500 characters, one line; redacted.
        lifetime: after which the request expires.
        once: the same author with the same credential asking for the same ``diff`` on the same ``base`` asks once; the
            open request keeps its reason and its end. The caller holds a lock that two such requests cannot both hold.

    Raises:
        InvalidInput: a rule of the reason.
        RuntimeError: when there is no transaction to belong to, or no such kind.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("review_open must run inside the transaction of the act it queues")
    now = clock.now()
    reason = clean_reason(reason)
    base = base | author_mark(actor)
    if once:
        base |= {"request": digest_of([diff, base])}
        found = _open_already(actor, node, kind, base["request"], now)
        if found is not None:
            return found
    review = ReviewRequest(
        organization_id=node.organization_id,
        node=node,
        kind=kind,
        requested_by=actor.principal,
        requested_label=actor.label[:200],
        channel=actor.channel.value,
        reason=reason,
        snapshot=snapshot,
        diff=diff,
        evidence=list(evidence),
        base=base,
        created_at=now,
        expires_at=now + lifetime,
    )
    review.title = kind_of(kind).describe(review)[:200]
    review.save(force_insert=True)
    _audit(actor, review, "open", reason=review.reason)
    review_transitions_total.labels(kind, "opened").inc()
    return review


def _open_already(actor: Actor, node: Node, kind: str, request: str, now: datetime) -> ReviewRequest | None:
    # Locked: of a request that is being withdrawn right now, only what it has become is an answer.
    same = ReviewRequest.objects.select_for_update().filter(
        node=node,
        kind=kind,
        requested_by=actor.principal,
        state=ReviewState.PENDING,
        expires_at__gt=now,
        base__request=request,
    )
    return same.first()


def review_approve(*, actor: Actor, review: ReviewRequest, reason: str = "") -> ReviewRequest:
    """Approve a review and do what it asks for, both or neither.

    Raises:
        NotFound, PermissionDenied: the actor may not decide it; ``own_request`` when it is the author.
        Conflict: ``review_not_pending`` with its ``state``; ``needs_rebase``, with the new ``diff``, when what it
            touches has changed since: it is in that state then, and nothing was applied.
        AppError: a rule forbids it as things are now; it stays pending.
    """
    reason = clean_reason(reason)
    _require_decider(actor, review)
    transition, diff = _approve(actor, review, reason)
    review_transitions_total.labels(review.kind, transition.value).inc()
    if transition == ReviewState.NEEDS_REBASE:
        detail = "What this change touches has been changed since it was requested; nothing was applied."
        raise Conflict(detail, code="needs_rebase", extra={"state": transition.value, "diff": diff})
    return _fresh(review)


@transaction.atomic
def _approve(actor: Actor, review: ReviewRequest, reason: str) -> tuple[ReviewState, list[Any]]:
    kind = kind_of(review.kind)
    kind.lock(review, applying=True)
    review = _fresh(review)
    _require_pending(review)
    if not may_decide(actor, review):  # asked again: the lock may have been waited for
        raise PermissionDenied("You may not decide this review.")
    verdict = kind.revalidate(review)
    if verdict.moved:
        _end(actor, review, ReviewState.NEEDS_REBASE, reason, {"diff": verdict.diff})
        return ReviewState.NEEDS_REBASE, verdict.diff
    # First the transition, then the act: of two at once only one comes to the act. Its record comes last, because it
    # locks the audit chain, and other writers lock what the act touches before that.
    _leave_pending(actor, review, ReviewState.APPROVED, reason)
    result = kind.apply(_fresh(review), actor)
    ReviewRequest.objects.filter(pk=review.pk).update(result=result)
    _audit(actor, review, ReviewState.APPROVED.value, reason=reason)
    return ReviewState.APPROVED, verdict.diff


def review_reject(*, actor: Actor, review: ReviewRequest, reason: str = "") -> ReviewRequest:
    """Refuse a review. Errors as :func:`review_approve`."""
    reason = clean_reason(reason)
    _require_decider(actor, review)
    _settle(actor, review, ReviewState.REJECTED, reason)
    review_transitions_total.labels(review.kind, ReviewState.REJECTED.value).inc()
    return _fresh(review)


def review_withdraw(*, actor: Actor, review: ReviewRequest, reason: str = "") -> ReviewRequest:
    """Take back a review that the actor has asked for.

    Raises:
        NotFound, PermissionDenied: ``not_own_request``: somebody else asked for it.
        Conflict: ``review_not_pending`` with its ``state``.
    """
    reason = clean_reason(reason)
    if actor.organization_id != review.organization_id:
        raise NotFound
    if actor.principal != review.requested_by:
        raise PermissionDenied("Only who asked for a review withdraws it.", code="not_own_request")
    _settle(actor, review, ReviewState.WITHDRAWN, reason)
    review_transitions_total.labels(review.kind, ReviewState.WITHDRAWN.value).inc()
    return _fresh(review)


@transaction.atomic
def review_cancel(*, review: ReviewRequest, reason: str) -> bool:
    """Withdraw a review whose ground is gone, in the name of the installation; ``False`` when it has ended already.

    The caller has locked what its kind locks, and does what follows itself.
    """
    if review.state != ReviewState.PENDING:
        return False
    actor = _system(review)
    try:
        _end(actor, review, ReviewState.WITHDRAWN, reason)
    except Conflict:
        return False
    review_transitions_total.labels(review.kind, ReviewState.WITHDRAWN.value).inc()
    return True


def reviews_expire(*, organization_id: UUID | None = None) -> int:
    """End requests that nobody decided in time, at most 500, and return how many. One query when none is due."""
    now = clock.now()
    due = ReviewRequest.objects.filter(state=ReviewState.PENDING, expires_at__lte=now).order_by("expires_at")
    if organization_id is not None:
        due = due.filter(organization_id=organization_id)
    return sum(_expire(review, now) for review in due[:SWEPT])


@transaction.atomic
def _expire(review: ReviewRequest, now: datetime) -> bool:
    actor, kind = _system(review), kind_of(review.kind)
    kind.lock(review, applying=False)
    ended = ReviewRequest.objects.filter(pk=review.pk, state=ReviewState.PENDING, expires_at__lte=now).update(
        state=ReviewState.EXPIRED, decided_by=actor.principal, decided_label=actor.label, decided_at=now
    )
    if not ended:
        return False
    kind.settle(_fresh(review), ReviewState.EXPIRED)
    _audit(actor, review, ReviewState.EXPIRED.value)
    review_transitions_total.labels(review.kind, ReviewState.EXPIRED.value).inc()
    return True


@transaction.atomic
def _settle(actor: Actor, review: ReviewRequest, state: ReviewState, reason: str) -> None:
    """End a review without applying it: its kind does what follows, and the record comes last."""
    kind = kind_of(review.kind)
    kind.lock(review, applying=False)
    _leave_pending(actor, review, state, reason)
    kind.settle(_fresh(review), state)
    _audit(actor, review, state.value, reason=reason)


def _system(review: ReviewRequest) -> Actor:
    return Actor(
        ActorKind.SYSTEM, "system:reviews", "reviews", organization_id=review.organization_id, channel=Channel.SYSTEM
    )


def _end(
    actor: Actor, review: ReviewRequest, state: ReviewState, reason: str, result: dict[str, Any] | None = None
) -> None:
    """Take a review out of ``pending`` and record it; see :func:`_leave_pending`."""
    _leave_pending(actor, review, state, reason, result)
    _audit(actor, review, state.value, reason=reason)


def _leave_pending(
    actor: Actor, review: ReviewRequest, state: ReviewState, reason: str, result: dict[str, Any] | None = None
) -> None:
    """Take a review out of ``pending``: one UPDATE of its row, conditional on the row alone.

    Raises:
        Conflict: ``review_not_pending``: somebody else ended it, or its time is over.
    """
    now = clock.now()
    ended = ReviewRequest.objects.filter(pk=review.pk, state=ReviewState.PENDING, expires_at__gt=now).update(
        state=state,
        decided_by=actor.principal,
        decided_label=actor.label[:200],
        decided_at=now,
        decision_reason=reason,
        result=result or {},
    )
    if not ended:
        current = _fresh(review)
        _require_pending(current)
        raise _ended(ReviewState.EXPIRED)


def _require_decider(actor: Actor, review: ReviewRequest) -> None:
    if actor.organization_id != review.organization_id:
        raise NotFound
    if actor.principal == review.requested_by:
        raise PermissionDenied("Nobody decides their own request.", code="own_request")
    if not may_decide(actor, review):
        raise PermissionDenied("You may not decide this review.")


def _require_pending(review: ReviewRequest) -> None:
    if review.state != ReviewState.PENDING:
        raise _ended(ReviewState(review.state), review.decided_label)
    if review.expires_at <= clock.now():
        raise _ended(ReviewState.EXPIRED)


def _ended(state: ReviewState, by: str = "") -> AppError:
    return Conflict(
        f"This review is {state.value.replace('_', ' ')} already{f', by {by}' if by else ''}.",
        code="review_not_pending",
        extra={"state": state.value} | ({"by": by} if by else {}),
    )


def _fresh(review: ReviewRequest) -> ReviewRequest:
    fresh = ReviewRequest.objects.select_related("node", "organization").filter(pk=review.pk).first()
    if fresh is None:
        raise NotFound
    return fresh


def clean_reason(reason: str) -> str:
    """Return a reason as it is stored: one line, redacted, empty when it is blank.

    Raises:
        InvalidInput: ``too_long`` or ``control_character``, pointing at ``/reason``.
    """
    if not reason.strip():
        return ""
    return redact_text(single_line(reason, pointer="/reason", max_length=MAX_REASON))[:MAX_REASON]


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a JSON value, hexadecimal; the order of members does not count."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _audit(actor: Actor, review: ReviewRequest, transition: str, *, reason: str = "") -> None:
    """Record ids and digests alone: what is reviewed may be for fewer eyes than the audit log."""
    audit_record(
        actor=actor,
        organization_id=review.organization_id,
        action=f"review.{transition}",
        object_kind="review",
        object_id=str(review.pk),
        node_id=review.node_id,
        before=None if transition == "open" else {"state": ReviewState.PENDING.value},
        after={
            "kind": review.kind,
            "state": ReviewState.PENDING.value if transition == "open" else transition,
            "requested_by": review.requested_by,
            "digest": digest_of(review.diff),
        },
        reason=reason,
    )

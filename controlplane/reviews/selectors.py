"""Reading reviews: those an actor may decide, and its own."""

from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.core.errors import NotFound
from controlplane.core.permissions import Action, allows, nodes_that_allow, scope_allows
from controlplane.orgs.models import NodeAncestor
from controlplane.orgs.selectors import node_lineage
from controlplane.reviews.kinds import kind_of, kinds
from controlplane.reviews.models import ReviewRequest, ReviewState


def reviews_for(actor: Actor) -> QuerySet[ReviewRequest]:
    """Return the reviews of the nodes whose reviews ``actor`` decides, and those it has asked for itself.

    Its own only while its credential and its role still read what they are about.
    """
    if actor.organization_id is None:
        return ReviewRequest.objects.none()
    visible = _below(actor, Action.REVIEW_DECIDE) if scope_allows(actor, Action.REVIEW_DECIDE) else Q(pk__in=[])
    names: dict[Action, list[str]] = {}
    for kind in kinds():
        names.setdefault(kind.read_action, []).append(kind.name)
    for action, of_action in names.items():
        visible |= Q(requested_by=actor.principal, kind__in=of_action) & _below(actor, action)
    return ReviewRequest.objects.filter(visible, organization_id=actor.organization_id)


def reviews_waiting(actor: Actor) -> QuerySet[ReviewRequest]:
    """Return the pending reviews, still in time, that ``actor`` is asked to decide: not its own requests."""
    if actor.organization_id is None or not scope_allows(actor, Action.REVIEW_DECIDE):
        return ReviewRequest.objects.none()
    pending = ReviewRequest.objects.filter(
        organization_id=actor.organization_id, state=ReviewState.PENDING, expires_at__gt=clock.now()
    )
    return pending.filter(_below(actor, Action.REVIEW_DECIDE)).exclude(requested_by=actor.principal)


def review_get(*, actor: Actor, review_id: UUID) -> ReviewRequest:
    """Return one review with its node and organization. One query.

    Raises:
        NotFound: there is none that ``actor`` may see.
    """
    review = reviews_for(actor).select_related("node", "organization").filter(pk=review_id).first()
    if review is None:
        raise NotFound
    return review


def review_actions(actor: Actor, review: ReviewRequest, lineage: tuple[UUID, ...] | None = None) -> list[str]:
    """Return what ``actor`` may do with the review now: of ``approve``, ``reject``, ``withdraw``."""
    if review.state != ReviewState.PENDING:
        return []
    if review.requested_by == actor.principal:
        return ["withdraw"]
    return ["approve", "reject"] if may_decide(actor, review, lineage) else []


def may_decide(actor: Actor, review: ReviewRequest, lineage: tuple[UUID, ...] | None = None) -> bool:
    """Return whether ``actor`` may decide the review: a person in the role, never its author."""
    if review.requested_by == actor.principal or actor.organization_id != review.organization_id:
        return False
    if not allows(actor, Action.REVIEW_DECIDE, lineage if lineage is not None else node_lineage(review.node_id)):
        return False
    return kind_of(review.kind).may_decide(actor, review)


def _below(actor: Actor, action: Action) -> Q:
    allowed = nodes_that_allow(actor, action)
    return Q(Exists(NodeAncestor.objects.filter(descendant_id=OuterRef("node_id"), ancestor_id__in=allowed)))

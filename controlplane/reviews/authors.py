"""Whether who asked for something may still ask for it: their rights are those at the decision, not at the request."""

from typing import Any

from controlplane.access.actors import actor_for_principal
from controlplane.core.actor import Actor, Channel
from controlplane.core.errors import Conflict, NotAuthenticated
from controlplane.core.permissions import Action, allows
from controlplane.orgs.selectors import node_lineage
from controlplane.reviews.models import ReviewRequest


def author_mark(actor: Actor) -> dict[str, Any]:
    """Return what a review's ``base`` keeps of the credential with which its author came."""
    return {"credential": actor.credential_id} if actor.credential_id else {}


def author_fault(review: ReviewRequest, action: Action) -> str:
    """Return why the author of a review may no longer do ``action`` on its node; ``""`` when it may. Three queries.

    Processes of the installation may always. A person counts with the credential of the request: what came with a
    token that has been revoked since is not applied.
    """
    if review.requested_by.startswith("system:"):
        return ""
    try:
        author = actor_for_principal(
            review.requested_by, review.base.get("credential"), channel=Channel(review.channel)
        )
    except NotAuthenticated:
        who = "access token" if review.requested_by.startswith("token:") or review.base.get("credential") else "account"
        return f"The {who} of {review.requested_label}, who asked for this, is no longer valid."
    if author.organization_id == review.organization_id and allows(author, action, node_lineage(review.node_id)):
        return ""
    return f"{review.requested_label}, who asked for this, may no longer do so (it needs {action.value})."


def author_require(review: ReviewRequest, action: Action) -> None:
    """Check that the author may still do ``action`` on the review's node.

    Raises:
        Conflict: ``author_not_allowed``: it may not; the review stays pending.
    """
    fault = author_fault(review, action)
    if fault:
        raise Conflict(f"{fault} Nothing was applied; the review stays open.", code="author_not_allowed")

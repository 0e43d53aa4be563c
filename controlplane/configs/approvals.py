"""The kind of review ``config_change``: a change of a node's document that a policy wants approved."""

from typing import Any

from controlplane.access.selectors import token_makers
from controlplane.configs.changes import KIND, has_moved
from controlplane.configs.judging import effective_pair
from controlplane.configs.locks import lock_document, lock_organization
from controlplane.configs.patterns import replayed
from controlplane.configs.pointers import diff
from controlplane.configs.selectors import StoredDocument, document_of
from controlplane.configs.writing import Approval, Outcome, commit, outcome_of, stored_in
from controlplane.core.actor import Actor, ActorKind, Channel
from controlplane.core.permissions import Action, allows
from controlplane.orgs.selectors import node_lineage
from controlplane.reviews.authors import author_fault, author_require
from controlplane.reviews.kinds import Verdict
from controlplane.reviews.models import ReviewRequest, ReviewState

_NAMED = 3


class ConfigChange:
    """Operations by pointer, replayed on the document as it is when they are approved."""

    name = KIND
    read_action = Action.CONFIG_READ

    def describe(self, review: ReviewRequest) -> str:
        pointers = [operation["pointer"] for operation in review.diff]
        more = f" and {len(pointers) - _NAMED} more" if len(pointers) > _NAMED else ""
        return f"Configuration of {review.node.slug}: {', '.join(pointers[:_NAMED])}{more}"

    def may_decide(self, actor: Actor, review: ReviewRequest) -> bool:
        """The role on the node is all it takes, but nobody decides what a token of its own making has asked for.

        Else whoever may not change something alone would change it by a token and approve that. Reviewers of the whole
        organization wait for nobody's approval, so they may.
        """
        if actor.organization_id != review.organization_id:
            return False
        if actor.principal not in token_makers(review.requested_by):
            return True
        return allows(actor, Action.REVIEW_DECIDE, node_lineage(review.node_id)[:1])

    def lock(self, review: ReviewRequest, *, applying: bool) -> None:
        if applying:
            lock_organization(review.node)
            lock_document(review.node)

    def revalidate(self, review: ReviewRequest) -> Verdict:
        author_require(review, Action.CONFIG_WRITE)
        stored = document_of(review.node)
        after = replayed(stored.document, review.diff)
        # Before any rule is asked: one that only the moved ground breaks would hide the reason.
        if has_moved(review.base, *effective_pair(review.node, stored.document, after)):
            return Verdict(moved=True, diff=list(diff(stored.document, after)))
        return Verdict(diff=list(_outcome(review, stored).operations))

    def apply(self, review: ReviewRequest, actor: Actor) -> dict[str, Any]:
        row = lock_document(review.node)
        commit(
            node=review.node,
            row=row,
            outcome=_outcome(review, stored_in(review.node, row)),
            author=_author(review),
            action=review.snapshot["action"],
            reason=review.reason,
            approval=Approval(actor, review.pk),
        )
        return {"version": row.version}

    def settle(self, review: ReviewRequest, state: ReviewState) -> None:
        """Nothing follows: the document never changed."""


def change_fault(review: ReviewRequest) -> str:
    """Return why a change that waits cannot be approved as its author stands now; ``""`` when nothing is in the way."""
    return author_fault(review, Action.CONFIG_WRITE)


def _outcome(review: ReviewRequest, stored: StoredDocument) -> Outcome:
    """Judge the change again as any write; that somebody approves is what is happening."""
    return outcome_of(stored, lambda document: replayed(document, review.diff))


def _author(review: ReviewRequest) -> Actor:
    """Return who asked for the change, for the records: it carries no right."""
    return Actor(
        ActorKind.USER if review.requested_by.startswith("user:") else ActorKind.SYSTEM,
        review.requested_by,
        review.requested_label,
        organization_id=review.organization_id,
        channel=Channel(review.channel),
    )

"""A kind of review for tests: it counts what was applied, and moves or refuses on demand."""

from typing import Any

from django.db import transaction

from controlplane.core.actor import Actor
from controlplane.core.errors import Conflict
from controlplane.core.permissions import Action
from controlplane.orgs.models import Node
from controlplane.reviews.kinds import Verdict
from controlplane.reviews.models import ReviewRequest, ReviewState
from controlplane.reviews.services import review_open


class SampleKind:
    name = "sample"
    read_action = Action.CONFIG_READ

    def __init__(self) -> None:
        self.applied: list[tuple[str, Any]] = []
        self.moved: list[Any] | None = None
        self.forbidden = False
        self.fails = False
        self.decider: str | None = None
        self.locked: list[bool] = []
        self.settled: list[tuple[ReviewState, str]] = []

    def describe(self, review: ReviewRequest) -> str:
        return f"Sample of {len(review.diff)}"

    def may_decide(self, actor: Actor, review: ReviewRequest) -> bool:
        return self.decider is None or actor.label == self.decider

    def lock(self, review: ReviewRequest, *, applying: bool) -> None:
        self.locked.append(applying)

    def revalidate(self, review: ReviewRequest) -> Verdict:
        if self.forbidden:
            raise Conflict("Not now.", code="forbidden_now")
        return Verdict() if self.moved is None else Verdict(moved=True, diff=self.moved)

    def apply(self, review: ReviewRequest, actor: Actor) -> dict[str, Any]:
        Node.objects.filter(pk=review.node_id).update(name="Applied")
        if self.fails:
            raise Conflict("It broke.", code="broke")
        self.applied.append((str(review.pk), actor.principal))
        return {"done": True}

    def settle(self, review: ReviewRequest, state: ReviewState) -> None:
        self.settled.append((state, review.decided_label))


def open_review(node: Node, actor: Actor, **fields: Any) -> ReviewRequest:
    """Queue a review of the sample kind, in a transaction of its own."""
    with transaction.atomic():
        values = {"snapshot": {"s": 1}, "diff": [{"pointer": "/a", "after": 1}], "base": {}} | fields
        return review_open(actor=actor, node=node, kind="sample", **values)

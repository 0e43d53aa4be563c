"""Approving what a token has asked for: whoever made the token is its other name."""

import pytest

from controlplane.access.models import Membership, User
from controlplane.access.services import token_create
from controlplane.configs.policy_services import policy_create
from controlplane.configs.services import config_patch
from controlplane.core.actor import Actor, Role
from controlplane.core.errors import PermissionDenied
from controlplane.orgs.models import Node
from controlplane.reviews.models import ReviewRequest, ReviewState
from controlplane.reviews.selectors import review_actions
from controlplane.reviews.services import review_approve, review_reject
from tests.configs.support import stored
from tests.factories import Tree, actor_for_token, actor_for_user, make_user, system_of

pytestmark = pytest.mark.django_db

CHANGE = {"limits": {"max_turns": 80}}


@pytest.fixture
def guarded(tree: Tree) -> Tree:
    policy_create(actor=tree.system, node=tree.root, pointer="/limits", kind="requires_approval")
    return tree


def admin_who_reviews(node: Node) -> User:
    """Return a person who may write and decide on a node, and yet needs approval for what its root guards."""
    user = make_user(node, Role.ADMIN)
    Membership.objects.create(user=user, node=node, role=Role.REVIEWER.value)
    return user


def token_of(actor: Actor, node: Node, kind: str = "team", scopes: tuple[str, ...] = ("config:write",)) -> Actor:
    return actor_for_token(token_create(actor=actor, kind=kind, node=node, name="t", scopes=scopes).plaintext)


def asked(node: Node, actor: Actor) -> ReviewRequest:
    review = config_patch(actor=actor, node=node, patch=CHANGE).review
    assert review is not None
    return review


def test_approve__by_the_maker_of_the_token_that_asked__refused_and_nothing_written(guarded: Tree) -> None:
    person = actor_for_user(admin_who_reviews(guarded.payments))
    review = asked(guarded.payments, token_of(person, guarded.payments))
    for decide in (review_approve, review_reject):
        with pytest.raises(PermissionDenied):
            decide(actor=person, review=review)
    review.refresh_from_db()
    assert (review.state, stored(guarded.payments)) == (ReviewState.PENDING, {})
    assert review_actions(person, review) == []


def test_approve__by_the_maker_of_the_token_s_maker__refused(guarded: Tree) -> None:
    person = actor_for_user(admin_who_reviews(guarded.payments))
    first = token_of(person, guarded.payments, "admin", ("admin:*", "config:write"))
    review = asked(guarded.payments, token_of(first, guarded.payments))
    with pytest.raises(PermissionDenied):
        review_approve(actor=person, review=review)
    assert stored(guarded.payments) == {}


def test_approve__by_another_reviewer_of_the_team__applied(guarded: Tree) -> None:
    person = actor_for_user(admin_who_reviews(guarded.payments))
    review = asked(guarded.payments, token_of(person, guarded.payments))
    review_approve(actor=actor_for_user(make_user(guarded.payments, Role.REVIEWER)), review=review)
    assert stored(guarded.payments) == CHANGE


def test_approve__maker_waits_for_nobody_anyway__applied(guarded: Tree) -> None:
    owner = actor_for_user(make_user(guarded.root, Role.OWNER))
    review_approve(actor=owner, review=asked(guarded.payments, token_of(owner, guarded.payments)))
    assert stored(guarded.payments) == CHANGE


def test_approve__token_made_by_a_process__any_reviewer(guarded: Tree) -> None:
    review = asked(guarded.payments, token_of(system_of(guarded.root), guarded.payments))
    review_approve(actor=actor_for_user(admin_who_reviews(guarded.payments)), review=review)
    assert stored(guarded.payments) == CHANGE

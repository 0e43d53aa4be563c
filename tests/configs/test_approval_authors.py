"""Changes that wait for approval, and who asked for them: asking twice, and rights that are gone by then."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import connection

from controlplane.access.models import AccessToken, Membership, User
from controlplane.audit.models import AuditEvent
from controlplane.configs.services import config_patch, config_replace
from controlplane.core import clock
from controlplane.core.actor import Actor, Role
from controlplane.core.errors import AppError
from controlplane.orgs.models import Node
from controlplane.reviews.models import ReviewRequest
from controlplane.reviews.services import review_approve, review_reject, review_withdraw
from tests.configs.support import guard, patch, put, stored, versions
from tests.factories import (
    Tree,
    actor_for_token,
    actor_for_user,
    api_client,
    make_admin_token,
    make_personal_token,
    make_tree,
    make_user,
)

CHANGE = {"agents": {"k8s": {"model": "b"}}}

pytestmark = pytest.mark.django_db


def propose(node: Node, actor: Actor, change: dict[str, Any] = CHANGE, **fields: Any) -> ReviewRequest:
    review = config_patch(actor=actor, node=node, patch=change, **fields).review
    assert review is not None
    return review


def approver(tree: Tree) -> Actor:
    return actor_for_user(make_user(tree.root, Role.REVIEWER))


# ---- asking twice ----


def test_request__twice__the_open_review_and_one_audit_row(guarded: Tree) -> None:
    actor = actor_for_user(make_user(guarded.payments, Role.ADMIN))
    first = propose(guarded.payments, actor, reason="cheaper")
    again = propose(guarded.payments, actor, reason="cheaper, as I said")
    whole = config_replace(
        actor=actor, node=guarded.payments, document={"agents": {"k8s": {"model": "b", "prompt": "p"}}}
    )
    assert (again.pk, again.reason, whole.review) == (first.pk, "cheaper", first)
    assert ReviewRequest.objects.count() == 1
    assert AuditEvent.objects.filter(action="review.open").count() == 1


def test_request__another_change_author_credential_or_ground__a_review_of_its_own(guarded: Tree) -> None:
    user = make_user(guarded.payments, Role.ADMIN)
    actor = actor_for_user(user)
    reviews = [
        propose(guarded.payments, actor),
        propose(guarded.payments, actor, {"agents": {"k8s": {"model": "c"}}}),
        propose(guarded.payments, actor_for_user(make_user(guarded.payments, Role.ADMIN))),
        propose(guarded.payments, actor_for_token(make_personal_token(user, guarded.root, ["config:write"]))),
    ]
    owner = actor_for_user(make_user(guarded.root, Role.OWNER))
    patch(guarded.payments, {"agents": {"k8s": {"model": "z"}}}, actor=owner)
    reviews.append(propose(guarded.payments, actor))
    assert len({review.pk for review in reviews}) == 5


@pytest.mark.parametrize("ended", ["withdrawn", "rejected", "expired"])
def test_request__after_the_first_has_ended__a_new_review(guarded: Tree, ended: str) -> None:
    actor = actor_for_user(make_user(guarded.payments, Role.ADMIN))
    first = propose(guarded.payments, actor)
    match ended:
        case "withdrawn":
            review_withdraw(actor=actor, review=first)
        case "rejected":
            review_reject(actor=approver(guarded), review=first)
        case _:
            ReviewRequest.objects.filter(pk=first.pk).update(expires_at=clock.now())
    assert propose(guarded.payments, actor).pk != first.pk


def test_api__request_twice__202_with_the_same_review(guarded: Tree) -> None:
    client = api_client(user=make_user(guarded.payments, Role.ADMIN))
    config = "/api/v1/orgs/demo/nodes/payments/config"
    answers = [client.patch(config, CHANGE, headers={"If-Match": '"1"'}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].json()["review"] == answers[1].json()["review"]


@pytest.mark.django_db(transaction=True)
def test_request__four_at_once__one_review() -> None:
    tree = make_tree()
    put(tree.payments, {"agents": {"k8s": {"model": "a"}}})
    guard(tree.root)
    actor = actor_for_user(make_user(tree.payments, Role.ADMIN))
    start = Barrier(4)

    def ask(_: int) -> str:
        try:
            start.wait(timeout=30)
            return str(propose(tree.payments, actor).pk)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(ask, range(4)))
    assert found == {str(pk) for pk in ReviewRequest.objects.values_list("pk", flat=True)}
    assert len(found) == 1


# ---- rights of the author at approval ----


def _deactivate(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def _revoke(user: User) -> None:
    AccessToken.objects.filter(user=user).update(revoked_at=clock.now())


def _expire(user: User) -> None:
    AccessToken.objects.filter(user=user).update(expires_at=clock.now())


def _demote(user: User) -> None:
    Membership.objects.filter(user=user).update(role=Role.VIEWER.value)


def _remove(user: User) -> None:
    Membership.objects.filter(user=user).delete()


LOSSES: dict[str, tuple[bool, Callable[[User], None], str]] = {
    "demoted": (False, _demote, "may no longer do so (it needs config.write)"),
    "removed": (False, _remove, "may no longer do so (it needs config.write)"),
    "deactivated": (False, _deactivate, "account of Ada, who asked for this, is no longer valid"),
    "token revoked": (True, _revoke, "access token of Ada, who asked for this, is no longer valid"),
    "token expired": (True, _expire, "access token of Ada, who asked for this, is no longer valid"),
    "demoted with a token": (True, _demote, "may no longer do so (it needs config.write)"),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_approve__author_has_lost_the_right__409_and_it_stays_open(guarded: Tree, loss: str) -> None:
    by_token, lose, words = LOSSES[loss]
    user = make_user(guarded.payments, Role.ADMIN)
    User.objects.filter(pk=user.pk).update(name="Ada")
    user.refresh_from_db()
    session = actor_for_user(user)
    token = make_personal_token(user, guarded.root, ["config:write"])
    review = propose(guarded.payments, actor_for_token(token) if by_token else session)
    lose(user)
    with pytest.raises(AppError) as caught:
        review_approve(actor=approver(guarded), review=review)
    assert (caught.value.status, caught.value.code) == (409, "author_not_allowed")
    assert words in caught.value.detail
    review.refresh_from_db()
    assert (review.state, versions(guarded.payments)) == ("pending", [1])
    assert not AuditEvent.objects.filter(action="review.approved").exists()
    review_reject(actor=approver(guarded), review=review)
    review.refresh_from_db()
    assert review.state == "rejected"


def test_approve__author_has_the_right_again__applied(guarded: Tree) -> None:
    user = make_user(guarded.payments, Role.ADMIN)
    review = propose(guarded.payments, actor_for_user(user))
    _demote(user)
    with pytest.raises(AppError, match="stays open"):
        review_approve(actor=approver(guarded), review=review)
    Membership.objects.filter(user=user).update(role=Role.ADMIN.value)
    review_approve(actor=approver(guarded), review=review)
    assert stored(guarded.payments)["agents"]["k8s"]["model"] == "b"


def test_approve__session_author_whose_token_is_revoked__applied(guarded: Tree) -> None:
    user = make_user(guarded.payments, Role.ADMIN)
    make_personal_token(user, guarded.root, ["config:write"])
    review = propose(guarded.payments, actor_for_user(user))
    _revoke(user)
    assert review_approve(actor=approver(guarded), review=review).state == "approved"


def test_approve__machine_author__while_its_token_is_valid(guarded: Tree) -> None:
    token = actor_for_token(make_admin_token(guarded.root))
    applied = propose(guarded.payments, token)
    assert review_approve(actor=approver(guarded), review=applied).state == "approved"
    waiting = propose(guarded.payments, token, {"agents": {"k8s": {"model": "c"}}})
    AccessToken.objects.filter(public_id=token.credential_id).update(revoked_at=clock.now())
    with pytest.raises(AppError, match="access token of"):
        review_approve(actor=approver(guarded), review=waiting)
    assert stored(guarded.payments)["agents"]["k8s"]["model"] == "b"


def test_approve__moved_to_another_organization__refused(guarded: Tree) -> None:
    user = make_user(guarded.payments, Role.ADMIN)
    review = propose(guarded.payments, actor_for_user(user))
    elsewhere = make_tree("other")
    Membership.objects.filter(user=user).update(node=elsewhere.root)
    User.objects.filter(pk=user.pk).update(organization=elsewhere.organization)
    with pytest.raises(AppError) as caught:
        review_approve(actor=approver(guarded), review=review)
    assert caught.value.code == "author_not_allowed"

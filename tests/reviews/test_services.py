"""Reviews: who ends them, how, once, and what is recorded."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from io import StringIO
from threading import Barrier
from typing import Any

import pytest
import time_machine
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

from controlplane.audit.models import AuditEvent
from controlplane.core import clock
from controlplane.core.actor import Actor, Role
from controlplane.core.errors import AppError, Conflict, InvalidInput, NotFound, PermissionDenied
from controlplane.core.metrics import registry
from controlplane.orgs.models import Node
from controlplane.reviews.models import ReviewRequest, ReviewState
from controlplane.reviews.selectors import reviews_for
from controlplane.reviews.services import (
    review_approve,
    review_open,
    review_reject,
    review_withdraw,
    reviews_expire,
)
from tests.factories import (
    Tree,
    actor_for_token,
    actor_for_user,
    make_admin_token,
    make_personal_token,
    make_team_token,
    make_tree,
    make_user,
    system_of,
)
from tests.reviews.support import SampleKind, open_review

pytestmark = pytest.mark.django_db

ENDINGS: dict[str, Callable[..., ReviewRequest]] = {"approve": review_approve, "reject": review_reject}


def person(node: Node, role: Role | None) -> Actor:
    return actor_for_user(make_user(node, role))


def state_of(review: ReviewRequest) -> str:
    return ReviewRequest.objects.get(pk=review.pk).state


def count(transition: str) -> float:
    return registry.get_sample_value(
        "opensre_review_transitions_total", {"kind": "sample", "transition": transition}
    ) or 0.0  # fmt: skip


def refusal(job: Callable[[], Any]) -> AppError:
    with pytest.raises(AppError) as caught:
        job()
    return caught.value


def test_open__by_a_writer__queued_with_its_author_and_recorded_by_digest_alone(tree: Tree, kind: SampleKind) -> None:
    author = person(tree.payments, Role.ADMIN)
    review = open_review(tree.payments, author, reason=" because ")
    assert (review.state, review.title, review.reason) == ("pending", "Sample of 1", "because")
    assert (review.requested_by, review.requested_label, review.channel) == (author.principal, author.label, "web")
    assert review.expires_at - review.created_at == timedelta(days=14)
    event = AuditEvent.objects.get(action="review.open")
    assert (event.actor, event.object_id, event.node_id) == (author.principal, str(review.pk), tree.payments.pk)
    assert event.after.keys() == {"kind", "state", "requested_by", "digest"}


@pytest.mark.django_db(transaction=True)
def test_open__outside_a_transaction__refused(kind: SampleKind) -> None:
    tree = make_tree()
    with pytest.raises(RuntimeError):
        review_open(actor=tree.system, node=tree.payments, kind="sample", snapshot={}, diff=[], base={})
    assert not ReviewRequest.objects.exists()


def test_approve__by_a_reviewer__applied_once_in_its_name(tree: Tree, kind: SampleKind) -> None:
    review = open_review(tree.payments, person(tree.payments, Role.ADMIN))
    reviewer = person(tree.engineering, Role.REVIEWER)
    before = count("approved")
    decided = review_approve(actor=reviewer, review=review, reason="fine")
    assert kind.applied == [(str(review.pk), reviewer.principal)]
    assert (decided.state, decided.decided_by, decided.decision_reason, decided.result) == (
        "approved", reviewer.principal, "fine", {"done": True},
    )  # fmt: skip
    assert decided.decided_at is not None
    event = AuditEvent.objects.get(action="review.approved")
    assert (event.actor, event.before, event.reason) == (reviewer.principal, {"state": "pending"}, "fine")
    assert event.after["requested_by"] == review.requested_by
    assert count("approved") == before + 1

    again = refusal(lambda: review_approve(actor=reviewer, review=review))
    assert (again.status, again.code) == (409, "review_not_pending")
    assert again.extra == {"state": "approved", "by": reviewer.label}
    assert len(kind.applied) == 1


def test_reject__by_a_reviewer__ended_and_nothing_applied(tree: Tree, kind: SampleKind) -> None:
    review = open_review(tree.payments, person(tree.payments, Role.ADMIN))
    reviewer = person(tree.payments, Role.REVIEWER)
    assert review_reject(actor=reviewer, review=review, reason="no").state == "rejected"
    assert kind.applied == []
    assert AuditEvent.objects.get(action="review.rejected").reason == "no"
    for ending in (review_approve, review_reject):
        assert refusal(partial(ending, actor=reviewer, review=review)).code == "review_not_pending"


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("credential", ["session", "personal token"])
def test_decide__own_request__403_whichever_credential(
    tree: Tree, kind: SampleKind, ending: str, credential: str
) -> None:
    user = make_user(tree.root, Role.OWNER)
    token = actor_for_token(make_personal_token(user, tree.root, ["reviews:decide", "config:read"]))
    session = actor_for_user(user)
    asked, decides = (token, session) if credential == "session" else (session, token)
    review = open_review(tree.payments, asked)
    error = refusal(lambda: ENDINGS[ending](actor=decides, review=review))
    assert (error.status, error.code, state_of(review)) == (403, "own_request", "pending")


DECIDERS: dict[str, tuple[Callable[[Tree], Actor], bool]] = {
    "nobody": (lambda tree: person(tree.root, None), False),
    "viewer": (lambda tree: person(tree.root, Role.VIEWER), False),
    "responder": (lambda tree: person(tree.root, Role.RESPONDER), False),
    "admin": (lambda tree: person(tree.root, Role.ADMIN), False),
    "reviewer of a sibling": (lambda tree: person(tree.platform, Role.REVIEWER), False),
    "reviewer of the node": (lambda tree: person(tree.payments, Role.REVIEWER), True),
    "reviewer above": (lambda tree: person(tree.root, Role.REVIEWER), True),
    "owner": (lambda tree: person(tree.root, Role.OWNER), True),
    "personal token to decide": (
        lambda tree: actor_for_token(
            make_personal_token(make_user(tree.root, Role.REVIEWER), tree.root, ["reviews:decide"])
        ),
        True,
    ),
    "personal token without": (
        lambda tree: actor_for_token(
            make_personal_token(make_user(tree.root, Role.OWNER), tree.root, ["config:write", "config:read"])
        ),
        False,
    ),
    "admin token": (lambda tree: actor_for_token(make_admin_token(tree.root)), False),
    "team token": (lambda tree: actor_for_token(make_team_token(tree.payments)), False),
    "the system": (lambda tree: system_of(tree.root), False),
}


@pytest.mark.parametrize("decider", DECIDERS)
def test_decide__by_each_kind_of_actor__people_in_the_role_alone(tree: Tree, kind: SampleKind, decider: str) -> None:
    make, allowed = DECIDERS[decider]
    actor = make(tree)
    review = open_review(tree.payments, person(tree.payments, Role.ADMIN))
    if allowed:
        assert review_approve(actor=actor, review=review).state == "approved"
        return
    for ending in (review_approve, review_reject):
        error = refusal(partial(ending, actor=actor, review=review))
        assert isinstance(error, PermissionDenied)
    assert (state_of(review), kind.applied) == ("pending", [])


def test_decide__actor_of_another_organization__not_found(tree: Tree, other_tree: Tree, kind: SampleKind) -> None:
    review = open_review(tree.payments, person(tree.payments, Role.ADMIN))
    stranger = person(other_tree.root, Role.OWNER)
    for ending in (review_approve, review_reject, review_withdraw):
        assert isinstance(refusal(partial(ending, actor=stranger, review=review)), NotFound)
    assert not reviews_for(stranger).exists()
    assert state_of(review) == "pending"


def test_decide__kind_says_no__refused(tree: Tree, kind: SampleKind) -> None:
    kind.decider = "somebody else"
    review = open_review(tree.payments, person(tree.payments, Role.ADMIN))
    assert refusal(lambda: review_approve(actor=person(tree.root, Role.OWNER), review=review)).status == 403
    assert state_of(review) == "pending"


def test_approve__ground_moved__needs_rebase_with_the_new_diff_and_nothing_applied(
    tree: Tree, kind: SampleKind
) -> None:
    review = open_review(tree.payments, person(tree.payments, Role.ADMIN))
    kind.moved = [{"pointer": "/a", "before": 2, "after": 1}]
    error = refusal(lambda: review_approve(actor=person(tree.root, Role.OWNER), review=review))
    assert (error.status, error.code) == (409, "needs_rebase")
    assert error.extra == {"state": "needs_rebase", "diff": kind.moved}
    stored = ReviewRequest.objects.get(pk=review.pk)
    assert (stored.state, stored.result, kind.applied) == ("needs_rebase", {"diff": kind.moved}, [])
    assert AuditEvent.objects.filter(action="review.needs_rebase").count() == 1


@pytest.mark.parametrize(("flag", "code"), [("forbidden", "forbidden_now"), ("fails", "broke")])
def test_approve__a_rule_or_the_act_refuses__stays_pending_and_leaves_nothing(
    tree: Tree, kind: SampleKind, flag: str, code: str
) -> None:
    review = open_review(tree.payments, person(tree.payments, Role.ADMIN))
    setattr(kind, flag, True)
    assert refusal(lambda: review_approve(actor=person(tree.root, Role.OWNER), review=review)).code == code
    assert state_of(review) == "pending"
    assert Node.objects.get(pk=tree.payments.pk).name == "Payments"
    assert not AuditEvent.objects.filter(action="review.approved").exists()


def test_withdraw__by_the_author__ended__by_another__refused(tree: Tree, kind: SampleKind) -> None:
    author = person(tree.payments, Role.ADMIN)
    review = open_review(tree.payments, author)
    other = refusal(lambda: review_withdraw(actor=person(tree.root, Role.OWNER), review=review))
    assert (other.status, other.code, state_of(review)) == (403, "not_own_request", "pending")
    assert review_withdraw(actor=author, review=review, reason="mistake").state == "withdrawn"
    assert refusal(lambda: review_withdraw(actor=author, review=review)).code == "review_not_pending"


def test_withdraw__request_of_a_token__by_the_same_token(tree: Tree, kind: SampleKind) -> None:
    token = actor_for_token(make_team_token(tree.payments, ["config:write"]))
    review = open_review(tree.payments, token)
    assert list(reviews_for(token)) == [review]
    assert review_withdraw(actor=token, review=review).state == "withdrawn"


def test_reason__bad__refused_before_anything(tree: Tree, kind: SampleKind) -> None:
    review = open_review(tree.payments, person(tree.payments, Role.ADMIN))
    for reason in ("a\nb", "x" * 501):
        with pytest.raises(InvalidInput):
            review_approve(actor=person(tree.root, Role.OWNER), review=review, reason=reason)
    assert state_of(review) == "pending"


def test_expire__after_its_time__ended_by_the_sweep_and_never_applied(tree: Tree, kind: SampleKind) -> None:
    old = open_review(tree.payments, person(tree.payments, Role.ADMIN), lifetime=timedelta(hours=1))
    kept = open_review(tree.payments, person(tree.payments, Role.ADMIN))
    with time_machine.travel(clock.now() + timedelta(hours=2), tick=False):
        error = refusal(lambda: review_approve(actor=person(tree.root, Role.OWNER), review=old))
        assert (error.code, error.extra) == ("review_not_pending", {"state": "expired"})
        out = StringIO()
        call_command("reviews_expire", stdout=out)
        assert out.getvalue() == "1 expired\n"
        assert reviews_expire() == 0
    assert (state_of(old), state_of(kept), kind.applied) == ("expired", "pending", [])
    event = AuditEvent.objects.get(action="review.expired")
    assert (event.actor, event.object_id) == ("system:reviews", str(old.pk))


def test_reviews_for__each_reader__those_it_decides_and_its_own_while_it_may_read(tree: Tree, kind: SampleKind) -> None:
    author = make_user(tree.payments, Role.ADMIN)
    own = open_review(tree.payments, actor_for_user(author))
    other = open_review(tree.platform, person(tree.platform, Role.ADMIN))
    assert list(reviews_for(actor_for_user(author))) == [own]
    assert set(reviews_for(person(tree.engineering, Role.REVIEWER))) == {own, other}
    assert list(reviews_for(person(tree.platform, Role.REVIEWER))) == [other]
    assert not reviews_for(person(tree.root, Role.ADMIN)).exists()
    narrow = actor_for_token(make_personal_token(author, tree.payments, ["runs:read"]))
    assert not reviews_for(narrow).exists()
    author.memberships.all().delete()
    assert not reviews_for(actor_for_user(author)).exists()


def test_state__ended_without_time__impossible_in_the_database(tree: Tree, kind: SampleKind) -> None:
    review = open_review(tree.payments, person(tree.payments, Role.ADMIN))
    with pytest.raises(IntegrityError), transaction.atomic():
        ReviewRequest.objects.filter(pk=review.pk).update(state=ReviewState.APPROVED)
    assert state_of(review) == "pending"


def test_conflict__is_what_ends_twice_raise(tree: Tree, kind: SampleKind) -> None:
    review = open_review(tree.payments, person(tree.payments, Role.ADMIN))
    reviewer = person(tree.root, Role.OWNER)
    review_reject(actor=reviewer, review=review)
    stale = review  # still says pending
    with pytest.raises(Conflict):
        review_reject(actor=reviewer, review=stale)
    assert AuditEvent.objects.filter(action="review.rejected").count() == 1


@pytest.mark.django_db(transaction=True)
def test_ended__by_several_at_once__once_and_applied_at_most_once(kind: SampleKind) -> None:
    tree = make_tree()
    author = person(tree.payments, Role.ADMIN)
    reviewers = [person(tree.root, Role.REVIEWER) for _ in range(3)]
    review = open_review(tree.payments, author)
    jobs: list[Callable[[], Any]] = [
        *(partial(review_approve, actor=actor, review=review) for actor in reviewers[:2]),
        partial(review_reject, actor=reviewers[2], review=review),
        partial(review_withdraw, actor=author, review=review),
    ]
    start = Barrier(len(jobs))

    def run(job: Callable[[], Any]) -> str:
        try:
            start.wait(timeout=30)
            return str(job().state)
        except AppError as error:
            return error.code
        finally:
            connection.close()

    with ThreadPoolExecutor(len(jobs)) as pool:
        outcomes = list(pool.map(run, jobs))
    ended = [outcome for outcome in outcomes if outcome != "review_not_pending"]
    assert ended == [state_of(review)]
    assert len(kind.applied) == (1 if ended == ["approved"] else 0)
    assert AuditEvent.objects.filter(object_kind="review").count() == 2

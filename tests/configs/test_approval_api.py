"""Changes that wait for approval, over REST and at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import connection

from controlplane.audit.models import AuditEvent
from controlplane.core.actor import Actor, Role
from controlplane.core.errors import AppError
from controlplane.reviews.models import ReviewRequest
from controlplane.reviews.services import review_approve
from tests.configs.support import guard, patch, propose, put, refusal, reviewer, stored, versions
from tests.factories import (
    Tree,
    actor_for_user,
    api_client,
    make_tree,
    make_user,
)

MODEL = "/agents/k8s/model"


pytestmark = pytest.mark.django_db


# ---- REST ----


def test_api__write_to_approval_to_history(guarded: Tree) -> None:
    team = api_client(user=make_user(guarded.payments, Role.ADMIN, username="ada"))
    chief = api_client(user=make_user(guarded.root, Role.REVIEWER, username="eve"))
    config = "/api/v1/orgs/demo/nodes/payments/config"
    answer = team.patch(f"{config}?reason=cheaper", {"agents": {"k8s": {"model": "b"}}}, headers={"If-Match": '"1"'})
    assert answer.status_code == 202
    body = answer.json()
    assert (body["diff"], body["warnings"], body["changed"], body["version"]) == (
        [{"pointer": MODEL, "before": "a", "after": "b"}], [], False, 1,
    )  # fmt: skip
    assert (body["review"]["state"], answer.headers["Location"]) == ("pending", body["review"]["url"])
    assert answer.headers["ETag"] == '"1"'
    assert team.get(config).json()["version"] == 1

    shown = chief.get(body["review"]["url"]).json()
    assert (shown["title"], shown["reason"], shown["actions"]) == (
        f"Configuration of payments: {MODEL}", "cheaper", ["approve", "reject"],
    )  # fmt: skip
    assert shown["snapshot"]["effective"] == body["diff"]
    done = chief.post(f"{body['review']['url']}/approve", {"reason": "fine"})
    assert (done.status_code, done.json()["result"]) == (200, {"version": 2})
    newest = team.get(f"{config}/history").json()["results"][0]
    assert (newest["version"], newest["by"], newest["approved_by"], newest["review"]) == (
        2, "ada", "eve", body["review"]["id"],
    )  # fmt: skip
    assert team.get(f"{config}/history/2").json()["approved_by"] == "eve"


def test_api__approval_of_a_moved_change__409_problem(guarded: Tree) -> None:
    review = propose(guarded.payments, {"agents": {"k8s": {"model": "b"}}})
    owner = make_user(guarded.root, Role.OWNER)
    patch(guarded.payments, {"agents": {"k8s": {"model": "c"}}}, actor=actor_for_user(owner))
    answer = api_client(user=owner).post(f"/api/v1/reviews/{review.pk}/approve", {})
    assert (answer.status_code, answer.json()["code"], answer.json()["state"]) == (409, "needs_rebase", "needs_rebase")
    assert answer.json()["diff"] == [{"pointer": MODEL, "before": "c", "after": "b"}]


# ---- at once ----


@pytest.mark.django_db(transaction=True)
def test_approve__two_reviewers_at_once__applied_once() -> None:
    tree = make_tree()
    put(tree.payments, {"agents": {"k8s": {"model": "a"}}})
    guard(tree.root)
    review = propose(tree.payments, {"agents": {"k8s": {"model": "b"}}})
    deciders = [reviewer(tree.root) for _ in range(4)]
    start = Barrier(len(deciders))

    def decide(actor: Actor) -> str:
        try:
            start.wait(timeout=30)
            review_approve(actor=actor, review=ReviewRequest.objects.select_related("node").get(pk=review.pk))
        except AppError as error:
            return error.code
        else:
            return "applied"
        finally:
            connection.close()

    with ThreadPoolExecutor(len(deciders)) as pool:
        outcomes = sorted(pool.map(decide, deciders))
    assert outcomes == ["applied", *["review_not_pending"] * 3]
    assert versions(tree.payments) == [1, 2]
    assert AuditEvent.objects.filter(action="review.approved").count() == 1
    assert ReviewRequest.objects.get(pk=review.pk).state == "approved"


@pytest.mark.django_db(transaction=True)
def test_policy_and_write__at_once__never_both_past_each_other() -> None:
    tree = make_tree()
    put(tree.root, {"a": 0})
    start = Barrier(2)

    def run(job: Callable[[], Any]) -> str:
        try:
            start.wait(timeout=30)
            job()
        except AppError as error:
            return error.code
        else:
            return "done"
        finally:
            connection.close()

    jobs: list[Callable[[], Any]] = [
        lambda: guard(tree.root, "/a", "locked"),
        lambda: patch(tree.payments, {"a": 1}),
    ]
    with ThreadPoolExecutor(2) as pool:
        locked, written = pool.map(run, jobs)
    assert locked == "done"
    assert (written, stored(tree.payments)) in [("done", {"a": 1}), ("policy_locked", {})]
    assert refusal(lambda: patch(tree.payments, {"a": 2})).code == "policy_locked"

"""Changes that wait for approval: what becomes a review, and what approving one does."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.access.models import Membership
from controlplane.audit.models import AuditEvent
from controlplane.configs.models import ConfigVersion
from controlplane.configs.services import (
    WriteResult,
    config_patch,
    config_replace,
    config_rollback,
    config_unset,
)
from controlplane.core.actor import Actor, Role
from controlplane.core.errors import Conflict, InvalidInput, PermissionDenied, PreconditionFailed
from controlplane.orgs.models import Node
from controlplane.reviews.models import ReviewRequest
from controlplane.reviews.services import review_approve, review_reject
from tests.configs.support import admin, effective, guard, patch, propose, put, refusal, reviewer, stored, versions
from tests.factories import (
    Tree,
    actor_for_token,
    actor_for_user,
    make_admin_token,
    make_personal_token,
    make_user,
)

MODEL = "/agents/k8s/model"


def state_of(review: ReviewRequest) -> str:
    return ReviewRequest.objects.get(pk=review.pk).state


pytestmark = pytest.mark.django_db


# ---- becoming a review ----

ENTRIES: dict[str, Callable[[Node, Actor], WriteResult]] = {
    "put": lambda node, actor: config_replace(
        actor=actor, node=node, document={"agents": {"k8s": {"model": "b", "prompt": "p"}}}
    ),
    "patch": lambda node, actor: config_patch(actor=actor, node=node, patch={"agents": {"k8s": {"model": "b"}}}),
    "merge patch": lambda node, actor: config_patch(
        actor=actor, node=node, patch={"agents": {"k8s": {"model": None}}}, merge_patch=True
    ),
    "parent null": lambda node, actor: config_patch(actor=actor, node=node, patch={"agents": None}),
    "type change": lambda node, actor: config_patch(actor=actor, node=node, patch={"agents": {"k8s": 5}}),
    "list": lambda node, actor: config_replace(actor=actor, node=node, document={"agents": []}),
    "unset": lambda node, actor: config_unset(actor=actor, node=node, pointers=["/agents/k8s"]),
    "rollback": lambda node, actor: config_rollback(actor=actor, node=node, version=0),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_write__touching_the_path_by_any_entry_point__becomes_a_review_and_writes_nothing(
    guarded: Tree, entry: str
) -> None:
    before = stored(guarded.payments)
    actor = admin(guarded.payments)
    result = ENTRIES[entry](guarded.payments, actor)
    review = result.review
    assert review is not None
    assert (result.changed, stored(guarded.payments), versions(guarded.payments)) == (False, before, [1])
    assert (review.kind, review.state, review.requested_by) == ("config_change", "pending", actor.principal)
    assert review.diff == result.operations
    assert review.base["version"] == 1
    assert review.snapshot["approvals"] == [{"pointer": MODEL, "level": "demo"}]
    assert review.snapshot["effective"]
    assert not AuditEvent.objects.filter(action__startswith="config.", actor=actor.principal).exists()
    review_approve(actor=reviewer(guarded.root), review=review)
    assert versions(guarded.payments) == [1, 2]
    assert (
        stored(guarded.payments)
        == {
            "put": {"agents": {"k8s": {"model": "b", "prompt": "p"}}},
            "patch": {"agents": {"k8s": {"model": "b", "prompt": "p"}}},
            "merge patch": {"agents": {"k8s": {"prompt": "p"}}},
            "parent null": {"agents": None},
            "type change": {"agents": {"k8s": 5}},
            "list": {"agents": []},
            "unset": {},
            "rollback": {},
        }[entry]
    )


def test_write__beside_the_path_or_equal__written_at_once(guarded: Tree) -> None:
    actor = admin(guarded.payments)
    for change in ({"agents": {"k8s": {"prompt": "q"}}}, {"agents": {"k8s": {"model": "a"}}, "note": 1}):
        assert config_patch(actor=actor, node=guarded.payments, patch=change).review is None
    assert stored(guarded.payments) == {"agents": {"k8s": {"model": "a", "prompt": "q"}}, "note": 1}
    assert not ReviewRequest.objects.exists()


def test_approve__of_routes__claims_them_before_it_locks_the_audit_chain(tree: Tree) -> None:
    """As every other write does: else one that has a claim and one that has the chain wait for each other."""
    guard(tree.root, "/routing")
    review = propose(tree.payments, {"routing": {"services": ["cart"]}})
    with CaptureQueriesContext(connection) as queries:
        review_approve(actor=reviewer(tree.root), review=review)
    tables = [
        "claim" if "configs_routeclaim" in sql else "audit"
        for sql in (query["sql"] for query in queries)
        if "audit_" in sql or (sql.startswith("INSERT") and "configs_routeclaim" in sql)
    ]
    assert tables[0] == "claim"
    assert tables.count("audit") > 1
    recorded = AuditEvent.objects.order_by("org_seq").values_list("action", flat=True)
    assert list(recorded)[-2:] == ["config.patch", "review.approved"]


WRITERS: dict[str, tuple[Callable[[Tree], Actor], bool]] = {
    "team admin": (lambda tree: admin(tree.payments), True),
    "admin of the level": (lambda tree: admin(tree.root), True),
    "admin token": (lambda tree: actor_for_token(make_admin_token(tree.root)), True),
    "the system": (lambda tree: tree.system, True),
    "admin who reviews below the level": (
        lambda tree: actor_for_user(_both(tree.payments, Role.ADMIN, Role.REVIEWER)),
        True,
    ),
    "admin who reviews at the level": (lambda tree: actor_for_user(_both(tree.root, Role.ADMIN, Role.REVIEWER)), False),
    "owner": (lambda tree: actor_for_user(make_user(tree.root, Role.OWNER)), False),
    "owner's token that decides": (
        lambda tree: actor_for_token(
            make_personal_token(make_user(tree.root, Role.OWNER), tree.root, ["config:write", "reviews:decide"])
        ),
        False,
    ),
    "owner's token that only writes": (
        lambda tree: actor_for_token(
            make_personal_token(make_user(tree.root, Role.OWNER), tree.root, ["config:write"])
        ),
        True,
    ),
}


def _both(node: Node, *roles: Role) -> Any:
    user = make_user(node, roles[0])
    for role in roles[1:]:
        Membership.objects.create(user=user, node=node, role=role.value)
    return user


@pytest.mark.parametrize("writer", WRITERS)
def test_write__by_each_kind_of_writer__queued_unless_it_decides_at_the_level(guarded: Tree, writer: str) -> None:
    make, queued = WRITERS[writer]
    result = config_patch(actor=make(guarded), node=guarded.payments, patch={"agents": {"k8s": {"model": "b"}}})
    assert (result.review is not None) == queued
    assert effective(guarded.payments)["agents"]["k8s"]["model"] == ("a" if queued else "b")


def test_write__locked_too__refused_rather_than_queued(guarded: Tree) -> None:
    guard(guarded.root, "/agents", "locked")
    error = refusal(lambda: patch(guarded.payments, {"agents": {"k8s": {"model": "b"}}}))
    assert error.code == "policy_locked"
    assert not ReviewRequest.objects.exists()


def test_write__stale_or_bad__refused_rather_than_queued(guarded: Tree) -> None:
    change = {"agents": {"k8s": {"model": "b"}}}
    with pytest.raises(PreconditionFailed):
        config_patch(actor=admin(guarded.payments), node=guarded.payments, patch=change, if_match='"7"')
    with pytest.raises(InvalidInput):
        config_patch(actor=admin(guarded.payments), node=guarded.payments, patch=change | {"limits": {"max_turns": 0}})
    assert not ReviewRequest.objects.exists()
    assert propose(guarded.payments, change, if_match='"1"').state == "pending"


def test_dry_run__touching_the_path__says_so_and_queues_nothing(guarded: Tree) -> None:
    change = {"agents": {"k8s": {"model": "b"}}}
    result = config_patch(actor=admin(guarded.payments), node=guarded.payments, patch=change, dry_run=True)
    assert [(one.code, one.pointer) for one in result.warnings] == [("requires_approval", MODEL)]
    assert result.review is None
    assert not ReviewRequest.objects.exists()


# ---- approving ----


def test_approve__applies_under_both_names(guarded: Tree) -> None:
    author, approver = admin(guarded.payments), reviewer(guarded.root)
    review = propose(guarded.payments, {"agents": {"k8s": {"model": "b"}}}, author, reason="cheaper")
    decided = review_approve(actor=approver, review=review, reason="fine")
    assert (decided.state, decided.result) == ("approved", {"version": 2})
    version = ConfigVersion.objects.get(node=guarded.payments, version=2)
    assert (version.by, version.principal, version.approved_by, version.approver, version.reason) == (
        author.label, author.principal, approver.label, approver.principal, "cheaper",
    )  # fmt: skip
    assert version.review_id == review.pk
    write = AuditEvent.objects.get(action="config.patch")
    assert (write.actor, write.after["approved_by"], write.after["review"]) == (
        author.principal, approver.principal, str(review.pk),
    )  # fmt: skip
    assert AuditEvent.objects.get(action="review.approved").actor == approver.principal


def test_approve__example_21__touched_path_moved__needs_rebase_and_the_new_difference(guarded: Tree) -> None:
    review = propose(guarded.payments, {"agents": {"k8s": {"model": "b"}}})
    owner = actor_for_user(make_user(guarded.root, Role.OWNER))
    patch(guarded.payments, {"agents": {"k8s": {"model": "c"}}}, actor=owner)
    error = refusal(lambda: review_approve(actor=reviewer(guarded.root), review=review))
    assert (error.status, error.code) == (409, "needs_rebase")
    assert error.extra["diff"] == [{"pointer": MODEL, "before": "c", "after": "b"}]
    assert effective(guarded.payments)["agents"]["k8s"]["model"] == "c"
    assert (state_of(review), versions(guarded.payments)) == ("needs_rebase", [1, 2])


def test_approve__example_22__moved_elsewhere__applies_and_keeps_it(guarded: Tree) -> None:
    review = propose(guarded.payments, {"agents": {"k8s": {"model": "b"}}})
    patch(guarded.payments, {"agents": {"k8s": {"prompt": "new"}}, "note": 1})
    review_approve(actor=reviewer(guarded.root), review=review)
    assert stored(guarded.payments) == {"agents": {"k8s": {"model": "b", "prompt": "new"}}, "note": 1}
    assert versions(guarded.payments) == [1, 2, 3]


def test_approve__example_23__own_change__403(guarded: Tree) -> None:
    user = make_user(guarded.root, Role.OWNER)
    token = actor_for_token(make_personal_token(user, guarded.root, ["config:write"]))
    review = propose(guarded.payments, {"agents": {"k8s": {"model": "b"}}}, token)
    error = refusal(lambda: review_approve(actor=actor_for_user(user), review=review))
    assert (error.status, error.code, versions(guarded.payments)) == (403, "own_request", [1])


def test_approve__what_an_unset_uncovers_has_moved__needs_rebase(guarded: Tree) -> None:
    put(guarded.root, {"agents": {"k8s": {"model": "cheap"}}})
    result = config_unset(actor=admin(guarded.payments), node=guarded.payments, pointers=[MODEL])
    assert result.review is not None
    put(guarded.root, {"agents": {"k8s": {"model": "dear"}}})
    error = refusal(lambda: review_approve(actor=reviewer(guarded.root), review=result.review))  # type: ignore[arg-type]
    assert (error.code, effective(guarded.payments)["agents"]["k8s"]["model"]) == ("needs_rebase", "a")


def test_approve__a_scalar_has_taken_the_parent_s_place__needs_rebase(guarded: Tree) -> None:
    guard(guarded.root, "/x/y")
    review = propose(guarded.payments, {"x": {"y": 1}})
    patch(guarded.payments, {"x": 5}, actor=actor_for_user(make_user(guarded.root, Role.OWNER)))
    assert refusal(lambda: review_approve(actor=reviewer(guarded.root), review=review)).code == "needs_rebase"
    assert stored(guarded.payments)["x"] == 5


@pytest.mark.parametrize(
    ("kind", "value", "code"),
    [("locked", None, "policy_locked"), ("allowed_values", ["a", "c"], "policy_allowed_values")],
)
def test_approve__a_policy_set_meanwhile__judged_again_and_refused(
    guarded: Tree, kind: str, value: Any, code: str
) -> None:
    review = propose(guarded.payments, {"agents": {"k8s": {"model": "b"}}})
    guard(guarded.root, MODEL, kind, value)
    error = refusal(lambda: review_approve(actor=reviewer(guarded.root), review=review))
    assert error.code == code
    assert (state_of(review), versions(guarded.payments)) == ("pending", [1])


def test_approve__a_dependency_meanwhile__judged_again_and_refused(tree: Tree) -> None:
    put(tree.payments, {"tools": {"think": {"enabled": True}}, "agents": {"planner": {"enabled": True}}})
    guard(tree.root, "/tools")
    review = propose(tree.payments, {"tools": {"think": {"enabled": False}}})
    patch(tree.payments, {"agents": {"planner": {"tools": {"think": True}}}})
    assert refusal(lambda: review_approve(actor=reviewer(tree.root), review=review)).code == "dependency_broken"
    assert (state_of(review), effective(tree.payments)["tools"]["think"]) == ("pending", {"enabled": True})


def test_reject__nothing_written(guarded: Tree) -> None:
    review = propose(guarded.payments, {"agents": {"k8s": {"model": "b"}}})
    review_reject(actor=reviewer(guarded.root), review=review)
    assert isinstance(refusal(lambda: review_approve(actor=reviewer(guarded.root), review=review)), Conflict)
    assert versions(guarded.payments) == [1]


def test_approve__by_a_team_token_or_viewer__refused(guarded: Tree) -> None:
    review = propose(guarded.payments, {"agents": {"k8s": {"model": "b"}}})
    for actor in (
        actor_for_token(make_admin_token(guarded.root)),
        actor_for_user(make_user(guarded.root, Role.VIEWER)),
        admin(guarded.root),
    ):
        assert isinstance(
            refusal(partial(review_approve, actor=actor, review=review)),
            PermissionDenied,
        )
    assert versions(guarded.payments) == [1]

"""Moving a node below policies: what was written elsewhere is judged by those who set them."""

from typing import Any

import pytest

from controlplane.access.models import Membership
from controlplane.core.actor import Actor, Role
from controlplane.core.errors import AppError
from controlplane.orgs.models import Node
from controlplane.orgs.services import node_move
from tests.configs.support import effective, patch, policy, put, refusal
from tests.factories import Tree, actor_for_user, make_node, make_user

LOCKED = {"runtime": {"timeout": 900}}


@pytest.fixture
def lab(tree: Tree) -> Node:
    """A group beside ``engineering``, which locks a timeout, bounds turns and wants models approved."""
    put(tree.engineering, {"runtime": {"timeout": 300}})
    policy(tree.engineering, "/runtime/timeout")
    policy(tree.engineering, "/limits/max_turns", "maximum", 10)
    policy(tree.engineering, "/agents/*/model", "requires_approval")
    return make_node(tree.root, "lab", "group")


@pytest.fixture
def sub(tree: Tree) -> Node:
    """A group below ``engineering``."""
    return make_node(tree.engineering, "sub", "group")


def admin_of(*nodes: Node, role: Role = Role.ADMIN) -> Actor:
    user = make_user(nodes[0], role)
    for node in nodes[1:]:
        Membership.objects.create(user=user, node=node, role=role.value)
    return actor_for_user(user)


def back(team: Node, sub: Node, actor: Actor) -> Node:
    return node_move(actor=actor, node=team, parent=sub)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("document", "code"),
    [
        (LOCKED, "policy_locked"),
        ({"runtime": None}, "policy_locked"),
        ({"runtime": {"timeout": []}}, "policy_locked"),
        ({"limits": {"max_turns": 20}}, "policy_maximum"),
        ({"agents": {"x": {"model": "m"}}}, "approval_required"),
    ],
)
@pytest.mark.parametrize("depth", ["itself", "below"])
def test_move__written_where_nothing_binds_it__refused_under_the_policies_of_others(
    tree: Tree, lab: Node, sub: Node, document: dict[str, Any], code: str, depth: str
) -> None:
    moved = make_node(sub, "moved", "group" if depth == "below" else "team")
    writer = make_node(moved, "inner") if depth == "below" else moved
    actor = admin_of(sub, lab)
    moved = node_move(actor=actor, node=moved, parent=lab)
    patch(writer, document, actor=actor)
    error: AppError = refusal(lambda: back(moved, sub, actor))
    assert error.code == code
    assert error.detail.startswith(f"{writer.slug} holds")
    assert Node.objects.get(pk=moved.pk).parent_id == lab.pk


@pytest.mark.django_db
def test_move__with_what_the_policies_allow__done(tree: Tree, lab: Node, sub: Node) -> None:
    team = make_node(lab, "team")
    put(team, {"runtime": {"timeout": 300}, "limits": {"max_turns": 5}, "agents": {"x": {"prompt": "p"}}})
    moved = back(team, sub, admin_of(sub, lab))
    assert effective(moved)["runtime"] == {"timeout": 300}


@pytest.mark.django_db
def test_move__by_who_sets_the_policies__what_is_there_stays(tree: Tree, lab: Node, sub: Node) -> None:
    team = make_node(lab, "team")
    put(team, LOCKED | {"agents": {"x": {"model": "m"}}})
    moved = back(team, sub, admin_of(tree.engineering, lab))
    assert effective(moved)["runtime"] == {"timeout": 900}


@pytest.mark.django_db
def test_move__below_the_same_policies__what_was_there_before_them_stays(tree: Tree, lab: Node, sub: Node) -> None:
    other = make_node(tree.engineering, "other", "group")
    team = make_node(lab, "team")
    put(team, LOCKED)
    team = back(team, sub, tree.system)
    assert back(team, other, admin_of(sub, other)).parent_id == other.pk

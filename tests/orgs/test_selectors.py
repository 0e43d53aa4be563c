"""Who sees which nodes, and which team a request means."""

from typing import Any

import pytest

from controlplane.core.actor import ANONYMOUS, Actor, Role
from controlplane.core.errors import InvalidInput, NotFound, PermissionDenied
from controlplane.core.permissions import Action
from controlplane.orgs.models import NodeKind
from controlplane.orgs.selectors import (
    node_descendants,
    node_get,
    node_get_by_id,
    node_is_archived,
    nodes_visible,
    nodes_with_lineage,
    organization_get,
    team_for,
)
from controlplane.orgs.services import node_archive
from tests.factories import (
    Tree,
    actor_for_token,
    actor_for_user,
    make_admin_token,
    make_node,
    make_operator,
    make_personal_token,
    make_team_token,
    make_user,
)

pytestmark = pytest.mark.django_db


def slugs(actor: Actor, action: Action = Action.NODE_READ) -> set[str]:
    return set(nodes_visible(actor, action).values_list("slug", flat=True))


def test_nodes_visible__role_on_a_node__its_subtree_only(tree: Tree, other_tree: Tree) -> None:
    assert slugs(actor_for_user(make_user(tree.engineering, Role.VIEWER))) == {"engineering", "payments", "platform"}
    assert slugs(actor_for_user(make_user(tree.payments, Role.RESPONDER))) == {"payments"}
    assert slugs(actor_for_user(make_user(tree.root, None))) == set()
    assert slugs(actor_for_user(make_operator())) == slugs(ANONYMOUS) == set()
    assert nodes_visible(tree.system).filter(organization=other_tree.organization).count() == 0


def test_nodes_visible__several_roles__no_node_twice(tree: Tree) -> None:
    user = make_user(tree.root, Role.VIEWER)
    user.memberships.create(node=tree.payments, role=Role.ADMIN.value)
    user.memberships.create(node=tree.engineering, role=Role.REVIEWER.value)
    actor = actor_for_user(user)
    assert nodes_visible(actor).count() == 4
    assert slugs(actor, Action.NODE_WRITE) == {"payments"}


def test_nodes_visible__tokens__scopes_on_their_subtree(tree: Tree) -> None:
    assert slugs(actor_for_token(make_team_token(tree.payments))) == {"payments"}
    assert slugs(actor_for_token(make_team_token(tree.payments, ["alerts:ingest"]))) == set()
    assert len(slugs(actor_for_token(make_admin_token(tree.root)), Action.NODE_WRITE)) == 4
    owner = make_user(tree.root, Role.OWNER)
    reader = actor_for_token(make_personal_token(owner, tree.root, ["runs:read"]))
    assert len(slugs(reader)) == 4
    assert slugs(reader, Action.NODE_WRITE) == set()


def test_nodes_visible__moved_node__right_follows_at_once(tree: Tree) -> None:
    from controlplane.orgs.services import node_move

    actor = actor_for_user(make_user(tree.engineering, Role.VIEWER))
    node_move(actor=tree.system, node=tree.payments, parent=tree.root)
    assert slugs(actor) == {"engineering", "platform"}


def test_node_get__unseen_foreign_and_unknown__same_words(tree: Tree, other_tree: Tree) -> None:
    actor = actor_for_user(make_user(tree.payments, Role.ADMIN))
    words = set()
    for org, node in [("demo", "platform"), ("demo", "nothing"), ("rival", "payments"), ("nothing", "payments")]:
        for action in (Action.NODE_READ, Action.CONFIG_WRITE):
            with pytest.raises(NotFound) as caught:
                node_get(actor=actor, organization_slug=org, node_slug=node, action=action)
            words.add((caught.value.code, caught.value.detail))
    assert len(words) == 1
    with pytest.raises(NotFound):
        node_get_by_id(actor=actor, node_id=other_tree.payments.pk)


def test_node_get__seen_not_allowed__denied(tree: Tree) -> None:
    actor = actor_for_user(make_user(tree.payments, Role.VIEWER))
    with pytest.raises(PermissionDenied):
        node_get(actor=actor, organization_slug="demo", node_slug="payments", action=Action.CONFIG_WRITE)


def test_node_get__allowed__one_query(tree: Tree, django_assert_num_queries: Any) -> None:
    actor = actor_for_user(make_user(tree.engineering, Role.ADMIN))
    with django_assert_num_queries(1):
        node = node_get(actor=actor, organization_slug="demo", node_slug="payments", action=Action.CONFIG_WRITE)
        assert (node.pk, node.organization.slug) == (tree.payments.pk, "demo")


def test_organization_get__own_and_others(tree: Tree, other_tree: Tree) -> None:
    assert organization_get(tree.system, "demo") == tree.organization
    for slug in ("rival", "nothing"):
        with pytest.raises(NotFound):
            organization_get(tree.system, slug)
    with pytest.raises(NotFound):
        organization_get(actor_for_user(make_operator()), "demo")


def test_nodes_with_lineage__many_nodes__one_more_query(tree: Tree, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(2):
        found = {node.slug: lineage for node, lineage in nodes_with_lineage(nodes_visible(tree.system))}
    assert found["payments"] == (tree.root.pk, tree.engineering.pk, tree.payments.pk)
    assert found["demo"] == (tree.root.pk,)


def test_node_descendants__group__itself_and_below(tree: Tree) -> None:
    assert {node.slug for node in node_descendants(tree.engineering.pk)} == {"engineering", "payments", "platform"}


def test_team_for__one_reachable__may_be_left_out(tree: Tree) -> None:
    actor = actor_for_user(make_user(tree.payments, Role.RESPONDER))
    assert team_for(actor, None, Action.RUN_CREATE) == tree.payments


def test_team_for__several_reachable__lists_them(tree: Tree) -> None:
    actor = actor_for_user(make_user(tree.root, Role.RESPONDER))
    with pytest.raises(InvalidInput) as caught:
        team_for(actor, None, Action.RUN_CREATE)
    assert caught.value.code == "team_required"
    assert caught.value.extra == {"teams": ["demo/payments", "demo/platform"]}
    assert caught.value.errors[0].pointer == "/team"


def test_team_for__team_token_with_teams_below__its_own(tree: Tree) -> None:
    make_node(tree.payments, "cards")
    actor = actor_for_token(make_team_token(tree.payments))
    assert team_for(actor, None, Action.RUN_CREATE) == tree.payments
    assert team_for(actor, "cards", Action.RUN_CREATE).slug == "cards"


@pytest.mark.parametrize("reference", ["demo/payments", "payments"])
def test_team_for__named__found_in_one_query(tree: Tree, reference: str, django_assert_num_queries: Any) -> None:
    actor = actor_for_user(make_user(tree.root, Role.RESPONDER))
    with django_assert_num_queries(1):
        assert team_for(actor, reference, Action.RUN_CREATE) == tree.payments


def test_team_for__unknown_foreign_unseen_or_no_team__same_words(tree: Tree, other_tree: Tree) -> None:
    make_node(other_tree.root, "secret-team")
    actor = actor_for_user(make_user(tree.payments, Role.RESPONDER))
    words = set()
    for reference in (
        "nothing", "demo/nothing", "rival/payments", "secret-team", "rival/secret-team", "platform", "demo/platform",
        "engineering", "demo", "", "/", "a/b/c", "/payments/", "x\x00", "demo/demo/payments",
    ):  # fmt: skip
        with pytest.raises(InvalidInput) as caught:
            team_for(actor, reference, Action.RUN_CREATE)
        words.add((caught.value.code, caught.value.detail, caught.value.errors[0].pointer))
    assert words == {("unknown_team", "There is no such team that you may see.", "/team")}


def test_team_for__viewer__denied_named_or_not(tree: Tree) -> None:
    actor = actor_for_user(make_user(tree.payments, Role.VIEWER))
    for reference in (None, "payments"):
        with pytest.raises(PermissionDenied):
            team_for(actor, reference, Action.RUN_CREATE)


def test_team_for__archived_group_above__refused(tree: Tree) -> None:
    ops = make_node(tree.root, "ops", NodeKind.GROUP)
    make_node(ops, "oncall")
    actor = actor_for_user(make_user(tree.root, Role.RESPONDER))
    node_archive(actor=tree.system, node=tree.engineering)
    assert node_is_archived(tree.payments.pk)
    assert team_for(actor, None, Action.RUN_CREATE).slug == "oncall"
    with pytest.raises(InvalidInput) as caught:
        team_for(actor, "payments", Action.RUN_CREATE)
    assert caught.value.code == "team_archived"

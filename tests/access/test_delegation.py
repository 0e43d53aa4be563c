"""Who may hand on which scopes and roles."""

import pytest

from controlplane.access.permissions import TEAM_TOKEN_SCOPES, roles_grantable, scopes_held
from controlplane.core.actor import Role
from controlplane.core.permissions import SCOPES
from controlplane.orgs.selectors import node_lineage
from tests.factories import (
    Tree,
    actor_for_token,
    actor_for_user,
    make_admin_token,
    make_personal_token,
    make_team_token,
    make_user,
)

pytestmark = pytest.mark.django_db

VIEWER = {"config:read", "runs:read", "knowledge:read"}
RESPONDER = VIEWER | {"runs:create", "runs:control", "memory:read", "memory:propose"}


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        (Role.VIEWER, VIEWER),
        (Role.REVIEWER, VIEWER | {"reviews:decide"}),
        (Role.RESPONDER, RESPONDER),
        (Role.ADMIN, SCOPES - {"reviews:decide"}),
        (Role.OWNER, SCOPES),
        (None, set()),
    ],
)
def test_scopes_held__session__what_the_role_does(tree: Tree, role: Role | None, expected: set[str]) -> None:
    actor = actor_for_user(make_user(tree.root, role))
    assert scopes_held(actor, node_lineage(tree.payments.pk)) == expected


def test_scopes_held__role_elsewhere__nothing(tree: Tree) -> None:
    actor = actor_for_user(make_user(tree.platform, Role.ADMIN))
    assert scopes_held(actor, node_lineage(tree.payments.pk)) == set()


def test_scopes_held__tokens__their_own(tree: Tree) -> None:
    lineage = node_lineage(tree.payments.pk)
    assert scopes_held(actor_for_token(make_team_token(tree.payments)), lineage) == TEAM_TOKEN_SCOPES
    assert scopes_held(actor_for_token(make_team_token(tree.platform)), lineage) == set()
    owner = make_user(tree.root, Role.OWNER)
    personal = actor_for_token(make_personal_token(owner, tree.root, ["runs:read", "admin:*"]))
    assert scopes_held(personal, lineage) == {"runs:read", "admin:*"}
    owner.memberships.update(role=Role.VIEWER.value)
    weaker = actor_for_token(make_personal_token(owner, tree.root, ["runs:read", "admin:*"]))
    assert scopes_held(weaker, lineage) == {"runs:read"}


def test_roles_grantable__never_more_than_held(tree: Tree) -> None:
    lineage = node_lineage(tree.payments.pk)
    below_owner = {Role.ADMIN, Role.RESPONDER, Role.VIEWER}
    assert roles_grantable(actor_for_user(make_user(tree.root, Role.OWNER)), lineage) == set(Role)
    assert roles_grantable(actor_for_user(make_user(tree.engineering, Role.ADMIN)), lineage) == below_owner
    assert roles_grantable(actor_for_user(make_user(tree.root, Role.RESPONDER)), lineage) == set()
    assert roles_grantable(actor_for_user(make_user(tree.root, Role.REVIEWER)), lineage) == set()
    assert roles_grantable(actor_for_token(make_admin_token(tree.root)), lineage) == below_owner
    assert roles_grantable(actor_for_token(make_team_token(tree.payments)), lineage) == set()

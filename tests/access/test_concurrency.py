"""Two at the same moment: what must happen once happens once."""

import pytest

from controlplane.access.bootstrap import bootstrap
from controlplane.access.models import Membership, User
from controlplane.access.services import (
    membership_grant,
    membership_revoke,
    sign_in_link_create,
    sign_in_link_redeem,
    user_create,
)
from controlplane.audit.selectors import audit_verify
from controlplane.core.actor import Role
from controlplane.core.errors import Conflict, NotAuthenticated
from controlplane.orgs.models import Node, Organization
from tests.factories import actor_for_user, make_tree, make_user
from tests.support.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)


def test_sign_in_link_redeem__three_at_once__one_signs_in() -> None:
    user = make_user(make_tree().root)
    secret = sign_in_link_create(user=user)
    outcomes = at_once(*[lambda: sign_in_link_redeem(secret=secret)] * 3)
    assert outcomes.count(user) == 1
    assert sum(isinstance(outcome, NotAuthenticated) for outcome in outcomes) == 2


def test_user_create__same_name_at_once__one_made_one_conflict() -> None:
    tree = make_tree()
    outcomes = at_once(*[lambda: user_create(actor=tree.system, organization=tree.organization, username="ada")] * 2)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict", "User"]


def test_membership_grant__same_role_at_once__one_row() -> None:
    tree = make_tree()
    user = make_user(tree.root, None)
    at_once(*[lambda: membership_grant(actor=tree.system, user=user, node=tree.payments, role="viewer")] * 2)
    assert Membership.objects.filter(user=user).count() == 1


def test_membership_revoke__two_owners_each_other__one_owner_stays() -> None:
    tree = make_tree()
    one, two = (make_user(tree.root, Role.OWNER) for _ in range(2))
    actors = [actor_for_user(user) for user in (one, two)]
    roles = [user.memberships.select_related("user", "node").get() for user in (one, two)]
    outcomes = at_once(
        lambda: membership_revoke(actor=actors[0], membership=roles[1]),
        lambda: membership_revoke(actor=actors[1], membership=roles[0]),
    )
    assert Membership.objects.filter(role="owner").count() == 1
    assert any(isinstance(outcome, Conflict) for outcome in outcomes)


def test_bootstrap__two_at_once__one_tree_whole_chain() -> None:
    outcomes = at_once(bootstrap, bootstrap)
    assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
    assert (Organization.objects.count(), Node.objects.count(), User.objects.count()) == (1, 4, 2)
    assert audit_verify(Organization.objects.get().pk).intact

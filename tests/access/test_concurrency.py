"""Two at the same moment: what must happen once happens once."""

from threading import Thread

import pytest
from django.db import connection

from controlplane.access.bootstrap import bootstrap
from controlplane.access.models import Membership, User
from controlplane.access.services import (
    members,
    membership_grant,
    membership_revoke,
    person_deactivate,
    sign_in_link_create,
    sign_in_link_redeem,
    user_create,
)
from controlplane.audit.selectors import audit_verify
from controlplane.core.actor import Actor, Role
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


def test_person_deactivate__role_granted_meanwhile__neither_waits_for_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row that refers to the person is checked at its commit, with the audit log's head held."""
    tree = make_tree()
    person = make_user(tree.payments, Role.VIEWER)
    granted: list[Thread] = []
    real = members._shut_out

    def meanwhile(actor: Actor, user: User) -> dict[str, object]:
        def grant() -> None:
            membership_grant(actor=tree.system, user=person, node=tree.root, role="viewer")
            connection.close()

        granted.append(Thread(target=grant))
        granted[0].start()
        granted[0].join(0.5)
        return real(actor, user)

    monkeypatch.setattr(members, "_shut_out", meanwhile)
    person_deactivate(actor=tree.system, user=person)
    granted[0].join(30)
    assert not User.objects.get(pk=person.pk).is_active
    assert Membership.objects.filter(user=person).count() == 2


def test_bootstrap__two_at_once__one_tree_whole_chain() -> None:
    outcomes = at_once(bootstrap, bootstrap)
    assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
    assert (Organization.objects.count(), Node.objects.count(), User.objects.count()) == (1, 4, 2)
    assert audit_verify(Organization.objects.get().pk).intact

"""Inviting, deactivating, removing: who may, what ends with it, what is written down."""

from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from controlplane.access.models import (
    ExternalIdentity,
    IdentityProvider,
    Membership,
    ProviderKind,
    RightsStamp,
    SignInLink,
    User,
)
from controlplane.access.services import (
    invitation_renew,
    membership_revoke,
    person_deactivate,
    person_invite,
    person_reactivate,
    person_remove,
    sign_in_link_create,
    sign_in_link_redeem,
    token_revoke,
)
from controlplane.audit.models import AuditEvent
from controlplane.core import clock
from controlplane.core.actor import Role
from controlplane.core.errors import AppError, Conflict, InvalidInput, NotAuthenticated, NotFound, PermissionDenied
from tests.factories import (
    Tree,
    actor_for_token,
    actor_for_user,
    make_admin_token,
    make_personal_token,
    make_token,
    make_user,
)

pytestmark = pytest.mark.django_db
TENANT = uuid4()


@pytest.fixture
def owner(tree: Tree) -> User:
    return make_user(tree.root, Role.OWNER)


def make_provider(tree: Tree, **fields: Any) -> IdentityProvider:
    values: dict[str, Any] = {"kind": ProviderKind.ENTRA, "tenant": TENANT} | fields
    return IdentityProvider.objects.create(
        organization=tree.organization, name="Work", client_id="app", client_secret="${OPENSRE_CRED_SSO}", **values
    )


def last_act(action: str) -> AuditEvent:
    return AuditEvent.objects.filter(action=action).latest("id")


# ---- inviting ------------------------------------------------------------------------------------------------------


def test_invite__by_link__account_role_and_a_link_that_works_once_for_three_days(tree: Tree, owner: User) -> None:
    person, secret = person_invite(
        actor=actor_for_user(owner), node=tree.payments, role="responder", username="ada", name="Ada", email="a@x.org"
    )
    assert (person.display_name, person.email, person.has_usable_password()) == ("Ada", "a@x.org", False)
    assert [(row.node, row.role) for row in person.memberships.all()] == [(tree.payments, "responder")]
    link = SignInLink.objects.get(user=person)
    assert 71 < (link.expires_at - clock.now()).total_seconds() / 3600 <= 72
    assert secret not in link.digest
    assert sign_in_link_redeem(secret=secret) == person
    with pytest.raises(NotAuthenticated):
        sign_in_link_redeem(secret=secret)
    made = last_act("sign_in_link.create")
    assert (made.actor, secret in str(made.after)) == (f"user:{owner.pk}", False)


def test_invite__by_provider__bound_to_the_directorys_id_and_never_to_an_address(tree: Tree, owner: User) -> None:
    make_provider(tree)
    oid = uuid4()
    person, secret = person_invite(
        actor=actor_for_user(owner),
        node=tree.root,
        role="viewer",
        username="ada@example.com",
        email="ada@example.com",
        by="provider",
        subject=str(oid),
    )
    identity = ExternalIdentity.objects.get(user=person)
    assert (identity.tid, identity.oid, secret) == (TENANT, oid, "")
    assert not SignInLink.objects.filter(user=person).exists()


def test_invite__by_openid_provider__bound_to_issuer_and_subject(tree: Tree, owner: User) -> None:
    make_provider(tree, kind=ProviderKind.OIDC, tenant=None, authority="https://id.example.com")
    person, _ = person_invite(
        actor=actor_for_user(owner), node=tree.root, role="viewer", username="ada", by="provider", subject="u-1"
    )
    identity = ExternalIdentity.objects.get(user=person)
    assert (identity.issuer, identity.subject) == ("https://id.example.com", "u-1")


@pytest.mark.parametrize(
    ("fields", "pointer", "code"),
    [
        ({"by": "pigeon"}, "/by", "unknown_way"),
        ({"subject": "x"}, "/subject", "not_used"),
        ({"by": "provider", "subject": "not-a-guid"}, "/subject", "not_a_guid"),
        ({"by": "provider", "subject": str(uuid4()), "tenant": str(uuid4())}, "/tenant", "tenant_not_allowed"),
        ({"role": "emperor"}, "/role", "unknown_role"),
        ({"role": "owner"}, "/role", "owner_root_only"),
        ({"email": "no address"}, "/email", "email"),
    ],
)
def test_invite__rule_broken__named_and_nothing_made(
    tree: Tree, owner: User, fields: dict[str, str], pointer: str, code: str
) -> None:
    make_provider(tree)
    before = User.objects.count()
    values: dict[str, Any] = {"node": tree.payments, "role": "viewer", "username": "ada"} | fields
    with pytest.raises(InvalidInput) as caught:
        person_invite(actor=actor_for_user(owner), **values)
    assert [(item.pointer, item.code) for item in caught.value.errors] == [(pointer, code)]
    assert User.objects.count() == before


def test_invite__provider_missing_or_off__refused(tree: Tree, owner: User) -> None:
    make_provider(tree, enabled=False)
    with pytest.raises(InvalidInput, match="no identity provider"):
        person_invite(
            actor=actor_for_user(owner), node=tree.root, role="viewer", username="a", by="provider", subject="s"
        )


def test_invite__identity_of_somebody_else__conflict(tree: Tree, owner: User) -> None:
    make_provider(tree)
    oid = str(uuid4())
    for username, refused in (("one", False), ("two", True)):
        fields: dict[str, Any] = {"node": tree.root, "role": "viewer", "by": "provider", "subject": oid}
        if not refused:
            person_invite(actor=actor_for_user(owner), username=username, **fields)
            continue
        with pytest.raises(Conflict) as caught:
            person_invite(actor=actor_for_user(owner), username=username, **fields)
        assert caught.value.code == "identity_taken"
    assert not User.objects.filter(username="two").exists()


@pytest.mark.parametrize("role", ["owner", "reviewer"])
def test_invite__role_the_inviter_does_not_hold__refused(tree: Tree, role: str) -> None:
    admin = actor_for_user(make_user(tree.root, Role.ADMIN))
    with pytest.raises(PermissionDenied) as caught:
        person_invite(actor=admin, node=tree.root, role=role, username="ada")
    assert caught.value.code == "role_not_held"
    assert not User.objects.filter(username="ada").exists()


def test_invite__admin_of_a_part__refused(tree: Tree) -> None:
    admin = actor_for_user(make_user(tree.payments, Role.ADMIN))
    with pytest.raises(NotFound):
        person_invite(actor=admin, node=tree.payments, role="viewer", username="ada")


def test_renew__never_signed_in__new_link_and_the_old_one_ends(tree: Tree, owner: User) -> None:
    actor = actor_for_user(owner)
    person, first = person_invite(actor=actor, node=tree.root, role="viewer", username="ada")
    second = invitation_renew(actor=actor, user=person)
    with pytest.raises(NotAuthenticated):
        sign_in_link_redeem(secret=first)
    assert sign_in_link_redeem(secret=second) == person


def test_renew__has_signed_in__no_way_into_a_used_account(tree: Tree, owner: User) -> None:
    person = make_user(tree.root, Role.VIEWER)
    with pytest.raises(Conflict) as caught:
        invitation_renew(actor=actor_for_user(owner), user=person)
    assert caught.value.code == "not_pending"


def test_renew__person_holds_more_than_the_actor__refused(tree: Tree, owner: User) -> None:
    person, _ = person_invite(actor=actor_for_user(owner), node=tree.root, role="owner", username="ada")
    with pytest.raises(PermissionDenied):
        invitation_renew(actor=actor_for_user(make_user(tree.root, Role.ADMIN)), user=person)


def test_renew__bound_to_an_identity__no_other_way_into_an_account_that_the_directory_may_raise(
    tree: Tree, owner: User
) -> None:
    """Whoever chose a password by that link would keep it when a mapping makes the person an owner."""
    make_provider(tree)
    admin = actor_for_user(make_user(tree.root, Role.ADMIN))
    person, _ = person_invite(
        actor=admin, node=tree.root, role="viewer", username="ada", by="provider", subject=str(uuid4())
    )
    with pytest.raises(Conflict) as caught:
        invitation_renew(actor=admin, user=person)
    assert caught.value.code == "signs_in_by_provider"
    assert not SignInLink.objects.filter(user=person).exists()


# ---- letting go ----------------------------------------------------------------------------------------------------


def test_deactivate__sessions_tokens_and_links_end_at_once__roles_stay(tree: Tree, owner: User) -> None:
    person = make_user(tree.payments, Role.RESPONDER)
    browser = Client()
    browser.force_login(person)
    token, machine = make_personal_token(person, tree.payments), make_token(tree.payments)
    link = sign_in_link_create(user=person)
    assert browser.get("/app/").status_code == 200

    person_deactivate(actor=actor_for_user(owner), user=person, reason="left")

    assert browser.get("/app/").status_code == 302
    for attempt in (lambda: actor_for_token(token), lambda: sign_in_link_redeem(secret=link)):
        with pytest.raises(NotAuthenticated):
            attempt()
    assert actor_for_token(machine.plaintext).label == machine.token.name
    assert Membership.objects.filter(user=person).count() == 1
    recorded = last_act("user.deactivate")
    assert recorded.after["personal_tokens"] == 1
    assert recorded.after["reason"] == "left"


def test_reactivate__may_sign_in_again__with_roles_and_without_the_old_tokens(tree: Tree, owner: User) -> None:
    person, actor = make_user(tree.payments, Role.RESPONDER), actor_for_user(owner)
    token = make_personal_token(person, tree.payments)
    person_deactivate(actor=actor, user=person)
    person_reactivate(actor=actor, user=person)
    person.refresh_from_db()
    assert [grant.role for grant in actor_for_user(person).grants] == [Role.RESPONDER]
    with pytest.raises(NotAuthenticated):
        actor_for_token(token)


def test_deactivate_and_reactivate__again__nothing_more_is_written(tree: Tree, owner: User) -> None:
    person, actor = make_user(tree.payments), actor_for_user(owner)
    for _ in range(2):
        person_deactivate(actor=actor, user=person)
    for _ in range(2):
        person_reactivate(actor=actor, user=person)
    for action in ("user.deactivate", "user.reactivate"):
        assert AuditEvent.objects.filter(action=action).count() == 1


def test_remove__roles_go_and_are_named_in_the_log__the_account_stays(tree: Tree, owner: User) -> None:
    person = make_user(tree.payments, Role.RESPONDER)
    Membership.objects.create(user=person, node=tree.root, role="viewer", source="sso")
    person_remove(actor=actor_for_user(owner), user=person)
    person.refresh_from_db()
    assert (person.is_active, person.memberships.count()) == (False, 0)
    assert last_act("user.remove").after["roles"] == ["viewer on demo", "responder on payments"]


@pytest.mark.parametrize("act", [person_deactivate, person_remove])
def test_let_go__last_owner__refused(tree: Tree, owner: User, act: Any) -> None:
    with pytest.raises(Conflict) as caught:
        act(actor=tree.system, user=owner)
    assert caught.value.code == "last_owner"
    owner.refresh_from_db()
    assert owner.is_active


@pytest.mark.parametrize("act", [person_deactivate, person_remove])
def test_let_go__oneself__refused(tree: Tree, owner: User, act: Any) -> None:
    make_user(tree.root, Role.OWNER)
    with pytest.raises(Conflict) as caught:
        act(actor=actor_for_user(owner), user=owner)
    assert caught.value.code == "own_account"


@pytest.mark.parametrize("act", [person_deactivate, person_remove, person_reactivate])
@pytest.mark.parametrize("held", [Role.OWNER, Role.REVIEWER])
def test_let_go__person_holds_a_role_that_the_admin_does_not__refused(tree: Tree, act: Any, held: Role) -> None:
    make_user(tree.root, Role.OWNER)
    person = make_user(tree.root, held)
    for actor in (actor_for_user(make_user(tree.root, Role.ADMIN)), actor_for_token(make_admin_token(tree.root))):
        with pytest.raises(PermissionDenied) as caught:
            act(actor=actor, user=person)
        assert caught.value.code == "role_not_held"


@pytest.mark.parametrize("act", [person_deactivate, person_remove, person_reactivate, invitation_renew])
def test_let_go__by_whoever_may_not__refused(tree: Tree, other_tree: Tree, act: Any) -> None:
    person = make_user(tree.payments, Role.VIEWER)
    for actor, expected in (
        (make_user(tree.payments, Role.ADMIN), NotFound),
        (make_user(tree.root, Role.RESPONDER), PermissionDenied),
        (make_user(other_tree.root, Role.OWNER), NotFound),
    ):
        with pytest.raises(expected):
            act(actor=actor_for_user(actor), user=person)


# ---- telling open streams ------------------------------------------------------------------------------------------


def test_rights_taken__every_way__makes_another_stamp(tree: Tree, other_tree: Tree, owner: User) -> None:
    actor = actor_for_user(owner)

    def stamp() -> Any:
        return RightsStamp.objects.filter(organization=tree.organization).values_list("stamp", flat=True).first()

    people = [make_user(tree.payments) for _ in range(3)]
    seen = {stamp()}
    for act in (
        lambda: person_deactivate(actor=actor, user=people[0]),
        lambda: person_remove(actor=actor, user=people[1]),
        lambda: membership_revoke(actor=actor, membership=people[2].memberships.get()),
        lambda: token_revoke(actor=actor, token=make_token(tree.payments).token),
    ):
        act()
        assert stamp() not in seen
        seen.add(stamp())
    assert not RightsStamp.objects.filter(organization=other_tree.organization).exists()


def test_rights_taken__nothing_changed__same_stamp(tree: Tree, owner: User) -> None:
    with pytest.raises(AppError):
        person_deactivate(actor=tree.system, user=owner)
    assert not RightsStamp.objects.exists()

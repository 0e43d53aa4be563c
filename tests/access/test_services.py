"""Tokens, people, roles, sign-in links: rules and records."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from controlplane.access import tokens
from controlplane.access.models import AccessToken, Membership, SignInLink
from controlplane.access.services import (
    membership_grant,
    membership_revoke,
    sign_in_link_create,
    sign_in_link_redeem,
    token_create,
    token_revoke,
    token_rotate,
    user_create,
    user_reset_password,
)
from controlplane.audit.models import AuditEvent
from controlplane.core import clock
from controlplane.core.actor import Role
from controlplane.core.errors import AppError, Conflict, InvalidInput, NotAuthenticated, NotFound, PermissionDenied
from controlplane.core.permissions import SCOPES
from tests.factories import (
    PASSWORD,
    Tree,
    actor_for_token,
    actor_for_user,
    make_admin_token,
    make_operator,
    make_personal_token,
    make_team_token,
    make_token,
    make_user,
)

pytestmark = pytest.mark.django_db


def refusal(caught: pytest.ExceptionInfo[AppError]) -> list[tuple[str, str]]:
    return [(error.pointer, error.code) for error in caught.value.errors]


# ---- tokens ----


def test_token_create__by_default__scopes_of_the_kind(tree: Tree) -> None:
    user = make_user(tree.payments, Role.RESPONDER)
    team, admin = make_token(tree.payments), make_token(tree.root, "admin")
    personal = token_create(actor=actor_for_user(user), kind="user", node=tree.payments, name="cli", user=user)
    assert set(admin.token.scopes) == SCOPES - {"reviews:decide"}
    assert "config:resolve" in team.token.scopes
    assert "admin:*" not in team.token.scopes
    assert "runs:create" in personal.token.scopes
    assert "config:write" not in personal.token.scopes


def test_token_create__any__plaintext_is_stored_nowhere(tree: Tree) -> None:
    issued = make_token(tree.payments)
    text = tokens.parse(issued.plaintext)
    assert text is not None
    row = AccessToken.objects.filter(pk=issued.token.pk).values().get()
    event = AuditEvent.objects.filter(action="token.create").values().get()
    for stored in (row, event):
        assert text.secret not in str(stored)
    assert row["digest"] == tokens.token_digest(text, row["pepper_version"])
    assert event["object_id"] == text.public_id
    assert issued.plaintext not in repr(issued)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kind": "root"}, [("/kind", "kind")]),
        ({"kind": "user"}, [("/kind", "user")]),
        ({"name": ""}, [("/name", "blank")]),
        ({"scopes": []}, [("/scopes", "no_scopes")]),
        ({"scopes": ["runs:read", "sudo"]}, [("/scopes", "unknown_scope")]),
        ({"expires_at": clock.now() - timedelta(seconds=1)}, [("/expires_at", "expires_in_past")]),
    ],
)
def test_token_create__bad_field__names_it(tree: Tree, fields: dict[str, Any], expected: list[Any]) -> None:
    values: dict[str, Any] = {"kind": "team", "name": "t", "scopes": ["runs:read"]} | fields
    with pytest.raises(InvalidInput) as caught:
        token_create(actor=tree.system, node=tree.payments, **values)
    assert refusal(caught) == expected
    assert not AccessToken.objects.exists()


def test_token_create__admin_scope_in_a_team_token__refused(tree: Tree) -> None:
    with pytest.raises(InvalidInput) as caught:
        make_team_token(tree.payments, ["admin:*"])
    assert refusal(caught) == [("/scopes", "admin_scope")]


def test_token_create__personal_by_default__without_the_powerful_scopes(tree: Tree) -> None:
    owner = make_user(tree.root, Role.OWNER)
    issued = token_create(actor=actor_for_user(owner), kind="user", node=tree.root, name="cli", user=owner)
    assert set(issued.token.scopes) == SCOPES - {"admin:*", "config:resolve"}


def test_token_create__beyond_what_the_creator_holds__refused(tree: Tree) -> None:
    actor = actor_for_token(make_admin_token(tree.root, ["admin:*", "runs:read"]))
    token_create(actor=actor, kind="team", node=tree.payments, name="reader", scopes=["runs:read"])
    for scopes in (["runs:create"], None):
        with pytest.raises(InvalidInput) as caught:
            token_create(actor=actor, kind="team", node=tree.payments, name="more", scopes=scopes)
        assert refusal(caught) == [("/scopes", "scope_not_held")]


def test_token_create__without_right_there__refused(tree: Tree, other_tree: Tree) -> None:
    refused: list[tuple[Any, type[AppError]]] = [
        (actor_for_user(make_user(tree.payments, Role.RESPONDER)), PermissionDenied),
        (actor_for_user(make_user(tree.platform, Role.ADMIN)), NotFound),
        (actor_for_token(make_team_token(tree.payments)), PermissionDenied),
        (other_tree.system, NotFound),
    ]
    for actor, error in refused:
        with pytest.raises(error):
            token_create(actor=actor, kind="team", node=tree.payments, name="t")


def test_token_create__personal__only_for_oneself_signed_in(tree: Tree, other_tree: Tree) -> None:
    user, admin = make_user(tree.payments, Role.RESPONDER), make_user(tree.root, Role.OWNER)
    with_token = actor_for_token(make_personal_token(user, tree.payments, ["runs:read"]))
    stranger = make_user(other_tree.root, Role.OWNER)
    for actor, person in ((actor_for_user(admin), user), (with_token, user), (tree.system, stranger)):
        with pytest.raises(PermissionDenied):
            token_create(actor=actor, kind="user", node=tree.payments, name="t", scopes=["runs:read"], user=person)


def test_token_revoke__twice__one_record(tree: Tree) -> None:
    issued = make_token(tree.payments)
    first = token_revoke(actor=tree.system, token=issued.token)
    assert token_revoke(actor=tree.system, token=issued.token).revoked_at == first.revoked_at
    assert AuditEvent.objects.filter(action="token.revoke").count() == 1
    with pytest.raises(NotAuthenticated):
        actor_for_token(issued.plaintext)


def test_token_revoke__own_personal__by_its_person_not_by_a_peer(tree: Tree) -> None:
    user, peer = make_user(tree.payments, Role.VIEWER), make_user(tree.payments, Role.RESPONDER)
    plaintext = make_personal_token(user, tree.payments, ["runs:read"])
    token = AccessToken.objects.get(user=user)
    with pytest.raises(PermissionDenied):
        token_revoke(actor=actor_for_user(peer), token=token)
    token_revoke(actor=actor_for_token(plaintext), token=token)
    with pytest.raises(NotAuthenticated):
        actor_for_token(plaintext)


def test_token_rotate__overlap__both_work_then_only_the_new(tree: Tree) -> None:
    with time_machine.travel("2030-01-01T00:00:00Z", tick=False) as time:
        old = make_token(tree.payments, scopes=["runs:read"])
        new = token_rotate(actor=tree.system, token=old.token, overlap=timedelta(hours=1))
        assert (
            actor_for_token(old.plaintext).scopes == actor_for_token(new.plaintext).scopes == frozenset({"runs:read"})
        )
        time.shift(3601)
        assert actor_for_token(new.plaintext).credential_id == new.token.public_id
        with pytest.raises(NotAuthenticated):
            actor_for_token(old.plaintext)
        with pytest.raises(Conflict) as caught:
            token_rotate(actor=tree.system, token=old.token)
        assert caught.value.code == "token_inactive"


def test_token_rotate__end_of_time__as_long_a_life_as_there_is(tree: Tree) -> None:
    with time_machine.travel("2030-01-01T00:00:00Z", tick=False) as time:
        old = make_token(tree.payments, expires_at=datetime.max.replace(tzinfo=UTC))
        time.shift(60)
        assert token_rotate(actor=tree.system, token=old.token).token.expires_at == datetime.max.replace(tzinfo=UTC)


# ---- people ----


def test_user_create__member__no_password_sign_in_and_no_role(tree: Tree) -> None:
    user = user_create(
        actor=tree.system, organization=tree.organization, username=" ada ", name="Ada", email="a@b.example"
    )
    assert (user.username, user.organization, user.has_usable_password()) == ("ada", tree.organization, False)
    assert not user.memberships.exists()
    assert AuditEvent.objects.get(action="user.create").after["username"] == "ada"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"username": ""}, ("/username", "blank")),
        ({"username": "x" * 151}, ("/username", "too_long")),
        ({"username": "a\x00"}, ("/username", "control_character")),
        ({"email": "nothing"}, ("/email", "email")),
        ({"email": f"{'a' * 250}@example.com"}, ("/email", "email")),
        ({"password": "short"}, ("/password", "password")),
    ],
)
def test_user_create__bad_field__names_it(tree: Tree, fields: dict[str, str], expected: tuple[str, str]) -> None:
    values: dict[str, Any] = {"username": "ada"} | fields
    with pytest.raises(InvalidInput) as caught:
        user_create(actor=tree.system, organization=tree.organization, **values)
    assert refusal(caught) == [expected]
    assert "short" not in caught.value.detail.replace("too short", "")


def test_user_create__taken_anywhere__conflict(tree: Tree, other_tree: Tree) -> None:
    make_user(other_tree.root, username="ada")
    with pytest.raises(Conflict) as caught:
        user_create(actor=tree.system, organization=tree.organization, username="ada")
    assert caught.value.code == "username_taken"


def test_user_create__admin_of_a_team__denied(tree: Tree) -> None:
    user = make_user(tree.payments, Role.ADMIN)
    with pytest.raises(NotFound):
        user_create(actor=actor_for_user(user), organization=tree.organization, username="ada")


def test_user_reset_password__by_a_person__denied(tree: Tree) -> None:
    owner = make_user(tree.root, Role.OWNER)
    with pytest.raises(PermissionDenied):
        user_reset_password(actor=actor_for_user(owner), user=owner, password="a-long-new-password")
    user_reset_password(actor=tree.system, user=owner, password="a-long-new-password")
    owner.refresh_from_db()
    assert owner.check_password("a-long-new-password")
    assert not owner.check_password(PASSWORD)


# ---- roles ----


def test_membership_grant__twice__one_row_one_record(tree: Tree) -> None:
    user = make_user(tree.root, None)
    first = membership_grant(actor=tree.system, user=user, node=tree.payments, role="responder")
    assert membership_grant(actor=tree.system, user=user, node=tree.payments, role="responder") == first
    assert AuditEvent.objects.get(action="membership.grant").after["role"] == "responder"


def test_membership_grant__beyond_the_granter__denied(tree: Tree) -> None:
    user, admin = make_user(tree.root, None), actor_for_user(make_user(tree.root, Role.ADMIN))
    membership_grant(actor=admin, user=user, node=tree.payments, role="admin")
    for role in ("owner", "reviewer"):
        with pytest.raises(PermissionDenied) as caught:
            membership_grant(actor=admin, user=user, node=tree.root, role=role)
        assert caught.value.code == "role_not_held"


def test_membership_grant__bad_role_node_or_person__names_it(tree: Tree, other_tree: Tree) -> None:
    user, stranger = make_user(tree.root, None), make_user(other_tree.root, None)
    for person, node, role, expected in (
        (user, tree.payments, "king", ("/role", "unknown_role")),
        (user, tree.payments, "owner", ("/role", "owner_root_only")),
        (stranger, tree.payments, "viewer", ("/username", "unknown_user")),
        (make_operator(), tree.payments, "viewer", ("/username", "unknown_user")),
    ):
        with pytest.raises(InvalidInput) as caught:
            membership_grant(actor=tree.system, user=person, node=node, role=role)
        assert refusal(caught) == [expected]


def test_membership_revoke__last_owner__conflict(tree: Tree) -> None:
    one, two = make_user(tree.root, Role.OWNER), make_user(tree.root, Role.OWNER)
    membership_revoke(actor=actor_for_user(one), membership=two.memberships.get())
    with pytest.raises(Conflict) as caught:
        membership_revoke(actor=actor_for_user(one), membership=one.memberships.get())
    assert caught.value.code == "last_owner"
    assert Membership.objects.filter(role="owner").count() == 1


def test_membership_revoke__owner_by_admin__denied(tree: Tree) -> None:
    owner, admin = make_user(tree.root, Role.OWNER), make_user(tree.root, Role.ADMIN)
    make_user(tree.root, Role.OWNER)
    with pytest.raises(PermissionDenied):
        membership_revoke(actor=actor_for_user(admin), membership=owner.memberships.get())


# ---- sign-in links ----


def test_sign_in_link__once__signs_in_then_never_again(tree: Tree) -> None:
    user = make_user(tree.root)
    secret = sign_in_link_create(user=user)
    assert secret not in str(SignInLink.objects.values().get())
    assert sign_in_link_redeem(secret=secret, address="192.0.2.9") == user
    event = AuditEvent.objects.get(action="sign_in_link.redeem")
    assert (event.actor, event.address) == (f"user:{user.pk}", "192.0.2.9")
    with pytest.raises(NotAuthenticated):
        sign_in_link_redeem(secret=secret)


def test_sign_in_link__expired_unknown_or_deactivated__same_words(tree: Tree) -> None:
    user, gone = make_user(tree.root), make_user(tree.root)
    late, of_gone = sign_in_link_create(user=user), sign_in_link_create(user=gone)
    gone.is_active = False
    gone.save()
    words = set()
    with time_machine.travel(clock.now() + timedelta(minutes=16), tick=False):
        for secret in (late, of_gone, "", "nothing", "x" * 10_000, "\x00", "\ud800"):
            with pytest.raises(NotAuthenticated) as caught:
                sign_in_link_redeem(secret=secret)
            words.add((caught.value.code, caught.value.detail))
    assert len(words) == 1


def test_sign_in_link_create__operator_or_deactivated__refused(tree: Tree) -> None:
    gone = make_user(tree.root)
    gone.is_active = False
    for user in (make_operator(), gone):
        with pytest.raises(InvalidInput):
            sign_in_link_create(user=user)

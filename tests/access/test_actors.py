"""From a credential to an actor."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client

from controlplane.access import tokens
from controlplane.access.actors import actor_for_bearer, actor_for_session_cookie
from controlplane.access.models import AccessToken
from controlplane.access.services import token_create, token_revoke
from controlplane.core import clock
from controlplane.core.actor import Actor, ActorKind, Channel, Grant, Role
from controlplane.core.errors import NotAuthenticated
from controlplane.orgs.selectors import nodes_visible
from tests.factories import (
    Tree,
    actor_for_user,
    make_operator,
    make_personal_token,
    make_team_token,
    make_token,
    make_user,
)

pytestmark = pytest.mark.django_db


def bearer(plaintext: str) -> Actor:
    return actor_for_bearer(plaintext, channel=Channel.API, address="192.0.2.7")


def test_actor_for_user__member__roles_and_organization(tree: Tree) -> None:
    user = make_user(tree.payments, Role.RESPONDER, username="ada")
    actor = actor_for_user(user)
    assert actor.kind == ActorKind.USER
    assert actor.principal == f"user:{user.pk}"
    assert actor.grants == (Grant(tree.payments.pk, Role.RESPONDER),)
    assert (actor.organization_id, actor.user_id, actor.scopes) == (tree.organization.pk, user.pk, None)


def test_actor_for_user__operator__nothing_of_any_organization(tree: Tree) -> None:
    actor = actor_for_user(make_operator())
    assert (actor.organization_id, actor.grants) == (None, ())


def test_actor_for_user__deactivated__refused(tree: Tree) -> None:
    user = make_user(tree.payments)
    user.is_active = False
    with pytest.raises(NotAuthenticated):
        actor_for_user(user)


def test_actor_for_bearer__team_token__bound_to_its_node_in_one_query(
    tree: Tree, django_assert_num_queries: Any
) -> None:
    issued = make_token(tree.payments, name="runtime of payments")
    bearer(issued.plaintext)
    with django_assert_num_queries(1):
        actor = bearer(issued.plaintext)
    assert actor.kind == ActorKind.TEAM_TOKEN
    assert actor.principal == f"token:{issued.token.public_id}"
    assert (actor.label, actor.credential_id) == ("runtime of payments", issued.token.public_id)
    assert (actor.token_node_id, actor.organization_id) == (tree.payments.pk, tree.organization.pk)
    assert (actor.user_id, actor.grants, actor.address) == (None, (), "192.0.2.7")
    assert "config:resolve" in (actor.scopes or ())


def test_actor_for_bearer__personal_token__the_person_with_all_roles_in_one_query(
    tree: Tree, django_assert_num_queries: Any
) -> None:
    user = make_user(tree.payments, Role.RESPONDER)
    user.memberships.create(node=tree.platform, role=Role.VIEWER.value)
    plaintext = make_personal_token(user, tree.root, ["runs:read", "runs:create"])
    bearer(plaintext)
    with django_assert_num_queries(1):
        actor = bearer(plaintext)
    assert (actor.kind, actor.principal) == (ActorKind.PERSONAL_TOKEN, f"user:{user.pk}")
    assert set(actor.grants) == {Grant(tree.payments.pk, Role.RESPONDER), Grant(tree.platform.pk, Role.VIEWER)}
    assert actor.scopes == frozenset({"runs:read", "runs:create"})
    assert actor.token_node_id is None
    user.memberships.all().delete()
    assert bearer(plaintext).grants == ()


def test_actor_for_bearer__any_fault__one_and_the_same_401(tree: Tree) -> None:
    expired = make_token(tree.payments, expires_at=clock.now() + timedelta(hours=1))
    revoked = make_token(tree.payments)
    token_revoke(actor=tree.system, token=revoked.token)
    good = tokens.parse(make_team_token(tree.payments))
    assert good is not None
    user = make_user(tree.payments)
    of_deactivated = make_personal_token(user, tree.payments, ["runs:read"])
    user.is_active = False
    user.save()
    other_secret = tokens.TokenText(good.kind, good.public_id, tokens.issue("team").secret)
    other_kind = tokens.TokenText("admin", good.public_id, good.secret)
    words = set()
    with time_machine.travel(clock.now() + timedelta(hours=2), tick=False):
        for plaintext in (
            "", "x", "osre_team_x_y_z", good.plaintext[:-1] + ("0" if good.plaintext[-1] != "0" else "1"),
            tokens.issue("team").plaintext, other_secret.plaintext, other_kind.plaintext, expired.plaintext,
            revoked.plaintext, of_deactivated,
        ):  # fmt: skip
            with pytest.raises(NotAuthenticated) as caught:
                bearer(plaintext)
            words.add((caught.value.code, caught.value.detail, tuple(caught.value.headers.items())))
        assert bearer(good.plaintext).credential_id == good.public_id
    assert len(words) == 1


def test_actor_for_bearer__unknown_id__same_hmac_work_as_wrong_secret(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[str] = []
    real = tokens.peppered

    def peppered(text: str, version: int) -> str:
        computed.append(text)
        return real(text, version)

    monkeypatch.setattr(tokens, "peppered", peppered)
    with pytest.raises(NotAuthenticated):
        bearer(tokens.issue("team").plaintext)
    assert len(computed) == 1


def test_actor_for_bearer__used_often__last_used_at_most_once_a_minute(tree: Tree) -> None:
    issued = make_token(tree.payments)

    def last_used() -> Any:
        return AccessToken.objects.get(pk=issued.token.pk).last_used_at

    with time_machine.travel("2030-01-01T00:00:00Z", tick=False) as time:
        assert last_used() is None
        bearer(issued.plaintext)
        first = last_used()
        time.shift(59)
        bearer(issued.plaintext)
        assert last_used() == first
        time.shift(2)
        bearer(issued.plaintext)
        assert last_used() == first + timedelta(seconds=61)


def session_cookie(client: Client) -> str:
    return client.cookies["opensre_session"].value


def test_actor_for_session_cookie__signed_in__same_actor_as_user(tree: Tree, django_assert_num_queries: Any) -> None:
    user = make_user(tree.payments)
    client = Client()
    client.force_login(user)
    with django_assert_num_queries(3):
        actor = actor_for_session_cookie(session_cookie(client), channel=Channel.WEB, address="192.0.2.1")
    assert actor == actor_for_user(user)


def test_actor_for_session_cookie__signed_out_changed_password_or_unknown__nobody(tree: Tree) -> None:
    user = make_user(tree.payments)
    out, changed = Client(), Client()
    for client in (out, changed):
        client.force_login(user)
    cookies = [session_cookie(client) for client in (out, changed)]
    out.logout()
    user.set_password("another-long-password")
    user.save()
    for cookie in [*cookies, "", "x", "a" * 5000, "../../etc", "\x00"]:
        assert actor_for_session_cookie(cookie, channel=Channel.WEB) is None


def test_actor_for_session_cookie__deactivated_person__nobody(tree: Tree) -> None:
    user = make_user(tree.payments)
    client = Client()
    client.force_login(user)
    user.is_active = False
    user.save()
    assert actor_for_session_cookie(session_cookie(client), channel=Channel.WEB) is None


def test_actor_for_bearer__role_taken_back__personal_token_loses_it_at_once(tree: Tree) -> None:
    user = make_user(tree.root, Role.OWNER)
    issued = token_create(actor=actor_for_user(user), kind="user", node=tree.root, name="mine", user=user)
    assert nodes_visible(bearer(issued.plaintext)).count() == 4
    user.memberships.all().delete()
    assert not nodes_visible(bearer(issued.plaintext)).exists()

"""The operators' admin: operators are edited, everything else is only looked at."""

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from controlplane.access.admin import UserAdmin
from controlplane.access.models import AccessToken, User
from controlplane.audit.security import sign_in_record
from controlplane.core.actor import Role
from tests.factories import Tree, make_operator, make_personal_token, make_team_token, make_user

pytestmark = pytest.mark.django_db
READ_ONLY = [
    "orgs.organization",
    "orgs.node",
    "access.membership",
    "access.accesstoken",
    "audit.auditevent",
    "audit.securityevent",
]


@pytest.fixture
def client(tree: Tree) -> Client:
    client = Client()
    client.force_login(make_operator())
    return client


def url(label: str, view: str, *args: object) -> str:
    return reverse(f"admin:{label.replace('.', '_')}_{view}", args=args)


@pytest.mark.parametrize("label", READ_ONLY)
def test_admin__domain_rows__shown_and_never_changed(client: Client, tree: Tree, label: str) -> None:
    make_team_token(tree.payments)
    user = make_user(tree.payments)
    make_personal_token(user, tree.payments, ["runs:read"])
    sign_in_record(
        ok=True, method="password", principal="user:1", label="Ada", organization_id=None, address="192.0.2.1"
    )
    model = next(model for model in admin.site._registry if model._meta.label_lower == label)
    row = model._default_manager.first()
    assert row is not None
    assert client.get(url(label, "changelist")).status_code == 200
    assert client.get(url(label, "change", row.pk)).status_code == 200
    assert client.get(url(label, "add")).status_code == 403
    assert client.post(url(label, "change", row.pk), {"slug": "x"}).status_code == 403
    assert client.post(url(label, "delete", row.pk), {"post": "yes"}).status_code == 403


def test_admin__tokens__digest_not_shown(client: Client, tree: Tree) -> None:
    make_team_token(tree.payments)
    row = AccessToken.objects.get()
    page = client.get(url("access.accesstoken", "change", row.pk)).content.decode()
    assert row.public_id in page
    assert row.digest not in page


def test_admin__new_operator__superuser_of_no_organization(client: Client) -> None:
    assert client.get(url("access.user", "add")).status_code == 200
    response = client.post(
        url("access.user", "add"),
        {
            "username": "second",
            "name": "Second",
            "email": "",
            "usable_password": "true",
            "password1": "a-long-new-password",
            "password2": "a-long-new-password",
        },
    )
    assert response.status_code == 302
    user = User.objects.get(username="second")
    assert (user.is_staff, user.is_superuser, user.organization) == (True, True, None)
    assert user.check_password("a-long-new-password")


def test_admin__operator__deactivated_and_password_changed_never_deleted(client: Client) -> None:
    other = make_operator("second")
    assert client.get(url("access.user", "change", other.pk)).status_code == 200
    client.post(url("access.user", "change", other.pk), {"username": "second", "name": "", "email": ""})
    other.refresh_from_db()
    assert not other.is_active
    response = client.post(
        reverse("admin:auth_user_password_change", args=[other.pk]),
        {"usable_password": "true", "password1": "a-long-new-password", "password2": "a-long-new-password"},
    )
    assert response.status_code == 302
    other.refresh_from_db()
    assert other.check_password("a-long-new-password")
    assert client.post(url("access.user", "delete", other.pk), {"post": "yes"}).status_code == 403


def test_admin__member__shown_not_changed(client: Client, tree: Tree) -> None:
    member = make_user(tree.root, Role.OWNER)
    assert client.get(url("access.user", "change", member.pk)).status_code == 200
    assert client.post(url("access.user", "change", member.pk), {"username": "x"}).status_code == 403
    password = reverse("admin:auth_user_password_change", args=[member.pk])
    assert client.post(password, {"password1": "a-long-new-password"}).status_code == 403
    member.refresh_from_db()
    assert member.is_active


def test_admin__members_and_strangers__not_let_in(tree: Tree) -> None:
    member, stranger = Client(), Client()
    member.force_login(make_user(tree.root, Role.OWNER))
    for client in (member, stranger):
        answer = client.get(url("audit.auditevent", "changelist"))
        assert (answer.status_code, answer.headers["Location"].partition("?")[0]) == (302, "/admin/login/")
    assert isinstance(admin.site._registry[User], UserAdmin)
    assert not any(model._meta.label == "auth.Group" for model in admin.site._registry)

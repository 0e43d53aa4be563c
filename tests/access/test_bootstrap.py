"""``manage.py bootstrap``."""

import json
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.core.management import CommandError, call_command
from django.http import HttpRequest

from controlplane.access.models import AccessToken, Membership, User
from controlplane.audit.models import AuditEvent
from controlplane.audit.selectors import audit_verify
from controlplane.orgs.models import Node, Organization
from controlplane.orgs.services import node_delete, node_update
from tests.factories import api_client, make_user, system_of

pytestmark = pytest.mark.django_db


def bootstrap(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command("bootstrap", "--json", *arguments, stdout=out)
    made: dict[str, Any] = json.loads(out.getvalue())
    return made


def test_bootstrap__empty_database__everything_works(db: None) -> None:
    made = bootstrap()
    assert set(made) == {
        "organization", "root", "teams", "owner", "operator", "admin_token", "team", "team_token",
    }  # fmt: skip
    assert (made["organization"], made["root"], made["teams"], made["team"]) == (
        "demo",
        "demo",
        ["payments", "platform"],
        "payments",
    )
    assert made["owner"]["username"] == "owner"
    owner = authenticate(HttpRequest(), username="owner", password=made["owner"]["password"])
    operator = authenticate(HttpRequest(), username="operator", password=made["operator"]["password"])
    assert isinstance(owner, User)
    assert isinstance(operator, User)
    assert (operator.is_superuser, operator.organization) == (True, None)
    kinds = {}
    for name, token in {
        "owner": made["owner"]["token"],
        "admin": made["admin_token"],
        "team": made["team_token"],
    }.items():
        me = api_client(token=token).get("/api/v1/me").json()
        kinds[name] = (me["kind"], me["organization"], me["node"])
    assert kinds == {
        "owner": ("personal_token", "demo", None),
        "admin": ("admin_token", "demo", "demo"),
        "team": ("team_token", "demo", "payments"),
    }
    assert made["owner"]["token"].startswith("osre_user_")
    assert [node.slug for node in Node.objects.order_by("above__depth").filter(parent__slug="engineering").distinct()]
    assert audit_verify(Organization.objects.get().pk).intact


def test_bootstrap__again__same_tree_new_secrets_old_tokens_valid(db: None) -> None:
    first, second = bootstrap(), bootstrap()
    assert (Organization.objects.count(), Node.objects.count(), User.objects.count()) == (1, 4, 2)
    assert Membership.objects.count() == 1
    assert AccessToken.objects.count() == 6
    for token in (first["team_token"], second["team_token"], first["owner"]["token"]):
        assert api_client(token=token).get("/api/v1/me").status_code == 200
    assert authenticate(HttpRequest(), username="owner", password=first["owner"]["password"]) is None
    assert authenticate(HttpRequest(), username="owner", password=second["owner"]["password"]) is not None
    assert authenticate(HttpRequest(), username="operator", password=second["operator"]["password"]) is not None


def test_bootstrap__second_organization__own_owner_same_operator(db: None) -> None:
    bootstrap()
    made = bootstrap("--organization", "acme")
    assert made["owner"]["username"] == "owner@acme"
    assert made["root"] == "acme"
    assert User.objects.filter(is_superuser=True).count() == 1
    assert api_client(token=made["admin_token"]).get("/api/v1/orgs/demo/nodes").status_code == 404


@pytest.mark.parametrize("slug", ["engineering", "payments"])
def test_bootstrap__organization_named_like_a_node__numbered_slug(db: None, slug: str) -> None:
    made = bootstrap("--organization", slug)
    assert made["root"] == slug
    assert len(made["teams"]) == 2


def test_bootstrap__changed_tree__left_as_it_is(db: None) -> None:
    bootstrap()
    payments = Node.objects.get(slug="payments")
    node_update(actor=system_of(payments), node=payments, slug="pay")
    assert bootstrap()["teams"] == ["pay", "platform"]
    for slug in ("pay", "platform"):
        node_delete(actor=system_of(payments), node=Node.objects.get(slug=slug))
    assert bootstrap()["teams"] == ["payments", "platform"]
    assert Node.objects.filter(kind="group").count() == 1


def test_bootstrap__secrets__in_no_row(db: None) -> None:
    made = bootstrap()
    stored = str([*AuditEvent.objects.values(), *AccessToken.objects.values(), *User.objects.values()])
    for token in (made["team_token"], made["admin_token"], made["owner"]["token"]):
        assert token.split("_")[3] not in stored
    for password in (made["owner"]["password"], made["operator"]["password"]):
        assert password not in stored


def test_bootstrap__bad_slug_or_taken_name__error_without_traceback(db: None) -> None:
    with pytest.raises(CommandError, match="slug_format"):
        bootstrap("--organization", "Not A Slug")
    bootstrap()
    rival = Node.objects.get(slug="demo")
    make_user(rival, None, username="owner@acme")
    with pytest.raises(CommandError, match="username_taken"):
        bootstrap("--organization", "acme")


def test_bootstrap__for_people__shows_all_secrets(db: None) -> None:
    out = StringIO()
    call_command("bootstrap", stdout=out)
    text = out.getvalue()
    assert "shown once" in text
    for kind in ("team", "admin", "user"):
        assert f"osre_{kind}_" in text

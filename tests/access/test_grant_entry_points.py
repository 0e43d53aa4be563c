"""Grants of credentials over REST and on the command line."""

from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from controlplane.access.models import CredentialGrant
from controlplane.audit.models import AuditEvent
from controlplane.core.actor import Role
from tests.access.support import NAME, admin_of, give, holders, holds
from tests.factories import (
    Tree,
    api_client,
    entrust,
    make_grant,
    make_team_token,
    make_user,
)

pytestmark = pytest.mark.django_db

HOST = "db.example.com"


def test_list__own_above_and_operators__with_what_counts_here(tree: Tree) -> None:
    entrust(tree.root, NAME, [HOST], inherited=False)
    give(tree.system, tree.engineering, inherited=False)
    give(admin_of(tree.engineering), tree.payments)
    body = api_client(token=make_team_token(tree.payments)).get("/api/v1/orgs/demo/nodes/payments/grants").json()

    assert [(one["node"], one["given_from"], one["inherited"], one["counts"]) for one in body["results"]] == [
        (None, None, False, False),
        ("engineering", "demo", False, False),
        ("payments", "engineering", True, True),
    ]
    assert {one["name"] for one in body["results"]} == {NAME}
    assert body["results"][0]["hosts"] == [HOST]
    assert body["next"] is None


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"name": NAME, "hosts": [HOST]}, 201, None),
        ({"name": NAME, "hosts": ["b.example.com"]}, 403, "hosts_not_held"),
        ({"name": "OPENSRE_CRED_UNKNOWN"}, 403, "credential_not_held"),
        ({"name": "SECRET_KEY"}, 403, "credential_not_held"),
        ({"name": "no name"}, 422, "credential_name"),
        ({}, 422, None),
        ({"name": NAME, "inherited": "true"}, 422, None),
        ({"name": NAME, "value": "x"}, 422, "unknown_member"),
        ({"name": NAME, "hosts": "db"}, 422, None),
        ({"name": NAME, "hosts": ["a"] * 51}, 422, None),
    ],
)
def test_post__by_the_owner__answer(tree: Tree, body: dict[str, Any], status: int, code: str | None) -> None:
    entrust(tree.root, NAME, [HOST])
    client = api_client(user=make_user(tree.root, Role.OWNER))
    response = client.post("/api/v1/orgs/demo/nodes/payments/grants", body, format="json")

    assert response.status_code == status
    assert code is None or response.json()["code"] == code
    made = CredentialGrant.objects.filter(node=tree.payments)
    assert [str(one.pk) for one in made] == ([response.json()["id"]] if status == 201 else [])


def test_delete__grant_of_another_node__404_and_still_there(tree: Tree) -> None:
    grant = make_grant(tree.platform, NAME)
    client = api_client(user=make_user(tree.root, Role.OWNER))
    for pk in (grant.pk, uuid4()):
        assert client.delete(f"/api/v1/orgs/demo/nodes/payments/grants/{pk}").status_code == 404
    assert holds(tree.platform)


def command(*arguments: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("credentials", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_command__grant_list_revoke__audited_as_the_system(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "hunter2-value")
    line = f"demo  {NAME}  set  *.example.com, {HOST}\n"
    assert command("grant", "demo", NAME, "--host", HOST, "--host", "*.example.com") == (line, "")
    assert command("list") == command("list", "demo") == (line, "")
    assert holders(tree, HOST) == {"demo", "engineering", "payments", "platform"}
    give(tree.system, tree.payments, [HOST])
    assert command("revoke", "demo", NAME) == (f"{NAME} taken back from demo, with 1 grants below\n", "")
    assert command("list") == ("", "")
    rows = AuditEvent.objects.filter(actor="system:credentials").order_by("org_seq")
    assert [row.action for row in rows] == ["credential.grant", "credential.revoke", "credential.revoke"]
    assert "hunter2" not in str([(row.before_json, row.after_json) for row in AuditEvent.objects.all()])


def test_command__not_allowed_and_no_host__said(tree: Tree) -> None:
    out, err = command("grant", "demo", "DB_PASSWORD", "--root-only")
    assert out == "demo  DB_PASSWORD  not allowed  no host, the root only\n"
    assert "not allowed by CREDENTIAL_ENV_ALLOW" in err
    assert "Without --host" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("grant", "ghost", NAME), "no organization"),
        (("revoke", "demo", NAME), "was not given"),
        (("grant", "demo", "SECRET_KEY"), "protected_credential"),
        (("grant", "demo", NAME, "--host", "http://x"), "hosts"),
    ],
)
def test_command__mistake__said_and_nothing_granted(tree: Tree, arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        command(*arguments)
    assert not CredentialGrant.objects.exists()

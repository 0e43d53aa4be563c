"""REST of access: /me, tokens, members; authentication at the edge."""

from typing import Any

import pytest
from django.middleware.csrf import get_token
from django.test import RequestFactory

from controlplane.access.models import AccessToken, Membership
from controlplane.core.actor import Role
from tests.factories import (
    Tree,
    api_client,
    make_admin_token,
    make_operator,
    make_personal_token,
    make_team_token,
    make_token,
    make_user,
)
from tests.support.pages import every_page

pytestmark = pytest.mark.django_db
ME = "/api/v1/me"
PAYMENTS = "/api/v1/orgs/demo/nodes/payments"


# ---- /me ----


def test_me__team_token__node_and_scopes_in_three_queries(tree: Tree, django_assert_num_queries: Any) -> None:
    client = api_client(token=make_team_token(tree.payments, ["runs:read", "runs:create"]))
    client.get(ME)
    with django_assert_num_queries(3):
        answer = client.get(ME).json()
    assert answer == {
        "kind": "team_token",
        "label": "team of payments",
        "organization": "demo",
        "node": "payments",
        "roles": [],
        "scopes": ["runs:create", "runs:read"],
        "impersonator": None,
    }


def test_me__session__roles_and_no_scopes(tree: Tree, django_assert_num_queries: Any) -> None:
    user = make_user(tree.payments, Role.RESPONDER, username="ada")
    user.memberships.create(node=tree.root, role=Role.VIEWER.value)
    client = api_client(user=user)
    with django_assert_num_queries(5):
        answer = client.get(ME).json()
    assert answer == {
        "kind": "user",
        "label": "ada",
        "organization": "demo",
        "node": None,
        "roles": [{"node": "demo", "role": "viewer"}, {"node": "payments", "role": "responder"}],
        "scopes": None,
        "impersonator": None,
    }


def test_me__personal_token__person_and_scopes(tree: Tree) -> None:
    user = make_user(tree.payments, Role.RESPONDER, username="ada")
    answer = api_client(token=make_personal_token(user, tree.payments, ["runs:read"])).get(ME).json()
    assert (answer["kind"], answer["label"], answer["scopes"]) == ("personal_token", "ada", ["runs:read"])


def test_me__operator__no_organization(tree: Tree) -> None:
    answer = api_client(user=make_operator()).get(ME).json()
    assert (answer["organization"], answer["roles"]) == (None, [])


# ---- the edge ----


def test_authentication__none__401_with_challenge(tree: Tree) -> None:
    response = api_client().get(ME)
    assert response.status_code == 401
    assert response["WWW-Authenticate"].startswith("Bearer")
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["code"] == "not_authenticated"


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer nothing"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer"},
        {"Authorization": "bearer a b c"},
        {"X-OpenSRE-Team-Token": "nothing"},
    ],
)
def test_authentication__bad_bearer_beside_a_session__401(tree: Tree, headers: dict[str, str]) -> None:
    client = api_client(user=make_user(tree.root, Role.OWNER))
    assert client.get(ME).status_code == 200
    response = client.get(ME, headers=headers)
    assert response.status_code == 401
    assert response["WWW-Authenticate"].startswith("Bearer")


def test_authentication__other_scheme_beside_a_session__ignored(tree: Tree) -> None:
    client = api_client(user=make_user(tree.root, Role.OWNER))
    assert client.get(ME, headers={"Authorization": "Basic eDp5"}).status_code == 200


def test_authentication__team_token_header__same_as_bearer(tree: Tree) -> None:
    token = make_team_token(tree.payments)
    assert api_client().get(ME, headers={"X-OpenSRE-Team-Token": token}).json()["node"] == "payments"
    assert api_client().get(ME, headers={"Authorization": f"bearer {token}"}).json()["node"] == "payments"


def test_authentication__session__unsafe_methods_need_the_csrf_token(tree: Tree) -> None:
    client = api_client(user=make_user(tree.root, Role.OWNER), enforce_csrf_checks=True)
    body = {"slug": "new", "name": "New", "kind": "team", "parent": "demo"}
    refused = client.post("/api/v1/orgs/demo/nodes", body, format="json")
    assert (refused.status_code, refused.json()["code"]) == (403, "csrf_failed")
    request = RequestFactory().get("/")
    token = get_token(request)
    client.cookies["opensre_csrf"] = request.META["CSRF_COOKIE"]
    accepted = client.post("/api/v1/orgs/demo/nodes", body, format="json", headers={"X-CSRFToken": token})
    assert accepted.status_code == 201


def test_authentication__bearer__needs_no_csrf_token(tree: Tree) -> None:
    client = api_client(token=make_admin_token(tree.root), enforce_csrf_checks=True)
    body = {"slug": "new", "name": "New", "kind": "team", "parent": "demo"}
    assert client.post("/api/v1/orgs/demo/nodes", body, format="json").status_code == 201


def test_authentication__deactivated_person__session_ends(tree: Tree) -> None:
    user = make_user(tree.root, Role.OWNER)
    client = api_client(user=user)
    user.is_active = False
    user.save()
    assert client.get(ME).status_code == 401


# ---- tokens ----


def test_token_create__team_by_default__plaintext_once(tree: Tree) -> None:
    client = api_client(user=make_user(tree.payments, Role.ADMIN))
    response = client.post(f"{PAYMENTS}/tokens", {"name": "runtime"}, format="json")
    assert response.status_code == 201
    assert response["Cache-Control"] == "no-store"
    issued = response.json()
    assert issued["kind"] == "team"
    assert api_client(token=issued["token"]).get(ME).json()["node"] == "payments"
    listed = client.get(f"{PAYMENTS}/tokens").json()["results"]
    assert [token["id"] for token in listed] == [issued["id"]]
    assert issued["token"].split("_")[3] not in client.get(f"{PAYMENTS}/tokens").content.decode()
    assert listed[0]["last_used_at"].endswith("Z")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, [("/name", "required")]),
        ({"name": "t", "secret": "x"}, [("/secret", "unknown_member")]),
        ({"name": "t", "kind": "root"}, [("/kind", "kind")]),
        ({"name": "t", "scopes": "runs:read"}, [("/scopes", "not_a_list")]),
        ({"name": "t", "scopes": []}, [("/scopes", "empty")]),
        ({"name": "t", "scopes": [5]}, [("/scopes/0", "invalid")]),
        ({"name": "t", "scopes": ["sudo"]}, [("/scopes", "unknown_scope")]),
        ({"name": "t", "expires_at": "soon"}, [("/expires_at", "invalid")]),
        ({"name": "t", "expires_at": "2001-01-01T00:00:00Z"}, [("/expires_at", "expires_in_past")]),
    ],
)
def test_token_create__bad_body__422_points_at_it(tree: Tree, body: dict[str, Any], expected: list[Any]) -> None:
    response = api_client(token=make_admin_token(tree.root)).post(f"{PAYMENTS}/tokens", body, format="json")
    assert response.status_code == 422
    assert [(error["pointer"], error["code"]) for error in response.json()["errors"]] == expected


def test_token_create__personal_by_responder__own_listed_and_revocable(tree: Tree) -> None:
    client = api_client(user=make_user(tree.payments, Role.RESPONDER))
    make_team_token(tree.payments)
    issued = client.post(f"{PAYMENTS}/tokens", {"name": "cli", "kind": "user"}, format="json").json()
    assert "runs:create" in issued["scopes"]
    assert [token["id"] for token in client.get(f"{PAYMENTS}/tokens").json()["results"]] == [issued["id"]]
    assert client.delete(f"{PAYMENTS}/tokens/{issued['id']}").status_code == 204
    assert api_client(token=issued["token"]).get(ME).status_code == 401


def test_token_revoke__of_another_node_or_peer__404(tree: Tree) -> None:
    platform = make_token(tree.platform).token
    personal = make_personal_token(make_user(tree.payments), tree.payments, ["runs:read"])
    peer = api_client(user=make_user(tree.payments, Role.RESPONDER))
    admin = api_client(token=make_admin_token(tree.root))
    assert admin.delete(f"{PAYMENTS}/tokens/{platform.public_id}").status_code == 404
    assert admin.delete(f"{PAYMENTS}/tokens/{'x' * 16}").status_code == 404
    assert peer.delete(f"{PAYMENTS}/tokens/{personal.split('_')[2]}").status_code == 404
    assert AccessToken.objects.filter(revoked_at__isnull=False).count() == 0


def test_token_list__many__two_queries_after_authentication(tree: Tree, django_assert_num_queries: Any) -> None:
    client = api_client(token=make_admin_token(tree.root))
    for _ in range(5):
        make_token(tree.payments)
    client.get(ME)
    with django_assert_num_queries(3):
        assert len(client.get(f"{PAYMENTS}/tokens").json()["results"]) == 5


def test_token_list__pages__each_once(tree: Tree) -> None:
    client = api_client(token=make_admin_token(tree.root))
    expected = [make_token(tree.payments).token.public_id for _ in range(5)]
    pages = every_page(client, f"{PAYMENTS}/tokens", limit=2)
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [token["id"] for page in pages for token in page] == expected[::-1]


# ---- members ----


def test_members__grant_list_revoke__round(tree: Tree) -> None:
    make_user(tree.root, None, username="ada")
    client = api_client(user=make_user(tree.payments, Role.ADMIN, username="boss"))
    granted = client.post(f"{PAYMENTS}/members", {"username": "ada", "role": "responder"}, format="json")
    assert granted.status_code == 201
    listed = client.get(f"{PAYMENTS}/members").json()["results"]
    assert [(member["username"], member["role"], member["node"]) for member in listed] == [
        ("boss", "admin", "payments"),
        ("ada", "responder", "payments"),
    ]
    assert client.delete(f"{PAYMENTS}/members/{granted.json()['id']}").status_code == 204
    assert not Membership.objects.filter(user__username="ada").exists()
    assert client.delete(f"{PAYMENTS}/members/{granted.json()['id']}").status_code == 404
    assert client.delete(f"{PAYMENTS}/members/{10**30}").status_code == 404


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"username": "nobody", "role": "viewer"}, 422, "unknown_user"),
        ({"username": "stranger", "role": "viewer"}, 422, "unknown_user"),
        ({"username": "ada", "role": "king"}, 422, "unknown_role"),
        ({"username": "ada", "role": "owner"}, 422, "owner_root_only"),
        ({"username": "ada", "role": "reviewer"}, 403, "role_not_held"),
        ({"username": "ada"}, 422, "invalid_input"),
    ],
)
def test_members__bad_grant__says_why(
    tree: Tree, other_tree: Tree, body: dict[str, str], status: int, code: str
) -> None:
    make_user(tree.root, None, username="ada")
    make_user(other_tree.root, None, username="stranger")
    response = api_client(token=make_admin_token(tree.root)).post(f"{PAYMENTS}/members", body, format="json")
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert not Membership.objects.exists()


def test_members__list_of_many__two_queries_after_authentication(tree: Tree, django_assert_num_queries: Any) -> None:
    for _ in range(5):
        make_user(tree.payments)
    client = api_client(token=make_admin_token(tree.root))
    client.get(ME)
    with django_assert_num_queries(3):
        assert len(client.get(f"{PAYMENTS}/members").json()["results"]) == 5

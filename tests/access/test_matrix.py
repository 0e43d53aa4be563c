"""Every endpoint of the tree, access and audit against every kind of caller.

One table says what each caller may do; endpoints are tried on the caller's own team, on a sibling team, and on the team
of another organization. What may not be seen is 404, what is seen and not allowed 403, no credential 401.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import transaction
from django.urls import URLResolver
from rest_framework.test import APIClient

from controlplane.audit.models import AuditEvent
from controlplane.core.actor import Role
from controlplane.orgs.models import Node
from controlplane.urls import api as api_patterns
from tests.factories import (
    Tree,
    api_client,
    make_admin_token,
    make_grant,
    make_node,
    make_operator,
    make_personal_token,
    make_team_token,
    make_token,
    make_user,
)

pytestmark = pytest.mark.django_db


SPARE = "{spare}"
MODULES = {"controlplane.access.urls", "controlplane.orgs.urls", "controlplane.audit.urls"}


@dataclass(frozen=True)
class Endpoint:
    """One method of one path below a node. ``needs`` is what a caller must be able to do to get ``success``."""

    name: str
    method: str
    path: str
    needs: str
    success: int
    body: dict[str, Any] | None = None


ENDPOINTS = [
    Endpoint("node.read", "get", "", "read", 200),
    Endpoint("node.update", "patch", "", "write", 200, {"name": "New name"}),
    Endpoint("node.delete", "delete", "", "write", 204),
    Endpoint("token.list", "get", "/tokens", "tokens", 200),
    Endpoint("token.create", "post", "/tokens", "write", 201, {"name": "t", "scopes": ["runs:read"]}),
    Endpoint("token.revoke", "delete", "/tokens/{token}", "revoke", 204),
    Endpoint("member.list", "get", "/members", "write", 200),
    Endpoint("member.grant", "post", "/members", "write", 201, {"username": SPARE, "role": "viewer"}),
    Endpoint("member.revoke", "delete", "/members/{member}", "write", 204),
    Endpoint("grant.list", "get", "/grants", "config", 200),
    Endpoint("grant.create", "post", "/grants", "write", 201, {"name": "OPENSRE_CRED_A", "inherited": False}),
    Endpoint("grant.revoke", "delete", "/grants/{grant}", "write", 204),
]

ALL = {"read", "tokens", "config", "write", "revoke"}
#: Caller → what it may do on its own team. ``tokens``: a person may list its own personal ones; ``revoke`` of another's
#: token is then 404, for it is not in that list.
CALLERS: dict[str, tuple[Callable[[Tree], APIClient], set[str]]] = {
    "viewer": (lambda tree: api_client(user=make_user(tree.payments, Role.VIEWER)), {"read", "tokens", "config"}),
    "reviewer": (lambda tree: api_client(user=make_user(tree.payments, Role.REVIEWER)), {"read", "tokens", "config"}),
    "responder": (lambda tree: api_client(user=make_user(tree.payments, Role.RESPONDER)), {"read", "tokens", "config"}),
    "admin": (lambda tree: api_client(user=make_user(tree.payments, Role.ADMIN)), ALL),
    "owner": (lambda tree: api_client(user=make_user(tree.root, Role.OWNER)), ALL),
    "team token": (lambda tree: api_client(token=make_team_token(tree.payments)), {"read", "config"}),
    "admin token": (lambda tree: api_client(token=make_admin_token(tree.payments)), ALL),
    "personal token of admin, reading scopes": (
        lambda tree: api_client(
            token=make_personal_token(make_user(tree.payments, Role.ADMIN), tree.payments, ["runs:read"])
        ),
        {"read", "tokens"},
    ),
    "personal token of viewer, all scopes": (
        lambda tree: api_client(
            token=make_personal_token(make_user(tree.payments, Role.VIEWER), tree.payments, ["admin:*", "config:read"])
        ),
        {"read", "tokens", "config"},
    ),
    "member without role": (lambda tree: api_client(user=make_user(tree.payments, None)), set()),
    "operator": (lambda _tree: api_client(user=make_operator()), set()),
}


def expected(endpoint: Endpoint, able: set[str]) -> int:
    if "read" not in able:
        return 404
    if endpoint.needs in able:
        return endpoint.success
    return 404 if endpoint.needs == "revoke" and "tokens" in able else 403


@dataclass(frozen=True)
class Target:
    """A node with a token, a member, a granted credential and a person without role of its organization."""

    node: Node
    token: str
    member: int
    spare: str
    grant: str

    @classmethod
    def on(cls, node: Node) -> "Target":
        member = make_user(node, Role.VIEWER).memberships.get()
        grant = make_grant(node, "OPENSRE_CRED_A", ["a.example.com"])
        return cls(node, make_token(node).token.public_id, member.pk, make_user(node, None).username, str(grant.pk))


def call(client: APIClient, endpoint: Endpoint, target: Target) -> Any:
    """Call an endpoint on a node. What it changes is rolled back, so that each endpoint meets the same tree."""
    path = endpoint.path.format(token=target.token, member=target.member, grant=target.grant)
    body = endpoint.body and {key: target.spare if text == SPARE else text for key, text in endpoint.body.items()}
    url = f"/api/v1/orgs/{target.node.organization.slug}/nodes/{target.node.slug}{path}"
    with transaction.atomic():
        recorded = AuditEvent.objects.count()
        response = getattr(client, endpoint.method)(url, body, format="json")
        changed = response.status_code < 300 and endpoint.method != "get"
        assert (AuditEvent.objects.count() > recorded) == changed, f"{endpoint.name}: done and recorded, or neither"
        transaction.set_rollback(True)
    return response


@pytest.mark.parametrize("caller", CALLERS)
def test_matrix__own_team__by_role(tree: Tree, caller: str) -> None:
    make, able = CALLERS[caller]
    client = make(tree)
    target = Target.on(tree.payments)
    responses = {endpoint.name: call(client, endpoint, target) for endpoint in ENDPOINTS}
    found = {name: response.status_code for name, response in responses.items()}
    assert found == {endpoint.name: expected(endpoint, able) for endpoint in ENDPOINTS}
    refused = [response for response in responses.values() if response.status_code >= 400]
    assert all(response["Content-Type"] == "application/problem+json" for response in refused)


@pytest.mark.parametrize("caller", CALLERS)
def test_matrix__other_team_or_organization__404_and_nothing_changed(tree: Tree, other_tree: Tree, caller: str) -> None:
    client = CALLERS[caller][0](tree)
    unseen = [make_node(other_tree.root, "only-here"), other_tree.payments]
    if caller != "owner":
        unseen.append(tree.platform)
    found = {
        (target.node.pk, endpoint.name): (response.status_code, response.json()["code"])
        for target in map(Target.on, unseen)
        for endpoint in ENDPOINTS
        if (response := call(client, endpoint, target))
    }
    assert len(found) == len(unseen) * len(ENDPOINTS)
    assert set(found.values()) == {(404, "not_found")}


def test_matrix__no_credential__401_for_real_and_made_up_nodes(tree: Tree) -> None:
    client, target = api_client(), Target.on(tree.payments)
    for endpoint in ENDPOINTS:
        real = call(client, endpoint, target)
        path = endpoint.path.format(token="x" * 16, member=1, grant=target.grant)
        made_up = getattr(client, endpoint.method)(f"/api/v1/orgs/ghost/nodes/ghost{path}")
        assert (real.status_code, made_up.status_code) == (401, 401), endpoint.name
        assert real.json() == made_up.json()


@pytest.mark.parametrize(
    ("caller", "listing", "creating", "audit"),
    [
        ("viewer", 200, 422, 403),
        ("responder", 200, 422, 403),
        ("admin", 200, 422, 200),
        ("owner", 200, 201, 200),
        ("team token", 200, 422, 403),
        ("admin token", 200, 422, 200),
        ("member without role", 200, 422, 403),
        ("operator", 404, 404, 404),
    ],
)
def test_matrix__organization_level__by_role(
    tree: Tree, other_tree: Tree, caller: str, listing: int, creating: int, audit: int
) -> None:
    """Creating below the root is 422 (``/parent`` unknown) for whoever does not see the root."""
    client = CALLERS[caller][0](tree)
    body = {"slug": "new", "name": "New", "kind": "team", "parent": "demo"}
    assert client.get("/api/v1/orgs/demo/nodes").status_code == listing
    assert client.post("/api/v1/orgs/demo/nodes", body, format="json").status_code == creating
    assert client.get("/api/v1/orgs/demo/audit").status_code == audit
    for path in ("nodes", "audit"):
        for org in ("rival", "ghost"):
            assert client.get(f"/api/v1/orgs/{org}/{path}").status_code == 404
    assert client.post("/api/v1/orgs/rival/nodes", body, format="json").status_code == 404
    assert api_client().get("/api/v1/orgs/demo/audit").status_code == 401


def test_matrix__node_create__seen_parent_without_right__403(tree: Tree) -> None:
    body = {"slug": "new", "name": "New", "kind": "team", "parent": "payments"}
    client = api_client(user=make_user(tree.payments, Role.RESPONDER))
    assert client.post("/api/v1/orgs/demo/nodes", body, format="json").status_code == 403


def test_matrix__covers_every_path_of_these_apps() -> None:
    routes = {
        str(pattern.pattern)
        for included in api_patterns
        if isinstance(included, URLResolver) and getattr(included.urlconf_module, "__name__", "") in MODULES
        for pattern in included.url_patterns
    }
    node = "orgs/<slug:org>/nodes/<slug:node>"
    assert routes == {
        "me",
        "orgs/<slug:org>/audit",
        "orgs/<slug:org>/audit/security",  # tests/audit
        "orgs/<slug:org>/audit/verification",
        "orgs/<slug:org>/nodes",
        node,
        f"{node}/tokens",
        f"{node}/tokens/<slug:public_id>",
        # tests/access/test_organization_tokens.py and tests/access/test_impersonation.py
        f"{node}/tokens/<slug:public_id>/rotate",
        f"{node}/impersonation",
        "orgs/<slug:org>/tokens",
        "orgs/<slug:org>/tokens/report",
        "orgs/<slug:org>/tokens/revoke",
        "orgs/<slug:org>/token-policy",
        f"{node}/members",
        f"{node}/members/<int:membership_id>",
        f"{node}/grants",
        # tests/access/members
        "orgs/<slug:org>/members",
        "orgs/<slug:org>/members/<uuid:person_id>",
        "orgs/<slug:org>/members/<uuid:person_id>/invitation",
        "orgs/<slug:org>/members/<uuid:person_id>/permissions",
        f"{node}/grants/<uuid:grant_id>",
        # tests/access/entra/test_provider_api.py
        "orgs/<slug:org>/identity-provider",
        "orgs/<slug:org>/identity-provider/test",
        "orgs/<slug:org>/identity-provider/mappings",
        "orgs/<slug:org>/identity-provider/mappings/<uuid:mapping_id>",
    }

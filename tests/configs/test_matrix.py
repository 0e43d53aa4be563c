"""Every endpoint of configuration against every kind of caller: on its own team, a sibling, and another organization."""

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.core.actor import Role
from controlplane.orgs.models import Node
from tests.configs.support import put, versions
from tests.factories import (
    Tree,
    api_client,
    make_admin_token,
    make_operator,
    make_personal_token,
    make_team_token,
    make_user,
)

pytestmark = pytest.mark.django_db

#: Method, path below the node's ``config``, body.
READS: list[tuple[str, str, Any]] = [
    ("get", "", None),
    ("get", "/effective", None),
    ("get", "/effective?provenance=true&pointer=/a", None),
    ("get", "/history", None),
    ("get", "/history/1", None),
]
WRITES: list[tuple[str, str, Any]] = [
    ("put", "", {"b": 1}),
    ("patch", "", {"b": 1}),
    ("patch", "?dry_run=true", {"b": 1}),
    ("post", "/unset", {"pointers": ["/a"]}),
    ("post", "/rollback", {"version": 0}),
]

CLIENTS: dict[str, Callable[[Tree], APIClient]] = {
    "nobody's role": lambda tree: api_client(user=make_user(tree.root, None)),
    "viewer": lambda tree: api_client(user=make_user(tree.payments, Role.VIEWER)),
    "reviewer": lambda tree: api_client(user=make_user(tree.payments, Role.REVIEWER)),
    "responder": lambda tree: api_client(user=make_user(tree.payments, Role.RESPONDER)),
    "admin": lambda tree: api_client(user=make_user(tree.payments, Role.ADMIN)),
    "owner": lambda tree: api_client(user=make_user(tree.root, Role.OWNER)),
    "operator": lambda tree: api_client(user=make_operator()),
    "team token": lambda tree: api_client(token=make_team_token(tree.payments)),
    "team token that writes": lambda tree: api_client(token=make_team_token(tree.payments, ["config:write"])),
    "team token without config": lambda tree: api_client(token=make_team_token(tree.payments, ["runs:read"])),
    "team token for alerts": lambda tree: api_client(token=make_team_token(tree.payments, ["alerts:ingest"])),
    "admin token": lambda tree: api_client(token=make_admin_token(tree.payments)),
    "reading token of an admin": lambda tree: api_client(
        token=make_personal_token(make_user(tree.payments, Role.ADMIN), tree.payments, ["config:read"])
    ),
    "full token of a viewer": lambda tree: api_client(
        token=make_personal_token(make_user(tree.payments, Role.VIEWER), tree.payments, ["config:read", "config:write"])
    ),
}

#: Caller → statuses of reading and writing its own team, then its sibling.
EXPECTED: dict[str, tuple[int, int, int, int]] = {
    "nobody's role": (404, 404, 404, 404),
    "viewer": (200, 403, 404, 404),
    "reviewer": (200, 403, 404, 404),
    "responder": (200, 403, 404, 404),
    "admin": (200, 200, 404, 404),
    "owner": (200, 200, 200, 200),
    "operator": (404, 404, 404, 404),
    "team token": (200, 403, 404, 404),
    "team token that writes": (200, 200, 404, 404),
    "team token without config": (403, 403, 404, 404),
    "team token for alerts": (404, 404, 404, 404),
    "admin token": (200, 200, 404, 404),
    "reading token of an admin": (200, 403, 404, 404),
    "full token of a viewer": (200, 403, 404, 404),
}


@pytest.fixture
def forest(tree: Tree, other_tree: Tree) -> tuple[Tree, Tree]:
    for node in (tree.payments, tree.platform, other_tree.payments):
        put(node, {"a": 1})
    return tree, other_tree


def call(client: APIClient, endpoint: tuple[str, str, Any], node: Node) -> int:
    """Return the status of an endpoint at a node."""
    method, below, body = endpoint
    path = f"/api/v1/orgs/{node.organization.slug}/nodes/{node.slug}/config{below}"
    response = getattr(client, method)(path, *([body] if body else []), format="json")
    return int(response.status_code)


@pytest.mark.parametrize("caller", CLIENTS)
@pytest.mark.parametrize("endpoint", READS, ids=lambda endpoint: endpoint[1] or "document")
def test_read__by_each_caller__own_team_sibling_and_foreign(
    forest: tuple[Tree, Tree], caller: str, endpoint: tuple[str, str, Any]
) -> None:
    tree, other = forest
    client = CLIENTS[caller](tree)
    own, _, sibling, _ = EXPECTED[caller]
    statuses = [call(client, endpoint, node) for node in (tree.payments, tree.platform, other.payments)]
    assert statuses == [own, sibling, 404]


@pytest.mark.parametrize("caller", CLIENTS)
@pytest.mark.parametrize("endpoint", WRITES, ids=lambda endpoint: f"{endpoint[0]} {endpoint[1]}")
def test_write__by_each_caller__own_team_sibling_and_foreign(
    forest: tuple[Tree, Tree], caller: str, endpoint: tuple[str, str, Any]
) -> None:
    tree, other = forest
    client = CLIENTS[caller](tree)
    _, own, _, sibling = EXPECTED[caller]
    statuses = [call(client, endpoint, node) for node in (tree.payments, tree.platform, other.payments)]
    assert statuses == [own, sibling, 404]
    dry = "dry_run" in endpoint[1]
    expected = [[1, 2] if status == 200 and not dry else [1] for status in statuses]
    assert [versions(node) for node in (tree.payments, tree.platform, other.payments)] == expected


@pytest.mark.parametrize("endpoint", [*READS, *WRITES], ids=lambda endpoint: f"{endpoint[0]} {endpoint[1]}")
def test_any__without_or_with_a_bad_credential__401(forest: tuple[Tree, Tree], endpoint: tuple[str, str, Any]) -> None:
    tree, _ = forest
    assert call(api_client(), endpoint, tree.payments) == 401
    assert call(api_client(token="osre_team_nothing"), endpoint, tree.payments) == 401
    assert versions(tree.payments) == [1]


def test_write__session_without_csrf_token__refused(tree: Tree) -> None:
    client = api_client(user=make_user(tree.payments, Role.ADMIN), enforce_csrf_checks=True)
    response = client.put("/api/v1/orgs/demo/nodes/payments/config", {"a": 1}, format="json")
    assert (response.status_code, response.json()["code"]) == (403, "csrf_failed")
    assert versions(tree.payments) == []


@pytest.mark.parametrize(
    "header", ["HTTP_X_ORG_ID", "HTTP_X_TEAM_NODE_ID", "HTTP_X_INTERNAL_SERVICE", "HTTP_X_ADMIN_TOKEN"]
)
def test_me__identity_in_a_header_alone__401(tree: Tree, header: str) -> None:
    assert api_client().get("/api/v1/config/me", **{header: "demo"}).status_code == 401

"""Every endpoint of configuration against every kind of caller: its own team, a sibling, another organization."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
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
    "operator": lambda _: api_client(user=make_operator()),
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
def test_endpoints__by_each_caller__on_its_own_team_a_sibling_and_a_foreign_one(
    forest: tuple[Tree, Tree], caller: str
) -> None:
    tree, other = forest
    client = CLIENTS[caller](tree)
    own_read, own_write, sibling_read, sibling_write = EXPECTED[caller]
    for endpoints, own, sibling in ((READS, own_read, sibling_read), (WRITES, own_write, sibling_write)):
        for endpoint in endpoints:
            for node, status in ((tree.payments, own), (tree.platform, sibling), (other.payments, 404)):
                stays = endpoints is READS or status != 200 or "dry_run" in endpoint[1]
                with transaction.atomic():
                    assert (endpoint, call(client, endpoint, node)) == (endpoint, status)
                    assert (endpoint, versions(node)) == (endpoint, [1] if stays else [1, 2])
                    transaction.set_rollback(True)


@pytest.mark.parametrize("token", [None, "osre_team_nothing"])
def test_endpoints__without_or_with_a_bad_credential__401(forest: tuple[Tree, Tree], token: str | None) -> None:
    tree, _ = forest
    client = api_client(token=token)
    assert {call(client, endpoint, tree.payments) for endpoint in [*READS, *WRITES]} == {401}
    assert versions(tree.payments) == [1]


def test_write__session_without_csrf_token__refused(tree: Tree) -> None:
    client = api_client(user=make_user(tree.payments, Role.ADMIN), enforce_csrf_checks=True)
    response = client.put("/api/v1/orgs/demo/nodes/payments/config", {"a": 1}, format="json")
    assert (response.status_code, response.json()["code"]) == (403, "csrf_failed")
    assert versions(tree.payments) == []


def test_me__identity_in_headers_alone__401(tree: Tree) -> None:
    named = {"X-Org-Id": "demo", "X-Team-Node-Id": "payments", "X-Internal-Service": "sre-agent", "X-Admin-Token": "x"}
    assert api_client().get("/api/v1/config/me", headers=named).status_code == 401

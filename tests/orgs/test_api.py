"""REST of the tree."""

from typing import Any

import pytest

from controlplane.audit.models import AuditEvent
from controlplane.core.actor import Role
from controlplane.orgs.models import Node, NodeKind
from tests.factories import Tree, api_client, make_admin_token, make_node, make_team_token, make_user
from tests.support.pages import every_page

pytestmark = pytest.mark.django_db
NODES = "/api/v1/orgs/demo/nodes"


def pointers(response: Any) -> list[tuple[str, str]]:
    return [(error["pointer"], error["code"]) for error in response.json()["errors"]]


def test_node_list__pages__every_node_once_in_order(tree: Tree) -> None:
    for number in range(7):
        make_node(tree.root, f"team-{number}")
    client = api_client(token=make_admin_token(tree.root))
    pages = every_page(client, NODES, limit=3)
    assert [len(page) for page in pages] == [3, 3, 3, 2]
    seen = [node["slug"] for page in pages for node in page]
    assert seen == sorted(seen)
    assert len(set(seen)) == 11


def test_node_list__token__three_queries_however_many_nodes(tree: Tree, django_assert_num_queries: Any) -> None:
    for number in range(20):
        make_node(tree.root, f"team-{number}")
    client = api_client(token=make_admin_token(tree.root))
    client.get(NODES)  # writes last_used_at
    with django_assert_num_queries(3):  # token; organization; nodes with their parents
        assert len(client.get(NODES).json()["results"]) == 24


def test_node_list__session__five_queries(tree: Tree, django_assert_num_queries: Any) -> None:
    client = api_client(user=make_user(tree.root, Role.VIEWER))
    with django_assert_num_queries(5):  # session, user, roles; organization; nodes
        assert len(client.get(NODES).json()["results"]) == 4


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"cursor": "!!"}, "bad_cursor"),
        ({"cursor": "WyJhIiwgImIiXQ"}, "bad_cursor"),  # two values
        ({"cursor": "e30"}, "bad_cursor"),
        ({"cursor": "WzFd"}, "bad_cursor"),  # a number where text is due
        ({"cursor": "WyJcdTAwMDAiXQ"}, "bad_cursor"),  # NUL
        ({"cursor": "A" * 5000}, "bad_cursor"),
        ({"cursor": "é"}, "bad_cursor"),
        ({"limit": "0"}, "bad_limit"),
        ({"limit": "201"}, "bad_limit"),
        ({"limit": "-1"}, "bad_limit"),
        ({"limit": "many"}, "bad_limit"),
        ({"limit": "１"}, "bad_limit"),
        ({"limit": "9" * 5000}, "bad_limit"),
    ],
)
def test_node_list__bad_cursor_or_limit__400_names_it(tree: Tree, query: dict[str, str], code: str) -> None:
    response = api_client(token=make_admin_token(tree.root)).get(NODES, query)
    assert (response.status_code, response.json()["code"]) == (400, code)
    assert response["Content-Type"] == "application/problem+json"


def test_node_create__valid__201_with_location_and_audit(tree: Tree) -> None:
    client = api_client(token=make_admin_token(tree.root))
    response = client.post(
        NODES, {"slug": "checkout", "name": "Checkout", "kind": "team", "parent": "engineering"}, format="json"
    )
    assert response.status_code == 201
    node = Node.objects.get(slug="checkout")
    assert response["Location"] == f"{NODES}/checkout"
    assert response.json() == {
        "id": str(node.pk),
        "slug": "checkout",
        "name": "Checkout",
        "kind": "team",
        "parent": "engineering",
        "archived_at": None,
        "created_at": response.json()["created_at"],
    }
    event = AuditEvent.objects.get(action="node.create", object_id=str(node.pk))
    assert event.channel == "api"
    assert event.credential_id


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, [("/slug", "required"), ("/name", "required"), ("/kind", "required"), ("/parent", "required")]),
        ({"colour": "red", "a/b": 1}, [("/a~1b", "unknown_member"), ("/colour", "unknown_member")]),
        ({"slug": 5, "name": None, "kind": ["team"], "parent": "demo"},
         [("/slug", "invalid"), ("/name", "null"), ("/kind", "invalid")]),
        ({"slug": "ok", "name": "Ok", "kind": "team", "parent": "nothing"}, [("/parent", "unknown_node")]),
        ({"slug": "Not Ok", "name": "Ok", "kind": "team", "parent": "demo"}, [("/slug", "slug_format")]),
        ({"slug": "ok", "name": "a\x00", "kind": "team", "parent": "demo"}, [("/name", "null_characters_not_allowed")]),
        ({"slug": "ok", "name": "Ok", "kind": "org", "parent": "demo"}, [("/kind", "kind")]),
    ],
)  # fmt: skip
def test_node_create__bad_body__422_points_at_it(tree: Tree, body: dict[str, Any], expected: list[Any]) -> None:
    response = api_client(token=make_admin_token(tree.root)).post(NODES, body, format="json")
    assert response.status_code == 422
    assert pointers(response) == expected
    assert Node.objects.count() == 4


@pytest.mark.parametrize("raw", [b"[]", b"null", b'"x"', b"5"])
def test_node_create__no_object__400(tree: Tree, raw: bytes) -> None:
    client = api_client(token=make_admin_token(tree.root))
    response = client.post(NODES, raw, content_type="application/json")
    assert (response.status_code, response.json()["code"]) == (400, "not_an_object")


def test_node_update__several_members__all_or_none(tree: Tree) -> None:
    make_node(tree.root, "ops", NodeKind.GROUP)
    client = api_client(token=make_admin_token(tree.root))
    refused = client.patch(f"{NODES}/payments", {"parent": "ops", "slug": "platform"}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "slug_taken")
    assert Node.objects.get(slug="payments").parent == tree.engineering
    changed = client.patch(f"{NODES}/payments", {"parent": "ops", "slug": "pay", "archived": True}, format="json")
    assert changed.status_code == 200
    assert (changed.json()["parent"], changed.json()["slug"]) == ("ops", "pay")
    assert changed.json()["archived_at"].endswith("Z")
    assert client.get(f"{NODES}/pay").json() == changed.json()
    assert client.get(f"{NODES}/payments").status_code == 404


def test_node_update__kind__fixed(tree: Tree) -> None:
    client = api_client(token=make_admin_token(tree.root))
    assert client.patch(f"{NODES}/payments", {"kind": "team"}, format="json").status_code == 200
    refused = client.patch(f"{NODES}/payments", {"kind": "group"}, format="json")
    assert pointers(refused) == [("/kind", "kind_fixed")]


def test_node_delete__leaf_then_parent__204_then_409(tree: Tree) -> None:
    client = api_client(token=make_admin_token(tree.root))
    assert client.delete(f"{NODES}/engineering").json()["code"] == "node_has_children"
    assert client.delete(f"{NODES}/payments").status_code == 204
    assert client.get(f"{NODES}/payments").status_code == 404


def test_node_read__team_token__its_own_node_and_no_other(tree: Tree) -> None:
    client = api_client(token=make_team_token(tree.payments))
    assert client.get(f"{NODES}/payments").json()["slug"] == "payments"
    assert [node["slug"] for node in client.get(NODES).json()["results"]] == ["payments"]
    assert client.get(f"{NODES}/platform").status_code == 404
    assert client.patch(f"{NODES}/payments", {"name": "X"}, format="json").status_code == 403

"""REST of the audit log."""

import csv
from typing import Any

import pytest
from django.db import transaction

from controlplane.audit import api
from controlplane.audit.export import neutralised
from controlplane.audit.services import audit_record
from controlplane.core.actor import Role
from tests.factories import Tree, api_client, make_admin_token, make_user
from tests.support.pages import every_page

pytestmark = pytest.mark.django_db
AUDIT = "/api/v1/orgs/demo/audit"


def record(tree: Tree, **fields: Any) -> None:
    values: dict[str, Any] = {"action": "thing.change", "object_kind": "thing", "object_id": "1"} | fields
    with transaction.atomic():
        audit_record(actor=tree.system, organization_id=tree.organization.pk, **values)


def test_audit_list__owner__newest_first_with_values(tree: Tree) -> None:
    record(tree, before={"a": 1}, after={"a": 2}, reason="why not")
    first = api_client(user=make_user(tree.root, Role.OWNER)).get(AUDIT).json()["results"][0]
    assert (first["seq"], first["action"], first["before"], first["after"]) == (5, "thing.change", {"a": 1}, {"a": 2})
    assert (first["actor"], first["reason"]) == ("system:test", "why not")
    assert first["at"].endswith("Z")


def test_audit_list__admin_of_a_team__events_of_its_subtree_only(tree: Tree) -> None:
    record(tree, node_id=tree.platform.pk)
    record(tree, node_id=None)
    client = api_client(user=make_user(tree.payments, Role.ADMIN))
    listed = client.get(AUDIT).json()["results"]
    assert [(event["action"], event["after"]["slug"]) for event in listed] == [("node.create", "payments")]


def test_audit_list__pages__each_once(tree: Tree) -> None:
    for number in range(7):
        record(tree, object_id=str(number))
    client = api_client(token=make_admin_token(tree.root))
    pages = every_page(client, AUDIT, limit=5)
    assert [event["seq"] for page in pages for event in page] == list(range(12, 0, -1))


def test_audit_list__after_authentication__three_queries(tree: Tree, django_assert_num_queries: Any) -> None:
    client = api_client(token=make_admin_token(tree.root))
    client.get(AUDIT)
    with django_assert_num_queries(4):  # token; organization; is it the root; events
        assert len(client.get(AUDIT).json()["results"]) == 5


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"action": "node.create"}, 3),
        ({"action": "node."}, 3),
        ({"action": "node"}, 0),
        ({"object_kind": "organization"}, 1),
        ({"object_kind": "node", "object_id": "x"}, 0),
        ({"since": "2001-01-01T00:00:00Z"}, 5),
        ({"since": "2999-01-01T00:00:00+02:00"}, 0),
        ({"until": "2999-01-01T00:00:00Z"}, 5),
    ],
)
def test_audit_list__filters__narrow(tree: Tree, query: dict[str, str], expected: int) -> None:
    client = api_client(token=make_admin_token(tree.root))
    assert len(client.get(AUDIT, query).json()["results"]) == expected


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"since": "yesterday"}, "bad_time"),
        ({"since": "2001-01-01T00:00:00"}, "bad_time"),
        ({"until": "2001-13-01T00:00:00Z"}, "bad_time"),
        ({"cursor": "nothing"}, "bad_cursor"),
        ({"cursor": "WyJ4Il0"}, "bad_cursor"),  # text where a number is due
        ({"cursor": "WzFlOTldCg"}, "bad_cursor"),  # 1e99
        ({"limit": "1000"}, "bad_limit"),
    ],
)
def test_audit_list__bad_parameter__400_names_it(tree: Tree, query: dict[str, str], code: str) -> None:
    response = api_client(token=make_admin_token(tree.root)).get(AUDIT, query)
    assert (response.status_code, response.json()["code"]) == (400, code)


def test_audit_list__huge_number_or_nul__no_error(tree: Tree) -> None:
    client = api_client(token=make_admin_token(tree.root))
    huge = "Wzk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5XQ"
    assert client.get(AUDIT, {"cursor": huge}).status_code in {200, 400}
    for name in ("action", "object_kind", "object_id"):
        assert client.get(AUDIT, {name: "\x00"}).json()["results"] == []


def test_audit_csv__formulas__neutralised(tree: Tree) -> None:
    for text in ("=1+1", "+1", "-1", "@x", "\t=1", " =1", "plain", 'quo"ted, and\nbroken'):
        record(tree, reason=text, object_id=text)
    response = api_client(token=make_admin_token(tree.root)).get(AUDIT, {"format": "csv", "action": "thing."})
    assert response.status_code == 200
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["Content-Disposition"] == 'attachment; filename="audit-demo.csv"'
    rows = list(csv.DictReader(response.content.decode().splitlines(keepends=True)))
    assert len(rows) == 8
    assert {row["object_id"] for row in rows} == {
        "'=1+1", "'+1", "'-1", "'@x", "'\t=1", "' =1", "plain", 'quo"ted, and\nbroken',
    }  # fmt: skip
    assert "Link" not in response


@pytest.mark.parametrize("text", ["\uff1dcmd", "\r=1", "=", "-"])
def test_neutralised__wide_and_hidden_formulas__apostrophe(text: str) -> None:
    assert neutralised(text).startswith("'")


def test_audit_csv__more_than_one_page__link_to_the_next(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "CSV_LIMIT", 3)
    client = api_client(token=make_admin_token(tree.root))
    first = client.get(AUDIT, {"format": "csv"})
    assert first["Link"].endswith('>; rel="next"')
    second = client.get(first["Link"].removeprefix("<").partition(">")[0])
    seqs = [row["seq"] for page in (first, second) for row in csv.DictReader(page.content.decode().splitlines())]
    assert seqs == ["5", "4", "3", "2", "1"]


def test_audit_csv__refused__problem_document(tree: Tree) -> None:
    client = api_client(user=make_user(tree.root, Role.VIEWER))
    response = client.get(AUDIT, {"format": "csv"})
    assert (response.status_code, response["Content-Type"]) == (403, "application/problem+json")
    assert response.json()["code"] == "permission_denied"
    assert client.get(AUDIT, {"format": "xml"}).status_code == 404

"""The log as a file: CSV, JSON, lines of JSON; in any size, and itself on the record."""

import csv
import json
from typing import Any

import httpx
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.audit import export
from controlplane.audit.export import neutralised
from controlplane.audit.models import AuditEvent
from controlplane.core.actor import Role
from tests.audit.test_api import AUDIT, record
from tests.factories import Tree, api_client, make_admin_token, make_audited_tree, make_user
from tests.support.server import serving


def text(response: Any) -> str:
    return b"".join(response.streaming_content).decode()


def table(answer: str) -> list[dict[str, str]]:
    return list(csv.DictReader(answer.splitlines(keepends=True)))


@pytest.mark.django_db
def test_export_csv__formulas__neutralised(tree: Tree) -> None:
    for word in ("=1+1", "+1", "-1", "@x", "\t=1", " =1", "plain", 'quo"ted, and\nbroken'):
        record(tree, reason=word, object_id=word)
    response = api_client(token=make_admin_token(tree.root)).get(AUDIT, {"format": "csv", "action": "thing."})
    assert response.status_code == 200
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["Content-Disposition"] == 'attachment; filename="audit-demo.csv"'
    rows = table(text(response))
    assert len(rows) == 8
    assert {row["object_id"] for row in rows} == {
        "'=1+1", "'+1", "'-1", "'@x", "'\t=1", "' =1", "plain", 'quo"ted, and\nbroken',
    }  # fmt: skip


@pytest.mark.parametrize("word", ["\uff1dcmd", "\r=1", "=", "-"])
def test_neutralised__wide_and_hidden_formulas__apostrophe(word: str) -> None:
    assert neutralised(word).startswith("'")


@pytest.mark.django_db
def test_export__forms__hold_the_same_events_as_the_list(tree: Tree) -> None:
    record(tree, before={"a": 1}, after=None, reason="why")
    client = api_client(user=make_user(tree.root, Role.OWNER))
    listed = client.get(AUDIT).json()["results"]
    lines = text(client.get(AUDIT, {"format": "ndjson"})).splitlines()
    whole = json.loads(text(client.get(AUDIT, {"format": "json", "to": "2999-01-01T00:00:00Z"})))
    rows = table(text(client.get(AUDIT, {"format": "csv"})))
    assert [json.loads(line) for line in lines] == listed
    assert whole["results"][1:] == listed, "the export before is an event by now"
    assert whole["next"] is None
    assert [row["seq"] for row in rows[2:]] == [str(event["seq"]) for event in listed]
    assert (json.loads(rows[2]["before"]), rows[2]["after"], rows[2]["mac"]) == ({"a": 1}, "", listed[0]["mac"])


@pytest.mark.django_db
@pytest.mark.parametrize("form", ["csv", "json", "ndjson"])
def test_export__itself__is_an_event_with_its_filters(tree: Tree, form: str) -> None:
    user = make_user(tree.root, Role.OWNER)
    query = {"format": form, "action": "node.", "actor": "nobody"}
    text(api_client(user=user).get(AUDIT, query))
    event = AuditEvent.objects.get(action="audit.export")
    assert (event.actor, event.object_kind, event.object_id) == (f"user:{user.pk}", "audit", form)
    assert event.after == {"format": form, "filters": {"action": "node.", "actor": "nobody"}}
    assert event.organization_id == tree.organization.pk


@pytest.mark.django_db
def test_export__nothing_matches__still_a_whole_document(tree: Tree) -> None:
    client = api_client(token=make_admin_token(tree.root))
    nothing = {"action": "nothing"}
    assert json.loads(text(client.get(AUDIT, {"format": "json"} | nothing))) == {"results": [], "next": None}
    assert table(text(client.get(AUDIT, {"format": "csv"} | nothing))) == []
    assert text(client.get(AUDIT, {"format": "ndjson"} | nothing)) == ""


@pytest.mark.django_db
def test_export__many_events__a_query_for_each_part_and_no_more_in_memory(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PAGE", 5)
    for number in range(20):
        record(tree, object_id=str(number))
    response = api_client(token=make_admin_token(tree.root)).get(AUDIT, {"format": "csv", "object_kind": "thing"})
    parts = iter(response)
    with CaptureQueriesContext(connection) as captured:
        assert next(parts).decode().startswith('"seq"')
        assert len(captured) == 0
        assert len(next(parts).decode().splitlines()) == 5
        assert len(captured) == 1
        record(tree, object_id="meanwhile")
        rest = b"".join(parts).decode()
    assert len(rest.splitlines()) == 15
    assert "meanwhile" not in rest


@pytest.mark.django_db
def test_export__refused__problem_document_and_no_event(tree: Tree) -> None:
    client = api_client(user=make_user(tree.root, Role.VIEWER))
    for form in ("csv", "json", "ndjson"):
        response = client.get(AUDIT, {"format": form})
        assert (response.status_code, response["Content-Type"]) == (403, "application/problem+json")
        assert response.json()["code"] == "permission_denied"
    assert client.get(AUDIT, {"format": "xml"}).status_code == 404
    admin = api_client(token=make_admin_token(tree.root))
    for query in ({"limit": "5"}, {"cursor": "x"}, {"node": "nothing"}, {"from": "x"}):
        assert admin.get(AUDIT, {"format": "csv"} | query).status_code in {400, 404}
    assert not AuditEvent.objects.filter(action="audit.export").exists()


@pytest.mark.django_db
def test_export__admin_of_a_team__events_of_its_subtree_only(tree: Tree) -> None:
    record(tree, node_id=tree.payments.pk, object_id="mine")
    record(tree, node_id=tree.platform.pk, object_id="theirs")
    client = api_client(user=make_user(tree.payments, Role.ADMIN))
    lines = text(client.get(AUDIT, {"format": "ndjson", "action": "thing."})).splitlines()
    assert [json.loads(line)["object_id"] for line in lines] == ["mine"]


@pytest.mark.django_db(transaction=True)
def test_export__over_a_server__comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under ASGI a plain iterator would be collected whole before the first byte."""
    monkeypatch.setattr(export, "PAGE", 2)
    tree = make_audited_tree()
    asked: list[int] = []
    real = export.event_pages

    def pages(*args: Any, **kwargs: Any) -> Any:
        for page in real(*args, **kwargs):
            asked.append(len(page))
            yield page

    monkeypatch.setattr("controlplane.audit.api.event_pages", pages)
    headers = {"Authorization": f"Bearer {make_admin_token(tree.root)}"}
    with serving() as server, httpx.stream("GET", f"{server.url}{AUDIT}?format=ndjson", headers=headers) as answer:
        assert answer.headers["Content-Type"] == "application/x-ndjson"
        assert answer.headers.get("Transfer-Encoding") == "chunked"
        seqs = [json.loads(line)["seq"] for line in answer.iter_lines()]
    assert seqs == [5, 4, 3, 2, 1]
    assert asked == [2, 2, 1]

"""The REST surface of configuration: shapes, conditions, bad input, cost."""

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.urls import get_resolver
from drf_spectacular.generators import SchemaGenerator
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from controlplane.configs.models import ConfigVersion
from controlplane.core.actor import Role
from controlplane.core.pagination import cursor_encode
from tests.configs.support import patch, put, stored, versions
from tests.factories import Tree, api_client, make_admin_token, make_team_token, make_user

pytestmark = pytest.mark.django_db
CONFIG = "/api/v1/orgs/demo/nodes/payments/config"
MERGE_PATCH = "application/merge-patch+json"


@pytest.fixture
def client(tree: Tree) -> APIClient:
    return api_client(token=make_admin_token(tree.root))


def send(client: APIClient, method: str, path: str, raw: bytes | str, content_type: str = "application/json") -> Any:
    """Send a raw body."""
    return client.generic(method, path, raw, content_type=content_type)  # type: ignore[arg-type]  # bytes pass too


def streamed(response: Any) -> list[Any]:
    """Return the lines of an answer that is streamed."""

    async def collected() -> bytes:
        return b"".join([part async for part in response.streaming_content])

    return [json.loads(line) for line in async_to_sync(collected)().splitlines()]


def test_document__untouched__empty_at_version_zero(client: APIClient) -> None:
    response = client.get(CONFIG)
    assert response.status_code == 200
    assert response.json() == {
        "document": {},
        "version": 0,
        "leaf_versions": {},
        "updated_at": None,
        "updated_by": None,
    }
    assert response["ETag"] == '"0"'


def test_document__put_then_read__what_was_written_with_version_author_and_tag(client: APIClient) -> None:
    document = {"agents": {"a": {"enabled": True}}, "limits": {"max_turns": 5}}
    written = client.put(f"{CONFIG}?reason=because", document, format="json")
    assert written.status_code == 200
    body = written.json()
    assert (body["changed"], body["dry_run"], body["warnings"]) == (True, False, [])
    assert body["diff"] == [
        {"pointer": "/agents/a/enabled", "after": True},
        {"pointer": "/limits/max_turns", "after": 5},
    ]
    assert "affected" not in body

    read = client.get(CONFIG)
    assert read.json() == {key: body[key] for key in read.json()}
    assert read.json()["document"] == document
    assert read.json()["updated_by"] == "admin of demo"
    assert read.json()["updated_at"].endswith("Z")
    assert (written["ETag"], read["ETag"]) == ('"1"', '"1"')
    assert ConfigVersion.objects.get().reason == "because"


def test_document__read_again_with_its_tag__304(client: APIClient, tree: Tree) -> None:
    put(tree.payments, {"a": 1})
    assert client.get(CONFIG, HTTP_IF_NONE_MATCH='"0"').status_code == 200
    unchanged = client.get(CONFIG, HTTP_IF_NONE_MATCH='"1"')
    assert (unchanged.status_code, unchanged.content, unchanged["ETag"]) == (304, b"", '"1"')


def test_patch__by_media_type__null_is_stored_or_removes(client: APIClient, tree: Tree) -> None:
    put(tree.payments, {"a": 1, "b": 2})
    send(client, "PATCH", CONFIG, '{"a": null}')
    assert stored(tree.payments) == {"a": None, "b": 2}
    send(client, "PATCH", CONFIG, '{"b": null}', MERGE_PATCH)
    assert stored(tree.payments) == {"a": None}
    send(client, "PATCH", CONFIG, '{"a": null}', "Application/Merge-Patch+JSON; charset=utf-8")
    assert stored(tree.payments) == {}


def test_unset__and_rollback__answer_like_writes(client: APIClient, tree: Tree) -> None:
    put(tree.payments, {"a": {"b": 1}, "c": 1})
    unset = client.post(f"{CONFIG}/unset", {"pointers": ["/a/b"], "reason": "inherit"}, format="json")
    assert (unset.status_code, unset.json()["document"], unset.json()["version"]) == (200, {"c": 1}, 2)
    assert unset.json()["diff"] == [{"pointer": "/a/b", "before": 1}]

    back = client.post(f"{CONFIG}/rollback", {"version": 1, "reason": "oops"}, format="json")
    assert (back.status_code, back.json()["document"], back.json()["version"]) == (200, {"a": {"b": 1}, "c": 1}, 3)
    assert list(ConfigVersion.objects.order_by("version").values_list("reason", flat=True)) == ["", "inherit", "oops"]


def test_write__if_match_stale__412_with_current_version(client: APIClient, tree: Tree) -> None:
    put(tree.payments, {"a": 1})
    put(tree.payments, {"a": 2})
    for method, path, body in (
        ("PUT", CONFIG, {"a": 3}),
        ("PATCH", CONFIG, {"a": 3}),
        ("POST", f"{CONFIG}/unset", {"pointers": ["/a"]}),
        ("POST", f"{CONFIG}/rollback", {"version": 1}),
    ):
        response = client.generic(method, path, json.dumps(body), content_type="application/json", HTTP_IF_MATCH='"1"')
        assert response.status_code == 412
        assert response["Content-Type"] == "application/problem+json"
        assert (response.json()["code"], response.json()["current_version"]) == ("precondition_failed", 2)
    assert versions(tree.payments) == [1, 2]


def test_dry_run__answers_the_impact_and_writes_nothing(client: APIClient, tree: Tree) -> None:
    response = client.patch("/api/v1/orgs/demo/nodes/engineering/config?dry_run=true", {"new": 1}, format="json")
    body = response.json()
    assert (response.status_code, body["dry_run"], body["changed"], body["version"]) == (200, True, True, 0)
    assert body["affected"] == {"count": 2, "slugs": ["payments", "platform"]}
    assert body["warnings"][0]["code"] == "unknown_section"
    assert body["document"] == {"new": 1}
    assert versions(tree.engineering) == []


def test_dry_run__lines_asked_for__progress_and_the_answer_last(
    client: APIClient, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.configs.impact.STEP_NODES", 1)
    monkeypatch.setattr("controlplane.configs.foreseeing.INTERVAL_S", 0)
    put(tree.payments, {"new": 2})
    url = "/api/v1/orgs/demo/nodes/demo/config?dry_run=true"
    plain = client.patch(url, {"new": 1}, format="json").json()

    response = client.patch(url, {"new": 1}, format="json", HTTP_ACCEPT="application/x-ndjson")
    assert (response.status_code, response["Content-Type"]) == (200, "application/x-ndjson")
    *progress, last = streamed(response)
    assert [line["progress"] for line in progress] == [
        {"done": done, "total": 3, "affected": affected} for done, affected in ((1, 1), (2, 1), (3, 2))
    ]
    assert last == plain
    assert last["affected"] == {"count": 2, "slugs": ["engineering", "platform"]}
    assert versions(tree.root) == []


def test_dry_run__lines_asked_for_and_refused__the_problem_as_ever(client: APIClient) -> None:
    response = client.put(
        f"{CONFIG}?dry_run=true", {"limits": {"max_turns": 0}}, format="json", HTTP_ACCEPT="application/x-ndjson"
    )
    assert (response.status_code, response["Content-Type"]) == (422, "application/problem+json")
    assert response.json()["code"] == "invalid_section"


def test_effective__with_provenance__sources_of_every_leaf(client: APIClient, tree: Tree) -> None:
    put(tree.root, {"agents": {"a": {"model": "m", "on": True}}, "x": [1]})
    patch(tree.payments, {"agents": {"a": {"model": "n"}}})

    plain = client.get(f"{CONFIG}/effective")
    assert plain.json() == {"effective": {"agents": {"a": {"model": "n", "on": True}}, "x": [1]}, "version": 1}

    sources = client.get(f"{CONFIG}/effective?provenance=true").json()["sources"]
    assert sources.keys() == {"/agents/a/model", "/agents/a/on", "/x"}
    inherited, own = sources["/x"], sources["/agents/a/model"]
    assert {key: inherited[key] for key in ("node", "level", "version", "by")} == {
        "node": "demo", "level": "org", "version": 1, "by": "test",
    }  # fmt: skip
    assert inherited["at"].endswith("Z")
    assert "shadowed" not in inherited
    assert (own["node"], own["level"]) == ("payments", "team")
    assert [(hidden["node"], hidden["value"]) for hidden in own["shadowed"]] == [("demo", "m")]


def test_effective__pointer__that_part_with_its_sources(client: APIClient, tree: Tree) -> None:
    put(tree.root, {"agents": {"a/b": [5, 6]}, "n": None})
    for pointer, value, leaves in (
        ("", {"agents": {"a/b": [5, 6]}, "n": None}, {"/agents/a~1b", "/n"}),
        ("/agents", {"a/b": [5, 6]}, {"/agents/a~1b"}),
        ("/agents/a~1b", [5, 6], {"/agents/a~1b"}),
        ("/agents/a~1b/1", 6, {"/agents/a~1b"}),
        ("/n", None, {"/n"}),
    ):
        body = client.get(f"{CONFIG}/effective", {"pointer": pointer, "provenance": "true"}).json()
        assert (pointer, body["effective"], body["sources"].keys()) == (pointer, value, leaves)


def test_effective__pointer_to_nothing__404(client: APIClient) -> None:
    response = client.get(f"{CONFIG}/effective", {"pointer": "/none"})
    assert (response.status_code, response.json()["code"]) == (404, "pointer_not_found")


def test_effective__tag__304_until_an_ancestor_changes(client: APIClient, tree: Tree) -> None:
    tag = client.get(f"{CONFIG}/effective")["ETag"]
    assert client.get(f"{CONFIG}/effective", HTTP_IF_NONE_MATCH=f"W/{tag}").status_code == 304
    put(tree.root, {"a": 1})
    again = client.get(f"{CONFIG}/effective", HTTP_IF_NONE_MATCH=tag)
    assert (again.status_code, again.json()["effective"]) == (200, {"a": 1})
    assert again["ETag"] != tag
    assert again["Cache-Control"] == "private, no-cache"


def test_history__pages__newest_first_without_gap_or_repeat(client: APIClient, tree: Tree) -> None:
    for number in range(5):
        put(tree.payments, {"a": number}, reason=f"r{number}")
    seen, cursor = [], None
    while True:
        page = client.get(f"{CONFIG}/history", {"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        seen += [(item["version"], item["reason"], item["by"]) for item in page["results"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == [(number + 1, f"r{number}", "test") for number in range(4, -1, -1)]


def test_history__one_version__document_and_difference_to_the_one_before(client: APIClient, tree: Tree) -> None:
    put(tree.payments, {"a": 1, "b": 1})
    put(tree.payments, {"a": 2}, reason="second")
    body = client.get(f"{CONFIG}/history/2").json()
    assert (body["version"], body["document"], body["reason"], body["by"]) == (2, {"a": 2}, "second", "test")
    assert body["diff"] == [{"pointer": "/a", "before": 1, "after": 2}, {"pointer": "/b", "before": 1}]
    assert client.get(f"{CONFIG}/history/1").json()["diff"][0] == {"pointer": "/a", "after": 1}


def test_history__unknown_version__404(client: APIClient, tree: Tree) -> None:
    put(tree.payments, {"a": 1})
    for version in (0, 2, 2**63, 10**40):
        response = client.get(f"{CONFIG}/history/{version}")
        assert (version, response.status_code, response.json()["code"]) == (version, 404, "unknown_version")


def test_me__team_token__example_14_in_the_compatible_form(tree: Tree) -> None:
    put(tree.root, {"a": 1, "b": 1})
    put(tree.payments, {"b": 2})
    client = api_client(token=make_team_token(tree.payments))
    for path in ("/api/v1/config/me", "/api/v1/config/me/effective"):
        response = client.get(path)
        body = response.json()
        assert (body["node_id"], body["effective_config"]) == ("payments", {"a": 1, "b": 2})
        assert body["hierarchy"] == ["demo", "engineering", "payments"]
        assert body["computed_at"].endswith("Z")
        assert client.get(path, HTTP_IF_NONE_MATCH=response["ETag"]).status_code == 304


def test_me_raw__team_token__example_15_untouched_documents_root_first(tree: Tree) -> None:
    put(tree.root, {"a": {"kept": {}}, "b": 1})
    put(tree.payments, {"b": None})
    body = api_client(token=make_team_token(tree.payments)).get("/api/v1/config/me/raw").json()
    assert body["lineage"] == ["demo", "engineering", "payments"]
    assert body["configs"] == {"demo": {"a": {"kept": {}}, "b": 1}, "engineering": {}, "payments": {"b": None}}


def test_me__person_or_token_without_the_scope__denied(tree: Tree) -> None:
    person = api_client(user=make_user(tree.payments, Role.OWNER))
    token = api_client(token=make_team_token(tree.payments, ["runs:create"]))
    for path in ("me", "me/effective", "me/raw"):
        for client, code in ((person, "no_own_node"), (token, "permission_denied")):
            response = client.get(f"/api/v1/config/{path}")
            assert (path, response.status_code, response.json()["code"]) == (path, 403, code)


def test_schema__json_schema_of_documents(client: APIClient) -> None:
    body = client.get("/api/v1/config/schema").json()
    assert body["$schema"].endswith("2020-12/schema")
    assert body["properties"].keys() >= {"agents", "limits", "runtime"}


BAD_BODIES: list[tuple[str | bytes, int, str]] = [
    ('{"a": 1, "a": 2}', 400, "duplicate_key"),
    ('{"a": NaN}', 400, "malformed_json"),
    ('{"a": 1e999}', 400, "number_out_of_range"),
    ('{"a": ', 400, "malformed_json"),
    (b'{"a": "\xff"}', 400, "malformed_json"),
    ('{"a": "\\ud800"}', 400, "malformed_json"),
    ('{"a":' * 65 + "1" + "}" * 65, 400, "nesting_too_deep"),
    ('{"a":' * 64 + "{}" + "}" * 64, 400, "nesting_too_deep"),
    ('{"a":' * 100_000, 400, "nesting_too_deep"),
    (json.dumps({"a": "x" * 300 * 1024}), 413, "document_too_large"),
    ("[]", 400, "not_an_object"),
    ("null", 400, "not_an_object"),
    ("5", 400, "not_an_object"),
    ("", 400, "empty_body"),
    ('{"": 1}', 422, "key_name"),
    ('{"a": "\\u0000"}', 422, "control_character"),
    ('{"a": 9223372036854775808}', 422, "number_out_of_range"),
    ('{"a": 1e300}', 422, "number_out_of_range"),
    ('{"limits": {"wall_clock_s": 0}}', 422, "invalid_section"),
]


@pytest.mark.parametrize("media_type", ["PUT", "PATCH", MERGE_PATCH])
def test_write__bad_body__clear_error_and_nothing_stored(client: APIClient, tree: Tree, media_type: str) -> None:
    put(tree.payments, {"kept": 1})
    method, content_type = ("PATCH", MERGE_PATCH) if media_type == MERGE_PATCH else (media_type, "application/json")
    for raw, status, code in BAD_BODIES:
        response = send(client, method, CONFIG, raw, content_type)
        assert (raw[:40], response.status_code, response.json()["code"]) == (raw[:40], status, code)
        assert response["Content-Type"] == "application/problem+json"
    assert stored(tree.payments) == {"kept": 1}


def test_write__other_media_type__415(client: APIClient) -> None:
    for content_type in (MERGE_PATCH, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert send(client, "PUT", CONFIG, "{}", content_type).status_code == 415
    assert send(client, "PATCH", CONFIG, "{}", "application/xml").status_code == 415


def test_write__body_of_unknown_length__refused_not_taken_for_the_empty_document(client: APIClient, tree: Tree) -> None:
    put(tree.payments, {"kept": 1})
    response = client.put(CONFIG, {"a": 1}, format="json", CONTENT_LENGTH="", HTTP_TRANSFER_ENCODING="chunked")
    assert (response.status_code, response.json()["code"]) == (400, "empty_body")
    assert stored(tree.payments) == {"kept": 1}


def test_query__unknown_or_malformed__refused_by_name(client: APIClient, tree: Tree) -> None:
    for method, path, code in (
        ("get", CONFIG + "?x=1", "unknown_parameter"),
        ("put", CONFIG + "?dryrun=true", "unknown_parameter"),
        ("put", CONFIG + "?dry_run=1", "bad_dry_run"),
        ("patch", CONFIG + "?dry_run=", "bad_dry_run"),
        ("get", CONFIG + "/effective?resolve=1", "bad_resolve"),
        ("get", CONFIG + "/effective?provenance=yes", "bad_provenance"),
        ("get", CONFIG + "/effective?pointer=x", "bad_pointer"),
        ("get", CONFIG + "/effective?pointer=/~", "bad_pointer"),
        ("get", CONFIG + "/history?limit=0", "bad_limit"),
        ("get", CONFIG + "/history?cursor=%00", "bad_cursor"),
        ("get", CONFIG + "/history?page=2", "unknown_parameter"),
        ("get", CONFIG + "/history/1?x", "unknown_parameter"),
        ("post", CONFIG + "/unset?reason=x", "unknown_parameter"),
        ("get", "/api/v1/config/me?org=rival", "unknown_parameter"),
        ("get", "/api/v1/config/schema?v=1", "unknown_parameter"),
    ):
        response = getattr(client, method)(path, *([{"a": 1}] if method != "get" else []), format="json")
        assert (path, response.status_code, response.json()["code"]) == (path, 400, code)
    assert versions(tree.payments) == []


def test_history__well_formed_cursor_beyond_any_version__no_failure(client: APIClient, tree: Tree) -> None:
    put(tree.payments, {"a": 1})
    page = client.get(f"{CONFIG}/history", {"cursor": cursor_encode([10**30])})
    assert (page.status_code, len(page.json()["results"])) == (200, 1)


def test_unset_and_rollback__bad_member__named(client: APIClient) -> None:
    for path, body, pointer in (
        ("unset", {}, "/pointers"),
        ("unset", {"pointers": []}, "/pointers"),
        ("unset", {"pointers": "/a"}, "/pointers"),
        ("unset", {"pointers": ["a"]}, "/pointers/0"),
        ("unset", {"pointers": ["/a", 5]}, "/pointers/1"),
        ("unset", {"pointers": [""]}, "/pointers/0"),
        ("unset", {"pointers": ["/a"], "extra": 1}, "/extra"),
        ("unset", {"pointers": ["/a"], "reason": 5}, "/reason"),
        ("rollback", {}, "/version"),
        ("rollback", {"version": "1"}, "/version"),
        ("rollback", {"version": True}, "/version"),
        ("rollback", {"version": 1.0}, "/version"),
        ("rollback", {"version": -1}, "/version"),
        ("rollback", {"version": 2**63}, "/version"),
        ("rollback", {"version": 7}, "/version"),
        ("rollback", {"version": 1, "reason": "x" * 501}, "/reason"),
        ("rollback", {"version": 1, "reason": "a\u0000b"}, "/reason"),
    ):
        response = client.post(f"{CONFIG}/{path}", body, format="json")
        problem = response.json()
        assert (body, response.status_code) == (body, 422)
        assert (body, [error["pointer"] for error in problem["errors"]]) == (body, [pointer])


def test_write__bad_reason_in_the_query__refused(client: APIClient, tree: Tree) -> None:
    for query in ("reason=%00", "reason=" + "x" * 501, "reason=a%0Ab"):
        response = client.put(f"{CONFIG}?{query}", {"a": 1}, format="json")
        assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, "/reason")
    assert versions(tree.payments) == []


def test_node__unknown_or_hostile_slug__404(client: APIClient) -> None:
    for slug in ("nope", "pay%00ments", "..%2F..", "x" * 300):
        response = client.get(f"/api/v1/orgs/demo/nodes/{slug}/config")
        assert (slug, response.status_code, response.json()["code"]) == (slug, 404, "not_found")


def test_effective__reading__costs_four_queries_and_three_when_merged_before(
    tree: Tree, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    put(tree.root, {"a": 1})
    client = api_client(token=make_team_token(tree.payments))
    client.get("/api/v1/config/schema")  # marks the token as used
    with django_assert_num_queries(4):  # token, node, chain, documents
        client.get(f"{CONFIG}/effective?provenance=true")
    with django_assert_num_queries(3):
        client.get(f"{CONFIG}/effective")
    with django_assert_num_queries(2):  # token, chain
        client.get("/api/v1/config/me/effective")


def test_history__reading__costs_the_same_however_long(
    tree: Tree, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(30):
        put(tree.payments, {"a": number})
    client = api_client(token=make_team_token(tree.payments))
    client.get("/api/v1/config/schema")
    with django_assert_num_queries(4):  # token, node, permission, page
        assert len(client.get(f"{CONFIG}/history").json()["results"]) == 30


def test_openapi__every_configuration_route__described_without_a_guess(capfd: pytest.CaptureFixture[str]) -> None:
    patterns = [pattern for pattern in get_resolver().url_patterns if str(pattern.pattern) == "api/v1/"]
    generator = SchemaGenerator(patterns=patterns)  # type: ignore[no-untyped-call]  # ships no annotations
    schema = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    paths = {path: item for path, item in schema["paths"].items() if "/config" in path}
    assert len(paths) >= 10  # /config/me is /config/me/effective under its short name
    assert paths["/api/v1/orgs/{org}/nodes/{node}/config"].keys() == {"get", "put", "patch"}
    patch_body = paths["/api/v1/orgs/{org}/nodes/{node}/config"]["patch"]["requestBody"]["content"]
    assert patch_body.keys() == {"application/json", MERGE_PATCH}
    parameters = paths["/api/v1/orgs/{org}/nodes/{node}/config/effective"]["get"]["parameters"]
    assert {item["name"] for item in parameters} == {"org", "node", "provenance", "pointer", "resolve", "If-None-Match"}
    assert "configs/api.py" not in capfd.readouterr().err

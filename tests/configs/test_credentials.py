"""Credentials of configurations: states for readers, values for runtimes, warnings for writers; examples 26–32."""

import json
import logging

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from controlplane.audit.models import AuditEvent, SecurityEvent, SecurityKind
from controlplane.audit.security_stream import stream
from controlplane.configs.cache import effective_cache
from controlplane.configs.models import ConfigVersion
from controlplane.core import clock
from controlplane.core.actor import Role
from controlplane.core.errors import InvalidInput
from tests.configs.support import EFFECTIVE, credentials, patch, put, runtime, stored
from tests.factories import (
    Tree,
    api_client,
    entrust,
    make_admin_token,
    make_grant,
    make_operator,
    make_personal_token,
    make_team_token,
    make_user,
)

pytestmark = pytest.mark.django_db

NAME = "OPENSRE_CRED_GRAFANA"
VALUE = "hunter2-quite-${OPENSRE_CRED_OTHER}-secret"  # which also looks like a reference: example 31
OWN = "/api/v1/config/me/effective"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, VALUE)
    monkeypatch.delenv("OPENSRE_CRED_OTHER", raising=False)


def everything_stored() -> str:
    """Return all rows of all tables as one text."""
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f'SELECT * FROM "{table}"')  # noqa: S608 (names of our own tables)
            found += [repr(row) for row in cursor.fetchall()]
    return "\n".join(found)


# ---- the examples of the reference ----


def test_example_26__literal_secret__422_with_pointer_and_rule_and_the_value_nowhere(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    literal = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    client = api_client(user=make_user(tree.payments, Role.ADMIN))
    body = {"integrations": {"github": {"token": literal}}}
    response = client.patch("/api/v1/orgs/demo/nodes/payments/config", body, format="json")

    assert (response.status_code, response.json()["code"]) == (422, "literal_secret")
    assert [error["pointer"] for error in response.json()["errors"]] == ["/integrations/github/token"]
    assert "rule " in response.json()["errors"][0]["detail"]
    for text in (response.content.decode(), caplog.text, everything_stored()):
        assert literal[4:] not in text


def test_example_27__reference__stored_as_written(tree: Tree) -> None:
    put(tree.payments, {"db": {"password": "${OPENSRE_CRED_DB}"}})
    assert stored(tree.payments) == {"db": {"password": "${OPENSRE_CRED_DB}"}}


def test_example_28__reader__sees_the_reference_and_its_state(tree: Tree) -> None:
    entrust(tree.root, NAME)
    put(tree.root, {"a": {"token": f"${{{NAME}}}"}})
    put(tree.payments, {"list": ["x", {"b": "${OPENSRE_CRED_OTHER:-d} $${NOT_ONE}"}]})
    body = api_client(user=make_user(tree.payments, Role.VIEWER)).get(EFFECTIVE).json()

    assert body["effective"]["a"] == {"token": f"${{{NAME}}}"}
    assert body["credentials"] == [
        {"pointer": "/a/token", "name": NAME, "state": "set"},
        {"pointer": "/list/1/b", "name": "OPENSRE_CRED_OTHER", "state": "not_granted"},
    ]
    assert "hunter2" not in json.dumps(body)


def test_example_29__allowed_granted_and_set__the_runtime_gets_the_value(tree: Tree) -> None:
    entrust(tree.root, NAME)
    effective, states = credentials(tree, {"token": f"Bearer ${{{NAME}}}", f"${{{NAME}}}": 1})

    assert effective == {"token": f"Bearer {VALUE}", f"${{{NAME}}}": 1}
    assert states == [{"pointer": "/token", "name": NAME, "state": "set"}]
    assert runtime(tree).get(EFFECTIVE).json()["effective"]["token"] == f"Bearer ${{{NAME}}}"


def test_example_30__no_complete_reference__unchanged(tree: Tree) -> None:
    assert credentials(tree, {"note": "pa$$w0rd${"}) == ({"note": "pa$$w0rd${"}, [])


def test_example_31__value_with_a_reference__passed_through_literally(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENSRE_CRED_OTHER", "other")
    for name in (NAME, "OPENSRE_CRED_OTHER"):
        entrust(tree.root, name)
    assert credentials(tree, {"a": f"${{{NAME}}}"})[0] == {"a": VALUE}


@pytest.mark.parametrize("name", ["DB_PASSWORD", "SECRET_KEY", "opensre_cred_x"])
def test_example_32__outside_the_allow_list__stored_with_a_warning_and_null(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "hunter2-of-the-process")
    result = put(tree.payments, {"a": f"${{{name}}}"})
    assert [(one.pointer, one.code) for one in result.warnings if one.code.startswith("credential")] == [
        ("/a", "credential_not_allowed")
    ]
    effective, states = credentials(tree, {"a": f"${{{name}:-default}}"})
    assert (effective, states) == ({"a": None}, [{"pointer": "/a", "name": name, "state": "not_allowed"}])


# ---- states and values ----


@pytest.mark.parametrize(
    ("granted", "value", "text", "state", "resolved"),
    [
        (True, "v", "${N}", "set", "v"),
        (True, "v", "${N:-d}", "set", "v"),
        (True, "v", "<${N}> $${N} ${N}", "set", "<v> ${N} v"),
        (True, "", "${N}", "unset", None),
        (True, None, "${N}", "unset", None),
        (True, None, "a ${N:-d} b", "unset", "a d b"),
        (True, None, "${N:-}", "unset", ""),
        (False, "v", "${N}", "not_granted", None),
        (False, "v", "${N:-d}", "not_granted", None),
        (False, None, "${N:-d}", "not_granted", None),
    ],
)
def test_resolve__granted_and_value__state_and_text(
    tree: Tree,
    monkeypatch: pytest.MonkeyPatch,
    granted: bool,
    value: str | None,
    text: str,
    state: str,
    resolved: str | None,
) -> None:
    name = "OPENSRE_CRED_N"
    monkeypatch.delenv(name, raising=False)
    if value is not None:
        monkeypatch.setenv(name, value)
    if granted:
        make_grant(tree.payments, name)
    effective, states = credentials(tree, {"a": text.replace("{N", "{" + name)})

    assert states == [{"pointer": "/a", "name": name, "state": state}]
    assert effective == {"a": resolved if resolved is None else resolved.replace("{N", "{" + name)}


def test_resolve__one_of_two_without_value__the_whole_text_is_null(tree: Tree) -> None:
    entrust(tree.root, NAME)
    effective, states = credentials(tree, {"a": f"${{{NAME}}}:${{OPENSRE_CRED_OTHER}}", "b": f"${{{NAME}}}"})
    assert effective == {"a": None, "b": VALUE}
    assert [one["state"] for one in states] == ["set", "not_granted", "set"]


def test_resolve__grant_to_a_sibling_or_another_organization__not_granted(tree: Tree, other_tree: Tree) -> None:
    make_grant(tree.platform, NAME)
    entrust(other_tree.root, NAME)
    assert credentials(tree, {"a": f"${{{NAME}}}"}) == (
        {"a": None},
        [{"pointer": "/a", "name": NAME, "state": "not_granted"}],
    )


def test_resolve__pointer__only_that_part_is_resolved_reported_and_audited(tree: Tree) -> None:
    entrust(tree.root, NAME)
    put(tree.payments, {"a": {"b": [f"${{{NAME}}}"]}, "c": "${OPENSRE_CRED_OTHER}"})
    body = runtime(tree).get(EFFECTIVE, {"resolve": "true", "pointer": "/a/b/0", "provenance": "true"}).json()

    assert body["effective"] == VALUE
    assert body["credentials"] == [{"pointer": "/a/b/0", "name": NAME, "state": "set"}]
    assert "hunter2" not in json.dumps(body["sources"])
    event = SecurityEvent.objects.get(kind=SecurityKind.SECRET)
    assert (event.action, event.object_id, event.node_id) == ("config.resolve", NAME, tree.payments.pk)
    assert (event.organization_id, event.actor_label) == (tree.organization.pk, "team of payments")
    assert not AuditEvent.objects.filter(action="config.resolve").exists()
    assert runtime(tree).get(EFFECTIVE, {"resolve": "true", "pointer": "/nothing"}).status_code == 404


def test_resolve__answer__stored_nowhere_and_without_a_tag(tree: Tree, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    effective_cache.clear()
    entrust(tree.root, NAME)
    put(tree.payments, {"a": f"${{{NAME}}}"})
    for path in (EFFECTIVE, OWN):
        plain = runtime(tree).get(path)
        response = runtime(tree).get(path, {"resolve": "true"}, headers={"If-None-Match": f"{plain['ETag']}, *"})
        assert response.status_code == 200
        assert (response["Cache-Control"], response.has_header("ETag")) == ("no-store", False)
        assert VALUE in response.content.decode()
        assert VALUE not in runtime(tree).get(path).content.decode()

    assert "hunter2" not in f"{everything_stored()} {caplog.text}"
    assert all(b"hunter2" not in computed.body for computed, _ in effective_cache._entries.values())
    stream.write(everything=True)
    assert SecurityEvent.objects.filter(kind=SecurityKind.SECRET, actor__startswith="token:").count() == 2


def test_own_resolve__opensre_form__values_in_place(tree: Tree) -> None:
    entrust(tree.root, NAME)
    put(tree.payments, {"a": f"${{{NAME}}}"})
    body = runtime(tree).get(OWN, {"resolve": "true"}).json()
    assert (body["node_id"], body["effective_config"]) == ("payments", {"a": VALUE})
    assert body["credentials"] == [{"pointer": "/a", "name": NAME, "state": "set"}]


READING = {
    "viewer": lambda tree: api_client(user=make_user(tree.payments, Role.VIEWER)),
    "admin": lambda tree: api_client(user=make_user(tree.payments, Role.ADMIN)),
    "owner": lambda tree: api_client(user=make_user(tree.root, Role.OWNER)),
    "token without config:resolve": lambda tree: api_client(token=make_team_token(tree.payments, ["config:read"])),
    "admin token with all but that": lambda tree: api_client(
        token=make_admin_token(tree.root, ["config:read", "config:write", "admin:*"])
    ),
    "personal token with config:resolve": lambda tree: api_client(
        token=make_personal_token(make_user(tree.root, Role.OWNER), tree.root, ["config:read", "config:resolve"])
    ),
}
UNSEEING = {
    "team token of another team": lambda tree: api_client(token=make_team_token(tree.platform)),
    "member without role": lambda tree: api_client(user=make_user(tree.payments, None)),
    "operator": lambda _: api_client(user=make_operator()),
}


@pytest.mark.parametrize("caller", [*READING, *UNSEEING])
def test_resolve__caller_without_the_scope__refused_and_not_audited(tree: Tree, caller: str) -> None:
    entrust(tree.root, NAME)
    put(tree.payments, {"a": f"${{{NAME}}}"})
    client = (READING | UNSEEING)[caller](tree)
    refused, read = client.get(EFFECTIVE, {"resolve": "true"}), client.get(EFFECTIVE)

    assert (refused.status_code, read.status_code) == ((403, 200) if caller in READING else (404, 404))
    assert "hunter2" not in f"{refused.content!r} {read.content!r}"
    assert not SecurityEvent.objects.filter(kind=SecurityKind.SECRET).exists()


def test_resolve__every_turn_of_a_runtime__one_row_with_a_count_and_the_chain_untouched(tree: Tree) -> None:
    entrust(tree.root, NAME)
    put(tree.payments, {"a": f"${{{NAME}}}"})
    client = runtime(tree)
    client.get(EFFECTIVE, {"resolve": "true"})
    with time_machine.travel(clock.now(), tick=False), CaptureQueriesContext(connection) as captured:
        for _ in range(20):
            assert client.get(EFFECTIVE, {"resolve": "true"}).status_code == 200
    assert not [query for query in captured if "audit_auditevent" in query["sql"] or "audithead" in query["sql"]]
    stream.write(everything=True)
    rows = SecurityEvent.objects.filter(kind=SecurityKind.SECRET)
    assert sum(row.count for row in rows) == 21
    assert len(rows) <= 2


def test_resolve__many_names__each_is_whole_in_some_row(tree: Tree) -> None:
    names = {f"OPENSRE_CRED_SERVICE_{number:02d}_PASSWORD_AND_TOKEN" for number in range(12)}
    put(tree.payments, {"a": {str(number): f"${{{name}}}" for number, name in enumerate(sorted(names))}})
    runtime(tree).get(EFFECTIVE, {"resolve": "true"})
    stream.write(everything=True)
    rows = SecurityEvent.objects.filter(kind=SecurityKind.SECRET).values_list("object_id", flat=True)
    assert {name for row in rows for name in row.split(", ")} == names
    assert len(rows) == 3


def test_resolve__no_credentials__nothing_is_given_and_nothing_noted(tree: Tree) -> None:
    put(tree.payments, {"a": 1})
    assert runtime(tree).get(EFFECTIVE, {"resolve": "true"}).status_code == 200
    stream.write(everything=True)
    assert not SecurityEvent.objects.exists()


def test_resolve__other_organization__404_and_nobody_401(tree: Tree, other_tree: Tree) -> None:
    entrust(tree.root, NAME)
    put(tree.payments, {"a": f"${{{NAME}}}"})
    foreign = api_client(token=make_admin_token(other_tree.root))
    assert foreign.get(EFFECTIVE, {"resolve": "true"}).status_code == 404
    assert api_client().get(EFFECTIVE, {"resolve": "true"}).status_code == 401
    assert runtime(tree).get(EFFECTIVE, {"resolve": "yes"}).status_code == 400


def test_effective__state_changes_without_a_write__another_tag(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tree.payments, {"a": f"${{{NAME}}}"})
    client = runtime(tree)
    tags = [client.get(EFFECTIVE)["ETag"]]
    given = entrust(tree.root, NAME)
    tags.append(client.get(EFFECTIVE)["ETag"])
    monkeypatch.delenv(NAME)
    tags.append(client.get(EFFECTIVE)["ETag"])
    assert len(set(tags)) == 3
    assert client.get(EFFECTIVE, headers={"If-None-Match": tags[2]}).status_code == 304
    monkeypatch.setenv(NAME, "another value, the same state")
    assert client.get(EFFECTIVE)["ETag"] == tags[1]
    assert given.revoked_at is None


def test_effective__no_references__no_credentials_and_no_more_queries(
    tree: Tree, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    put(tree.payments, {"a": "plain $${NAME}"})
    client = runtime(tree)
    assert "credentials" not in client.get(EFFECTIVE).json()
    with django_assert_num_queries(3):  # token, node, chain
        client.get(EFFECTIVE)
    put(tree.payments, {"a": [f"${{{NAME}}}", "${OPENSRE_CRED_B}"]})
    client.get(EFFECTIVE)
    with django_assert_num_queries(4):  # and the grants, however many names there are
        assert len(client.get(EFFECTIVE).json()["credentials"]) == 2


# ---- writing ----


def test_write__names_without_use__warned_of_and_stored(tree: Tree) -> None:
    entrust(tree.root, NAME)
    document = {"a": f"${{{NAME}}}", "b": ["${OPENSRE_CRED_OTHER}"], "c": {"d": "${HOME}${HOME}"}}
    result = put(tree.payments, document)

    assert [(one.pointer, one.code) for one in result.warnings if one.code.startswith("credential")] == [
        ("/b/0", "credential_not_granted"),
        ("/c/d", "credential_not_allowed"),
    ]
    assert stored(tree.payments) == document


@pytest.mark.parametrize("text", ["${}", "${1X}", "x ${A-B} hunter2", "${A:-${B}}", "${a.b}"])
def test_write__malformed_reference__refused_by_place_and_not_quoted(tree: Tree, text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        put(tree.payments, {"a": {"list": ["fine", {"b": text}]}})
    assert caught.value.code == "malformed_reference"
    assert [(error.pointer, error.code) for error in caught.value.errors] == [("/a/list/1/b", "malformed_reference")]
    assert "hunter2" not in str(caught.value.as_problem())
    assert not ConfigVersion.objects.exists()


def test_write__malformed_reference_stored_long_ago__keeps_nobody_from_writing(tree: Tree) -> None:
    put(tree.payments, {"old": "x"})
    row = tree.payments.config
    row.document = {"old": "${a.b}"}
    row.save()
    patch(tree.payments, {"new": 1})
    assert stored(tree.payments) == {"old": "${a.b}", "new": 1}
    body = runtime(tree).get(EFFECTIVE, {"resolve": "true"}).json()
    assert body["effective"] == {"old": None, "new": 1}
    assert body["credentials"] == [{"pointer": "/old", "name": "", "state": "malformed"}]

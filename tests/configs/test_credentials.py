"""Credentials of configurations: states for readers, values for runtimes, warnings for writers; examples 26–32."""

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from controlplane.audit.models import AuditEvent
from controlplane.configs.cache import effective_cache
from controlplane.configs.credentials import Credentials, State, config_resolve, credentials_of
from controlplane.configs.models import ConfigVersion
from controlplane.configs.references import Occurrence, occurrences, replace_texts
from controlplane.configs.selectors import chain_for
from controlplane.core.actor import Role
from controlplane.core.credentials import credential_allowed, credential_value
from controlplane.core.errors import InvalidInput
from tests.configs.support import patch, put, stored
from tests.factories import (
    Tree,
    actor_for_token,
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
EFFECTIVE = "/api/v1/orgs/demo/nodes/payments/config/effective"
OWN = "/api/v1/config/me/effective"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, VALUE)
    monkeypatch.delenv("OPENSRE_CRED_OTHER", raising=False)


def runtime(tree: Tree) -> APIClient:
    """A client with what a runtime of the team has: the default scopes of a team token."""
    return api_client(token=make_team_token(tree.payments))


def credentials(tree: Tree, document: dict[str, Any]) -> tuple[Any, list[dict[str, str]]]:
    """Return the resolved document and ``credentials[]`` of a document of the team."""
    put(tree.payments, document)
    response = runtime(tree).get(EFFECTIVE, {"resolve": "true"})
    assert response.status_code == 200
    body = response.json()
    return body["effective"], body.get("credentials", [])


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
    (event,) = AuditEvent.objects.filter(action="config.resolve")
    assert json.loads(event.after_json) == {"version": 1, "pointer": "/a/b/0", "credentials": 1, "names": [NAME]}
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
    assert AuditEvent.objects.filter(action="config.resolve", actor__startswith="token:").count() == 2


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
    assert not AuditEvent.objects.filter(action="config.resolve").exists()


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


# ---- where values come from ----


@pytest.mark.parametrize("name", ["SECRET_KEY", "TOKEN_PEPPERS", "AUDIT_KEYS", "DATABASE_URL", "METRICS_TOKEN"])
def test_value__of_the_process_itself__never_reachable_whatever_is_allowed(
    tree: Tree, settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    settings.CREDENTIAL_ENV_ALLOW = ["*"]
    settings.CREDENTIAL_FILES_DIR = str(tmp_path)
    for spelling in (name, name.lower()):
        monkeypatch.setenv(spelling, "hunter2-of-the-process")
        (tmp_path / spelling).write_text("hunter2-of-the-process")
        assert not credential_allowed(spelling)
        assert credential_value(spelling) is None
        assert credentials_of(tree.payments.pk).state(spelling) is State.NOT_ALLOWED
    assert credential_allowed("OPENSRE_DATA_DIRECTORY")


def test_value__every_variable_of_the_settings__is_protected(settings: Any) -> None:
    settings.CREDENTIAL_ENV_ALLOW = ["*"]
    assert {"SECRET_KEY", "TOKEN_PEPPERS", "AUDIT_KEYS", "DATABASE_URL", "METRICS_TOKEN"} <= settings.PROCESS_VARIABLES
    assert not [name for name in (*settings.PROCESS_VARIABLES, "PGPASSWORD") if credential_allowed(name)]


@pytest.fixture
def files(settings: Any, tmp_path: Path) -> Path:
    directory = tmp_path / "secrets"
    directory.mkdir()
    settings.CREDENTIAL_FILES_DIR = str(directory)
    return directory


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"value\n", "value"),
        (b"value\r\n", "value"),
        (b" two\nlines \n", " two\nlines "),
        (b"v" * 64 * 1024, "v" * 64 * 1024),
        (b"v" * (64 * 1024 + 1), None),
        (b"\xff\xfe", None),
        (b"\n", None),
        (b"", None),
    ],
)
def test_file__content__value(files: Path, content: bytes, value: str | None) -> None:
    (files / "OPENSRE_CRED_FILE").write_bytes(content)
    assert credential_value("OPENSRE_CRED_FILE") == value


def test_file__links__followed_inside_and_not_out(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    mounted = files / "..2026_11_30"  # as Kubernetes mounts secrets
    mounted.mkdir()
    (mounted / "OPENSRE_CRED_IN").write_text("inside\n")
    (files / "..data").symlink_to(mounted.name)
    (files / "OPENSRE_CRED_IN").symlink_to("..data/OPENSRE_CRED_IN")
    outside = files.parent / "outside"
    outside.write_text("hunter2")
    (files / "OPENSRE_CRED_OUT").symlink_to(outside)
    (files / "OPENSRE_CRED_GONE").symlink_to("nowhere")
    (files / "OPENSRE_CRED_DIR").mkdir()
    os.mkfifo(files / "OPENSRE_CRED_PIPE")

    names = ("IN", "OUT", "GONE", "DIR", "PIPE", "ABSENT")
    assert [credential_value(f"OPENSRE_CRED_{name}") for name in names] == ["inside"] + [None] * 5
    assert "hunter2" not in caplog.text
    assert caplog.text.count("credential.file_not_read") == 3


def test_file__variable_of_the_same_name__goes_before_it(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (files / NAME).write_text("from the file")
    assert credential_value(NAME) == VALUE
    monkeypatch.setenv(NAME, "")
    assert credential_value(NAME) == "from the file"


def test_variable__no_utf_8__unset_and_said(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(NAME, "hunter2\udcff")
    entrust(tree.root, NAME)
    assert credentials(tree, {"a": f"${{{NAME}}}"}) == (
        {"a": None},
        [{"pointer": "/a", "name": NAME, "state": "unset"}],
    )
    assert "credential.variable_not_read" in caplog.text
    assert "hunter2" not in caplog.text


def test_file__no_directory__unset(settings: Any, tmp_path: Path) -> None:
    settings.CREDENTIAL_FILES_DIR = str(tmp_path / "missing")
    assert credential_value("OPENSRE_CRED_FILE") is None


# ---- algebra and leaks ----

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab${}:-", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab${}", min_size=1, max_size=5), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text("ab${}", min_size=1, max_size=5), JSON, max_size=3))
def test_replace_texts__any_document__keys_and_shape_stay_and_inputs_too(document: dict[str, Any]) -> None:
    before = json.dumps(document)
    same = replace_texts(document, lambda text: text)
    assert same == document
    nulled = replace_texts(document, lambda _: None)
    assert json.dumps(document) == before
    assert list(nulled) == list(document)
    assert occurrences(nulled) == ()


def test_occurrences__document__each_name_once_a_text_and_none_of_keys() -> None:
    document = {"a/b": ["${A} ${A} ${B}"], "${KEY}": "$${ESCAPED}", "c": "${1}"}
    path = ("a/b", "0")
    assert occurrences(document) == (Occurrence(path, "A"), Occurrence(path, "B"), Occurrence(("c",), ""))


def test_objects__repr__never_a_value(tree: Tree) -> None:
    entrust(tree.root, NAME)
    put(tree.payments, {"a": f"${{{NAME}}}"})
    found: Credentials = credentials_of(tree.payments.pk)
    resolved = found.resolve(f"${{{NAME}}}")
    assert (resolved.text, resolved.values, resolved.missing) == (VALUE, (VALUE,), ())
    token = actor_for_token(make_team_token(tree.payments))
    result = config_resolve(actor=token, chain=chain_for(actor=token, node_id=tree.payments.pk))
    assert result.document == {"a": VALUE}
    assert "hunter2" not in f"{resolved!r} {found!r} {result!r}"

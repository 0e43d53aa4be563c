"""Where the values of credentials come from, and that none leaks."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.configs.credentials import Credentials, State, config_resolve, credentials_of
from controlplane.configs.references import Occurrence, occurrences, replace_texts
from controlplane.configs.selectors import chain_for
from controlplane.core.credentials import credential_allowed, credential_value
from tests.configs.support import credentials, put
from tests.factories import (
    Tree,
    actor_for_token,
    entrust,
    make_team_token,
)

pytestmark = pytest.mark.django_db

NAME = "OPENSRE_CRED_GRAFANA"
VALUE = "hunter2-quite-${OPENSRE_CRED_OTHER}-secret"  # which also looks like a reference: example 31


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, VALUE)
    monkeypatch.delenv("OPENSRE_CRED_OTHER", raising=False)


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

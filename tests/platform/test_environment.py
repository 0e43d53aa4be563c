"""Reading settings: what a variable means, and that a wrong one is named and never shown."""

import os
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given
from hypothesis import strategies as st

from controlplane.settings.database import database_settings
from controlplane.settings.environment import Environment, load_env_file, require_directory

SECRET = "hunter2-hunter2"


@given(st.text(min_size=1))
def test_str__any_text__is_taken_as_it_stands(text: str) -> None:
    assert Environment({"A": text}).str("A", default="") == text


@pytest.mark.parametrize("text", ["$OTHER", "${OTHER}", "$$", "a$b", r"\$x"])
def test_str__dollar__names_no_other_variable(text: str) -> None:
    assert Environment({"A": text, "OTHER": "wrong"}).str("A", default="") == text


@pytest.mark.parametrize("variables", [{}, {"A": ""}])
def test_every_type__unset_or_empty__is_the_default(variables: dict[str, str]) -> None:
    env = Environment(variables)
    assert env.str("A", default="x") == "x"
    assert env.choice("A", ("x", "y"), default="x") == "x"
    assert env.bool("A", default=True) is True
    assert env.int("A", default=3) == 3
    assert env.float("A", default=0.5) == 0.5
    assert env.list("A", default=["x"]) == ["x"]
    assert env.numbered_keys("A", default="k") == {1: "k"}


@pytest.mark.parametrize(
    ("method", "text", "value"),
    [
        ("bool", "true", True),
        ("bool", "YES", True),
        ("bool", "1", True),
        ("bool", "off", False),
        ("bool", "0", False),
        ("int", "42", 42),
        ("int", "-1", -1),
        ("float", "1.5", 1.5),
        ("float", "2", 2.0),
        ("list", "a, b,,c ", ["a", "b", "c"]),
    ],
)
def test_every_type__good_text__is_its_value(method: str, text: str, value: Any) -> None:
    assert getattr(Environment({"A": text}), method)("A", default=None) == value


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("bool", "maybe"),
        ("bool", "2"),
        ("int", "1.5"),
        ("int", SECRET),
        ("float", "1,5"),
        ("float", "nan"),
        ("float", "inf"),
        ("numbered_keys", SECRET),
        ("numbered_keys", f'["{SECRET}"]'),
        ("numbered_keys", f'{{"one": "{SECRET}"}}'),
        ("numbered_keys", '{"1": 5}'),
        ("numbered_keys", "{}"),
    ],
)
def test_every_type__wrong_text__is_named_and_not_shown(method: str, text: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^NAME must be ") as caught:
        getattr(Environment({"NAME": text}), method)("NAME", default=None)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_choice__unknown__lists_the_known_ones() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^MODE must be one of: local, production\.$"):
        Environment({"MODE": SECRET}).choice("MODE", ("local", "production"), default="local")


def test_numbered_keys__several__keep_their_numbers() -> None:
    assert Environment({"A": '{"2": "b", "1": "a"}'}).numbered_keys("A", default="") == {1: "a", 2: "b"}


# ---- the .env file -------------------------------------------------------------------------------------------------


def test_load_env_file__missing__changes_nothing(tmp_path: Path) -> None:
    before = dict(os.environ)
    load_env_file(tmp_path / ".env")
    assert dict(os.environ) == before


def test_load_env_file__what_is_already_set__wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENSRE_TEST_A", "outside")
    monkeypatch.delenv("OPENSRE_TEST_B", raising=False)
    (tmp_path / ".env").write_text("# comment\n\nOPENSRE_TEST_A=file\nOPENSRE_TEST_B='$x y'\n")
    load_env_file(tmp_path / ".env")
    env = Environment()
    assert (env.str("OPENSRE_TEST_A", default=""), env.str("OPENSRE_TEST_B", default="")) == ("outside", "$x y")
    monkeypatch.delenv("OPENSRE_TEST_B")


def test_load_env_file__broken_line__is_named_by_number_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"A=1\n{SECRET}\n")
    with pytest.raises(ImproperlyConfigured, match=r"^Line 2 of \.env ") as caught:
        load_env_file(tmp_path / ".env")
    assert SECRET not in str(caught.value)


# ---- directories ---------------------------------------------------------------------------------------------------


def test_require_directory__missing__is_made(tmp_path: Path) -> None:
    require_directory("OPENSRE_DATA_DIR", tmp_path / "a" / "b")
    require_directory("OPENSRE_DATA_DIR", tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_require_directory__file_in_the_way__names_the_variable(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(ImproperlyConfigured, match=r"^OPENSRE_DATA_DIR: "):
        require_directory("OPENSRE_DATA_DIR", tmp_path / "a" / "b")


# ---- the database --------------------------------------------------------------------------------------------------


def test_database_settings__no_url__is_a_file_in_the_data_directory(tmp_path: Path) -> None:
    database = database_settings("", tmp_path / "new")
    assert database["NAME"] == str(tmp_path / "new" / "opensre.sqlite3")
    assert (tmp_path / "new").is_dir()


def test_database_settings__postgres_url__keeps_an_encoded_password(tmp_path: Path) -> None:
    database = database_settings("postgres://me:p%40ss%24@db.example:6543/opensre", tmp_path)
    assert (database["USER"], database["PASSWORD"], database["HOST"], database["PORT"], database["NAME"]) == (
        "me", "p@ss$", "db.example", 6543, "opensre",
    )  # fmt: skip


@pytest.mark.parametrize("url", [f"mysql://u:{SECRET}@h/x", f"postgres://u:{SECRET}@h:port/x", SECRET])
def test_database_settings__other_url__is_named_and_not_shown(url: str, tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL") as caught:
        database_settings(url, tmp_path)
    assert SECRET not in str(caught.value)

"""``docs/permissions.md`` says what the code does."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from controlplane.core.actor import Role
from controlplane.core.permission_words import ACTION_WORDS, ROLE_WORDS
from controlplane.core.permissions import RULES, Action
from controlplane.route_table import ROUTES


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("permissions", *arguments, stdout=out)
    return out.getvalue()


def test_document__is_as_new_as_the_code() -> None:
    assert "says what the code does" in run("--check")


def test_words__every_role_and_action__has_them() -> None:
    assert set(ROLE_WORDS) == set(Role)
    assert set(ACTION_WORDS) == set(Action) == set(RULES)


def test_check__page_changed_or_missing__fails(settings: Settings, tmp_path: Path) -> None:
    settings.BASE_DIR = tmp_path
    (tmp_path / "docs").mkdir()
    with pytest.raises(CommandError, match="out of date"):
        run("--check")
    run()
    run("--check")
    page = tmp_path / "docs" / "permissions.md"
    page.write_text(page.read_text().replace("●", "○", 1))
    with pytest.raises(CommandError, match="out of date"):
        run("--check")


def test_json__every_address_action_and_scope() -> None:
    data = json.loads(run("--json"))
    assert len(data["addresses"]) == len(ROUTES)
    assert data["roles"]["viewer"]["actions"] == ["node.read", "config.read", "run.read"]
    assert data["actions"]["config.resolve"]["scopes"] == ["config:resolve"]
    assert "review.decide" in data["scopes"]["reviews:decide"]["opens"]

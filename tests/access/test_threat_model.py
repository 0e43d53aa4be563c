"""Every test that ``docs/threat-model.md`` names as a proof exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ROW = re.compile(r"^\| (?!threat|asset|actor|---)(.+) \|$", re.MULTILINE)


def text() -> str:
    return (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")


@cache
def names_in(path: str) -> set[str]:
    """Return the names of a file's test functions, methods and classes."""
    file = ROOT / path
    if not file.exists():
        return set()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, kinds)}


@pytest.mark.parametrize("path", sorted({path for path, _ in NAMED.findall(text())}))
def test_threat_model__tests_it_names__exist(path: str) -> None:
    named = {name for one, name in NAMED.findall(text()) if one == path}
    assert {name for name in named if not name.lower().startswith("test")} == set()
    assert named - names_in(path) == set()


def test_threat_model__every_control__names_its_proof() -> None:
    controls = text().partition("## Controls")[2].partition("## What is left")[0]
    rows = ROW.findall(controls)
    assert len(rows) > 40
    assert [row for row in rows if not NAMED.search(row)] == []

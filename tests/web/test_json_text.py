"""Lines of places in typed JSON."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.configs.pointers import decode, get
from web.config_schema import known_settings, setting_at
from web.json_text import line_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)


def places(value: Any, way: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, item in items for path in ((*way, str(key)), *places(item, (*way, str(key))))]


@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=4), st.booleans())
def test_line_of__any_document__is_where_the_key_or_item_stands(document: dict[str, Any], ascii_only: bool) -> None:
    text = json.dumps(document, indent=1, ensure_ascii=ascii_only)
    lines = text.split("\n")
    for path in places(document):
        pointer = "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in path)
        parent = get(document, path[:-1])
        line = line_of(text, pointer)
        assert line is not None
        words = lines[line - 1].strip()
        wanted = json.dumps(path[-1] if isinstance(parent, dict) else get(document, path), ensure_ascii=ascii_only)
        assert words.startswith(wanted[:1] if wanted[0] in "{[" else wanted)
        assert decode(pointer) == path


@pytest.mark.parametrize(("pointer", "line"), [("/a/b/c", 2), ("/x", None), ("", None)])
def test_line_of__nothing_there__is_its_nearest_parents(pointer: str, line: int | None) -> None:
    assert line_of('{\n"a": 1}', pointer) == line


@pytest.mark.parametrize("text", ["", "}", "]]", '{"a', '"', ",", "[,,", "{:}"])
def test_line_of__no_json__promises_nothing_and_does_not_fail(text: str) -> None:
    assert line_of(text, "/a") in (None, 1)


def test_known_settings__cover_the_sections_and_are_found_by_place() -> None:
    found = {setting.pointer: setting for setting in known_settings()}
    assert found["/limits/max_turns"].takes == "whole number 1–10000"
    assert found["/agents/*/enabled"].takes == "true or false"
    assert setting_at("/agents/planner/enabled") == found["/agents/*/enabled"]
    assert setting_at("/limits") is None
    assert setting_at("limits") is None

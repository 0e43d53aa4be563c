"""YAML in and out: exact both ways, one reading only, bounded."""

import json
import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from controlplane.configs.gitops.yaml_text import MAX_ALIASES, MAX_BYTES, YamlError, dump, load
from tests.configs.strategies import PROPERTY

_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
_ODD = st.sampled_from(
    [
        *("yes", "No", "on", "012", "1e3", "1:30", "2020-01-01", "<<", "=", "~", "null", "", "-", "a: b", " x", "x "),
        *(
            "a\n",
            "\n",
            "\na",
            "  a\nb",
            "a \nb",
            "a\n---\nb",
            "0x1f",
            "1_000",
            ".inf",
            ".5",
            "0o7",
            "%x",
            "@a",
            "\x85\n",
        ),
        *(
            "\ufeff",
            "!x",
            "&a",
            "*a",
            "|",
            ">",
            "? a",
            "- a",
            "#",
            "a #b",
            "'",
            '"',
            "\u2028",
            "💥",
            "\x07",
            "\x1b[31m",
        ),
    ]
)
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    _TEXTS,
    _ODD,
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS | _ODD, inner, max_size=3),
    max_leaves=10,
)
DOCUMENTS = st.dictionaries(_TEXTS | _ODD, _VALUES, max_size=4)


@PROPERTY
@given(DOCUMENTS)
def test_dump__any_document__reads_back_exactly(document: dict[str, Any]) -> None:
    text = dump(document)
    assert json.dumps(load(text), sort_keys=True) == json.dumps(document, sort_keys=True)
    assert dump(load(text)) == text


@PROPERTY
@given(DOCUMENTS)
def test_dump__any_document__other_readers_of_yaml_take_it_for_the_same(document: dict[str, Any]) -> None:
    assert yaml.safe_load(dump(document)) == document


def test_dump__text_of_several_lines__stays_readable() -> None:
    assert dump({"prompt": "one\ntwo\n", "n": 1.0, "s": "yes"}) == "n: 1.0\nprompt: |\n  one\n  two\ns: 'yes'\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("{}", {}),
        ("a: 1\nb: -5\nc: +7\nd: 0", {"a": 1, "b": -5, "c": 7, "d": 0}),
        ("a: 0.1\nb: 1.0e+3\nc: -0.5", {"a": 0.1, "b": 1000.0, "c": -0.5}),
        ("a: true\nb: False\nc: ~\nd:", {"a": True, "b": False, "c": None, "d": None}),
        ("a: 'yes'\nb: \"012\"", {"a": "yes", "b": "012"}),
        ("a: 9223372036854775807", {"a": 2**63 - 1}),
        ("a: &x {b: [1]}\nc: *x", {"a": {"b": [1]}, "c": {"b": [1]}}),
        ("a: ${NAME}", {"a": "${NAME}"}),
    ],
)
def test_load__plain_yaml__json_values_of_exact_types(text: str, value: Any) -> None:
    assert json.dumps(load(text)) == json.dumps(value)


def test_load__aliases__share_nothing() -> None:
    loaded = load("a: &x {b: [1]}\nc: *x")
    loaded["a"]["b"].append(2)
    assert loaded["c"] == {"b": [1]}


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("a: 1\nb: yes", 2, "quotes"),
        ("a: 012", 1, "leading zeros"),
        ("a: 1:30", 1, "quotes"),
        ("a: 2020-01-01", 1, "quotes"),
        ("a: 1e3", 1, "1.0e+3"),
        ("a: 1_000", 1, "quotes"),
        ("a: 0x1f", 1, "quotes"),
        ("a: .inf", 1, "quotes"),
        ("a: 1.0e+999", 1, "out of range"),
        (f"a: {'9' * 30}", 1, "64 bits"),
        ("a: !!str x", 1, "tags"),
        ("a: !!python/object/apply:os.system [ls]", 1, "tags"),
        ("!mine\na: 1", 1, "tags"),
        ("a: 1\na: 2", 2, "twice"),
        ("a: {b: 1, b: 2}", 1, "twice"),
        ("<<: {a: 1}", 1, "merge keys"),
        ("1: a", 1, "key"),
        ("null: a", 1, "key"),
        ("? [a]\n: b", 1, "key"),
        ("&k a: 1", 1, "anchor"),
        ("a: &x [*x]", 1, "alias"),
        ("a: *nothing", 1, "alias"),
        ("---\na: 1\n---\nb: 1", 3, "one document"),
        ("a: [", 2, "not YAML"),
        ("a: 1\n b: hidden-value", 2, "not YAML"),
    ],
)
def test_load__what_is_ambiguous_or_active__refused_with_its_line(text: str, line: int, word: str) -> None:
    with pytest.raises(YamlError) as caught:
        load(text)
    assert str(caught.value).startswith(f"Line {line}: ")
    assert word in str(caught.value)
    assert "hidden-value" not in str(caught.value)


def test_load__alias_bomb__refused_before_it_expands() -> None:
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}' if n else 'x'] * 9)}]" for n in range(10)]
    began = time.monotonic()
    with pytest.raises(YamlError, match="more than 100000 values"):
        load("\n".join(levels))
    assert time.monotonic() - began < 5


def test_load__many_aliases_or_too_large_or_too_deep__refused() -> None:
    with pytest.raises(YamlError, match="aliases"):
        load("a: &x 1\nb: [" + ", ".join(["*x"] * (MAX_ALIASES + 1)) + "]")
    with pytest.raises(YamlError, match="characters"):
        load("a: " + "x" * MAX_BYTES)
    with pytest.raises(YamlError, match="nesting"):
        load("[" * 200 + "]" * 200)
    with pytest.raises(YamlError):
        load("[" * 20_000)

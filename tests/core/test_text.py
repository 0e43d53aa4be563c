"""Names and labels."""

import pytest

from controlplane.core.errors import InvalidInput
from controlplane.core.text import single_line, visible


@pytest.mark.parametrize(
    ("text", "expected"), [("Ada", "Ada"), ("  Ada Lovelace ", "Ada Lovelace"), ("Ädä 🚀", "Ädä 🚀")]
)
def test_single_line__proper__stripped(text: str, expected: str) -> None:
    assert single_line(text, pointer="/name") == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "blank"),
        (" \t\n", "blank"),
        ("x" * 201, "too_long"),
        ("a\nb", "control_character"),
        ("a\x00b", "control_character"),
        ("a\x1b[31mb", "control_character"),
        ("a\u2028b", "control_character"),
        ("a\ud800b", "control_character"),
    ],
)
def test_single_line__improper__names_the_rule_and_place(text: str, code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        single_line(text, pointer="/name")
    assert (caught.value.errors[0].pointer, caught.value.errors[0].code) == ("/name", code)
    assert "31m" not in caught.value.detail


def test_visible__controls_and_overrides__are_replaced_and_all_else_stays() -> None:
    assert visible("a\x1b[31mb\u202egnp.exe\u2069\x00\x85") == "a\ufffd[31mb\ufffdgnp.exe\ufffd\ufffd\ufffd"
    assert visible("line\n\tÄ 🚀 日本") == "line\n\tÄ 🚀 日本"

"""What a document may hold: each rule with its code and pointer, and no value quoted."""

from typing import Any

import orjson
import pytest

from controlplane.configs.limits import Limits, limits_for, runtime_kind
from controlplane.configs.sections import DocumentSchema
from controlplane.configs.validation import MAX_DOCUMENT_BYTES, check_document, check_form, warnings_for
from controlplane.core.errors import AppError, InvalidInput, MalformedRequest, PayloadTooLarge


def nested(levels: int) -> dict[str, Any]:
    """Return a document of ``levels`` objects inside each other."""
    document: dict[str, Any] = {}
    for _ in range(levels - 1):
        document = {"k": document}
    return document


@pytest.mark.parametrize("value", [None, [], [{}], "x", 1, True])
def test_check_form__no_object__refused(value: Any) -> None:
    with pytest.raises(MalformedRequest) as caught:
        check_form(value)
    assert caught.value.code == "not_an_object"


@pytest.mark.parametrize(
    ("document", "code", "pointer"),
    [
        pytest.param({"a": {"": 1}}, "key_name", "/a", id="empty-key"),
        pytest.param({"a": {"k" * 201: 1}}, "key_name", "/a", id="long-key"),
        pytest.param({"a": {"k\n": 1}}, "key_name", "/a", id="control-character-in-key"),
        pytest.param({"a": {"k\x85": 1}}, "key_name", "/a", id="c1-control-character-in-key"),
        pytest.param({"a": {"k\ud800": 1}}, "key_name", "/a", id="surrogate-in-key"),
        pytest.param({"a": {1: 1}}, "key_name", "/a", id="number-as-key"),
        pytest.param({"a": [0, "x\x00"]}, "control_character", "/a/1", id="nul"),
        pytest.param({"a": "\udc00"}, "control_character", "/a", id="surrogate"),
        pytest.param({"a": float("nan")}, "number_out_of_range", "/a", id="nan"),
        pytest.param({"a": [float("inf")]}, "number_out_of_range", "/a/0", id="infinity"),
        pytest.param({"a": 1e15}, "number_out_of_range", "/a", id="large-fraction"),
        pytest.param({"a": 2**63}, "number_out_of_range", "/a", id="65-bit"),
        pytest.param({"a": (1, 2)}, "not_json", "/a", id="tuple"),
        pytest.param({"a/b": {"c": b"x"}}, "not_json", "/a~1b/c", id="bytes"),
        pytest.param(nested(65), "nesting_too_deep", "/k" * 64, id="65-objects"),
        pytest.param(
            {"a": nested(63) | {"l": [[]]}} | nested(64) | {"z": [nested(63)]}, "nesting_too_deep", "/z/0" + "/k" * 62
        ),
    ],
)
def test_check_form__rule_broken__code_and_pointer(document: dict[Any, Any], code: str, pointer: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_form(document)
    assert [(error.code, error.pointer) for error in caught.value.errors] == [(code, pointer)]
    assert caught.value.code == code


@pytest.mark.parametrize(
    "document",
    [
        nested(64),
        {"k" * 200: 1},
        {"a": [2**63 - 1, -(2**63), 999_999_999_999_999.0, 1e-300, "\t\n", "ü", {}, [], None, True]},
        {"a~/b": {" ": ""}},
    ],
)
def test_check_form__at_the_bounds__accepted(document: dict[str, Any]) -> None:
    check_form(document)


def test_check_form__size__256_kib_and_not_a_byte_more() -> None:
    frame = len(orjson.dumps({"a": ""}))
    check_form({"a": "x" * (MAX_DOCUMENT_BYTES - frame)})
    with pytest.raises(PayloadTooLarge) as caught:
        check_form({"a": "x" * (MAX_DOCUMENT_BYTES - frame + 1)})
    assert caught.value.code == "document_too_large"
    assert "262145" in caught.value.detail


def test_check_form__many_faults__first_twenty_listed() -> None:
    with pytest.raises(InvalidInput) as caught:
        check_form({"a": [float("nan")] * 100})
    assert len(caught.value.errors) == 20


@pytest.mark.parametrize(
    ("document", "pointer", "code"),
    [
        ({"limits": {"wall_clock_s": 0}}, "/limits/wall_clock_s", "greater_than_equal"),
        ({"limits": {"wall_clock_s": 86_401}}, "/limits/wall_clock_s", "less_than_equal"),
        ({"limits": {"wall_clock_s": "900"}}, "/limits/wall_clock_s", "int_type"),
        ({"limits": {"max_turns": True}}, "/limits/max_turns", "int_type"),
        ({"limits": {"max_cost_usd": 0}}, "/limits/max_cost_usd", "greater_than"),
        ({"limits": {"max_cost_usd": True}}, "/limits/max_cost_usd", "float_type"),
        ({"limits": {"tool_output_bytes": 1.5}}, "/limits/tool_output_bytes", "int_type"),
        ({"limits": []}, "/limits", "model_type"),
        ({"runtime": "builtin"}, "/runtime", "model_type"),
        ({"runtime": {"kind": "No Such"}}, "/runtime/kind", "string_pattern_mismatch"),
        ({"runtime": {"kind": 5}}, "/runtime/kind", "string_type"),
    ],
)
def test_check_document__known_section_broken__names_the_field(
    document: dict[str, Any], pointer: str, code: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_document(document)
    assert caught.value.code == "invalid_section"
    assert [(error.pointer, error.code) for error in caught.value.errors] == [(pointer, code)]


def test_check_document__broken_section__value_not_quoted() -> None:
    with pytest.raises(AppError) as caught:
        check_document({"limits": {"max_turns": "hunter2-unquotable"}, "runtime": "hunter2-unquotable"})
    assert "hunter2" not in str(caught.value.as_problem())


@pytest.mark.parametrize(
    "document",
    [
        {"limits": None, "runtime": None},
        {"limits": {"wall_clock_s": None, "max_cost_usd": 2, "concurrent_runs": 1}},
        {"runtime": {"kind": "builtin", "timeout": 300}},
        {"agents": {"x": 1}, "anything": [1]},
    ],
)
def test_check_document__null_and_unknown__accepted(document: dict[str, Any]) -> None:
    check_document(document)


def test_warnings__unknown_section_setting_and_runtime__each_named_with_a_suggestion() -> None:
    found = warnings_for({"limit": {}, "limits": {"max_turn": 1}, "runtime": {"kind": "nowhere"}, "agents": {}})
    assert [(item.code, item.pointer) for item in found] == [
        ("unknown_section", "/limit"),
        ("unknown_setting", "/limits/max_turn"),
        ("unknown_runtime", "/runtime/kind"),
    ]
    assert "'limits'" in found[0].detail
    assert "'max_turns'" in found[1].detail
    assert "builtin" in found[2].detail


def test_warnings__null_sections__none() -> None:
    assert warnings_for({"limits": None, "runtime": None}) == []


@pytest.mark.parametrize(
    "document", [{}, {"limits": None}, {"limits": 5}, {"limits": {"wall_clock_s": None, "max_turns": "x"}}]
)
def test_limits_for__nothing_usable__defaults(document: dict[str, Any]) -> None:
    assert limits_for(document) == Limits(900, 50, None, None, 65_536, 5)


def test_limits_for__set_values__taken() -> None:
    section = {
        "wall_clock_s": 60, "max_turns": 3, "max_tokens": 1000, "max_cost_usd": 2, "tool_output_bytes": 2048,
        "concurrent_runs": 1, "extra": 1,
    }  # fmt: skip
    assert limits_for({"limits": section}) == Limits(60, 3, 1000, 2, 2048, 1)


@pytest.mark.parametrize("value", [-1, 10**9, True, 1.5])
def test_limits_for__stored_value_out_of_bounds__default(value: Any) -> None:
    assert limits_for({"limits": {"wall_clock_s": value}}).wall_clock_s == 900


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({}, "builtin"),
        ({"runtime": None}, "builtin"),
        ({"runtime": {"kind": None}}, "builtin"),
        ({"runtime": {"kind": "x"}}, "x"),
    ],
)
def test_runtime_kind__chosen_or_default(document: dict[str, Any], kind: str) -> None:
    assert runtime_kind(document) == kind


def test_schema__lists_the_known_sections() -> None:
    schema = DocumentSchema.model_json_schema()
    assert {"agents", "limits", "runtime", "preferences"} <= schema["properties"].keys()
    assert schema["additionalProperties"] is True

from typing import Any

import pytest

from controlplane.core.errors import InvalidInput
from controlplane.runtimes.sources import missing_sources, snapshot_validate


def refused(value: object) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        snapshot_validate(value)
    return caught.value


def test_snapshot_validate__smallest__has_every_member() -> None:
    assert snapshot_validate({"format": "snapshot/1"}) == {
        "format": "snapshot/1",
        "alert": None,
        "scenario": None,
        "sources": {},
        "unreadable": {},
    }


def test_snapshot_validate__what_a_folder_gave__is_accepted_unchanged() -> None:
    value = {
        "format": "snapshot/1",
        "alert": {"title": "x"},
        "scenario": {"available_evidence": ["a"]},
        "sources": {"aws_rds_events": {"events": []}, "a.b-c": [1, 2]},
        "unreadable": {"evidence/b.json": "is a folder"},
    }
    assert snapshot_validate(value) == value
    assert set(missing_sources(value)) == {"a", "evidence/b.json"}


@pytest.mark.parametrize("value", ["../../etc", "/etc/passwd", 7, None, [], True, [{"format": "snapshot/1"}]])
def test_snapshot_validate__no_object__is_not_inline(value: object) -> None:
    error = refused(value)
    assert (error.code, error.errors[0].pointer) == ("evidence_not_inline", "/evidence")
    assert "etc" not in error.detail


@pytest.mark.parametrize(
    ("change", "pointer", "code"),
    [
        ({"format": "snapshot/2"}, "/evidence/format", "unknown_format"),
        ({"path": "/etc"}, "/evidence/path", "unknown_member"),
        ({"a/b~c": 1}, "/evidence/a~1b~0c", "unknown_member"),
        ({"alert": "text"}, "/evidence/alert", "not_an_object"),
        ({"scenario": []}, "/evidence/scenario", "not_an_object"),
        ({"sources": []}, "/evidence/sources", "not_an_object"),
        ({"sources": {"../x": {}}}, "/evidence/sources/..~1x", "invalid_name"),
        ({"sources": {"UPPER": {}}}, "/evidence/sources/UPPER", "invalid_name"),
        ({"sources": {"": {}}}, "/evidence/sources/", "invalid_name"),
        ({"sources": {"x" * 65: {}}}, f"/evidence/sources/{'x' * 65}", "invalid_name"),
        ({"sources": {"a\n": {}}}, "/evidence/sources/a\\x0a", "invalid_name"),
        ({"sources": {f"s{number}": 1 for number in range(201)}}, "/evidence/sources", "too_many"),
        ({"unreadable": []}, "/evidence/unreadable", "not_an_object"),
        ({"unreadable": {"a": 1}}, "/evidence/unreadable", "invalid_reason"),
        ({"unreadable": {"a": "x" * 501}}, "/evidence/unreadable", "invalid_reason"),
    ],
)
def test_snapshot_validate__broken_rule__is_told_at_its_pointer(
    change: dict[str, Any], pointer: str, code: str
) -> None:
    error = refused({"format": "snapshot/1", **change})
    assert error.code == "invalid_evidence"
    assert [(one.pointer, one.code) for one in error.errors] == [(pointer, code)]


def test_snapshot_validate__several_broken_rules__are_all_told() -> None:
    error = refused({"alert": 1, "extra": 2})
    assert {one.pointer for one in error.errors} == {"/evidence/format", "/evidence/extra", "/evidence/alert"}


def test_snapshot_validate__more_than_8_mib__is_too_large() -> None:
    assert refused({"format": "snapshot/1", "sources": {"a": "x" * 9_000_000}}).code == "evidence_too_large"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {1, 2}])
def test_snapshot_validate__no_json__is_refused(value: object) -> None:
    assert refused({"format": "snapshot/1", "sources": {"a": value}}).code == "invalid_evidence"


def test_snapshot_validate__endless_nesting__is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert refused({"format": "snapshot/1", "sources": {"a": deep}}).code == "nesting_too_deep"

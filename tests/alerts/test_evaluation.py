"""The suite that scores how bodies are read."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from controlplane.alerts.models import Alert
from controlplane.investigations.models import Run
from controlplane.orgs.models import Organization
from controlplane.runtimes.models import Evaluation
from tests.alerts import samples

pytestmark = pytest.mark.django_db

BODIES: dict[str, Any] = {
    "one": {"alert_name": "Disk full", "severity": "high", "host": "db-7", "note": "keep-me-001",
            "startsAt": "2026-03-03T08:00:00Z"},
    "two": samples.grafana(pods=("a", "b")),
    "three": samples.pagerduty(),
}  # fmt: skip
EXPECTED: list[dict[str, Any]] = [
    {
        "file": "one.json",
        "name_any": ["Disk full"],
        "severity": "high",
        "status": "firing",
        "alerts": 1,
        "starts_at": "2026-03-03T08:00:00+00:00",
        "object_any": ["db-7"],
        "must_keep": ["keep-me-001"],
    },
    {
        "file": "two.json",
        "name_any": ["Latency"],
        "severity": None,
        "status": "firing",
        "alerts": 2,
        "starts_at": None,
        "object_any": ["cart"],
        "must_keep": ["f-a", "f-b"],
    },
    {
        "file": "three.json",
        "name_any": ["Checkout answers 503"],
        "severity": "low",
        "status": "firing",
        "alerts": 1,
        "starts_at": None,
        "object_any": ["nothing"],
        "must_keep": ["key-7"],
    },
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "payloads").mkdir()
    for name, body in BODIES.items():
        (tmp_path / "payloads" / f"{name}.json").write_text(json.dumps(body))
    (tmp_path / "expected.jsonl").write_text("\n".join(map(json.dumps, EXPECTED)))
    return tmp_path


def evaluate(folder: Path) -> dict[str, Any]:
    out = StringIO()
    call_command("evaluate", "alerts", str(folder), "--json", stdout=out)
    result: dict[str, Any] = json.loads(out.getvalue())
    return result


def test_evaluate__right_and_wrong_fields__scored_as_the_data_says(folder: Path) -> None:
    result = evaluate(folder)

    assert (result["suite"], result["runtime"]) == ("alerts", "intake")
    assert {case["id"]: (case["passed"], case["right"], case["fields"]) for case in result["cases"]} == {
        "one": (True, 7, 7),
        "two": (True, 5, 5),
        "three": (False, 4, 6),
    }
    assert result["cases"][2]["reasons"] == [
        "severity is critical, not low",
        "object is checkout, not nothing",
    ]
    assert (result["fields"], result["right_fields"], result["whole_payloads"]) == (18, 16, 2)
    assert result["score"] == round(16 / 18, 4)
    assert result["twice_one_incident"] == 3
    assert Evaluation.objects.get().suite == "alerts"


def test_evaluate__afterwards__nothing_of_it_is_left(folder: Path) -> None:
    evaluate(folder)
    assert not Organization.objects.exists()
    assert not Alert.objects.exists()
    assert not Run.objects.exists()


def test_evaluate__body_that_is_refused__no_field_right_and_the_suite_goes_on(folder: Path) -> None:
    (folder / "payloads" / "two.json").write_text("[{}]")
    (folder / "payloads" / "three.json").write_text("{broken")
    result = evaluate(folder)
    assert [case["right"] for case in result["cases"]] == [7, 0, 0]
    assert "name is refused (malformed_json), not Checkout answers 503" in result["cases"][2]["reasons"]


def test_evaluate__renamed_files__same_score(folder: Path) -> None:
    for index, one in enumerate(EXPECTED):
        (folder / "payloads" / one["file"]).rename(folder / "payloads" / f"{index}-x.json")
    renamed = [one | {"file": f"{index}-x.json"} for index, one in enumerate(EXPECTED)]
    (folder / "expected.jsonl").write_text("\n".join(map(json.dumps, renamed)))
    assert evaluate(folder)["right_fields"] == 16


@pytest.mark.parametrize(
    "broken", ["", "{", "{}", '{"file": ""}', '{"file": "gone.json"}', '{"file": "../expected.jsonl"}']
)
def test_evaluate__folder_that_cannot_be_read__says_so(folder: Path, broken: str) -> None:
    (folder / "expected.jsonl").write_text(broken)
    with pytest.raises(CommandError):
        evaluate(folder)


def test_evaluate__no_expected_file__says_so(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"expected\.jsonl cannot be read"):
        evaluate(tmp_path)

from datetime import datetime, timedelta, timezone

import pytest
from pydantic import ValidationError

from controlplane.runtimes.events import EventType, Thought, ToolEnd, event_schemas
from controlplane.runtimes.interface import RuntimeEvent
from controlplane.runtimes.render import moment_text, render_report
from controlplane.runtimes.report import (
    Category,
    Claim,
    Hypothesis,
    Report,
    ReportStatus,
    RuledOut,
    Severity,
    TimelineEntry,
)

HYPOTHESIS = Hypothesis(
    category=Category.HEALTHY, object="db", mechanism="Nothing is wrong.", confidence=0.8, supports=("a",)
)


def report(**more: object) -> Report:
    return Report.model_validate(
        {"title": "T", "status": ReportStatus.RESOLVED, "severity": Severity.INFO, "summary": "S", **more}
    )


def test_report__root_cause_not_first__is_refused() -> None:
    with pytest.raises(ValidationError, match="root_cause must be the first hypothesis"):
        report(root_cause=HYPOTHESIS)


def test_claim__observation_without_citation__is_refused() -> None:
    with pytest.raises(ValidationError, match="cites at least one"):
        Claim(text="It is so.")
    assert Claim(text="It may be so.", kind="inference").citations == ()


def test_report__cited__gathers_every_reference() -> None:
    whole = report(
        hypotheses=(HYPOTHESIS,),
        root_cause=HYPOTHESIS,
        claims=(Claim(text="x", citations=("b",)),),
        ruled_out=(RuledOut(hypothesis="h", reason="r", citations=("c",)),),
        timeline=({"at": "2026-01-01T00:00:00Z", "text": "t", "citations": ("d",)},),
        causal_chain=("first", "then"),
    )
    assert whole.cited() == {"a", "b", "c", "d"}
    assert Report.model_validate_json(whole.model_dump_json()) == whole


def test_render_report__empty_parts__leave_no_headings() -> None:
    assert render_report(report()) == "# T\n"
    text = render_report(report(hypotheses=(HYPOTHESIS,), root_cause=HYPOTHESIS, causal_chain=("first", "then")))
    assert "**No failure** (confidence 80%). S [a]" in text
    assert "1. first\n2. then" in text
    assert "## Evidence" not in text


def test_runtime_event__type_and_data__must_fit_and_be_a_runtimes_own() -> None:
    RuntimeEvent(EventType.THOUGHT, Thought(text="x"))
    with pytest.raises(TypeError):
        RuntimeEvent(EventType.RESULT, Thought(text="x"))
    with pytest.raises(ValueError, match="may not emit"):
        RuntimeEvent(EventType.RUN_ENDED, ToolEnd(tool_use_id="t", name="n", success=True))


def test_event_schemas__every_type__has_one() -> None:
    assert set(event_schemas()) == {str(kind) for kind in EventType}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Lag climbs, from 22:03:14 UTC on.", "Lag climbs."),
        ("Lag climbs since 22:03:14 UTC.", "Lag climbs."),
        ("Lag at 22:03:14 UTC; then none", "Lag; then none"),
        ("Lag climbs from 22:04 UTC on.", "Lag climbs from 22:04 UTC on."),
        ("Lag from 22:03:14 UTC on the replica.", "Lag from 22:03:14 UTC on the replica."),
        ("from nowhere", "from nowhere"),
    ],
)
def test_timeline__entry_that_says_its_own_time__says_it_once(text: str, shown: str) -> None:
    entry = TimelineEntry(at=datetime(2026, 3, 1, 23, 3, 14, tzinfo=timezone(timedelta(hours=1))), text=text)
    assert moment_text(entry) == shown
    report = Report(title="x", status=ReportStatus.ONGOING, severity=Severity.LOW, summary="y", timeline=(entry,))
    assert f"- 2026-03-01 22:03:14 {shown}\n" in render_report(report)

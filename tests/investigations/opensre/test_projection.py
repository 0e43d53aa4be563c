"""Events and reports as OpenSRE's clients know them."""

from datetime import UTC, datetime
from typing import Any, get_args

import orjson
import pytest

from controlplane.investigations.opensre.projection import projected, structured_report
from controlplane.runtimes import events
from controlplane.runtimes.events import EventType
from controlplane.runtimes.report import (
    ActionItem,
    Category,
    Hypothesis,
    Impact,
    Report,
    ReportStatus,
    Severity,
    TimelineEntry,
)

#: Type → the members that the protocol has; nothing else may come.
THEIRS: dict[str, set[str]] = {
    "run_started": {"run_id", "agent"},
    "thought": {"text", "parent_tool_use_id"},
    "tool_start": {
        "name", "tool_use_id", "parent_tool_use_id", "agent_id", "agent_type", "parent_agent_id", "parent_agent_type",
        "depth", "command", "file_path", "pattern", "description", "subagent_type", "skill", "args", "input",
    },
    "tool_end": {
        "name", "success", "tool_use_id", "summary", "error", "output", "parent_tool_use_id", "agent_id", "agent_type",
        "parent_agent_id", "parent_agent_type", "depth",
    },
    "task_started": {"task_id", "description", "tool_use_id", "task_type"},
    "task_notification": {"task_id", "status", "summary"},
    "background_waiting": {"pending_count", "pending_task_ids", "label"},
    "message_queued": {"pending_count"},
    "question": {"questions"},
    "question_timeout": {"message"},
    "result": {"text", "success", "subtype", "structured_report"},
    "error": {"message", "recoverable"},
    "approval": {"tool", "input", "request_id"},
}  # fmt: skip
REPORT = Report(
    title="Checkout is slow",
    status=ReportStatus.MITIGATED,
    severity=Severity.HIGH,
    summary="The cache was cold.",
    impact=Impact(summary="Orders fail.", affected=("checkout", "cart"), user_facing=True),
    timeline=(TimelineEntry(at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), text="Deployed"),),
    causal_chain=("deploy", "cold cache"),
    hypotheses=(Hypothesis(category=Category.CODE_DEFECT, object="cache", mechanism="flushed", confidence=0.9),),
    root_cause=Hypothesis(category=Category.CODE_DEFECT, object="cache", mechanism="flushed", confidence=0.9),
    actions=(ActionItem(priority="immediate", action="Warm it"),),
    lessons=("Warm caches",),
)
DATA: dict[EventType, Any] = {
    EventType.RUN_STARTED: events.RunStarted(run_id="r", prompt="p", by="b", runtime="builtin"),
    EventType.THOUGHT: events.Thought(text="t"),
    EventType.TOOL_START: events.ToolStart(
        tool_use_id="u", name="Bash", input={"command": "x" * 300, "deep": ["y" * 300]}
    ),
    EventType.TOOL_END: events.ToolEnd(tool_use_id="u", name="Bash", success=True, output="ü" * 40_000, duration_ms=3),
    EventType.TASK_STARTED: events.TaskStarted(task_id="t", description="d"),
    EventType.TASK_NOTIFICATION: events.TaskNotification(task_id="t", status="completed"),
    EventType.BACKGROUND_WAITING: events.BackgroundWaiting(pending_count=1, pending_task_ids=("t",)),
    EventType.MESSAGE_QUEUED: events.MessageQueued(message_id="m", text="secret plan", by="b", pending_count=2),
    EventType.QUESTION: events.Question(request_id="q", questions=(events.QuestionItem(question="Which?"),)),
    EventType.QUESTION_ANSWERED: events.QuestionAnswered(request_id="q", answers={"a": "b"}, by="b"),
    EventType.QUESTION_TIMEOUT: events.QuestionTimeout(request_id="q", message="m"),
    EventType.APPROVAL: events.Approval(request_id="a", tool="t", input={"x": "z" * 600}, digest="d"),
    EventType.APPROVAL_DECIDED: events.ApprovalDecided(request_id="a", decision="approved", by="b"),
    EventType.RESULT: events.Result(text="done", success=True, report=REPORT, usage=events.Usage(turns=1)),
    EventType.ERROR: events.Error(code="c", message="m"),
    EventType.RUN_ENDED: events.RunEnded(status="completed"),
}


def of(kind: EventType, data: Any = None) -> Any:
    model = data or DATA[kind]
    value = model if isinstance(model, dict) else orjson.loads(orjson.dumps(model.model_dump(mode="json")))
    envelope = {"seq": 1, "type": str(kind), "thread_id": "ours", "run_id": "r", "at": "2026-01-02T03:04:05.678Z"}
    return projected(envelope | {"data": value}, name="slack-c-1")


@pytest.mark.parametrize("kind", list(EventType))
def test_event__each_type__theirs_with_their_members_or_nothing(kind: EventType) -> None:
    event = of(kind)
    if str(kind) not in THEIRS:
        assert event is None
        return
    assert (event["type"], event["thread_id"]) == (str(kind), "slack-c-1")
    assert datetime.fromisoformat(event["timestamp"]) == datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    assert event["timestamp"].endswith("+00:00")
    assert event["data"]
    assert set(event["data"]) <= THEIRS[str(kind)]


def test_event__withheld__is_left_out() -> None:
    assert of(EventType.THOUGHT, {"withheld": True}) is None


def test_event__long_texts__cut_as_theirs_are() -> None:
    start, end, approval = (of(kind)["data"] for kind in (EventType.TOOL_START, EventType.TOOL_END, EventType.APPROVAL))
    assert (start["command"], start["input"]) == ("x" * 200, {"command": "x" * 200, "deep": ["y" * 200]})
    assert end["output"] == "ü" * (25 * 1024)
    assert approval["input"] == {"x": "z" * 500}


def test_report__everything_known__their_members() -> None:
    assert structured_report(REPORT) == {
        "version": "1.0",
        "title": "Checkout is slow",
        "severity": "high",
        "status": "mitigated",
        "affected_services": ["checkout", "cart"],
        "executive_summary": "The cache was cold.",
        "impact": {"user_facing": "Yes", "service_impact": "Orders fail.", "blast_radius": "checkout, cart"},
        "timeline": [{"time": "2026-01-02T03:04:05.000Z", "event": "Deployed"}],
        "root_cause": {"summary": "cache: flushed", "confidence": "confirmed", "details": "deploy\ncold cache"},
        "action_items": [{"priority": "immediate", "action": "Warm it"}],
        "lessons_learned": ["Warm caches"],
    }


@pytest.mark.parametrize(
    ("confidence", "word"), [(0.8, "confirmed"), (0.79, "probable"), (0.5, "probable"), (0.49, "hypothesis")]
)
def test_report__confidence__in_their_words(confidence: float, word: str) -> None:
    cause = Hypothesis(category=Category.UNKNOWN, object="", mechanism="m", confidence=confidence)
    report = REPORT.model_copy(update={"hypotheses": (cause,), "root_cause": cause})
    assert structured_report(report)["root_cause"] | {"details": ""} == {
        "summary": "m",
        "confidence": word,
        "details": "",
    }


def test_report__no_root_cause__member_left_out() -> None:
    report = REPORT.model_copy(update={"hypotheses": (), "root_cause": None, "impact": Impact()})
    assert "root_cause" not in structured_report(report)
    assert structured_report(report)["impact"]["user_facing"] == "Not known"


def test_report__words_of_ours__are_theirs() -> None:
    assert {item.value for item in Severity} == {"critical", "high", "medium", "low", "info"}
    assert {item.value for item in ReportStatus} == {"resolved", "mitigated", "ongoing", "inconclusive"}
    assert set(get_args(ActionItem.model_fields["priority"].annotation)) == {"immediate", "short_term", "long_term"}

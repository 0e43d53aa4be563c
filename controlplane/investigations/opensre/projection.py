"""Our events and reports as OpenSRE's clients know them: their types and members, nothing else."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from controlplane.core import clock
from controlplane.runtimes.events import EventType
from controlplane.runtimes.report import Hypothesis, Report

MAX_INPUT_CHARS: Final = 200
MAX_APPROVAL_CHARS: Final = 500
MAX_OUTPUT_BYTES: Final = 50 * 1024
#: From here on a root cause is called so; below the second it is a hypothesis.
CONFIRMED: Final = 0.8
PROBABLE: Final = 0.5

Data = Mapping[str, Any]
_ATTRIBUTION: Final = (
    "tool_use_id", "parent_tool_use_id", "agent_id", "agent_type", "parent_agent_id", "parent_agent_type", "depth",
)  # fmt: skip
#: What their clients show of a call beside its input.
_SHOWN: Final = ("command", "file_path", "pattern", "description", "subagent_type", "skill", "args")


def projected(envelope: Data, *, name: str) -> dict[str, Any] | None:
    """Return an event as their clients get it, ``None`` for one that they do not know or that is not for the reader.

    Args:
        envelope: the event, as the streams have it.
        name: what the client calls the thread.
    """
    data = envelope["data"]
    project = _PROJECTIONS.get(envelope["type"])
    if project is None or data.get("withheld") is True:
        return None
    return event(envelope["type"], project(data), name=name, at=envelope["at"])


def event(type_: str, data: Data, *, name: str, at: str) -> dict[str, Any]:
    """Return an event of theirs: ``{"type", "data", "thread_id", "timestamp"}``; ``at`` is RFC 3339 in UTC."""
    return {"type": type_, "data": data, "thread_id": name, "timestamp": at.removesuffix("Z") + "+00:00"}


def structured_report(report: Report) -> dict[str, Any]:
    """Return a report with their members; ``root_cause`` is left out where none is stated."""
    facing = {True: "Yes", False: "No", None: "Not known"}[report.impact.user_facing]
    projected_report: dict[str, Any] = {
        "version": "1.0",
        "title": report.title,
        "severity": report.severity.value,
        "status": report.status.value,
        "affected_services": list(report.impact.affected),
        "executive_summary": report.summary,
        "impact": {
            "user_facing": facing,
            "service_impact": report.impact.summary,
            "blast_radius": ", ".join(report.impact.affected),
        },
        "timeline": [{"time": clock.rfc3339(entry.at), "event": entry.text} for entry in report.timeline],
        "action_items": [{"priority": item.priority, "action": item.action} for item in report.actions],
        "lessons_learned": list(report.lessons),
    }
    if report.root_cause is not None:
        projected_report["root_cause"] = _root_cause(report.root_cause, report.causal_chain)
    return projected_report


def _root_cause(cause: Hypothesis, chain: tuple[str, ...]) -> dict[str, str]:
    confidence = (
        "confirmed" if cause.confidence >= CONFIRMED else "probable" if cause.confidence >= PROBABLE else "hypothesis"
    )
    return {
        "summary": f"{cause.object}: {cause.mechanism}" if cause.object else cause.mechanism,
        "confidence": confidence,
        "details": "\n".join(chain),
    }


def _run_started(data: Data) -> Data:
    return {"run_id": data["run_id"], "agent": data.get("agent") or data["runtime"]}


def _tool_start(data: Data) -> Data:
    given = data.get("input") or {}
    shown = {key: given[key][:MAX_INPUT_CHARS] for key in _SHOWN if isinstance(given.get(key), str)}
    described = {"description": data["description"]} if data.get("description") else {}
    return shown | described | _members(data, "name", *_ATTRIBUTION) | {"input": _cut(given, MAX_INPUT_CHARS)}


def _tool_end(data: Data) -> Data:
    end = _members(data, "name", "success", "summary", "error", "output", *_ATTRIBUTION)
    if isinstance(end.get("output"), str):
        end["output"] = end["output"].encode()[:MAX_OUTPUT_BYTES].decode(errors="ignore")
    return end


def _approval(data: Data) -> Data:
    return _members(data, "tool", "request_id") | {"input": _cut(data["input"], MAX_APPROVAL_CHARS)}


def _result(data: Data) -> Data:
    result = _members(data, "text", "success", "subtype")
    if data.get("report") is not None:
        result["structured_report"] = structured_report(Report.model_validate(data["report"]))
    return result


def _only(*names: str) -> Callable[[Data], Data]:
    return lambda data: _members(data, *names)


def _members(data: Data, *names: str) -> dict[str, Any]:
    return {name: data[name] for name in names if data.get(name) is not None}


def _cut(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return value[:limit]
    if isinstance(value, dict):
        return {key: _cut(item, limit) for key, item in value.items()}
    return [_cut(item, limit) for item in value] if isinstance(value, list) else value


_PROJECTIONS: Final[Mapping[str, Callable[[Data], Data]]] = {
    EventType.RUN_STARTED: _run_started,
    EventType.THOUGHT: _only("text", "parent_tool_use_id"),
    EventType.TOOL_START: _tool_start,
    EventType.TOOL_END: _tool_end,
    EventType.TASK_STARTED: _only("task_id", "description", "tool_use_id", "task_type"),
    EventType.TASK_NOTIFICATION: _only("task_id", "status", "summary"),
    EventType.BACKGROUND_WAITING: _only("pending_count", "pending_task_ids", "label"),
    EventType.MESSAGE_QUEUED: _only("pending_count"),
    EventType.QUESTION: _only("questions"),
    EventType.QUESTION_TIMEOUT: _only("message"),
    EventType.APPROVAL: _approval,
    EventType.RESULT: _result,
    EventType.ERROR: _only("message", "recoverable"),
}

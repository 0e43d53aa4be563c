"""One of our events as AG-UI events. Their names and members: ``@ag-ui/core`` 1.0, https://docs.ag-ui.com/concepts/events.

One event may become several: each carries ``metadata`` with ``seq`` and a sub-id ``seq.i``, so that a front end can
find its place in the log. What AG-UI has no event for is a ``CUSTOM`` one with our name and data.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import orjson

from controlplane.runtimes.events import EventType

VERSION: Final = "1.0"
MAX_OUTPUT_CHARS: Final = 20_000
AguiEvent = dict[str, Any]

_CUSTOM: Final = frozenset(
    {
        EventType.MESSAGE_QUEUED,
        EventType.BACKGROUND_WAITING,
        EventType.QUESTION_ANSWERED,
        EventType.QUESTION_TIMEOUT,
        EventType.APPROVAL_DECIDED,
    }
)


@dataclass(slots=True)
class Projector:
    """The AG-UI events of one run, in order, from our envelopes.

    Args:
        thread: the client's id of the thread.
        run: the client's id of the run.
        run_id: ours; events of other runs are left out.
        awaited: what was said to a run that was under way: if that one ends without it, the run that starts from it is
            the one that is followed.

    ``over``: nothing follows. ``held``: the run ended, and whether another one takes up what is awaited shows in the
    next event; :meth:`flush` says that there is none.
    """

    thread: str
    run: str
    run_id: str
    awaited: str = ""
    over: bool = False
    held: list[AguiEvent] = field(default_factory=list)
    _subagents: dict[str, str] = field(default_factory=dict)
    _by_tool: dict[str, str] = field(default_factory=dict)
    _error: dict[str, Any] | None = None
    _usage: list[dict[str, Any]] = field(default_factory=list)
    _result: dict[str, Any] | None = None

    def started(self, *, seq: int, at: str | None = None) -> AguiEvent:
        """Return the event that opens every AG-UI stream."""
        event = {"type": "RUN_STARTED", "threadId": self.thread, "runId": self.run, "protocolVersion": VERSION}
        return self._stamped([event], seq, at)[0]

    def project(self, envelope: Mapping[str, Any]) -> list[AguiEvent]:
        """Return what one envelope comes to; nothing for what is of another run or withheld from the reader."""
        kind, data, seq, at = envelope["type"], envelope["data"], envelope["seq"], envelope["at"]
        if self.over:
            return []
        before = self._taken_up(kind, envelope)
        if before or envelope["run_id"] not in (self.run_id, None) or data.get("withheld"):
            return before
        return before + self._stamped(self._events(EventType(kind), data), seq, at)

    def flush(self) -> list[AguiEvent]:
        """Return the held end of the run: nothing takes up what is awaited."""
        held, self.held = self.held, []
        return self._closing(held) if held else []

    def _closing(self, events: list[AguiEvent]) -> list[AguiEvent]:
        self.over = True
        return events

    def broken(self, code: str, message: str) -> list[AguiEvent]:
        """Return the events that end a stream that cannot go on."""
        self.over = True
        return [*self._subagents_closed(), {"type": "RUN_ERROR", "message": message, "code": code}]

    # ---- one event ---------------------------------------------------------------------------------------------------

    def _taken_up(self, kind: str, envelope: Mapping[str, Any]) -> list[AguiEvent]:
        """Follow the run that starts from what is awaited, or let go of the end that was held."""
        if not self.held:
            return []
        if kind == EventType.RUN_STARTED and self.awaited and self.awaited in envelope["data"].get("prompt", ""):
            self.run_id, self.awaited, self.held = envelope["run_id"], "", []
            self._error, self._result, self._usage = None, None, []
            return []
        return self.flush()

    def _events(self, kind: EventType, data: Mapping[str, Any]) -> list[AguiEvent]:
        if kind in _CUSTOM:
            return [{"type": "CUSTOM", "name": str(kind), "value": dict(data)}]
        handle = _HANDLERS.get(kind)
        return handle(self, data) if handle else []

    def _thought(self, data: Mapping[str, Any]) -> list[AguiEvent]:
        if not data["text"]:
            return []
        id_ = "{id}"
        events: list[AguiEvent] = [
            {"type": "REASONING_START", "messageId": id_},
            {"type": "REASONING_MESSAGE_START", "messageId": id_, "role": "reasoning"},
            {"type": "REASONING_MESSAGE_CONTENT", "messageId": id_, "delta": data["text"]},
            {"type": "REASONING_MESSAGE_END", "messageId": id_},
            {"type": "REASONING_END", "messageId": id_},
        ]
        return [self._of_agent(data, event) for event in events]

    def _tool_start(self, data: Mapping[str, Any]) -> list[AguiEvent]:
        id_ = data["tool_use_id"]
        events: list[AguiEvent] = [
            {"type": "TOOL_CALL_START", "toolCallId": id_, "toolCallName": data["name"]},
            {"type": "TOOL_CALL_ARGS", "toolCallId": id_, "delta": arguments(data)},
            {"type": "TOOL_CALL_END", "toolCallId": id_},
        ]
        return [self._of_agent(data, event) for event in events]

    def _tool_end(self, data: Mapping[str, Any]) -> list[AguiEvent]:
        return [self._of_agent(data, tool_result(data))]

    def _failed(self, data: Mapping[str, Any]) -> list[AguiEvent]:
        """Keep the error for the run's end, which follows at once and is the one event that may say so."""
        self._error = {"message": data["message"], "code": data.get("code", "")}
        return []

    def _of_agent(self, data: Mapping[str, Any], event: AguiEvent) -> AguiEvent:
        """Return the event as the subagent's whose tool call it hangs below, where that one is still at work."""
        subagent = self._by_tool.get(data.get("parent_tool_use_id") or "")
        return event | {"subagentRunId": subagent} if subagent in self._subagents else event

    def _task_started(self, data: Mapping[str, Any]) -> list[AguiEvent]:
        id_ = data["task_id"]
        if id_ in self._subagents:
            return []
        name = data.get("task_type") or data["description"] or "subagent"
        self._subagents[id_] = name
        event = {"type": "SUBAGENT_STARTED", "subagentRunId": id_, "name": name, "description": data["description"]}
        if data.get("tool_use_id"):
            self._by_tool[data["tool_use_id"]] = id_
            event["parentToolCallId"] = data["tool_use_id"]
        return [event]

    def _task_ended(self, data: Mapping[str, Any]) -> list[AguiEvent]:
        if self._subagents.pop(data["task_id"], None) is None:
            return []
        if data["status"] in ("failed", "error", "stopped"):
            message = data.get("summary") or data["status"]
            return [{"type": "SUBAGENT_ERROR", "subagentRunId": data["task_id"], "message": message}]
        event: AguiEvent = {"type": "SUBAGENT_FINISHED", "subagentRunId": data["task_id"]}
        return [event | ({"result": data["summary"]} if data.get("summary") else {})]

    def _subagents_closed(self) -> list[AguiEvent]:
        left, self._subagents = list(self._subagents), {}
        return [{"type": "SUBAGENT_FINISHED", "subagentRunId": id_} for id_ in left]

    def _asked(self, data: Mapping[str, Any]) -> list[AguiEvent]:
        return self._interrupted(EventType.QUESTION, data)

    def _to_approve(self, data: Mapping[str, Any]) -> list[AguiEvent]:
        return self._interrupted(EventType.APPROVAL, data)

    def _interrupted(self, kind: EventType, data: Mapping[str, Any]) -> list[AguiEvent]:
        self.over = True
        outcome = {"type": "interrupt", "interrupts": [interrupt(kind, data)]}
        return [*self._subagents_closed(), self._finished(outcome)]

    def _answered(self, data: Mapping[str, Any]) -> list[AguiEvent]:
        self._result = {"success": data["success"], "subtype": data.get("subtype", "success")}
        self._usage = usage(data.get("usage"))
        events: list[AguiEvent] = []
        if data["text"]:
            events += [
                {"type": "TEXT_MESSAGE_START", "messageId": "{id}", "role": "assistant"},
                {"type": "TEXT_MESSAGE_CONTENT", "messageId": "{id}", "delta": data["text"]},
                {"type": "TEXT_MESSAGE_END", "messageId": "{id}"},
            ]
        return [*events, {"type": "STATE_SNAPSHOT", "snapshot": state(data)}]

    def _ended(self, data: Mapping[str, Any]) -> list[AguiEvent]:
        closed = self._subagents_closed()
        if self.awaited:
            self.held = [*closed, self._end(data)]
            return []
        self.over = True
        return [*closed, self._end(data)]

    def _end(self, data: Mapping[str, Any]) -> AguiEvent:
        status = data["status"]
        if status in ("failed", "timeout"):
            error = self._error or {"message": _WORDS[status], "code": data.get("reason") or status}
            return {"type": "RUN_ERROR", **error} | ({"usage": self._usage} if self._usage else {})
        return self._finished({"type": "cancelled" if status == "interrupted" else "success"})

    def _finished(self, outcome: Mapping[str, Any]) -> AguiEvent:
        event = {"type": "RUN_FINISHED", "threadId": self.thread, "runId": self.run, "outcome": dict(outcome)}
        if self._result is not None and outcome["type"] == "success":
            event["result"] = self._result
        return event | ({"usage": self._usage} if self._usage else {})

    def _stamped(self, events: list[AguiEvent], seq: int, at: str | None) -> list[AguiEvent]:
        stamp: AguiEvent = {} if at is None else {"timestamp": milliseconds(at)}
        return [
            {key: f"m{seq}" if value == "{id}" and key == "messageId" else value for key, value in event.items()}
            | stamp
            | {"metadata": {"id": f"{seq}.{index}", "seq": seq, "run": self.run_id}}
            for index, event in enumerate(events)
        ]


_HANDLERS: Final[Mapping[EventType, Callable[[Projector, Mapping[str, Any]], list[AguiEvent]]]] = {
    EventType.THOUGHT: Projector._thought,  # noqa: SLF001 (the table of this class)
    EventType.TOOL_START: Projector._tool_start,  # noqa: SLF001
    EventType.TOOL_END: Projector._tool_end,  # noqa: SLF001
    EventType.TASK_STARTED: Projector._task_started,  # noqa: SLF001
    EventType.TASK_NOTIFICATION: Projector._task_ended,  # noqa: SLF001
    EventType.QUESTION: Projector._asked,  # noqa: SLF001
    EventType.APPROVAL: Projector._to_approve,  # noqa: SLF001
    EventType.RESULT: Projector._answered,  # noqa: SLF001
    EventType.ERROR: Projector._failed,  # noqa: SLF001
    EventType.RUN_ENDED: Projector._ended,  # noqa: SLF001
}
_WORDS: Final = {"failed": "The run failed.", "timeout": "The run reached its time limit."}


# ---- what snapshots and live events share ----------------------------------------------------------------------------


def arguments(data: Mapping[str, Any]) -> str:
    """Return the arguments of a tool call as JSON text."""
    return orjson.dumps(data.get("input") or {}).decode()


def tool_result(data: Mapping[str, Any]) -> AguiEvent:
    """Return the result of a tool call: its output, cut, or what it says of itself."""
    text = data.get("output") or data.get("summary") or data.get("error") or ""
    cut = text if len(text) <= MAX_OUTPUT_CHARS else f"{text[:MAX_OUTPUT_CHARS]}\n… [cut]"
    id_ = data["tool_use_id"]
    return {"type": "TOOL_CALL_RESULT", "messageId": f"{id_}-result", "toolCallId": id_, "content": cut, "role": "tool"}


def state(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shared state: the report of the newest answer, in our own form, or ``None``."""
    return {"report": data.get("report"), "files": list(data.get("files") or [])}


def usage(data: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return tokens in AG-UI's accounting, an empty list where they are not known."""
    told = data or {}
    counted = {"inputTokens": told.get("input_tokens"), "outputTokens": told.get("output_tokens")}
    known = {name: number for name, number in counted.items() if number is not None}
    return [known | ({"totalTokens": sum(known.values())} if len(known) == 2 else {})] if known else []


def interrupt(kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question or an approval as what a run needs from outside, with a schema of the answer."""
    if kind == EventType.APPROVAL:
        message = f"May {data['tool']} run?"
        properties: dict[str, Any] = {"decision": {"type": "string", "enum": ["approve", "reject"]}}
        details = {"tool": data["tool"], "input": data["input"], "digest": data["digest"]}
    else:
        items = data["questions"]
        message = "\n".join(item["question"] for item in items)
        properties = {f"question_{index}": _answer_schema(item) for index, item in enumerate(items)}
        details = {"questions": items}
    found: dict[str, Any] = {
        "id": data["request_id"],
        "reason": str(kind),
        "message": message,
        "responseSchema": {"type": "object", "properties": properties},
        "metadata": details,
    }
    return found | ({"expiresAt": data["expires_at"]} if data.get("expires_at") else {})


def _answer_schema(item: Mapping[str, Any]) -> dict[str, Any]:
    labels = [option["label"] for option in item.get("options", ())]
    found: dict[str, Any] = {"type": "string", "title": item["question"]}
    return found | ({"examples": labels} if labels else {})


def milliseconds(at: str) -> int:
    """Return an RFC 3339 time as milliseconds since 1970."""
    return int(datetime.fromisoformat(at).timestamp() * 1000)

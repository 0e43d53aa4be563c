"""Frames of the wire protocol, old names and new, as events of the log."""

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson
from pydantic import BaseModel

from controlplane.runtimes.events import (
    BackgroundWaiting,
    Error,
    EventType,
    Question,
    QuestionItem,
    QuestionOption,
    Result,
    TaskNotification,
    TaskStarted,
    Thought,
    ToolEnd,
    ToolStart,
    Usage,
)
from controlplane.runtimes.interface import RuntimeEvent
from controlplane.runtimes.loose_json import items, mapping, objects, text
from controlplane.runtimes.remote.projection import report_in
from controlplane.runtimes.remote.sse import Frame

#: Names of earlier servers. Source: reference of the protocol, section 2.
_OLD: Final = {
    "tool_started": "tool_start",
    "tool_completed": "tool_end",
    "message": "thought",
    "agent_completed": "result",
    "human_input_required": "question",
}
#: Known, and nothing that the log does not say better by itself.
_SILENT: Final = frozenset(
    {"run_started", "agent_started", "message_queued", "question_timeout", "subagent_started", "subagent_completed"}
)
_TEXT_CHARS: Final = 64 * 1024
_RESULT_CHARS: Final = 512 * 1024
_INPUT_BYTES: Final = 32 * 1024
_REMEMBERED: Final = 10_000
_ATTRIBUTION: Final = ("agent_id", "agent_type", "parent_agent_id", "parent_agent_type")
_INPUTS: Final = ("command", "file_path", "pattern", "skill", "args", "subagent_type")

Event = tuple[EventType, BaseModel]


class Translation:
    """Reads the frames of one turn, over however many connections.

    ``result`` is the last one the server sent, ``failure`` what it said went wrong, ``ignored`` counts what was not
    understood, by type. Ids are put below the turn's, for they are unique in the thread.
    """

    def __init__(self, *, turn: int, attempt: int, output_bytes: int, cleared: Callable[[str], str]) -> None:
        self.result: Result | None = None
        self.failure: Error | None = None
        self.ignored: Counter[str] = Counter()
        self._prefix = f"r{turn}.{attempt}"
        self._output_bytes = output_bytes
        self._cleared = cleared
        self._frames: OrderedDict[bytes, None] = OrderedDict()
        self._open: dict[str, str] = {}
        self._seen: set[str] = set()
        self._minted = 0
        self._deltas: list[str] = []

    def read(self, frame: Frame) -> list[RuntimeEvent]:
        """Return the events of a frame: none for one that is known already, not understood, or only kept."""
        try:
            value = orjson.loads(self._cleared(frame.data))
        except ValueError:
            return self._ignore("invalid_json")
        if not isinstance(value, dict):
            return self._ignore("not_an_object")
        if value.get("timestamp") and self._is_known(frame.data):
            return []
        named = text(value.get("type")) or frame.event
        data = value["data"] if isinstance(value.get("data"), dict) else value
        kind = _OLD.get(named, named)
        if kind == "text_delta":
            self._deltas.append(text(data.get("text") or data.get("delta"))[:_TEXT_CHARS])
            return []
        reader = _READERS.get(kind)
        if reader is None:
            return [] if kind in _SILENT else self._ignore(named or "without_type")
        said = self.flush() if kind != "result" else []
        return said + [RuntimeEvent(type_, event) for type_, event in reader(self, data)]

    def flush(self) -> list[RuntimeEvent]:
        """Return the text that came in pieces, as one thought."""
        whole = "".join(self._deltas)[:_TEXT_CHARS].strip()
        self._deltas.clear()
        return [RuntimeEvent(EventType.THOUGHT, Thought(text=whole))] if whole else []

    @property
    def usage(self) -> Usage:
        return Usage(tool_calls=len(self._seen))

    def _ignore(self, named: str) -> list[RuntimeEvent]:
        known = named if named in self.ignored or len(self.ignored) < 50 else "other"
        self.ignored[known[:60]] += 1
        return []

    def _is_known(self, raw: str) -> bool:
        digest = hashlib.sha256(raw.encode("utf-8", "replace")).digest()
        known = digest in self._frames
        self._frames[digest] = None
        if len(self._frames) > _REMEMBERED:
            self._frames.popitem(last=False)
        return known

    def _id(self, given: Any) -> str | None:
        return f"{self._prefix}.{text(given)[:100]}" if text(given) else None

    def thought(self, data: Mapping[str, Any]) -> list[Event]:
        words = text(data.get("text") or data.get("message") or data.get("content"))[:_TEXT_CHARS]
        parent = self._id(data.get("parent_tool_use_id"))
        return [(EventType.THOUGHT, Thought(text=words, parent_tool_use_id=parent))] if words.strip() else []

    def _attribution(self, data: Mapping[str, Any]) -> dict[str, Any]:
        depth = data.get("depth")
        return {
            "parent_tool_use_id": self._id(data.get("parent_tool_use_id")),
            "depth": depth if isinstance(depth, int) and 0 <= depth <= 100 else 0,
            **{key: text(data.get(key))[:200] or None for key in _ATTRIBUTION},
        }

    def tool_start(self, data: Mapping[str, Any]) -> list[Event]:
        name = _tool_name(data)
        id_ = self._id(data.get("tool_use_id"))
        if id_ is None:
            self._minted += 1
            id_ = f"{self._prefix}.n{self._minted}"
        if id_ in self._seen:
            return []
        self._seen.add(id_)
        self._open[id_] = name
        given = dict(mapping(data.get("input"))) or {key: data[key] for key in _INPUTS if data.get(key) is not None}
        if len(orjson.dumps(given)) > _INPUT_BYTES:
            given = {"truncated": orjson.dumps(given)[:2_000].decode("utf-8", "ignore")}
        described = text(data.get("description"))[:1_000] or None
        start = ToolStart(tool_use_id=id_, name=name, input=given, description=described, **self._attribution(data))
        return [(EventType.TOOL_START, start)]

    def tool_end(self, data: Mapping[str, Any]) -> list[Event]:
        name = _tool_name(data)
        id_ = self._id(data.get("tool_use_id"))
        if id_ is None:
            id_ = next((one for one, opened in self._open.items() if opened == name), None)
        before: list[Event] = []
        if id_ is not None and id_ in self._seen and id_ not in self._open:
            return []
        if id_ is None or id_ not in self._open:
            before = self.tool_start({"name": name, "tool_use_id": data.get("tool_use_id")})
            id_ = next(reversed(self._open))
        del self._open[id_]
        output = data.get("output")
        told = output if isinstance(output, str) else "" if output is None else orjson.dumps(output).decode()
        kept = told.encode("utf-8", "replace")[: self._output_bytes].decode("utf-8", "ignore")
        end = ToolEnd(
            tool_use_id=id_,
            name=name,
            success=data.get("success") is not False,
            summary=text(data.get("summary"))[:2_000],
            error=text(data.get("error"))[:2_000] or None,
            output=kept or None,
            truncated=len(kept) < len(told),
            **self._attribution(data),
        )
        return [*before, (EventType.TOOL_END, end)]

    def task_started(self, data: Mapping[str, Any]) -> list[Event]:
        started = TaskStarted(
            task_id=text(data.get("task_id"))[:100],
            description=text(data.get("description"))[:1_000],
            tool_use_id=self._id(data.get("tool_use_id")),
            task_type=text(data.get("task_type"))[:100] or None,
        )
        return [(EventType.TASK_STARTED, started)]

    def task_notification(self, data: Mapping[str, Any]) -> list[Event]:
        said = {key: text(data.get(key))[:2_000] for key in ("task_id", "status", "summary")}
        return [(EventType.TASK_NOTIFICATION, TaskNotification(**said))]

    def background_waiting(self, data: Mapping[str, Any]) -> list[Event]:
        ids = tuple(text(one)[:100] for one in items(data.get("pending_task_ids"))[:100])
        count = data.get("pending_count")
        waiting = BackgroundWaiting(
            pending_count=count if isinstance(count, int) else len(ids),
            pending_task_ids=ids,
            label=text(data.get("label"))[:300],
        )
        return [(EventType.BACKGROUND_WAITING, waiting)]

    def question(self, data: Mapping[str, Any]) -> list[Event]:
        asked = list(objects(data.get("questions")))[:10] or ([data] if text(data.get("question")) else [])
        if not asked:
            self._ignore("empty_question")
            return []
        self._minted += 1
        questions = tuple(
            QuestionItem(
                question=text(one.get("question"))[:2_000],
                header=text(one.get("header"))[:200],
                options=tuple(
                    QuestionOption(
                        label=text(option.get("label"))[:200], description=text(option.get("description"))[:1_000]
                    )
                    for option in list(objects(one.get("options")))[:20]
                ),
                multiSelect=one.get("multiSelect") is True or one.get("multi_select") is True,
            )
            for one in asked
        )
        return [(EventType.QUESTION, Question(request_id=f"{self._prefix}.q{self._minted}", questions=questions))]

    def result_(self, data: Mapping[str, Any]) -> list[Event]:
        """Keep a result; only the last one is the answer, and an earlier one is a thought."""
        earlier = [] if self.result is None else self.thought({"text": self.result.text})
        words = text(data.get("text") or data.get("content") or data.get("message")) or "".join(self._deltas)
        self._deltas.clear()
        success = data.get("success") is not False
        subtype = text(data.get("subtype"))[:60]
        if subtype != "interrupted" and not subtype.startswith("error_"):
            subtype = "success" if success else "error_remote"
        self.result = Result(
            text=words[:_RESULT_CHARS],
            success=success and subtype == "success",
            subtype=subtype,
            report=report_in({**data, "text": words}),
        )
        return earlier

    def error(self, data: Mapping[str, Any]) -> list[Event]:
        self.failure = Error(
            code="remote_error",
            message=text(data.get("message") or data.get("error"))[:2_000] or "The agent server reported an error.",
            recoverable=data.get("recoverable") is True,
        )
        return []


def _tool_name(data: Mapping[str, Any]) -> str:
    return text(data.get("name") or data.get("tool_name") or data.get("tool"))[:200] or "tool"


_READERS: Final[dict[str, Callable[[Translation, Mapping[str, Any]], list[Event]]]] = {
    "thought": Translation.thought,
    "tool_start": Translation.tool_start,
    "tool_end": Translation.tool_end,
    "task_started": Translation.task_started,
    "task_notification": Translation.task_notification,
    "background_waiting": Translation.background_waiting,
    "question": Translation.question,
    "result": Translation.result_,
    "error": Translation.error,
}

"""The conversation so far, for a client that joins: messages, state, and what the thread waits for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import orjson

from controlplane.investigations.agui.projection import arguments, interrupt, state, tool_result
from controlplane.investigations.envelope import LoggedEvent
from controlplane.investigations.log import read_page
from controlplane.runtimes.events import EventType

MAX_BYTES: Final = 4 * 1024 * 1024
_PAGE: Final = 500
_ANSWERS: Final = (EventType.QUESTION_ANSWERED, EventType.QUESTION_TIMEOUT, EventType.APPROVAL_DECIDED)
#: Who says what is a text, and in which member it is.
_SAID: Final = {
    EventType.RUN_STARTED: ("user", "prompt"),
    EventType.MESSAGE_QUEUED: ("user", "text"),
    EventType.THOUGHT: ("reasoning", "text"),
    EventType.RESULT: ("assistant", "text"),
}


@dataclass(slots=True)
class Snapshot:
    """``head`` is the last event that is in it. ``waits``: the interrupt that nobody has answered yet."""

    head: int = 0
    messages: list[dict[str, Any]] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=lambda: {"report": None, "files": []})
    waits: dict[str, Any] | None = None
    last_run: str | None = None
    last_status: str | None = None
    _size: int = 0

    def add(self, event: LoggedEvent, *, starter: bool) -> None:
        """Take in the next event of the log, as its reader may see it."""
        self.head = event.seq
        if event.type == EventType.RUN_STARTED:
            self.last_run, self.last_status = str(event.run_id), None
        if not event.is_for(starter=starter):
            return
        data = orjson.loads(event.data)
        self._note(event.type, data)
        message = self._message(event, data)
        if message is not None:
            self._keep({"id": f"m{event.seq}"} | message)

    def _note(self, kind: str, data: Mapping[str, Any]) -> None:
        """Take down what the thread waits for, and what its newest answer and end are."""
        if kind in (EventType.QUESTION, EventType.APPROVAL):
            self.waits = interrupt(kind, data)
        elif kind in _ANSWERS:
            self.waits = None
        elif kind == EventType.RESULT:
            self.state = state(data)
        elif kind == EventType.RUN_ENDED:
            self.waits, self.last_status = None, data["status"]

    def _message(self, event: LoggedEvent, data: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what the event adds to the conversation; ``None`` for nothing."""
        if event.type == EventType.TOOL_START:
            function = {"name": data["name"], "arguments": arguments(data)}
            call = {"id": data["tool_use_id"], "type": "function", "function": function}
            return {"role": "assistant", "toolCalls": [call]}
        if event.type == EventType.TOOL_END:
            result = tool_result(data)
            told = {"id": result["messageId"], "role": "tool", "content": result["content"]}
            return told | {"toolCallId": result["toolCallId"]} | ({"error": data["error"]} if data["error"] else {})
        if event.type == EventType.RUN_STARTED and self.messages:
            return None  # a later run starts from messages that are in the list already
        role, member = _SAID.get(EventType(event.type), ("", ""))
        return {"role": role, "content": data[member]} if role and data[member] else None

    def _keep(self, message: dict[str, Any]) -> None:
        """Keep the message; of a very long conversation the oldest go, so that the newest always fit."""
        self.messages.append(message)
        self._size += len(orjson.dumps(message))
        while self._size > MAX_BYTES and len(self.messages) > 1:
            self._size -= len(orjson.dumps(self.messages.pop(0)))


def snapshot_of(thread_id: UUID, *, starter: bool) -> Snapshot:
    """Return the thread as its log has it now. One query for every hundred events."""
    found = Snapshot()
    more = True
    while more:
        page = read_page(thread_id, after=found.head, limit=_PAGE)
        for event in page.events:
            found.add(event, starter=starter)
        more = page.more
    return found

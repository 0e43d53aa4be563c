"""The runtime that plays a recording: its events again, in its time, asking nobody and doing nothing."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, ClassVar, Final

from controlplane.runtimes.events import (
    EVENT_DATA,
    RUNTIME_EVENTS,
    Approval,
    Error,
    EventType,
    Question,
    Thought,
)
from controlplane.runtimes.interface import RuntimeEvent, Suspend, TurnContext
from controlplane.runtimes.render import one_line
from controlplane.runtimes.replay.recording import RecordedEvent, Recording

_LOOK_S: Final = 0.2  # how often it looks for an interrupt while it waits
_ID: Final = re.compile(r"t(\d{1,9})-(\d{1,9})((?:\.\d{1,9})?)")
#: Ids of earlier turns, whose events the recording does not have, are moved out of the way of its own.
_ELSEWHERE: Final = 1_000_000


class ReplayRuntime:
    """Plays the recording that the run was given as evidence.

    Tool calls are shown, not made; questions and approvals are told as thoughts, with what was answered then. Ids of
    calls and observations are those of the new turn, so that citations lead to the replayed events.
    """

    name: ClassVar[str] = "replay"

    async def run(self, turn: TurnContext) -> AsyncIterator[RuntimeEvent | Suspend]:
        """Play the recording; the last event is its result or error."""
        if turn.recording is None:
            words = "There is nothing to play: give a recording (replay/1) as evidence."
            yield RuntimeEvent(EventType.ERROR, Error(code="no_recording", message=words))
            return
        recording = Recording.model_validate(turn.recording)
        began = time.monotonic()
        for event in recording.events:
            if not await _its_time(turn, began, event.at_ms, recording.speed):
                return
            played = _played(event, recording.turn, turn.turn)
            if played is not None:
                yield played


async def _its_time(turn: TurnContext, began: float, at_ms: int, speed: float) -> bool:
    """Wait until an event is due; ``False`` when somebody asked the run to stop."""
    due = began + (at_ms / 1000 / speed if speed else 0)
    while not turn.control.interrupted:
        left = due - time.monotonic()
        if left <= 0:
            await asyncio.sleep(0)
            return True
        await asyncio.sleep(min(left, _LOOK_S))
    return False


def _played(event: RecordedEvent, old_turn: int, turn: int) -> RuntimeEvent | None:
    if event.is_withheld:
        return None
    if event.type in _TOLD:
        return RuntimeEvent(EventType.THOUGHT, Thought(text=_TOLD[event.type](event.data)))
    if event.type not in RUNTIME_EVENTS:
        return None
    data = moved_ids(event.data, old_turn, turn)
    return RuntimeEvent(event.type, EVENT_DATA[event.type].model_validate(data))


def moved_ids(value: Any, old_turn: int, turn: int) -> Any:
    """Return a JSON value with the ids of one turn's calls and observations (``t2-1``, ``t2-1.3``) as those of another.

    Only texts that are an id and nothing else are changed.
    """
    if isinstance(value, str):
        found = _ID.fullmatch(value)
        if found is None:
            return value
        of, number = int(found[1]), int(found[2])
        return f"t{turn}-{number if of == old_turn else _ELSEWHERE * of + number}{found[3]}"
    if isinstance(value, dict):
        return {name: moved_ids(item, old_turn, turn) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [moved_ids(item, old_turn, turn) for item in value]
    return value


def _question(data: dict[str, Any]) -> str:
    asked = Question.model_validate(data)
    return f"Asked then: {' '.join(one_line(item.question, 500) for item in asked.questions)}"


def _answered(data: dict[str, Any]) -> str:
    answers = data.get("answers") or {}
    return f"Answered then by {data.get('by', '')}: {one_line('; '.join(map(str, answers.values())), 500)}"


def _approval(data: dict[str, Any]) -> str:
    wanted = Approval.model_validate(data)
    return f"Wanted to act then: {wanted.tool}. A replay does nothing."


def _timeout(_data: dict[str, Any]) -> str:
    return "Nobody answered then."


def _decided(data: dict[str, Any]) -> str:
    return f"Decided then by {data.get('by', '')}: {data.get('decision', '')}."


_TOLD: Final[Mapping[EventType, Callable[[dict[str, Any]], str]]] = {
    EventType.QUESTION: _question,
    EventType.QUESTION_ANSWERED: _answered,
    EventType.QUESTION_TIMEOUT: _timeout,
    EventType.APPROVAL: _approval,
    EventType.APPROVAL_DECIDED: _decided,
}

"""A runtime that does what the prompt says: the deterministic double for tests of workers, leases and streams."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from controlplane.runtimes.events import (
    Error,
    EventType,
    Question,
    QuestionItem,
    QuestionOption,
    Result,
    Thought,
    Usage,
)
from controlplane.runtimes.interface import RuntimeEvent, Suspend, TurnContext

Step = Mapping[str, Any]
Emitted = RuntimeEvent | Suspend

POLL_S = 0.01
NOTHING: tuple[Emitted, ...] = ()  # makes a player without events a generator too


class Stop(Exception):
    """The script ends here without the result that usually ends it."""


class ScriptedRuntime:
    """Plays the prompt, a JSON object ``{"steps": [step, …]}``; any other prompt gives one thought and a result.

    A step is an object with one of these members:

    ========================== ===========================================================================
    ``thought``: text           one thought
    ``thoughts``: n             n thoughts, ``thought 1`` to ``thought n``
    ``burst``: n                n thoughts of ``chars`` characters, ``pause_ms`` apart
    ``sleep_ms``: n             pauses without holding the loop
    ``hang_loop_ms``: n         pauses and holds the loop
    ``tool``: name              a call through the toolbox, with ``arguments`` beside it
    ``messages``: true          takes the messages that arrived; each gives a thought ``guidance: …``
    ``ask``: text               a question (``options``: labels) and a ``Suspend``; the resumed run goes on after it
                                with a thought ``answer: …`` or ``no answer``
    ``block``: true             waits until the run is interrupted
    ``raise``: text             raises ``RuntimeError``
    ``error``: text             an ``error`` event that ends the turn (``code`` beside it, default ``scripted_error``)
    ``stop``: true              ends without a result, as a broken runtime would
    ``result``: text            the result's text, and the end
    ========================== ===========================================================================

    Without a ``result`` step the text is ``done``. Between steps an interrupt ends it with ``subtype`` ``interrupted``.
    """

    name: ClassVar[str] = "scripted"

    async def run(self, turn: TurnContext) -> AsyncIterator[Emitted]:
        steps = _script(turn.prompt)
        turn.toolbox.resume_from(turn.events)
        asked = 0
        if turn.resume is not None:
            asked = sum(1 for kind, _ in turn.events if kind == EventType.QUESTION)
            steps = _after_question(steps, asked)
            answers = "; ".join(turn.resume.answers.values())
            yield _thought(f"answer: {answers}" if turn.resume.outcome == "answered" else "no answer")
        text = "done"
        for step in steps:
            if turn.control.interrupted:
                break
            if "result" in step:
                text = step["result"]
                break
            asked += "ask" in step
            try:
                async for emitted in _play(step, turn, asked):
                    yield emitted
            except Stop:
                return
        interrupted = turn.control.interrupted
        yield RuntimeEvent(
            EventType.RESULT,
            Result(
                text="interrupted" if interrupted else text,
                success=not interrupted,
                subtype="interrupted" if interrupted else "success",
                usage=Usage(turns=1, tool_calls=turn.toolbox.calls),
            ),
        )


async def _play(step: Step, turn: TurnContext, asked: int) -> AsyncIterator[Emitted]:
    for member, player in _PLAYERS.items():
        if member in step:
            async for emitted in player(step, turn, asked):
                yield emitted
            return
    raise ValueError(f"the script has a step that means nothing: {sorted(step)}")


async def _play_thought(step: Step, turn: TurnContext, asked: int) -> AsyncIterator[Emitted]:
    yield _thought(step["thought"])


async def _play_thoughts(step: Step, turn: TurnContext, asked: int) -> AsyncIterator[Emitted]:
    for number in range(1, step["thoughts"] + 1):
        if turn.control.interrupted:
            return
        yield _thought(f"thought {number}")


async def _play_burst(step: Step, turn: TurnContext, asked: int) -> AsyncIterator[Emitted]:
    for _ in range(step["burst"]):
        yield _thought("x" * step["chars"])
        await asyncio.sleep(step["pause_ms"] / 1000)


async def _play_sleep(step: Step, turn: TurnContext, asked: int) -> AsyncIterator[Emitted]:
    await asyncio.sleep(step["sleep_ms"] / 1000)
    for nothing in NOTHING:
        yield nothing


async def _play_hang(step: Step, turn: TurnContext, asked: int) -> AsyncIterator[Emitted]:
    time.sleep(step["hang_loop_ms"] / 1000)  # noqa: ASYNC251 (holding the loop is what is asked for)
    for nothing in NOTHING:
        yield nothing


async def _play_tool(step: Step, turn: TurnContext, asked: int) -> AsyncIterator[Emitted]:
    start = turn.toolbox.start(step["tool"], step.get("arguments", {}))
    yield RuntimeEvent(EventType.TOOL_START, start)
    _, end = await turn.toolbox.finish(start)
    yield RuntimeEvent(EventType.TOOL_END, end)


async def _play_messages(step: Step, turn: TurnContext, asked: int) -> AsyncIterator[Emitted]:
    for message in turn.control.take_messages():
        yield _thought(f"guidance: {message}")


async def _play_ask(step: Step, turn: TurnContext, asked: int) -> AsyncIterator[Emitted]:
    request_id = f"{turn.run_id}-q{asked}"
    options = tuple(QuestionOption(label=label) for label in step.get("options", ()))
    item = QuestionItem(question=step["ask"], options=options)
    yield RuntimeEvent(EventType.QUESTION, Question(request_id=request_id, questions=(item,)))
    yield Suspend(request_id)
    raise Stop


async def _play_block(step: Step, turn: TurnContext, asked: int) -> AsyncIterator[Emitted]:
    while not turn.control.interrupted:  # noqa: ASYNC110 (the control is a flag that other threads set)
        await asyncio.sleep(POLL_S)
    for nothing in NOTHING:
        yield nothing


async def _play_raise(step: Step, turn: TurnContext, asked: int) -> AsyncIterator[Emitted]:
    for nothing in NOTHING:
        yield nothing
    raise RuntimeError(step["raise"])


async def _play_error(step: Step, turn: TurnContext, asked: int) -> AsyncIterator[Emitted]:
    error = Error(code=step.get("code", "scripted_error"), message=step["error"])
    yield RuntimeEvent(EventType.ERROR, error)
    raise Stop


async def _play_stop(step: Step, turn: TurnContext, asked: int) -> AsyncIterator[Emitted]:
    for nothing in NOTHING:
        yield nothing
    raise Stop


_PLAYERS: dict[str, Callable[[Step, TurnContext, int], AsyncIterator[Emitted]]] = {
    "thought": _play_thought,
    "thoughts": _play_thoughts,
    "burst": _play_burst,
    "sleep_ms": _play_sleep,
    "hang_loop_ms": _play_hang,
    "tool": _play_tool,
    "messages": _play_messages,
    "ask": _play_ask,
    "block": _play_block,
    "raise": _play_raise,
    "error": _play_error,
    "stop": _play_stop,
}


def _script(prompt: str) -> list[Step]:
    try:
        value = json.loads(prompt)
    except ValueError:
        value = None
    if isinstance(value, dict) and isinstance(value.get("steps"), list):
        return list(value["steps"])
    return [{"thought": f"asked: {prompt}"}]


def _after_question(steps: list[Step], asked: int) -> list[Step]:
    """Return what follows the ``asked``-th question, whose answer has come."""
    places = [index for index, step in enumerate(steps) if "ask" in step]
    return steps[places[asked - 1] + 1 :]


def _thought(text: str) -> RuntimeEvent:
    return RuntimeEvent(EventType.THOUGHT, Thought(text=text))


class ResumingRuntime(ScriptedRuntime):
    """Plays the same scripts, and begins again where it was cut off: thoughts that are in the log are not had again."""

    name: ClassVar[str] = "scripted_resumes"
    resumes: ClassVar[bool] = True

    @override
    async def run(self, turn: TurnContext) -> AsyncIterator[Emitted]:
        had = sum(1 for kind, _ in turn.events if kind == EventType.THOUGHT)
        async for emitted in super().run(turn):
            if isinstance(emitted, RuntimeEvent) and emitted.type == EventType.THOUGHT and had:
                had -= 1
            else:
                yield emitted

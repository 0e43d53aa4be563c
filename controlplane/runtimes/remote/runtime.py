"""The remote runtime."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import ClassVar, Final
from uuid import UUID

import orjson

from controlplane.core.outbound import OutboundError
from controlplane.runtimes.events import Error, EventType, Question, Result, Thought
from controlplane.runtimes.interface import RuntimeEvent, Suspend, TurnContext
from controlplane.runtimes.loose_json import items, mapping, text
from controlplane.runtimes.remote.server import AgentServer, Reply, idle_in
from controlplane.runtimes.remote.sse import SseParser
from controlplane.runtimes.remote.translation import Translation

_POLL_S: Final = 0.1
#: How often a turn goes on after its stream broke, and how often one call is tried on a server that is away.
_MAX_REJOINS: Final = 3
_MAX_TRIES: Final = 6
_FIRST_PAUSE_S: Final = 0.25
_MAX_PAUSE_S: Final = 5.0
#: How often a thread may be found busy with somebody else's turn.
_MAX_BUSY: Final = 60
_BUSY_PAUSE_S: Final = 0.5
_CONTINUE: Final = (
    "The connection to you was lost. Do not repeat anything that changes a system. Give the complete final answer to "
    "the request of this conversation, going on with the work where it is unfinished."
)


class _Failed(Exception):
    """The turn cannot go on; ``error`` is what the log says."""

    def __init__(self, code: str, message: str, *, recoverable: bool = True) -> None:
        super().__init__(code)
        self.error = Error(code=code, message=message, recoverable=recoverable)


class _Interrupted(Exception):
    """Somebody asked the run to stop while nothing was streaming."""


@dataclass(slots=True)
class _Turn:
    context: TurnContext
    server: AgentServer
    reading: Translation
    waiting: list[str] = field(default_factory=list)
    session: str = ""
    stop_sent: bool = False
    how: str = ""  # "done", "cut", "busy" or "unreached", when a stream has ended
    why: str = ""
    rejoins: int = 0
    busy: int = 0


class RemoteRuntime:
    """Has an OpenSRE-compatible agent server investigate, and brings what it sends into the log.

    A stream that breaks or stalls is rejoined as far as the protocol allows: the server is asked whether the thread is
    still at work, then whether it knows its session, and is told to finish; where it knows neither, the run fails and
    everything gathered stays. A question suspends the run at once; the answer is given to the server if it still
    waits, else it begins the next turn of the same conversation.
    """

    name: ClassVar[str] = "remote"

    async def run(self, turn: TurnContext) -> AsyncIterator[RuntimeEvent | Suspend]:
        """Work on one turn; the last item is a ``result``, an ``error`` or a ``Suspend``."""
        server = turn.server
        if server is None or server.endpoint is None:
            problem = server.problem if server is not None else "has no URL"
            message = f"The agent server of the configuration's runtime {problem}."
            yield RuntimeEvent(EventType.ERROR, Error(code="remote_not_ready", message=message))
            return
        asked = AgentServer(server.endpoint, remote_thread_id(turn.thread_id), idle_in(turn.config))
        reading = Translation(
            turn=turn.turn, attempt=turn.attempt, output_bytes=turn.limits.tool_output_bytes, cleared=asked.cleared
        )
        state = _Turn(turn, asked, reading)
        try:
            async for item in _conversation(state):
                yield item
                if isinstance(item, Suspend):
                    return
        except _Failed as failure:
            for event in _told(reading):
                yield event
            yield RuntimeEvent(EventType.ERROR, failure.error)
            return
        except _Interrupted:
            pass
        for event in _told(reading):
            yield event
        for event in _ending(state):
            yield event


def remote_thread_id(thread_id: UUID) -> str:
    """Return what a thread of this installation is called at the agent server."""
    return f"opensre-{thread_id}"


def _ending(state: _Turn) -> list[RuntimeEvent]:
    reading = state.reading
    if state.context.control.interrupted and (reading.result is None or not reading.result.success):
        said = reading.result.text if reading.result else "The investigation was stopped."
        result = Result(text=said, success=False, subtype="interrupted", usage=reading.usage)
        return [RuntimeEvent(EventType.RESULT, result)]
    if reading.result is not None:
        told = reading.result.model_copy(update={"usage": reading.usage})
        return [RuntimeEvent(EventType.RESULT, told)]
    error = reading.failure or Error(code="no_result", message="The agent ended without an answer.", recoverable=True)
    return [RuntimeEvent(EventType.ERROR, error)]


def _told(reading: Translation) -> list[RuntimeEvent]:
    """Say what was not understood, for it may be what is missing."""
    said = reading.flush()
    if reading.ignored:
        counted = ", ".join(f"{name} ({count})" for name, count in reading.ignored.most_common(10))
        words = f"The agent server sent frames that are not understood here and were left out: {counted}."
        said.append(RuntimeEvent(EventType.THOUGHT, Thought(text=words)))
    return said


async def _conversation(state: _Turn) -> AsyncGenerator[RuntimeEvent | Suspend, None]:
    """Ask, go on after breaks, and pass on the messages that the running turn did not take."""
    prompt: str | None = await _opening(state)
    while prompt is not None:
        state.how = ""
        async with aclosing(_stream(state, prompt)) as events:
            async for item in events:
                yield item
                if isinstance(item, Suspend):
                    return
        if state.context.control.interrupted:
            return
        if state.how == "cut":
            yield RuntimeEvent(EventType.THOUGHT, Thought(text=f"The agent server broke off. {state.why} I rejoin it."))
        prompt = await _next_prompt(state, prompt)


async def _next_prompt(state: _Turn, prompt: str) -> str | None:
    """Return what to ask after a stream has ended as ``state.how`` says, ``None`` when all is said.

    Raises:
        _Failed: the server stays busy, away, or has lost the conversation.
    """
    if state.how == "busy":
        if state.busy >= _MAX_BUSY:
            raise _Failed("remote_busy", "The agent server is busy with another turn of this conversation.")
        state.busy += 1
        await _pause(state, _BUSY_PAUSE_S)
        return prompt
    if state.how in ("cut", "unreached"):
        state.rejoins += 1
        if state.rejoins > _MAX_REJOINS:
            raise _Failed("remote_disconnected", f"The agent server broke off again and again. {state.why}".strip())
        worked = await _until_idle(state, must_know=state.how == "cut")
        return _CONTINUE if worked or state.how == "cut" else prompt
    state.waiting += state.context.control.take_messages()
    if not state.waiting or state.reading.failure is not None:
        return None
    merged = "\n\n".join(state.waiting)
    state.waiting.clear()
    return merged


async def _opening(state: _Turn) -> str:
    """Return what to ask first: the prompt with its alert, an answer, or to go on."""
    turn = state.context
    resume = turn.resume
    if resume is not None:
        if resume.outcome == "answered":
            questions = _questions(turn, resume.request_id)
            keyed = {f"question_{number}": answer for number, answer in _numbered(questions, resume.answers).items()}
            reply = await _patiently(state, lambda: state.server.answer(keyed))
            told = "\n".join(f"{question}: {answer}" for question, answer in resume.answers.items())
            if reply.status == 200:
                await _until_idle(state, must_know=False)
                return f"The question was answered:\n{told}\n{_CONTINUE}"
            return f"The answer to your question:\n{told}\nGo on with it."
        await _until_idle(state, must_know=False)
        return "Nobody answered your question in time. Go on with what you know and give the final answer."
    if turn.attempt > 1:
        await _until_idle(state)
        return _CONTINUE
    if not turn.alert:
        return turn.prompt
    alert = orjson.dumps(turn.alert, option=orjson.OPT_INDENT_2).decode()[: 256 * 1024]
    return f"{turn.prompt}\n\nThe alert:\n```json\n{alert}\n```"


def _questions(turn: TurnContext, request_id: str) -> list[str]:
    for kind, data in reversed(turn.events):
        if kind == EventType.QUESTION and data.get("request_id") == request_id:
            return [text(mapping(one).get("question")) for one in items(data.get("questions"))]
    return []


def _numbered(questions: list[str], answers: Mapping[str, str]) -> dict[int, str]:
    """Return answers by the number of their question; one that names no question takes its own place."""
    return {
        questions.index(key)
        if key in questions
        else int(key.removeprefix("question_"))
        if key.removeprefix("question_").isdecimal()
        else place: answer
        for place, (key, answer) in enumerate(answers.items())
    }


async def _stream(state: _Turn, prompt: str) -> AsyncGenerator[RuntimeEvent | Suspend, None]:
    """Make one ``/investigate``; ``state.how`` says how it ended."""
    parser = SseParser()
    had = state.reading.result
    state.why, began = "", False
    try:
        async with state.server.investigate(prompt, state.session) as answer:
            if answer.status == 409:
                state.how = "busy"
                return
            _check(answer.status)
            began = True
            async with aclosing(_events(state, parser, answer.parts)) as events:
                async for item in events:
                    yield item
                    if isinstance(item, Suspend):
                        return
    except OutboundError as error:
        state.how, state.why = "cut", state.server.told(error)
        if error.code not in ("timeout", "connection_failed", "protocol_error"):
            raise _Failed("remote_unreachable", state.why) from None
    for frame in parser.end():
        for event in state.reading.read(frame):
            yield event
    if parser.oversized:
        state.reading.ignored["too_large"] += parser.oversized
    if state.reading.result is not had or state.reading.failure is not None:
        state.how = "done"
    elif not began:
        state.how = "unreached"
    else:
        state.why = state.why or "Its stream ended without an answer."
        state.how = "cut"


async def _events(
    state: _Turn, parser: SseParser, parts: AsyncIterator[bytes]
) -> AsyncGenerator[RuntimeEvent | Suspend, None]:
    """Yield the events of a stream, up to its end or a question."""
    async with aclosing(_chunks(state, parts)) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, RuntimeEvent):
                yield chunk
                continue
            for event in (event for frame in parser.feed(chunk) for event in state.reading.read(frame)):
                yield event
                if isinstance(event.data, Question):
                    yield Suspend(event.data.request_id, event.data.expires_at)
                    return


async def _chunks(state: _Turn, parts: AsyncIterator[bytes]) -> AsyncGenerator[bytes | RuntimeEvent, None]:
    """Yield what arrives, looking for control meanwhile; a message that was passed on gives a thought."""

    async def next_part() -> bytes | None:
        return await anext(parts, None)

    reading = asyncio.create_task(next_part())
    try:
        while True:
            done, _ = await asyncio.wait({reading}, timeout=_POLL_S)
            async for event in _control(state):
                yield event
            if done:
                part = reading.result()
                if part is None:
                    return
                reading = asyncio.create_task(next_part())
                yield part
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _control(state: _Turn) -> AsyncIterator[RuntimeEvent]:
    """Pass an interrupt and messages on to the server; what it does not take now waits for the end of its turn."""
    control = state.context.control
    if control.interrupted and not state.stop_sent:
        state.stop_sent = True
        await _quietly(state.server.interrupt())
    for words in control.take_messages():
        reply = await _quietly(state.server.queue_message(words))
        if reply is not None and reply.status == 200:
            yield RuntimeEvent(EventType.THOUGHT, Thought(text=f"Guidance passed on to the agent: “{words[:200]}”."))
        else:
            state.waiting.append(words)
            told = f"The agent takes no message now; it gets this one when its turn ends: “{words[:200]}”."
            yield RuntimeEvent(EventType.THOUGHT, Thought(text=told))


async def _quietly(call: Awaitable[Reply]) -> Reply | None:
    try:
        return await call
    except OutboundError:
        return None


def _check(status: int) -> None:
    """Refuse an answer that is no stream."""
    if status in (401, 403):
        message = f"The agent server refuses the credentials of this run (HTTP {status})."
        raise _Failed("remote_refused", message, recoverable=False)
    if status in (502, 503, 504):
        raise OutboundError("connection_failed")
    if status != 200:
        raise _Failed("remote_http_error", f"The agent server answered HTTP {status}.")


async def _until_idle(state: _Turn, *, must_know: bool = True) -> bool:
    """Wait until the server's thread is not at work any more, and return whether it was; the wall clock bounds it.

    Raises:
        _Failed: it cannot be reached, or knows nothing of the conversation (and it ``must_know``).
    """
    worked = False
    while True:
        reply = await _patiently(state, state.server.active)
        if reply.status == 200:
            state.session = text(reply.body.get("sdk_session_id"))[:200] or state.session
        if reply.status == 200 and reply.body.get("active") is True:
            worked = True
            await _pause(state, 0.5)
            continue
        if reply.status in (401, 403):
            _check(reply.status)
        if must_know and not state.session:
            message = (
                f"The agent server broke off and does not know the conversation any more. {state.why}".strip()
                + " What it had told until then is kept; a follow-up message begins anew."
            )
            raise _Failed("remote_lost", message)
        return worked


async def _patiently(state: _Turn, call: Callable[[], Awaitable[Reply]]) -> Reply:
    """Make a call that may be repeated until a server that is being restarted answers."""
    pause = _FIRST_PAUSE_S
    for tried in range(1, _MAX_TRIES + 1):
        try:
            reply = await call()
        except OutboundError as error:
            if tried == _MAX_TRIES or error.code not in ("timeout", "connection_failed", "protocol_error"):
                raise _Failed("remote_unreachable", state.server.told(error)) from None
        else:
            if reply.status not in (502, 503, 504):
                return reply
        await _pause(state, pause)
        pause = min(pause * 2, _MAX_PAUSE_S)
    raise _Failed("remote_unreachable", "The agent server is behind a gateway that does not reach it.")


async def _pause(state: _Turn, seconds: float) -> None:
    """Wait, and stop waiting when the run is asked to stop."""
    end = asyncio.get_running_loop().time() + seconds
    while (left := end - asyncio.get_running_loop().time()) > 0:
        if state.context.control.interrupted:
            if not state.stop_sent:
                state.stop_sent = True
                await _quietly(state.server.interrupt())
            raise _Interrupted
        await asyncio.sleep(min(left, _POLL_S))

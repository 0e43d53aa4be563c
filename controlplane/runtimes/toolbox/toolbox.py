"""The one place every tool call goes through: validation, side effects, bounds, redaction, observation ids."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from controlplane.core.errors import AppError
from controlplane.core.redaction import redact_json, redact_text
from controlplane.core.text import visible
from controlplane.runtimes.events import ToolEnd, ToolStart
from controlplane.runtimes.evidence import JsonValue, Observation, ToolResult
from controlplane.runtimes.toolbox.bounds import Bounded, OutputBounder
from controlplane.runtimes.toolbox.tool import Draft, Tool, ToolOutput

logger = logging.getLogger(__name__)

_PAUSE_EVERY_S: Final = 0.02  # the loop gets its turn at least this often while an output streams through
_INPUT_CHARS: Final = 2_000  # of one text in an input, as it is shown
_NAME_CHARS: Final = 200
_QUOTE_CHARS: Final = 2_000
_PIECE_CHARS: Final = 262_144


class Toolbox:
    """The tools of one turn.

    ``turn`` counts the thread's runs from 1 and makes ids unique in the thread: tool calls are ``t{turn}-{n}``, their
    observations ``t{turn}-{n}.{m}``. ``output_bytes`` bounds the text of a result, and once more its observations.
    """

    def __init__(self, tools: Iterable[Tool], *, turn: int, output_bytes: int) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._turn = turn
        self._output_bytes = output_bytes
        self._calls = 0
        self._pending: dict[str, Mapping[str, Any]] = {}
        self._finished: dict[tuple[str, str], ToolEnd] = {}
        self._reads: dict[str, list[str]] = {}

    def specs(self) -> list[dict[str, Any]]:
        """Return every tool as a model reads it: name, description, input schema, side effect."""
        return [tool.spec() for tool in self._tools.values()]

    def names(self) -> tuple[str, ...]:
        """Return the names of the tools there are."""
        return tuple(self._tools)

    @property
    def calls(self) -> int:
        """How many calls were started, those of an earlier attempt included."""
        return self._calls

    @property
    def sources_read(self) -> Mapping[str, Sequence[str]]:
        """Which sources were looked into in this run, each with the ids of the calls that did."""
        return {source: tuple(ids) for source, ids in self._reads.items()}

    def tools_read(self, name: str) -> bool:
        """Return whether the source ``name`` was looked into in this run."""
        return name in self._reads

    def resume_from(self, events: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Take over what this run's earlier attempt recorded, as ``(type, data)`` pairs in order.

        New calls are numbered after the recorded ones, and :meth:`recall` finds those that finished. Calling it again
        with the same events changes nothing.
        """
        inputs: dict[str, tuple[str, Mapping[str, Any]]] = {}
        for kind, data in events:
            if kind == "tool_start":
                id_ = str(data.get("tool_use_id", ""))
                inputs[id_] = (str(data.get("name", "")), data.get("input") or {})
                self._calls = max(self._calls, self._number_of(id_))
            elif kind == "tool_end" and data.get("success") and (started := inputs.get(str(data.get("tool_use_id")))):
                self._take_over(started, data)

    def _take_over(self, started: tuple[str, Mapping[str, Any]], data: Mapping[str, Any]) -> None:
        try:
            end = ToolEnd.model_validate(data)
        except ValidationError:
            return  # written by another release: the call is made again, which is safe, since it only reads
        self._finished[_key(*started)] = end
        if end.name in self._tools and self._tools[end.name].reads:
            self._note_reads(end.tool_use_id, (observation.source for observation in end.observations))

    def recall(self, name: str, arguments: Mapping[str, JsonValue]) -> ToolEnd | None:
        """Return the end of the same call that finished in an earlier attempt of this run, if there is one."""
        return self._finished.get(_key(name, _shown_input(arguments)))

    def start(
        self,
        name: str,
        arguments: Mapping[str, JsonValue],
        *,
        description: str | None = None,
        parent_tool_use_id: str | None = None,
        agent_id: str | None = None,
        agent_type: str | None = None,
        parent_agent_id: str | None = None,
        parent_agent_type: str | None = None,
        depth: int = 0,
    ) -> ToolStart:
        """Announce a call: mint its id and return its event, whose input is redacted. Never raises for a bad call."""
        self._calls += 1
        tool_use_id = f"t{self._turn}-{self._calls}"
        self._pending[tool_use_id] = dict(arguments)
        return ToolStart(
            tool_use_id=tool_use_id,
            name=name[:_NAME_CHARS],
            input=_shown_input(arguments),
            description=redact_text(description) if description is not None else None,
            parent_tool_use_id=parent_tool_use_id,
            agent_id=agent_id,
            agent_type=agent_type,
            parent_agent_id=parent_agent_id,
            parent_agent_type=parent_agent_type,
            depth=depth,
        )

    async def finish(self, start: ToolStart) -> tuple[ToolResult, ToolEnd]:
        """Run the announced call and return what it answered, for the agent and as the event of the log.

        A refused, failing or slow tool gives ``ok=False`` with an ``error`` in our words; only cancellation is raised.

        Raises:
            KeyError: ``start`` was not announced by this toolbox, or is finished already.
        """
        arguments = self._pending.pop(start.tool_use_id)
        began = time.monotonic()
        result, summary = await self._result(start, arguments)
        end = ToolEnd(
            **start.model_dump(exclude={"input", "description"}),
            success=result.ok,
            summary=summary,
            error=result.error or None,
            output=result.text or None,
            truncated=result.truncated,
            observations=result.observations,
            duration_ms=round((time.monotonic() - began) * 1000),
        )
        if result.ok:
            self._finished[_key(start.name, start.input)] = end
        return result, end

    async def _result(self, start: ToolStart, arguments: Mapping[str, Any]) -> tuple[ToolResult, str]:
        refusal = self._refusal(start.name)
        if refusal:
            return _failure(refusal)
        tool = self._tools[start.name]
        try:
            validated = tool.arguments.model_validate(arguments)
        except ValidationError as error:
            return _failure(f"The arguments of {tool.name} are not valid: {_broken_rules(error)}")
        try:
            async with asyncio.timeout(tool.timeout_s):
                return await self._run(tool, validated, start.tool_use_id)
        except TimeoutError:
            return _failure(f"{tool.name} did not answer within {tool.timeout_s:g} s. Narrow the query and try again.")
        except AppError as error:
            return _failure(f"{tool.name} could not answer: {redact_text(error.detail)}")
        except Exception as error:  # noqa: BLE001 (a tool's fault must not end the run; its text may hold secrets)
            logger.warning("toolbox.tool_failed tool=%s error=%s", tool.name, type(error).__name__)
            return _failure(f"{tool.name} failed unexpectedly ({type(error).__name__}).")

    def _refusal(self, name: str) -> str:
        """Return why the tool may not run, or an empty text."""
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(sorted(self._tools)) or "none"
            return f"There is no tool {name!r}; there are: {known}."
        if tool.side_effect != "read":
            return f"{name} has side effects ({tool.side_effect}); only tools that read may run."
        return ""

    async def _run(self, tool: Tool, arguments: BaseModel, tool_use_id: str) -> tuple[ToolResult, str]:
        output = await tool.run(arguments)
        observations, left_out = await self._mint(tool_use_id, output.observations)
        bounded = await _bounded(output, observations, self._output_bytes)
        self._note_reads(tool_use_id, output.read)
        hint = output.hint if bounded.truncated else ""
        if left_out:
            hint = f"{left_out:,} further observations are left out. {output.hint or 'Narrow the query.'}"
        result = ToolResult(
            ok=True,
            observations=observations,
            text=visible(bounded.text),
            truncated=bounded.truncated or left_out > 0,
            hint=hint,
        )
        return result, redact_text(output.summary) or _default_summary(result)

    async def _mint(self, tool_use_id: str, drafts: Iterable[Draft]) -> tuple[tuple[Observation, ...], int]:
        """Return the observations that fit into the bound, each redacted, and how many did not."""
        room, left_out = self._output_bytes, 0
        observations: list[Observation] = []
        breath = _Breath()
        for draft in drafts:
            await breath.take()
            observation = _observation(f"{tool_use_id}.{len(observations) + 1}", draft)
            size = len(observation.model_dump_json().encode("utf-8", "replace"))
            if size > room or left_out:
                left_out += 1
                continue
            room -= size
            observations.append(observation)
        return tuple(observations), left_out

    def _note_reads(self, tool_use_id: str, sources: Iterable[str]) -> None:
        for source in sources:
            ids = self._reads.setdefault(source, [])
            if tool_use_id not in ids:
                ids.append(tool_use_id)

    def _number_of(self, tool_use_id: str) -> int:
        prefix, _, number = tool_use_id.rpartition("-")
        return int(number) if prefix == f"t{self._turn}" and number.isascii() and number.isdecimal() else 0


class _Breath:
    """Gives the event loop its turn whenever a long piece of work has held it for a while."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    async def take(self) -> None:
        if time.monotonic() - self._since > _PAUSE_EVERY_S:
            await asyncio.sleep(0)
            self._since = time.monotonic()


async def _bounded(output: ToolOutput, observations: Iterable[Observation], limit: int) -> Bounded:
    bounder = OutputBounder(limit, hint=output.hint)
    breath = _Breath()
    for observation in observations:
        bounder.feed(f"[{observation.id}] {observation.object}: {observation.quote}\n")
        await breath.take()
    async for piece in _stream(output.text):
        for begin in range(0, len(piece), _PIECE_CHARS):
            bounder.feed(piece[begin : begin + _PIECE_CHARS])
            await breath.take()
    return bounder.finish()


async def _stream(text: str | Iterable[str] | AsyncIterable[str]) -> AsyncIterable[str]:
    if isinstance(text, str):
        yield text
    elif isinstance(text, AsyncIterable):
        async for piece in text:
            yield piece
    else:
        for piece in text:
            yield piece


def _observation(id_: str, draft: Draft) -> Observation:
    quote = visible(redact_text(draft.quote))
    return Observation(
        id=id_,
        source=draft.source[:_NAME_CHARS],
        object=visible(redact_text(draft.object))[:_NAME_CHARS],
        kind=draft.kind,
        at=draft.at,
        value=redact_json(draft.value),
        quote=quote if len(quote) <= _QUOTE_CHARS else quote[: _QUOTE_CHARS - 1] + "…",
    )


def _shown_input(arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    shown: dict[str, JsonValue] = _shortened(redact_json(dict(arguments)))
    return shown


def _shortened(value: JsonValue) -> JsonValue:
    if isinstance(value, str) and len(value) > _INPUT_CHARS:
        return f"{value[:_INPUT_CHARS]}… [{len(value) - _INPUT_CHARS:,} more characters]"
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in list(value.items())[:100]}
    if isinstance(value, list | tuple):
        return [_shortened(item) for item in value[:100]]
    return value


def _broken_rules(error: ValidationError) -> str:
    rules = [
        f"{'.'.join(str(part) for part in item['loc'])[:_NAME_CHARS] or 'the whole'}: {item['msg']}"
        for item in error.errors(include_input=False, include_url=False, include_context=False)[:10]
    ]
    return "; ".join(rules) + "."


def _failure(error: str) -> tuple[ToolResult, str]:
    return ToolResult(ok=False, error=error), error


def _default_summary(result: ToolResult) -> str:
    count = len(result.observations)
    return f"{count} observation{'' if count == 1 else 's'}" + (", cut" if result.truncated else "")


def _key(name: str, shown: Mapping[str, JsonValue]) -> tuple[str, str]:
    return name, json.dumps(shown, sort_keys=True, default=str)

"""The one place every tool call goes through: validation, side effects, bounds, redaction, observation ids."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from controlplane.core import clock
from controlplane.core.errors import AppError
from controlplane.core.ids import new_id
from controlplane.core.redaction import redact_json, redact_text
from controlplane.core.text import visible
from controlplane.runtimes.events import Approval, ToolEnd, ToolStart
from controlplane.runtimes.evidence import JsonValue, Observation, ToolResult
from controlplane.runtimes.toolbox.bounds import Bounded, OutputBounder
from controlplane.runtimes.toolbox.gate import ActionGate, action_digest
from controlplane.runtimes.toolbox.tool import Draft, Tool, ToolOutput

logger = logging.getLogger(__name__)

_PAUSE_EVERY_S: Final = 0.02  # the loop gets its turn at least this often while an output streams through
_INPUT_CHARS: Final = 2_000  # of one text in an input, as it is shown
_NAME_CHARS: Final = 200
_ASKED_CHARS: Final = 8_000  # of the arguments of a call that a person has to approve
_QUOTE_CHARS: Final = 2_000
_PIECE_CHARS: Final = 262_144


class Toolbox:
    """The tools of one turn.

    ``turn`` counts the thread's runs from 1 and makes ids unique in the thread: tool calls are ``t{turn}-{n}``, their
    observations ``t{turn}-{n}.{m}``. ``output_bytes`` bounds the text of a result, and once more its observations.
    Calls with side effects go through ``gate``; without one none is made.
    """

    def __init__(self, tools: Iterable[Tool], *, turn: int, output_bytes: int, gate: ActionGate | None = None) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._turn = turn
        self._output_bytes = output_bytes
        self._gate = gate
        self._asked: dict[str, ToolStart] = {}
        self._settled: dict[str, ToolEnd] = {}
        self._cut_off: set[str] = set()
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
        starts: dict[str, Mapping[str, Any]] = {}
        asked: dict[tuple[str, str], str] = {}
        for kind, data in events:
            id_ = str(data.get("tool_use_id", ""))
            if kind == "tool_start":
                starts[id_] = data
                self._calls = max(self._calls, self._number_of(id_))
            elif id_ not in starts:
                continue
            elif kind == "approval":
                request_id = asked[_key_of(starts[id_])] = str(data.get("request_id"))
                self._asked[request_id] = ToolStart.model_validate(starts[id_])
            elif kind == "tool_end":
                self._take_over(_key_of(starts[id_]), data, asked.get(_key_of(starts[id_])))

    def _take_over(self, key: tuple[str, str], data: Mapping[str, Any], request_id: str | None) -> None:
        try:
            end = ToolEnd.model_validate(data)
        except ValidationError:
            return  # written by another release: the call is made again, which is safe, since it only reads
        if end.cut_off and request_id is not None:
            self._cut_off.add(request_id)
        elif request_id is not None:
            self._settled[request_id] = end
        if not end.success:
            return
        self._finished[key] = end
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
        refusal = self._refusal(start.name, arguments)
        result, summary = _failure(refusal) if refusal else await self._result(start, arguments)
        end = _end_of(start, result, summary, began)
        if result.ok:
            self._finished[_key(start.name, start.input)] = end
        return result, end

    def approval_for(self, start: ToolStart) -> Approval | None:
        """Return what a person has to be asked before an announced call is made; the runtime emits it and suspends.

        ``None`` for a call that needs nobody's word, and for one that cannot be asked for: :meth:`finish` says why not.
        """
        tool = self._tools.get(start.name)
        arguments = self._pending[start.tool_use_id]
        if tool is None or tool.side_effect == "read" or self._gate is None or _unaskable(tool, arguments):
            return None
        del self._pending[start.tool_use_id]
        request_id = str(new_id())
        self._asked[request_id] = start
        return Approval(
            request_id=request_id,
            tool=tool.name,
            input=dict(arguments),
            digest=action_digest(tool.name, arguments),
            expires_at=clock.now() + timedelta(seconds=tool.approval_s),
            tool_use_id=start.tool_use_id,
            side_effect=tool.side_effect,
        )

    def settled(self, request_id: str) -> ToolEnd | None:
        """Return how the call that a person was asked for ended in an earlier attempt of this run, if it did."""
        return self._settled.get(request_id)

    def announce_again(self, request_id: str) -> ToolStart | None:
        """Return a new announcement of a call that the log has closed because its worker stopped; else ``None``.

        The runtime emits it before :meth:`settle`, so that each announced call has one end.

        Raises:
            KeyError: there was no such approval in this run.
        """
        if request_id not in self._cut_off:
            return None
        self._calls += 1
        again = self._asked[request_id].model_copy(update={"tool_use_id": f"t{self._turn}-{self._calls}"})
        self._asked[request_id] = again
        return again

    async def settle(self, request_id: str, *, approved: bool, words: str = "") -> tuple[ToolResult, ToolEnd]:
        """Make the call that was approved, once, or say that it was not approved; return as :meth:`finish` does.

        Args:
            request_id: of the approval that the turn waited for; of an earlier attempt after :meth:`resume_from`.
            approved: whether somebody allowed it.
            words: why not, for the agent.

        Raises:
            KeyError: there was no such approval in this run.
        """
        start = self._asked.pop(request_id)
        began = time.monotonic()
        tool = self._tools.get(start.name)
        if not approved or tool is None or self._gate is None:
            refusal = words or f"{start.name} was not approved."
            return _ended(start, _failure(refusal if tool else self._refusal(start.name, {})), began)
        permit = await self._gate.begin(request_id, again=tool.idempotent)
        if permit.done is not None:
            done = permit.done.model_copy(update={"tool_use_id": start.tool_use_id})
            return ToolResult(ok=done.success, text=done.output or "", error=done.error or ""), done
        if permit.arguments is None:
            return _ended(start, _failure(permit.refusal), began)
        result, end = _ended(start, await self._result(start, permit.arguments, request_id), began)
        await self._gate.finish(request_id, end)
        return result, end

    async def _result(
        self, start: ToolStart, arguments: Mapping[str, Any], request_id: str = ""
    ) -> tuple[ToolResult, str]:
        tool = self._tools[start.name]
        try:
            validated = tool.arguments.model_validate(arguments)
        except ValidationError as error:
            return _failure(_not_valid(tool, error))
        try:
            async with asyncio.timeout(tool.timeout_s):
                return await self._run(tool, validated, start.tool_use_id, request_id)
        except TimeoutError:
            return _failure(f"{tool.name} did not answer within {tool.timeout_s:g} s. Narrow the query and try again.")
        except AppError as error:
            return _failure(f"{tool.name} could not answer: {redact_text(error.detail)}")
        except Exception as error:  # noqa: BLE001 (a tool's fault must not end the run; its text may hold secrets)
            logger.warning("toolbox.tool_failed tool=%s error=%s", tool.name, type(error).__name__)
            return _failure(f"{tool.name} failed unexpectedly ({type(error).__name__}).")

    def _refusal(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Return why the tool may not run, or an empty text."""
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(sorted(self._tools)) or "none"
            return f"There is no tool {name!r}; there are: {known}."
        if tool.side_effect != "read":
            nobody = f"{name} has side effects ({tool.side_effect}); only tools that read may run."
            return nobody if self._gate is None else _unaskable(tool, arguments) or nobody
        return ""

    async def _run(self, tool: Tool, arguments: BaseModel, tool_use_id: str, request_id: str) -> tuple[ToolResult, str]:
        output = await (tool.act(arguments, request_id) if tool.act and request_id else tool.run(arguments))
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


def _key_of(start: Mapping[str, Any]) -> tuple[str, str]:
    return _key(str(start.get("name", "")), start.get("input") or {})


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


def _unaskable(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Return why nobody can be asked for a call, or an empty text.

    What is shown is what is done: arguments that would be shown otherwise, redacted or cut, are not asked for.
    """
    try:
        tool.arguments.model_validate(arguments)
    except ValidationError as error:
        return _not_valid(tool, error)
    if redact_json(dict(arguments)) != dict(arguments):
        return f"The arguments of {tool.name} hold what looks like a secret; a credential is set in the configuration."
    if len(json.dumps(dict(arguments), default=str)) > _ASKED_CHARS or _shown_input(arguments) != dict(arguments):
        return f"The arguments of {tool.name} are too long for a person to read before approving them."
    return ""


def _not_valid(tool: Tool, error: ValidationError) -> str:
    return f"The arguments of {tool.name} are not valid: {_broken_rules(error)}"


def _ended(start: ToolStart, outcome: tuple[ToolResult, str], began: float) -> tuple[ToolResult, ToolEnd]:
    return outcome[0], _end_of(start, *outcome, began)


def _end_of(start: ToolStart, result: ToolResult, summary: str, began: float) -> ToolEnd:
    return ToolEnd(
        **start.model_dump(exclude={"input", "description"}),
        success=result.ok,
        summary=summary,
        error=result.error or None,
        output=result.text or None,
        truncated=result.truncated,
        observations=result.observations,
        duration_ms=round((time.monotonic() - began) * 1000),
    )


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

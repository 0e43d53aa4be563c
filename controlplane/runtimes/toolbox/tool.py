"""What a tool is: a name and words for whoever chooses it, typed arguments, declared side effects, and a function."""

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from controlplane.runtimes.evidence import JsonValue, ObservationKind, SideEffect, TimeRange


class ToolArguments(BaseModel):
    """Base of the arguments of every tool: unknown ones are refused, so that a misspelt filter is never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class NoArguments(ToolArguments):
    """For a tool that takes none."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An observation before the toolbox mints its id and redacts it; fields as in ``Observation``."""

    source: str
    object: str
    kind: ObservationKind
    quote: str
    at: TimeRange | None = None
    value: JsonValue = None


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool's function returns.

    ``text`` is the whole output, or its pieces in order where it is too large to hold at once; the toolbox puts the
    quotes of the observations, with their ids, before it. ``read`` names the sources that were looked into, also where
    nothing was found. ``hint`` says how to narrow the call when the output is cut; ``summary`` is the one line a person
    reads in the transcript.
    """

    text: str | Iterable[str] | AsyncIterable[str] = ""
    observations: Iterable[Draft] = ()
    summary: str = ""
    hint: str = ""
    read: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. ``run`` gets the validated arguments; what it raises becomes a failed result, never an exception.

    ``reads`` is false for a tool that only says what there is, so that its mention of a source is no reading of it.
    One with side effects has ``act`` in place of ``run``: it gets the arguments and the id of the approval, by which a
    server may recognise a request that it has seen. ``idempotent`` says that making the call twice is as good as once;
    ``approval_s`` how many seconds a person has to decide.
    """

    name: str
    description: str
    arguments: type[BaseModel]
    run: Callable[[Any], Awaitable[ToolOutput]]
    side_effect: SideEffect = "read"
    timeout_s: float = 30.0
    reads: bool = True
    act: Callable[[Any, str], Awaitable[ToolOutput]] | None = None
    idempotent: bool = False
    approval_s: int = 3_600

    def spec(self) -> dict[str, Any]:
        """Return the tool as a model reads it: name, description, JSON Schema of its input, side effect."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.arguments.model_json_schema(),
            "side_effect": self.side_effect,
        }

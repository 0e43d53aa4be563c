"""The interface between a run and the agent that does the work.

A runtime is handed a :class:`TurnContext` and yields :class:`RuntimeEvent`\\ s; it never sees the database, the event
log or the people. Control (messages, answers, interrupts) arrives through the context.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal, Protocol
from uuid import UUID

from pydantic import BaseModel

from controlplane.configs.limits import Limits
from controlplane.runtimes.events import EVENT_DATA, RUNTIME_EVENTS, EventType
from controlplane.runtimes.sources.live.endpoint import Integration
from controlplane.runtimes.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class RuntimeEvent:
    """One event of a runtime; ``data`` is the typed model of its type."""

    type: EventType
    data: BaseModel

    def __post_init__(self) -> None:
        if self.type not in RUNTIME_EVENTS:
            raise ValueError(f"a runtime may not emit {self.type}")
        if not isinstance(self.data, EVENT_DATA[self.type]):
            raise TypeError(f"{self.type} needs data of type {EVENT_DATA[self.type].__name__}")


@dataclass(frozen=True, slots=True)
class Suspend:
    """The last thing a runtime yields when it waits for a person.

    The run becomes ``waiting`` and holds no worker; the answer to ``request_id`` (or its expiry) queues it again with
    ``turn.resume`` set. The runtime must have emitted the ``question`` or ``approval`` of the same id before.
    """

    request_id: str
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Resume:
    """Why a suspended run goes on: a question was answered or not, an approval was decided or not.

    ``by`` and ``reason`` are those of a decision.
    """

    request_id: str
    outcome: Literal["answered", "timeout", "approved", "rejected", "expired"]
    answers: Mapping[str, str] = field(default_factory=dict)
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class HistoryTurn:
    """An earlier turn of the thread: what was asked, what was answered (empty when the run ended without a result)."""

    prompt: str
    answer: str
    status: str


class TurnControl(Protocol):
    """How the outside reaches a running turn."""

    @property
    def interrupted(self) -> bool:
        """Whether somebody asked the run to stop; runtimes look between steps."""

    def take_messages(self) -> Sequence[str]:
        """Return what was said since the last call, oldest first, and mark it as delivered: to be called between steps.

        Messages that came close together are one text, a numbered list under a heading.
        """


@dataclass(frozen=True, slots=True)
class TurnContext:
    """Everything a runtime may know of one turn.

    ``turn`` counts the thread's runs from 1 and makes tool-use ids unique in the thread. ``attempt`` counts the claims
    of this run from 1: above 1 the run was resumed. ``events`` holds, on resume, what this run already emitted, as
    plain ``(type, data)`` pairs in order. ``by_person`` says that the prompt is the own words of the one person who
    asked for the run: not an alert's, and not several people's; ``recording`` is what the runtime ``replay`` plays
    (``replay/1``). ``server`` is the agent server that the configuration names, with this run's credentials, for the
    runtime that asks one.
    """

    run_id: UUID
    thread_id: UUID
    turn: int
    attempt: int
    team: str
    prompt: str
    alert: Mapping[str, Any] | None
    history: Sequence[HistoryTurn]
    config: Mapping[str, Any]
    limits: Limits
    toolbox: Toolbox
    control: TurnControl
    resume: Resume | None = None
    events: Sequence[tuple[str, Mapping[str, Any]]] = ()
    sample: bool = False
    by_person: bool = False
    recording: Mapping[str, Any] | None = None
    server: Integration | None = None


class AgentRuntime(Protocol):
    """One way to investigate. Implementations are stateless: everything is in the turn.

    One that has ``resumes = True`` may be cut off anywhere and begun again with ``turn.events``; a worker that stops
    hands its runs over (:func:`controlplane.runtimes.registry.runtime_resumes`).
    """

    name: ClassVar[str]

    def run(self, turn: TurnContext) -> AsyncIterator[RuntimeEvent | Suspend]:
        """Work on one turn: yield events, end with a ``result`` or ``error``, or with a :class:`Suspend`."""

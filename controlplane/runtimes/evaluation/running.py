"""Running one case: a turn of a runtime over recorded evidence, without a thread, a log or a database."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from controlplane.configs.limits import Limits
from controlplane.runtimes.events import Result
from controlplane.runtimes.interface import AgentRuntime, RuntimeEvent, TurnContext
from controlplane.runtimes.report import Report
from controlplane.runtimes.sources.tools import toolbox_for_snapshot

logger = logging.getLogger(__name__)

PROMPT = "Why did this alert go off?"
_NOBODY = UUID(int=0)


class CaseError(Exception):
    """A case cannot be read; the text says why, in words for a person."""


@dataclass(frozen=True, slots=True)
class CaseRun:
    """What a run brought. ``seconds`` it took; ``calls`` of tools it made; ``sources_read`` it looked into.

    ``report`` is ``None`` where it ended without one: with an error, or by asking back.
    """

    report: Report | None
    seconds: float
    calls: int
    sources_read: frozenset[str]


class _Alone:
    """Nobody interrupts and nobody says anything."""

    interrupted = False

    def take_messages(self) -> Sequence[str]:
        return ()


def run_case(runtime: AgentRuntime, snapshot: Mapping[str, Any], *, prompt: str = PROMPT) -> CaseRun:
    """Return what a runtime reports on the evidence of a ``snapshot/1``."""
    limits = Limits()
    alert = snapshot.get("alert")
    toolbox = toolbox_for_snapshot(snapshot, alert=alert, turn=1, limits=limits)
    turn = TurnContext(
        run_id=_NOBODY,
        thread_id=_NOBODY,
        turn=1,
        attempt=1,
        team="evaluation",
        prompt=prompt,
        alert=alert,
        history=(),
        config={},
        limits=limits,
        toolbox=toolbox,
        control=_Alone(),
    )
    began = time.perf_counter()
    try:
        result = asyncio.run(_last(runtime, turn))
    except Exception:  # a runtime that breaks fails its case, and the suite goes on
        logger.exception("evaluation.runtime_failed runtime=%s", runtime.name)
        result = None
    seconds = time.perf_counter() - began
    return CaseRun(result.report if result else None, seconds, toolbox.calls, frozenset(toolbox.sources_read))


async def _last(runtime: AgentRuntime, turn: TurnContext) -> Result | None:
    found: Result | None = None
    async for event in runtime.run(turn):
        if isinstance(event, RuntimeEvent) and isinstance(event.data, Result):
            found = event.data
    return found

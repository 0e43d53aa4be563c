"""One claimed run, worked on: the runtime's events into the log, its end into the run's state.

Everything is written under the claim's fence; once that no longer holds, the execution stops and writes nothing more.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction

from controlplane.core import clock
from controlplane.core.db import DatabaseThreads
from controlplane.investigations import metrics
from controlplane.investigations.actions import RunGate
from controlplane.investigations.approvals import approval_open
from controlplane.investigations.lifecycle import (
    Claim,
    EndStatus,
    Outcome,
    run_finish,
    run_suspend,
)
from controlplane.investigations.log import LeaseLost, NewEvent, append, new_event
from controlplane.investigations.models import Event, Message
from controlplane.investigations.turns import RunControl, TurnRow, turn_build
from controlplane.runtimes import events
from controlplane.runtimes.events import EventType
from controlplane.runtimes.interface import RuntimeEvent, Suspend, TurnContext
from controlplane.runtimes.registry import get_runtime

log = structlog.get_logger(__name__)

#: How long a runtime may take to end by itself after it was asked to stop.
STOP_GRACE_SECONDS = 3.0
#: How long one write may be retried while the database is locked or away, below which no lease could last anyway.
WRITE_PATIENCE_SECONDS = 120.0


_ASKING: Final = frozenset({EventType.QUESTION, EventType.APPROVAL})
_OPEN_TOOLS: Final = {
    "interrupted": "The run was stopped before this tool answered.",
    "timeout": "The run's time was used up before this tool answered.",
}


@dataclass(frozen=True, slots=True)
class Suspended:
    """A runtime that waits, and what it asks: the last event before, not yet in the log."""

    suspend: Suspend
    asking: RuntimeEvent | None


class Execution:
    """The work on one claim. ``control`` is given to the keeper, which feeds it from outside."""

    def __init__(self, claim: Claim, *, database: DatabaseThreads) -> None:
        self.claim = claim
        self.control = RunControl(asyncio.get_running_loop())
        self._database = database
        self._last_seq = 0
        self._result: events.Result | None = None
        self._error: events.Error | None = None
        self._began = time.monotonic()
        self.renew_at = self._began + settings.LEASE_SECONDS / 3
        self._stop_reason: tuple[EndStatus, str] = ("interrupted", "stopped")

    def stop(self, status: EndStatus, reason: str) -> None:
        """Have the run end with ``status`` and ``reason``; called from any thread."""
        self._stop_reason = (status, reason)
        self.control.interrupt()

    async def run(self) -> None:
        """Work until the run has ended, waits, or is lost to another worker; its own failures are not raised."""
        try:
            await self._run()
        except LeaseLost:
            metrics.leases_lost_total.inc()
            log.warning("run.lease_lost", run_id=str(self.claim.run_id))

    async def _run(self) -> None:
        try:
            gate = RunGate(self.claim, self._database)
            turn, row = await self._patiently(turn_build, self.claim, self.control, gate)
        except Exception:
            log.exception("run.turn_not_built", run_id=str(self.claim.run_id))
            await self._finish("failed", "internal_error", error=_internal_error())
            return
        self._last_seq = row.last_seq
        time_left = max(turn.limits.wall_clock_s - row.worked_seconds, 0.0)
        work = asyncio.create_task(self._work(turn, row), name=f"run-{self.claim.run_id}")
        stop = asyncio.create_task(self.control.stopped.wait())
        try:
            await asyncio.wait({work, stop}, timeout=time_left, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                if not self.control.stopped.is_set():
                    self.stop("timeout", "wall_clock")
                await self._let_stop(work)
        finally:
            stop.cancel()
            work.cancel()
            await asyncio.gather(work, stop, return_exceptions=True)
        await self._conclude(work)

    async def _let_stop(self, work: "asyncio.Task[Suspended | None]") -> None:
        """Give a runtime that was asked to stop a moment to say what it has; one that lost its lease gets none."""
        if not self.control.lease_lost:
            await asyncio.wait({work}, timeout=STOP_GRACE_SECONDS)

    async def _work(self, turn: TurnContext, row: TurnRow) -> "Suspended | None":
        """Record what the runtime emits; what it asks is held back until it waits, so that nobody can answer before."""
        items: AsyncIterator[RuntimeEvent | Suspend] = get_runtime(row.runtime).run(turn)
        asking: RuntimeEvent | None = None
        async with aclosing(items) as stream:  # type: ignore[type-var]  # runtimes are async generators
            async for item in stream:
                if isinstance(item, Suspend):
                    return Suspended(item, asking)
                if asking is not None:
                    await self._record(asking)
                asking = item if item.type in _ASKING else None
                if asking is None:
                    await self._record(item)
        if asking is not None:
            await self._record(asking)
        return None

    async def _record(self, item: RuntimeEvent) -> None:
        await self._append(await self._encoded(item))
        if isinstance(item.data, events.Result):
            self._result = item.data
        elif isinstance(item.data, events.Error):
            self._error = item.data
        if taken := self.control.taken():
            await self._patiently(_messages_delivered, self.claim, taken)

    async def _encoded(self, item: RuntimeEvent) -> NewEvent:
        """Encode and redact in a thread: a large output must not hold up the loop's other runs."""
        return await self._database.call(new_event, item.type, item.data, run_id=self.claim.run_id)

    async def _append(self, event: NewEvent) -> None:
        """Append under the fence, through a locked or restarted database, exactly once.

        A commit whose answer was lost looks like a failure: before trying again the log is asked whether it is there.
        """
        tried = False

        def append_once() -> int:
            nonlocal tried
            found = _find(self.claim, self._last_seq, event) if tried else None
            tried = True
            return found or append(thread_id=self.claim.thread_id, events=[event], fence=self.claim.fence)[-1].seq

        self._last_seq = await self._patiently(append_once)

    async def _patiently(self, job: Callable[..., Any], *args: Any) -> Any:
        """Run a job that may be repeated, until the database answers."""
        deadline = time.monotonic() + WRITE_PATIENCE_SECONDS
        pause = 0.05
        while True:
            try:
                return await self._database.call(job, *args)
            except (OperationalError, InterfaceError):
                if time.monotonic() > deadline or self.control.lease_lost:
                    raise
                await asyncio.sleep(pause)
                pause = min(pause * 2, 2.0)

    async def _conclude(self, work: "asyncio.Task[Suspended | None]") -> None:
        if self.control.lease_lost:
            raise LeaseLost(str(self.claim.run_id))
        failure = None if work.cancelled() else work.exception()
        if isinstance(failure, LeaseLost):
            raise failure
        answered = failure is None and not work.cancelled() and self._result is not None and self._result.success
        if self.control.stopped.is_set() and not answered:
            await self._finish(*self._stop_reason)
        elif failure is not None:
            log.error("run.runtime_failed", run_id=str(self.claim.run_id), exc_info=failure)
            await self._finish("failed", "runtime_error", error=_internal_error())
        elif not work.cancelled() and (suspended := work.result()) is not None:
            await self._suspend(suspended)
        elif self._error is not None and self._result is None:
            await self._finish("failed", self._error.code, error=self._error)
        elif self._result is None:
            await self._finish("failed", "no_result", error=_no_result())
        else:
            await self._finish("completed", "" if self._result.success else self._result.subtype)

    async def _suspend(self, suspended: "Suspended") -> None:
        asked = suspended.asking
        approval = asked.data if asked is not None and isinstance(asked.data, events.Approval) else None
        suspend = partial(
            run_suspend,
            self.claim,
            request_id=suspended.suspend.request_id,
            # The review of an approval has an end of its own, which ends the waiting too.
            expires_at=suspended.suspend.expires_at if approval is None else None,
            asking=[] if asked is None else [await self._encoded(asked)],
            opening=None if approval is None else partial(approval_open, self.claim, approval),
            worked=timedelta(seconds=time.monotonic() - self._began),
        )
        if not await self._patiently(suspend):
            await self._finish("interrupted", "stopped")

    async def _finish(self, status: EndStatus, reason: str, *, error: events.Error | None = None) -> None:
        """End the run; ``error`` is what the log should say of it, unless the runtime has said it itself."""
        said = _told(self._result) if self._result else (error.message if error else "")
        outcome = Outcome(
            status,
            reason=reason,
            headline=_headline(said),
            error=None if error is self._error else error,
            open_tools=_OPEN_TOOLS.get(status, "The run ended before this tool answered."),
        )
        await self._patiently(run_finish, self.claim, outcome)
        log.info("run.ended", run_id=str(self.claim.run_id), status=status, reason=reason)


def _find(claim: Claim, after: int, event: NewEvent) -> int | None:
    """Return the ``seq`` of ``event`` if it is in the log after ``after``; only this claim writes such."""
    rows = Event.objects.filter(
        thread_id=claim.thread_id, seq__gt=after, run_id=claim.run_id, type=event.type, data=event.data
    )
    return rows.order_by("seq").values_list("seq", flat=True).first()


def _told(result: events.Result) -> str:
    """Return what a list should show of an answer: the finding, where there is a report, not its title."""
    return result.report.summary if result.report else result.text


def _headline(text: str) -> str:
    """Return the first line with words of a markdown answer, without its heading marks."""
    return next((line.strip(" #*_`") for line in text.splitlines() if line.strip(" #*_`")), "")


@transaction.atomic
def _messages_delivered(claim: Claim, taken: list[tuple[UUID, str]]) -> None:
    """Record that the running turn took up messages, and say so to everybody.

    One that was extended after the turn took it up stays pending: the turn gets its new words.
    """
    now = clock.now()
    pending = Message.objects.filter(pk__in=[pk for pk, _ in taken], delivered_at__isnull=True)
    messages = [
        message
        for message in pending.order_by("created_at", "id").defer("alert")
        if (message.pk, message.text) in taken
    ]
    if not messages:
        return
    left = Message.objects.filter(thread_id=claim.thread_id, delivered_at__isnull=True).count() - len(messages)
    merged = events.MessageQueued(message_id=str(messages[-1].pk), text="", by="", pending_count=max(left, 0))
    append(
        thread_id=claim.thread_id,
        events=[new_event(EventType.MESSAGE_QUEUED, merged, run_id=claim.run_id)],
        fence=claim.fence,
    )
    for message in messages:
        pending.filter(pk=message.pk, text=message.text).update(delivered_at=now, run_id=claim.run_id)


def _internal_error() -> events.Error:
    return events.Error(
        code="runtime_error",
        message="The agent failed on our side; what it gathered is kept. A follow-up message tries again.",
        recoverable=True,
    )


def _no_result() -> events.Error:
    return events.Error(code="no_result", message="The agent ended without an answer.", recoverable=True)

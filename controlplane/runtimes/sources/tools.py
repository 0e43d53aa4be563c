"""The tools that query evidence: the same for every source, so that an agent learns them once."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from controlplane.configs.limits import Limits
from controlplane.runtimes.sources.drafts import (
    alert_draft,
    clip,
    event_draft,
    link_drafts,
    log_drafts,
    missing_draft,
    scenario_draft,
    series_draft,
    source_draft,
    state_draft,
    summary_draft,
)
from controlplane.runtimes.sources.recorded import RecordedSource
from controlplane.runtimes.sources.records import LEVEL_ORDER, Happening, Level
from controlplane.runtimes.sources.source import Query, Source
from controlplane.runtimes.toolbox import ActionGate, Draft, NoArguments, Tool, Toolbox, ToolOutput
from controlplane.runtimes.toolbox.tool import ToolArguments


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


Moment = Annotated[datetime, AfterValidator(_aware)]
Words = Annotated[str, Field(max_length=200)]


class Filter(ToolArguments):
    """What every query can be narrowed by."""

    object: Words = Field(
        "", description="Only records about objects whose name contains this (service, pod, database)."
    )
    text: Words = Field("", description="Only records that contain this text, in upper or lower case.")
    source: Words = Field("", description="Only from sources whose name contains this.")
    start: Moment | None = Field(None, description="Only from this time on (ISO 8601; UTC when no offset is given).")
    end: Moment | None = Field(None, description="Only up to this time.")
    offset: int = Field(0, ge=0, le=1_000_000, description="Leave out this many records first, to read on.")

    def query(self, least: Level = Level.DEBUG) -> Query:
        """Return the filter as sources understand it."""
        return Query(self.object, self.text, self.source, self.start, self.end, least)


class MetricsArguments(Filter):
    limit: int = Field(40, ge=1, le=100, description="At most this many metrics.")


class EventsArguments(Filter):
    limit: int = Field(60, ge=1, le=200, description="At most this many events.")


class LogsArguments(Filter):
    level: Literal["debug", "info", "warning", "error"] = Field("debug", description="Only lines at least this loud.")
    limit: int = Field(40, ge=1, le=200, description="At most this many patterns of lines.")


class StatesArguments(Filter):
    type: Words = Field("", description="Only states of this type: pod, deployment, node, monitor, query, waits.")
    limit: int = Field(80, ge=1, le=200, description="At most this many states.")


class TopologyArguments(Filter):
    limit: int = Field(200, ge=1, le=500, description="At most this many callers.")


class EvidenceTools:
    """The query tools over some sources."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources

    def tools(self) -> list[Tool]:
        """Return the tools, ready for a toolbox."""
        return [
            Tool(
                "list_evidence",
                "Say what evidence there is: the alert, what is known of the system, each source with its kinds of "
                "records, objects and time range, and what is missing. Call this first.",
                NoArguments,
                self._list,
                reads=False,
            ),
            Tool(
                "query_metrics",
                "Read metrics as time series, each with its extremes and up to 120 points.",
                MetricsArguments,
                self._metrics,
            ),
            Tool(
                "query_events",
                "Read events of the platform (restarts, failovers, scheduling, backups), oldest first. When there are "
                "more than the limit, warnings and failures come before routine.",
                EventsArguments,
                self._events,
            ),
            Tool(
                "query_logs",
                "Read log lines, grouped by pattern with counts, loudest first; then the lines themselves.",
                LogsArguments,
                self._logs,
            ),
            Tool(
                "get_states",
                "Read what objects are right now: pods, deployments, nodes, monitors, and a database's heaviest "
                "statements and waits.",
                StatesArguments,
                self._states,
            ),
            Tool(
                "service_topology",
                "Read which service calls which, one entry for each caller; narrowed by an object: what it calls and "
                "what calls it.",
                TopologyArguments,
                self._topology,
            ),
        ]

    async def _list(self, _: NoArguments) -> ToolOutput:
        drafts: list[Draft] = []
        names: list[str] = []
        # At once, since each live source takes its time; and before the contexts, which know then what failed.
        described = await asyncio.gather(*(source.describe() for source in self._sources))
        for source, infos in zip(self._sources, described, strict=True):
            context = source.context()
            if context.get("alert"):
                drafts.append(alert_draft(context["alert"]))
            if context.get("scenario"):
                drafts.append(scenario_draft(context["scenario"]))
            names += [info.name for info in infos]
            drafts += [source_draft(info) for info in infos]
            drafts += [missing_draft(name, why) for name, why in context.get("missing", {}).items()]
        if not drafts:
            return ToolOutput(
                text="There is no evidence: no alert, no recorded or connected source.", summary="no evidence"
            )
        missing = sum(
            1 for draft in drafts if isinstance(draft.value, Mapping) and draft.value.get("type") == "missing"
        )
        summary = f"{len(names)} source{'' if len(names) == 1 else 's'}" + (f", {missing} missing" if missing else "")
        return ToolOutput(observations=drafts, summary=summary, hint="Query single sources instead.")

    async def _metrics(self, wanted: MetricsArguments) -> ToolOutput:
        found, read = await self._gather(wanted.query(), lambda source: source.series)
        clipped = [part for series in found if (part := clip(series, wanted.start, wanted.end)) is not None]
        return await _answer(wanted, _Answer(clipped, read, "metric", series_draft))

    async def _events(self, wanted: EventsArguments) -> ToolOutput:
        found, read = await self._gather(wanted.query(), lambda source: source.happenings)
        ordered = _loudest(found, wanted.offset + wanted.limit)
        return await _answer(wanted, _Answer(ordered, read, "event", event_draft))

    async def _states(self, wanted: StatesArguments) -> ToolOutput:
        found, read = await self._gather(wanted.query(), lambda source: source.states)
        typed = [state for state in found if wanted.type.lower() in state.type]
        return await _answer(wanted, _Answer(typed, read, "state", state_draft))

    async def _topology(self, wanted: TopologyArguments) -> ToolOutput:
        found, read = await self._gather(wanted.query(), lambda source: source.links)
        drafts = link_drafts(found)
        return await _answer(wanted, _Answer(drafts, read, "caller", lambda draft: draft))

    async def _logs(self, wanted: LogsArguments) -> ToolOutput:
        found, read = await self._gather(wanted.query(Level(wanted.level)), lambda source: source.log_lines)
        patterns = await asyncio.to_thread(log_drafts, found)
        shown = patterns[wanted.offset : wanted.offset + wanted.limit]
        loud = sum(LEVEL_ORDER[line.level] >= LEVEL_ORDER[Level.WARNING] for line in found)
        drafts = [
            summary_draft(source, "log line", [line for line in found if line.source == source]) for source in read
        ]
        return ToolOutput(
            text=(f"{line.at.isoformat() if line.at else '-'} {line.object} {line.message}\n" for line in found),
            observations=[*drafts, *shown],
            summary=f"{len(found)} lines in {len(patterns)} patterns, {loud} at warning or above",
            hint=_hint("pattern", len(patterns), wanted),
            read=read,
        )

    async def _gather(
        self, query: Query, ask: Callable[[Source], Callable[[Query], Coroutine[Any, Any, Any]]]
    ) -> tuple[list[Any], tuple[str, ...]]:
        records: list[Any] = []
        read: list[str] = []
        for found in await asyncio.gather(*(ask(source)(query) for source in self._sources)):
            records += found.records
            read += found.read
        return records, tuple(dict.fromkeys(read))


def toolbox_for_snapshot(
    snapshot: Mapping[str, Any] | None, *, alert: Mapping[str, Any] | None, turn: int, limits: Limits
) -> Toolbox:
    """Return the tools of one turn over recorded evidence.

    Args:
        snapshot: a ``snapshot/1``, or ``None``: then there is only the alert to read.
        alert: the alert the thread began with; ``None`` falls back to the snapshot's own.
        turn: the thread's runs counted from 1.
        limits: of the run; ``tool_output_bytes`` bounds each answer.
    """
    return toolbox_for([RecordedSource(snapshot, alert=alert)], turn=turn, limits=limits)


def toolbox_for(
    sources: Sequence[Source],
    *,
    turn: int,
    limits: Limits,
    actions: Sequence[Tool] = (),
    gate: ActionGate | None = None,
) -> Toolbox:
    """Return the tools of one turn over some sources; arguments as :func:`toolbox_for_snapshot`.

    ``actions`` are tools with side effects, each of whose calls ``gate`` lets pass once, if a person approved it.
    """
    tools = [*EvidenceTools(sources).tools(), *actions]
    return Toolbox(tools, turn=turn, output_bytes=limits.tool_output_bytes, gate=gate)


_PAGE_HINT: Final = "Narrow by object, text, source or time"


@dataclass(frozen=True, slots=True)
class _Answer:
    """All records that fit, in order; the sources looked into; what to call a record; how it becomes an observation."""

    found: Sequence[Any]
    read: tuple[str, ...]
    word: str
    draft: Callable[[Any], Draft]


async def _answer(wanted: Any, answer: _Answer) -> ToolOutput:
    found, word = answer.found, answer.word
    page = found[wanted.offset : wanted.offset + wanted.limit]
    summaries = [
        summary_draft(source, word, [item for item in found if item.source == source]) for source in answer.read
    ]
    if wanted.object or wanted.text or wanted.start or wanted.end or getattr(wanted, "type", ""):
        summaries = []  # of a narrowed answer they would say less than is there
    drafts = await asyncio.to_thread(lambda: [answer.draft(item) for item in page])
    total, shown = len(found), len(page)
    rest = total - wanted.offset - shown
    summary = f"{shown} {word}{'' if shown == 1 else 's'}" + (f" of {total}" if total > shown else "")
    text = "" if answer.read else f"No source holds {word}s."
    if rest > 0:
        text = f"{rest} more {word}s. {_hint(word, total, wanted)}"
    return ToolOutput(text, [*summaries, *drafts], summary, _hint(word, total, wanted), answer.read)


def _hint(word: str, total: int, wanted: Any) -> str:
    following = wanted.offset + wanted.limit
    more = f", or read on with offset={following}" if total > following else ""
    return f"{_PAGE_HINT}{more} ({total:,} {word}s fit)."


def _loudest(events: Iterable[Happening], room: int) -> list[Happening]:
    """Return the events with the loud ones first if not all have room, else in their order."""
    listed = list(events)
    return listed if len(listed) <= room else sorted(listed, key=lambda event: -LEVEL_ORDER[event.level])

"""A snapshot as a source: recorded evidence that answers the same queries as a live system."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from controlplane.runtimes.sources.formats import format_of
from controlplane.runtimes.sources.records import Happening, Link, LogLine, Record, Series, Skipped, State
from controlplane.runtimes.sources.snapshot import missing_sources
from controlplane.runtimes.sources.source import Found, Query, SourceInfo

R = TypeVar("R", Series, Happening, LogLine, State, Link)

_LAST: Final = datetime.max.replace(tzinfo=UTC)
_NO_READER: Final = "its content has none of the known shapes, so it was not read"


@dataclass(frozen=True, slots=True)
class Part:
    """One named source, read. ``records`` has every kind it gives, also when there are none."""

    name: str
    format: str
    records: Mapping[type, Sequence[Any]]
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class _Reading:
    records: dict[type, list[Any]] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)


class RecordedSource:
    """The evidence of a ``snapshot/1`` (or none), read once, when first asked for, beside the event loop."""

    def __init__(self, snapshot: Mapping[str, Any] | None, *, alert: Mapping[str, Any] | None = None) -> None:
        self._snapshot = snapshot or {}
        self._alert = alert if alert is not None else self._snapshot.get("alert")
        self._parts: tuple[Part, ...] | None = None
        self._reading = asyncio.Lock()

    def context(self) -> Mapping[str, Any]:
        return {
            "alert": self._alert,
            "scenario": self._snapshot.get("scenario"),
            "missing": missing_sources(self._snapshot),
        }

    async def describe(self) -> Sequence[SourceInfo]:
        return [part_info(part) for part in await self._all()]

    async def series(self, query: Query) -> Found[Series]:
        return await self._find(Series, query, lambda series: (series.object, series.metric))

    async def happenings(self, query: Query) -> Found[Happening]:
        return await self._find(Happening, query, lambda event: (event.at.start if event.at else _LAST, event.object))

    async def log_lines(self, query: Query) -> Found[LogLine]:
        return await self._find(LogLine, query, lambda line: line.at or _LAST)

    async def states(self, query: Query) -> Found[State]:
        return await self._find(State, query, None)

    async def links(self, query: Query) -> Found[Link]:
        return await self._find(Link, query, lambda link: (link.object, link.callee))

    async def _find(self, kind: type[R], query: Query, order: Callable[[R], Any] | None) -> Found[R]:
        parts = [
            part
            for part in await self._all()
            if kind in part.records and (not query.source or query.source.lower() in part.name.lower())
        ]

        def select() -> list[R]:
            fitting = [record for part in parts for record in part.records[kind] if query.admits(record)]
            return sorted(fitting, key=order) if order else fitting

        return Found(await asyncio.to_thread(select), tuple(part.name for part in parts))

    async def _all(self) -> tuple[Part, ...]:
        async with self._reading:
            if self._parts is None:
                sources = self._snapshot.get("sources") or {}
                # In a thread: megabytes of samples take longer than the loop may be held.
                self._parts = tuple([await asyncio.to_thread(_read, name, value) for name, value in sources.items()])
            return self._parts


def _read(name: str, value: Any) -> Part:
    known = format_of(name, value)
    if known is None:
        return Part(name, "", {}, (_NO_READER,))
    reading = _Reading({kind: [] for kind in known.kinds})
    for record in known.read(name, value):
        if isinstance(record, Skipped):
            reading.skipped[record.reason] = reading.skipped.get(record.reason, 0) + record.count
        else:
            reading.records.setdefault(type(record), []).append(record)
    problems = tuple(
        f"skipped {reason}" + (f" ({count} times)" if count > 1 else "") for reason, count in reading.skipped.items()
    )
    return Part(name, known.name, reading.records, problems[:20])


def part_info(part: Part) -> SourceInfo:
    """Return what a source that was read holds."""
    records: list[Record] = [record for kind in part.records.values() for record in kind]
    times = [moment for record in records for moment in _times(record)]
    return SourceInfo(
        name=part.name,
        format=part.format,
        counts={_WORDS[kind]: len(found) for kind, found in part.records.items()},
        objects=tuple(dict.fromkeys(name for record in records for name in _named(record) if name)),
        start=min(times, default=None),
        end=max(times, default=None),
        problems=part.problems,
    )


_WORDS: Final[Mapping[type, str]] = {
    Series: "metrics",
    Happening: "events",
    LogLine: "log lines",
    State: "states",
    Link: "calls",
}


def _named(record: Record) -> tuple[str, ...]:
    return (record.object, record.callee) if isinstance(record, Link) else (record.object,)


def _times(record: Record) -> tuple[datetime, ...]:
    match record:
        case Series():
            return record.times[0], record.times[-1]
        case LogLine():
            return (record.at,) if record.at else ()
        case Link():
            return ()
        case _:
            return (record.at.start, record.at.end) if record.at else ()

"""What a source of evidence must answer, whether it replays a recording or asks a live system."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from controlplane.runtimes.sources.records import LEVEL_ORDER, Happening, Level, Link, LogLine, Record, Series, State

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Query:
    """Which records are wanted. ``object``, ``text`` and ``source`` match parts, in any case; empty matches all."""

    object: str = ""
    text: str = ""
    source: str = ""
    start: datetime | None = None
    end: datetime | None = None
    least: Level = Level.DEBUG

    def admits(self, record: Record) -> bool:
        """Return whether the record fits. Time of series, states and links is not looked at here."""
        if self.source and self.source.lower() not in record.source.lower():
            return False
        if self.object and not any(self.object.lower() in name.lower() for name in _names(record)):
            return False
        if isinstance(record, Happening | LogLine):
            if LEVEL_ORDER[record.level] < LEVEL_ORDER[self.least]:
                return False
            first, last = _span(record)
            if self.start is not None and last is not None and last < self.start:
                return False
            if self.end is not None and first is not None and first > self.end:
                return False
        return not self.text or self.text.lower() in _words(record).lower()


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """What a source holds. ``format`` is empty when its content has no reader; ``problems`` say what was skipped."""

    name: str
    format: str
    counts: Mapping[str, int] = field(default_factory=dict)
    objects: Sequence[str] = ()
    start: datetime | None = None
    end: datetime | None = None
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """The records that fit, and every source that was looked into for them."""

    records: Sequence[T]
    read: Sequence[str]


class Source(Protocol):
    """A place evidence comes from. Answers are complete; bounding them is the tools' work."""

    async def describe(self) -> Sequence[SourceInfo]:
        """Return what there is, one entry for each named source."""

    async def series(self, query: Query) -> "Found[Series]":
        """Return the metrics whose object and name fit."""

    async def happenings(self, query: Query) -> "Found[Happening]":
        """Return the events that fit, oldest first."""

    async def log_lines(self, query: Query) -> "Found[LogLine]":
        """Return the log lines that fit, oldest first."""

    async def states(self, query: Query) -> "Found[State]":
        """Return the states that fit."""

    async def links(self, query: Query) -> "Found[Link]":
        """Return which object calls which, where either fits."""

    def context(self) -> Mapping[str, Any]:
        """Return ``alert``, ``scenario`` (objects or ``None``) and ``missing`` (what could not be read, and why)."""


def _names(record: Record) -> tuple[str, ...]:
    return (record.object, record.callee) if isinstance(record, Link) else (record.object,)


def _span(record: Happening | LogLine) -> tuple[datetime | None, datetime | None]:
    if isinstance(record, LogLine):
        return record.at, record.at
    return (record.at.start, record.at.end) if record.at else (None, None)


def _words(record: Record) -> str:
    match record:
        case Series():
            return f"{record.metric} {record.object}"
        case Happening():
            return f"{record.reason} {record.message} {record.object}"
        case LogLine():
            return f"{record.message} {record.object}"
        case State():
            return f"{record.type} {record.text} {record.object}"
        case Link():
            return f"{record.object} {record.callee}"

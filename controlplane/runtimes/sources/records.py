"""What sources read, before a tool turns it into observations: the same few shapes whatever the vendor."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from controlplane.runtimes.evidence import TimeRange


class Level(StrEnum):
    """How loud a record is; ordered by :data:`LEVEL_ORDER`."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LEVEL_ORDER = {Level.DEBUG: 0, Level.INFO: 1, Level.WARNING: 2, Level.ERROR: 3}


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of one object. ``times`` ascend and are aware; ``values`` are finite and as many.

    ``query`` is what a live source was asked (PromQL), for a person to ask again; empty for recorded evidence.
    """

    source: str
    object: str
    metric: str
    times: tuple[datetime, ...]
    values: tuple[float, ...]
    unit: str = ""
    statistic: str = ""
    query: str = ""


@dataclass(frozen=True, slots=True)
class Happening:
    """An event: something said to have happened to ``object``, ``count`` times within ``at``."""

    source: str
    object: str
    message: str
    at: TimeRange | None = None
    reason: str = ""
    level: Level = Level.INFO
    count: int = 1


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log; ``at`` is ``None`` when the line bears no time."""

    source: str
    object: str
    message: str
    at: datetime | None = None
    level: Level = Level.INFO


@dataclass(frozen=True, slots=True)
class State:
    """What an object was when the source was recorded. ``type`` says which facts to expect:

    ``pod``, ``deployment``, ``node``, ``monitor``, ``query`` (a statement and its load), ``waits``, ``load_share``.
    """

    source: str
    object: str
    type: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    at: TimeRange | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A dependency: ``object`` (the caller) calls ``callee``."""

    source: str
    object: str
    callee: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """A part of a source that could not be read, and why; ``count`` parts with the same reason."""

    reason: str
    count: int = 1


Record = Series | Happening | LogLine | State | Link

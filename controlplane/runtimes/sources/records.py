"""What sources read, before a tool turns it into observations: the same few shapes whatever the vendor."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from statistics import median
from typing import Any, Final

from controlplane.runtimes.evidence import TimeRange

_LEAST_NORMAL: Final = 5
_SIGMA: Final = 1.4826  # the median absolute deviation of a normal distribution is sigma / 1.4826


class Level(StrEnum):
    """How loud a record is; ordered by :data:`LEVEL_ORDER`."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LEVEL_ORDER = {Level.DEBUG: 0, Level.INFO: 1, Level.WARNING: 2, Level.ERROR: 3}


@dataclass(frozen=True, slots=True)
class Baseline:
    """How a metric runs in normal operation, in its own unit.

    ``median`` and ``mean`` (of the samples between ``low`` and ``high``) are its level, ``spread`` the robust standard
    deviation around it, ``low`` and ``high`` the 1st and 99th percentile of ``samples`` samples.
    """

    median: float
    mean: float
    spread: float
    low: float
    high: float
    samples: int


def baseline_of(values: Iterable[float]) -> Baseline | None:
    """Return the baseline that samples of normal operation make; ``None`` for fewer than five, or out of range."""
    ordered = sorted(values)
    if len(ordered) < _LEAST_NORMAL:
        return None
    middle = median(ordered)
    low, high = (ordered[round(share * (len(ordered) - 1))] for share in (0.01, 0.99))
    spread = _SIGMA * median(abs(value - middle) for value in ordered)
    mean = sum(min(max(value, low), high) for value in ordered) / len(ordered)
    if not all(map(math.isfinite, (middle, mean, spread))):
        return None  # figures near the end of what a float holds
    return Baseline(middle, mean, spread, low, high, len(ordered))


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
    baseline: Baseline | None = None


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

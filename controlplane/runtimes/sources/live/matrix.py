"""Answers of range queries as series: gaps left out and counted, the most telling series kept, a baseline beside."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from statistics import median
from typing import Any, Final

from controlplane.runtimes.loose_json import items, mapping, number, text
from controlplane.runtimes.sources.live.bounds import (
    END_OF_TIME_S,
    MOST_POINTS_KEPT,
    MOST_SAMPLES,
    first_of,
    labels_of,
)
from controlplane.runtimes.sources.live.promql import Expression
from controlplane.runtimes.sources.live.scope import Scope, Window
from controlplane.runtimes.sources.live.source import Reading
from controlplane.runtimes.sources.records import Baseline, Series

MOST_SERIES: Final = 100
_MOST_SCOPED: Final = 30  # of one expression about the alert's object
_MOST_OTHER: Final = 12
_NAME: Final = "__name__"
_UNTELLING: Final = frozenset({_NAME, "prometheus", "prometheus_replica", "endpoint", "monitor", "replica"})

Key = tuple[str, frozenset[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Sampled:
    """One series of an answer."""

    expression: Expression
    labels: Mapping[str, str]
    times: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def key(self) -> Key:
        """What tells the series from all others of a turn, and what it has in common with itself a day before."""
        return self.expression.query, frozenset(self.labels.items())

    @property
    def object(self) -> str:
        return next((self.labels[name] for name in self.expression.objects if self.labels.get(name)), "")

    @property
    def metric(self) -> str:
        return self.expression.name or self.labels.get(_NAME, "")


def read_matrix(data: Any, expression: Expression, window: Window, reading: Reading | None) -> list[Sampled]:
    """Return the series of a range query's ``data``.

    Samples that are no finite number or of no time, and steps without a sample, are left out and counted as problems in
    ``reading``; so is what goes beyond the bounds of labels and samples.
    """
    found = []
    telling = (_NAME, *expression.objects, *expression.details)
    for item in items(mapping(data).get("result")):
        labels = labels_of(mapping(item).get("metric"), reading, first=telling)
        listed = items(mapping(item).get("values"))
        raw = first_of(listed[::-1], MOST_POINTS_KEPT, "older sample of one series", reading)[::-1]
        finite = [sample for pair in raw if (sample := _sample(pair)) is not None]
        samples = [sample for sample in finite if 0 <= sample[0] < END_OF_TIME_S]
        if reading is not None:
            if len(samples) < len(finite):
                reading.problem(
                    "sample left out whose time is none (outside of 1970 to 9999)", len(finite) - len(samples)
                )
            _count_gaps(reading, len(raw) - len(finite), [at for at, _ in samples], window)
        if samples:
            times, values = zip(*samples, strict=True)
            found.append(Sampled(expression, labels, times, values))
    return found


def _sample(pair: Any) -> tuple[float, float] | None:
    try:
        at, value = float(pair[0]), float(pair[1])
    except (TypeError, ValueError, IndexError, KeyError):
        return None
    return (at, value) if isfinite(at) and isfinite(value) else None


def _count_gaps(reading: Reading, lost: int, times: Sequence[float], window: Window) -> None:
    if lost:
        reading.problem("sample left out that is no finite number (NaN, Inf)", lost)
    if not times:
        return
    gaps = round((times[-1] - times[0]) / window.step_s) + 1 - len(times) - lost
    if gaps > 0:
        reading.problem("step without a sample left out (a failed scrape, a stale series)", gaps)
    if window.end.timestamp() - times[-1] > 2 * window.step_s:
        reading.problem("series ends before the time asked about does")


def ranked(answer: Sequence[Sampled], scope: Scope) -> list[Sampled]:
    """Return the series of an answer: the objects of the alert first, then what moved most."""
    return sorted(answer, key=lambda one: (not scope.names(one.object), -_moved(one.values)))


def chosen(answers: Iterable[Sequence[Sampled]]) -> tuple[list[Sampled], int]:
    """Return at most 100 series, and how many were left out.

    Args:
        answers: each ranked, in order of importance.
    """
    kept: list[Sampled] = []
    left_out = 0
    seen: set[Key] = set()
    for answer in answers:
        fresh = [one for one in answer if (one.metric, one.key[1]) not in seen]
        most = _MOST_SCOPED if fresh and fresh[0].expression.scope else _MOST_OTHER
        room = min(most, MOST_SERIES - len(kept))
        kept += fresh[:room]
        left_out += max(len(fresh) - room, 0)
        seen.update((one.metric, one.key[1]) for one in fresh[:room])
    return kept, left_out


def _moved(values: Sequence[float]) -> float:
    """Return how far the last quarter is from what came before, against how much the series varies anyway."""
    if len(values) < 4:
        return 0.0
    cut = len(values) - len(values) // 4
    before = median(values[:cut])
    spread = median(abs(value - before) for value in values[:cut])
    scale = spread + 0.01 * max(abs(before), abs(values[-1])) + 1e-9
    return min(abs(median(values[cut:]) - before) / scale, 1e6)


def as_series(source: str, kept: Sequence[Sampled], baselines: Mapping[Key, Baseline]) -> list[Series]:
    """Return the records of the chosen series; labels that tell series of one object apart are in ``statistic``."""
    groups: dict[tuple[str, str], list[Sampled]] = {}
    for one in kept:
        groups.setdefault((one.metric, one.object), []).append(one)
    telling = {key: _telling(group) for key, group in groups.items()}
    return [
        Series(
            source=source,
            object=one.object,
            metric=one.metric,
            times=tuple(datetime.fromtimestamp(at, UTC) for at in one.times),
            values=one.values,
            unit=_unit(one),
            statistic=", ".join(
                part for part in (one.expression.statistic, _details(one, telling[one.metric, one.object])) if part
            ),
            query=_query(one),
            baseline=baselines.get(one.key),
        )
        for one in kept
    ]


def _unit(one: Sampled) -> str:
    return (one.expression.units or {}).get(one.metric, one.expression.unit)


def _telling(group: Sequence[Sampled]) -> set[str]:
    """Return the labels that tell the series of a group apart."""
    values: dict[str, set[str]] = {}
    counts: Counter[str] = Counter()
    for name, value in (pair for one in group for pair in one.labels.items() if pair[1]):
        values.setdefault(name, set()).add(value)
        counts[name] += 1
    return {name for name, found in values.items() if len(found) > 1 or counts[name] < len(group)}


def _details(one: Sampled, telling: set[str]) -> str:
    names = telling.union(one.expression.details)
    shown = sorted(name for name in names - _UNTELLING if one.labels.get(name))
    return ", ".join(f"{name} {one.labels[name]}" for name in shown)[:200]


def _query(one: Sampled) -> str:
    """Return the expression that gives this series: of several gauges read at once, the one."""
    if one.expression.name:
        return one.expression.query
    scope = one.expression.scope
    return f"{one.metric}{{{scope}}}" if scope else one.metric


def scalar_of(data: Any) -> float | None:
    """Return the number of a scalar answer, or of a vector's first sample."""
    result = items(mapping(data).get("result"))
    if mapping(data).get("resultType") != "scalar":
        result = items(mapping(result[0]).get("value")) if result else ()
    return number(result[1]) if len(result) == 2 else None


def moment_at(seconds: float | None) -> datetime | None:
    """Return the time of Unix seconds; ``None`` for zero, and outside of the years 1970 to 9999."""
    return datetime.fromtimestamp(seconds, UTC) if seconds and 0 < seconds < END_OF_TIME_S else None


def vector_of(
    data: Any, reading: Reading | None = None, *, most: int = MOST_SAMPLES
) -> list[tuple[dict[str, str], float]]:
    """Return the samples of an instant query's answer, those with a finite value, at most ``most`` of all."""
    found = []
    for item in first_of(items(mapping(data).get("result")), most, "sample of an answer", reading):
        pair = items(mapping(item).get("value"))
        value = number(pair[1]) if len(pair) == 2 else None
        if value is not None:
            found.append((labels_of(mapping(item).get("metric"), reading), value))
    return found


_VERSION: Final = re.compile(r"[\w.+-]{1,60}")


def version_in(data: Any) -> str:
    """Return the version that a build information answer states, ``""`` if none."""
    version = text(mapping(data).get("version"))
    return version if _VERSION.fullmatch(version) else ""

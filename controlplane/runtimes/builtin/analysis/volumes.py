"""What an object's trouble adds up to: seconds its callers waited longer, requests of theirs that failed.

Trouble of one request says little by itself: a callee that is ten times slower but called once explains nothing. So
every deviation is weighted by traffic. Volumes of caller and callee are then in the same unit and can be set off
against each other.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import takewhile
from math import sqrt
from statistics import fmean, median
from typing import Final

from controlplane.runtimes.builtin.analysis.facts import MetricFact
from controlplane.runtimes.signals.changepoints import change_point, deviation
from controlplane.runtimes.signals.measures import Measure, measure_of, name_words

_LEAST_DEVIATION: Final = 2.5  # of a latency, in robust standard deviations of normal operation
_LEAST_SPREAD: Final = 0.05  # of a latency: a metric that never moved may still move by so much without a fault
_LEAST_SIGMAS: Final = 3.0  # of failed requests, in standard deviations of a Poisson process
_LEAST_FACTOR: Final = 2.0  # of failed requests: that many times the usual
_SPIKE: Final = 3.0
_LEAST_NORMAL: Final = 3  # samples before the alert that can stand for normal operation
_SCALES: Final = {
    **dict.fromkeys(("milliseconds", "ms"), 1e-3),
    **dict.fromkeys(("microseconds", "us", "µs"), 1e-6),
    **dict.fromkeys(("nanoseconds", "ns"), 1e-9),
}
_MOST_SHARE: Final = 1.001  # of requests that succeed: a little more is rounding
#: Words in the name of a metric that is about a device of the object and not about requests to it.
_DEVICES: Final = frozenset({"read", "write", "disk", "io", "volume", "commit", "fsync", "network", "interface"})
_LEAD: Final = timedelta(minutes=15)
_LEAST_DURING: Final = 2
_LEAST_FAILING: Final = 0.01
_SHARE_UNITS: Final = frozenset({"percent", "%", "percentage", "ratio"})
_SHARE_WORDS: Final = frozenset({"rate", "ratio", "share", "percent", "percentage", "fraction"})
_MEANS: Final = frozenset({"average", "avg", "mean"})


class Trouble(StrEnum):
    """What goes wrong with requests."""

    SLOW = "slow"
    FAILING = "failing"


_MEASURES: Final[Mapping[Trouble, tuple[Measure, ...]]] = {
    Trouble.SLOW: (Measure.LATENCY,),
    Trouble.FAILING: (Measure.AVAILABILITY, Measure.ERRORS),
}


@dataclass(frozen=True, slots=True)
class Traffic:
    """The requests an object serves, all series of one metric together: per sample, or per second by its unit."""

    ids: tuple[str, ...]
    metric: str
    unit: str
    times: tuple[datetime, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Volume:
    """The trouble of one object over the incident.

    ``excess`` is what there is beyond normal operation: seconds waited, or requests failed; ``total`` includes what is
    normal. ``usual`` and ``level`` are per request: seconds, or a share of 0 to 1. ``is_new`` marks an object that
    normal operation does not have although it has others.
    """

    fact: MetricFact
    traffic: Traffic | None
    excess: float
    total: float
    usual: float
    level: float
    significant: bool
    is_new: bool
    onset: datetime

    @property
    def object(self) -> str:
        return self.fact.object

    @property
    def ids(self) -> tuple[str, ...]:
        """The observations it rests on."""
        return (self.fact.id,) if self.traffic is None else (self.fact.id, *self.traffic.ids)


def volumes(
    metrics: Sequence[MetricFact], trouble: Trouble, *, statistic: str = "", since: datetime | None = None
) -> dict[str, Volume]:
    """Return the volume of each object that has a metric of such trouble and is in use.

    Args:
        metrics: all metrics there are; traffic is found among them.
        trouble: of what kind.
        statistic: the one the alert speaks of; preferred where an object has several.
        since: when the alert began; what lies before it is normal where no normal operation was recorded.
    """
    chosen = _chosen(metrics, trouble, statistic.lower())
    traffic = _traffic(metrics)
    recorded = any(fact.baseline is not None for fact in chosen.values())
    found = (_volume(fact, _served(fact, traffic.get(name, ())), recorded, since) for name, fact in chosen.items())
    return {volume.object: volume for volume in found if volume is not None}


def _chosen(metrics: Sequence[MetricFact], trouble: Trouble, statistic: str) -> dict[str, MetricFact]:
    """Return the metric to judge each object by: of the statistic asked for, else a mean, which adds up."""
    ranked: dict[str, tuple[tuple[bool, bool, int], MetricFact]] = {}
    for fact in metrics:
        measure = measure_of(fact.metric)
        if measure not in _MEASURES[trouble] or not _DEVICES.isdisjoint(name_words(fact.metric)):
            continue
        if measure is Measure.AVAILABILITY and not _is_share(fact):
            continue
        named = fact.statistic.lower().partition(",")[0]  # what follows tells series of one object apart
        rank = (not statistic or named != statistic, named not in _MEANS, _MEASURES[trouble].index(measure))
        if fact.object not in ranked or rank < ranked[fact.object][0]:
            ranked[fact.object] = rank, fact
    return {name: fact for name, (_, fact) in ranked.items()}


def _traffic(metrics: Sequence[MetricFact]) -> dict[str, list[Traffic]]:
    """Return the request metrics of each object; series of the same metric (of routes, say) are added up."""
    groups: dict[tuple[str, str, str], list[MetricFact]] = {}
    for fact in metrics:
        if measure_of(fact.metric) is Measure.TRAFFIC and _DEVICES.isdisjoint(name_words(fact.metric)):
            groups.setdefault((fact.object, fact.metric, fact.unit.lower()), []).append(fact)
    found: dict[str, list[Traffic]] = {}
    for (object_, metric, unit), series in groups.items():
        sums: dict[datetime, float] = {}
        for fact in series:
            for at, value in zip(fact.times, fact.values, strict=True):
                sums[at] = sums.get(at, 0.0) + max(value, 0.0)
        times = tuple(sorted(sums))
        ids = tuple(fact.id for fact in series)
        found.setdefault(object_, []).append(Traffic(ids, metric, unit, times, tuple(sums[at] for at in times)))
    return found


def _served(fact: MetricFact, traffic: Sequence[Traffic]) -> Traffic | None:
    """Return the traffic that a metric is about: of several, the one named most alike, then the largest."""
    words = name_words(fact.metric)

    def alike(one: Traffic) -> tuple[int, float]:
        pairs = zip(words, name_words(one.metric), strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)), sum(one.values)

    return max(traffic, key=alike, default=None)


def _is_share(fact: MetricFact) -> bool:
    """Return whether an availability is a share of the requests; a count of successes tells nothing by itself."""
    known = fact.baseline
    values = (fact.low, fact.high) if known is None else (fact.low, fact.high, known.low, known.high)
    return all(0.0 <= 1.0 - _bad(fact, value) <= _MOST_SHARE for value in values)


def _volume(fact: MetricFact, traffic: Traffic | None, recorded: bool, since: datetime | None) -> Volume | None:
    is_new = recorded and fact.baseline is None
    normal = (0.0, 0.0) if is_new else _normal(fact, since)
    begin = _begin(fact, since)
    weights = _weights(fact, traffic)[begin:]
    weight = sum(weights)
    if normal is None or weight <= 0:
        return None
    usual, spread = normal
    bad = [_bad(fact, value) for value in fact.values[begin:]]
    extra = [share * (value - usual) for share, value in zip(weights, bad, strict=True)]
    excess, expected = sum(_without_spike(extra)), usual * weight
    disturbed = _disturbed(extra)
    carried = sum(weights[place] for place in disturbed)
    return Volume(
        fact,
        traffic,
        excess=max(excess, 0.0),
        total=max(expected + excess, 0.0),
        usual=usual,
        level=sum(weights[place] * bad[place] for place in disturbed) / carried if carried > 0 else usual,
        significant=_is_significant(fact, traffic, excess, expected, weight, spread),
        is_new=is_new,
        onset=fact.times[begin + (disturbed[0] if disturbed else 0)],
    )


def _begin(fact: MetricFact, since: datetime | None) -> int:
    """Return the first sample of the incident: an alert comes minutes after what it tells of.

    Without an alert it begins where the series changes its level. What lies before would only thin the trouble out.
    """
    if since is None:
        change = change_point(fact.values)
        return change.index if change is not None else 0
    begin = next((place for place, at in enumerate(fact.times) if at >= since - _LEAD), len(fact.times))
    return begin if len(fact.times) - begin >= _LEAST_DURING else 0


def _bad(fact: MetricFact, value: float) -> float:
    """Return a value as what is bad about a request: seconds, or the share of failures; a count of failures stays."""
    measure, unit = measure_of(fact.metric), fact.unit.lower()
    if measure is Measure.LATENCY:
        return value * _SCALES.get(unit, 1.0)
    in_percent = unit in ("percent", "%", "percentage") or "percent" in name_words(fact.metric)
    share = value / 100 if in_percent else value
    return 1.0 - share if measure is Measure.AVAILABILITY else share


def is_count(fact: MetricFact) -> bool:
    """Return whether a metric of failures counts them, rather than being their share of the requests."""
    if measure_of(fact.metric) is not Measure.ERRORS or fact.unit.lower() in _SHARE_UNITS:
        return False
    named = not _SHARE_WORDS.isdisjoint(name_words(fact.metric))
    return not (named and not fact.unit and 0.0 <= _bad(fact, fact.low) <= _bad(fact, fact.high) <= 1.0)


def _normal(fact: MetricFact, since: datetime | None) -> tuple[float, float] | None:
    """Return the usual level and the spread around it; ``None`` when nothing tells what is normal."""
    known = fact.baseline
    if known is not None:
        # Failures come in few samples, so that their median is often zero; a latency's mean follows its outliers.
        level = known.median if measure_of(fact.metric) is Measure.LATENCY else known.mean
        return _bad(fact, level), abs(_bad(fact, level + known.spread) - _bad(fact, level))
    before = list(fact.values[: _begin(fact, since)]) if since is not None else []
    change = change_point(fact.values)
    if change is not None and change.index >= _LEAST_NORMAL:
        before = list(fact.values[: change.index])
    if len(before) < _LEAST_NORMAL:
        return None
    bad = [_bad(fact, value) for value in before]
    return (median(bad) if measure_of(fact.metric) is Measure.LATENCY else fmean(bad)), deviation(bad)


def _weights(fact: MetricFact, traffic: Traffic | None) -> list[float]:
    """Return the requests behind each sample; 1 each where no traffic is known or failures are counted already."""
    counted = is_count(fact)
    if traffic is None or counted:
        step = _step_s(fact) if counted and _per_second(fact.unit.lower()) else 1.0
        return [step] * len(fact.values)
    # What the traffic counts is per second or per sample of its own; what is wanted is per sample of the metric.
    scale = _step_s(fact) if _per_second(traffic.unit.lower()) else _step_s(fact) / _step_s(traffic)
    return [max(_nearest(traffic, at), 0.0) * scale for at in fact.times]


def _nearest(fact: Traffic, at: datetime) -> float:
    """Return the sample nearest to a time, 0 where none is within a step of it."""
    place = bisect_left(fact.times, at)
    near = [index for index in (place - 1, place) if 0 <= index < len(fact.times)]
    best = min(near, key=lambda index: abs(fact.times[index] - at))
    return fact.values[best] if abs(fact.times[best] - at).total_seconds() <= _step_s(fact) else 0.0


def _per_second(unit: str) -> bool:
    return unit.endswith(("/s", "/second", "per second"))


def _step_s(fact: MetricFact | Traffic) -> float:
    if len(fact.times) < 2:
        return 1.0
    return (fact.times[-1] - fact.times[0]).total_seconds() / (len(fact.times) - 1)


def _without_spike(extra: Sequence[float]) -> list[float]:
    """Return the excesses with the largest cut to three times the next: what lasts one sample decides nothing alone."""
    if len(extra) < 2:
        return list(extra)
    most = max(_SPIKE * sorted(extra)[-2], 0.0)
    return [min(value, most) for value in extra]


def _is_significant(
    fact: MetricFact, traffic: Traffic | None, excess: float, expected: float, weight: float, spread: float
) -> bool:
    if measure_of(fact.metric) is Measure.LATENCY:
        return _is_slow(excess / weight, expected / weight, spread)
    if traffic is None and not is_count(fact):
        # Of how many requests it is a share, nobody knows: it is judged like a level, and a hundredth is the least.
        enough = max(_LEAST_DEVIATION * spread, _LEAST_FAILING)
        return excess / weight >= enough and expected + excess >= _LEAST_FACTOR * expected
    return _is_failing(excess, expected)


def _is_slow(excess: float, usual: float, spread: float) -> bool:
    return excess >= _LEAST_DEVIATION * max(spread, _LEAST_SPREAD * usual) and excess > 0


def _is_failing(excess: float, expected: float) -> bool:
    return excess >= _LEAST_SIGMAS * sqrt(max(expected, 0.0) + 1) and expected + excess >= _LEAST_FACTOR * expected


def _disturbed(extra: Sequence[float]) -> list[int]:
    """Return the samples in which the excess is a good part of the most it ever is."""
    most = max(extra, default=0.0)
    return [place for place, value in enumerate(extra) if value >= most / 3] if most > 0 else []

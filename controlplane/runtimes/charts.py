"""Metric evidence as charts: what an observation's value shows, for the eye and in words.

Values come from sources nobody vouches for: what cannot be drawn is left out, and no value makes this fail.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any, Final

from controlplane.runtimes.evidence import JsonValue
from controlplane.runtimes.loose_json import items, mapping, moment, number
from controlplane.runtimes.signals.changepoints import change_point, ramp_start, trend
from controlplane.runtimes.sources.figures import clock, figure, plain

MAX_SAMPLES: Final = 1_000
#: Beyond these no metric is real; sums and differences of samples stay finite and above zero.
_HUGEST: Final = 1e100
_LEAST: Final = 1e-100
_USUAL_STEP_S: Final = 60.0
_LEAST_RAMP: Final = 5
_PEAK_SHARE: Final = 0.75  # of the whole range: an extreme so far from the median stands out
_RAMP_TREND: Final = 0.9  # Kendall's tau: all but a few pairs of samples lie the same way


@dataclass(frozen=True, slots=True)
class Change:
    """A lasting change of level: from when, and the medians before and after, in the chart's unit.

    ``ramp`` is whether the metric has kept moving the same way ever since; ``after`` is its last value then.
    """

    at: datetime
    before: float
    after: float
    ramp: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """Between which values a metric lies in normal operation, and its median then."""

    low: float
    high: float
    median: float


@dataclass(frozen=True, slots=True)
class Chart:
    """A metric over time. ``times`` ascend, are distinct and in UTC; ``values`` are finite and as many, at least two.

    ``query`` is what a live source was asked, or ``""``.
    """

    object: str
    metric: str
    unit: str
    statistic: str
    query: str
    times: tuple[datetime, ...]
    values: tuple[float, ...]
    change: Change | None
    band: Band | None

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)

    @property
    def low_at(self) -> datetime:
        return self.times[self.values.index(self.low)]

    @property
    def high_at(self) -> datetime:
        return self.times[self.values.index(self.high)]

    @property
    def name(self) -> str:
        """What is measured of what: ``CPUUtilization of db-1``."""
        return f"{self.metric} of {self.object}" if self.object else self.metric

    @property
    def course(self) -> str:
        """What the line does, in words that follow the name: ``rose from 40 % to 99 % at 08:12`` (UTC)."""
        return " ".join(filter(None, self._course()))

    @property
    def normal(self) -> str:
        """The band in words, ``38 % to 42 %``, or ``""``."""
        if self.band is None:
            return ""
        low, high = self.figure(self.band.low), self.figure(self.band.high)
        return low if low == high else f"{low} to {high}"

    @property
    def words(self) -> str:
        """Everything a person sees in the chart, as one sentence without its full stop."""
        zone = " UTC" if self._course()[1] else ""
        return f"{self.name} {self.course}{zone}" + (f"; normal is {self.normal}" if self.band else "")

    def figure(self, value: float) -> str:
        """Return a value with its unit, for text."""
        words = figure(value + 0.0, self.unit)  # + 0.0 takes the sign off a negative zero
        return words if len(words) <= 40 else f"{value:.2e} {self.unit}".strip()

    def tick(self, value: float) -> str:
        """Return a value for the axis: at most eleven characters, so perhaps without its unit."""
        value += 0.0
        for words in (figure(value, self.unit), plain(value)):
            if len(words) <= 11:
                return words
        return f"{value:.2e}"

    def time(self, at: datetime) -> str:
        """Return a time of the chart in UTC, with the day when the chart runs over several."""
        return clock(at) if self.times[0].date() == self.times[-1].date() else f"{at.day} {at:%b} {clock(at)}"

    def _course(self) -> tuple[str, str]:
        """Return what the line does, and when; ``""`` where no time stands out."""
        change = self.change
        if change is not None:
            way = "rose" if change.after > change.before else "fell"
            before, after = self._levels(change.before, change.after)
            at = self.time(change.at)
            until = f"between {at} and {self.time(self.times[-1])}" if change.ramp else f"at {at}"
            return f"{way} from {before} to {after}", until
        if self.low == self.high:
            return f"stayed at {self.figure(self.low)}", ""
        low, high = self._levels(self.low, self.high)
        when = ""
        if self.high - median(self.values) >= _PEAK_SHARE * (self.high - self.low):
            when = f"highest at {self.time(self.high_at)}"
        elif median(self.values) - self.low >= _PEAK_SHARE * (self.high - self.low):
            when = f"lowest at {self.time(self.low_at)}"
        return f"ran between {low} and {high}" + ("," if when else ""), when

    def _levels(self, one: float, other: float) -> tuple[str, str]:
        """Return two figures; with more digits where three do not tell them apart."""
        pair = self.figure(one), self.figure(other)
        if pair[0] == pair[1] and one != other:
            after_number = figure(0.0, self.unit)[1:]
            return f"{one:,.7g}{after_number}", f"{other:,.7g}{after_number}"
        return pair


def chart_of(value: JsonValue, *, object: str) -> Chart | None:  # noqa: A002 (the name observations have for it)
    """Return the chart of a metric observation, or ``None`` if its value is no series of at least two samples.

    Args:
        value: as :func:`controlplane.runtimes.sources.drafts.series_draft` makes it; anything is accepted.
        object: what the observation is about.
    """
    facts = mapping(value)
    samples = _samples(facts)
    if len(samples) < 2:
        return None
    times = sorted(samples)
    change = _change(times, [samples[at] for at in times])
    samples |= _extremes(facts, samples)
    times = sorted(samples)
    return Chart(
        object=_words(object, 200),
        metric=_words(facts.get("metric"), 200) or "Metric",
        unit=_words(facts.get("unit"), 24),
        statistic=_words(facts.get("statistic"), 40),
        query=_words(facts.get("query"), 1_000),
        times=tuple(times),
        values=tuple(samples[at] for at in times),
        change=change,
        band=_band(mapping(facts.get("baseline"))),
    )


def chart_rows(chart: Chart, most: int = 24) -> list[tuple[datetime, float, bool]]:
    """Return time, value and "here it changed" of at most ``most`` samples: the ends, the extremes, closely around the
    change, the others evenly."""
    count = len(chart.times)
    changed = None if chart.change is None else chart.times.index(chart.change.at)
    if count <= most:
        kept = set(range(count))
    else:
        kept = {0, count - 1, chart.values.index(chart.low), chart.values.index(chart.high)}
        if changed is not None:
            kept |= set(range(max(0, changed - 4), min(count, changed + 4)))
        even = most - len(kept)
        kept |= {round((place + 0.5) * (count - 1) / even) for place in range(even)}
    return [(chart.times[place], chart.values[place], place == changed) for place in sorted(kept)]


def _samples(facts: Mapping[str, Any]) -> dict[datetime, float]:
    """Return the samples that have a time and a value; of several at the same time the last."""
    start, listed = moment(facts.get("start")), items(facts.get("values"))[:MAX_SAMPLES]
    if start is None:
        return {}
    offsets: Sequence[Any] = items(facts.get("offsets_s"))
    if len(offsets) < len(listed):
        step = number(facts.get("step_s"))
        offsets = [index * (_USUAL_STEP_S if step is None else step) for index in range(len(listed))]
    found: dict[datetime, float] = {}
    for offset, item in zip(offsets, listed, strict=False):
        at, sample = _later(start, number(offset)), _sample(item)
        if at is not None and sample is not None:
            found[at] = sample
    return found


def _change(times: Sequence[datetime], values: Sequence[float]) -> Change | None:
    """Return what the built-in runtime dates too: where a ramp begins, else where the level changes."""
    ramp, found = ramp_start(values), change_point(values)
    if ramp is not None:
        return Change(times[ramp[0]], values[0], values[-1], ramp=True)
    if found is None:
        return None
    since = values[found.index :]
    way = 1 if found.after > found.before else -1
    if len(since) >= _LEAST_RAMP and way * trend(since) >= _RAMP_TREND and way * (since[-1] - found.after) > 0:
        return Change(times[found.index], found.before, since[-1], ramp=True)
    return Change(times[found.index], found.before, found.after)


def _extremes(facts: Mapping[str, Any], samples: Mapping[datetime, float]) -> dict[datetime, float]:
    """Return the extremes where the samples lack them: a long series is thinned, and its peaks go first."""
    first, last, low, high = min(samples), max(samples), min(samples.values()), max(samples.values())
    found: dict[datetime, float] = {}
    for name in ("min", "max"):
        sample, at = _sample(facts.get(name)), moment(facts.get(f"{name}_at"))
        if sample is not None and at is not None and first <= at <= last and not low <= sample <= high:
            found[at] = sample
    return found


def _band(facts: Mapping[str, Any]) -> Band | None:
    low, high, centre = (_sample(facts.get(name)) for name in ("low", "high", "median"))
    if low is None or high is None or low > high:
        return None
    return Band(low, high, centre if centre is not None and low <= centre <= high else (low + high) / 2)


def _sample(item: Any) -> float | None:
    value = number(item)
    if value is None or abs(value) > _HUGEST:
        return None
    return 0.0 if abs(value) < _LEAST else value


def _later(start: datetime, offset: float | None) -> datetime | None:
    try:
        return None if offset is None else start + timedelta(seconds=offset)
    except OverflowError:
        return None


def _words(value: Any, most: int) -> str:
    words = " ".join(value[: 4 * most].split()) if isinstance(value, str) else ""
    return words if len(words) <= most else words[: most - 1] + "…"

"""Judging metrics: where each stands now, how it moved, and whether that is out of order."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Final

from controlplane.runtimes.builtin.analysis.facts import MetricFact
from controlplane.runtimes.builtin.analysis.signs import Sign, SignKind
from controlplane.runtimes.signals.changepoints import change_point, end_level, ramp_start
from controlplane.runtimes.signals.measures import Measure, measure_of
from controlplane.runtimes.sources.figures import clock, figure
from controlplane.runtimes.sources.records import Baseline

_GIB: Final = float(1 << 30)
_OFF: Final = 4.0  # times the noise of normal operation, beyond which a level is another one
_LEAST_OFF: Final = 3


@dataclass(frozen=True, slots=True)
class Vital:
    """A metric, judged. ``base`` is its level before it moved (or over all), ``now`` its level at the end.

    ``moved`` is ``1`` or ``-1`` for a rise or fall that stands out of the noise, else ``0``; ``onset`` its beginning.
    """

    fact: MetricFact
    measure: Measure
    base: float
    now: float
    moved: int
    onset: datetime | None

    @property
    def id(self) -> str:
        return self.fact.id

    @property
    def object(self) -> str:
        return self.fact.object

    @property
    def name(self) -> str:
        return self.fact.metric

    @property
    def is_percent(self) -> bool:
        return self.fact.unit.lower() in ("percent", "%", "percentage")

    def share(self, value: float) -> float | None:
        """Return a value as a share of 0 to 1, if the metric measures one."""
        if self.is_percent:
            return value / 100
        return value if self.fact.unit.lower() == "ratio" else None

    def ratio(self) -> float:
        """Return how many times the base the level is now; infinite from a base of zero."""
        if self.base == 0:
            return 1.0 if self.now == 0 else float("inf")
        return self.now / self.base

    def shown(self, value: float) -> str:
        return figure(value, self.fact.unit)

    def course(self) -> str:
        """Return how the metric ran, in words."""
        name = f"{self.name} of {self.object}"
        if self.moved:
            word = "rose" if self.moved > 0 else "fell"
            since = f" from {clock(self.onset)} UTC on" if self.onset else ""
            return f"{name} {word} from {self._ends()}{since}"
        return f"{name} stays {self.range()}"

    def _ends(self) -> str:
        """Return where the move began and ended: the recorded ends where they show it, as the cited quote has them."""
        first, last = self.fact.values[0], self.fact.values[-1]
        if (last - first) * self.moved > 0:
            return f"{self.shown(first)} to {self.shown(last)}"
        return f"about {self.shown(self.base)} to about {self.shown(self.now)}"

    def range(self) -> str:
        """Return between which values the metric ran: ``at 200 GiB``, ``between 41.2 % and 72.1 %``."""
        low, high = self.shown(self.fact.low), self.shown(self.fact.high)
        return f"at {low}" if low == high else f"between {low} and {high}"

    def excursion(self, extreme: float) -> str:
        """Return that the metric went to an extreme and came back."""
        return f"{self.name} of {self.object} went to {self.shown(extreme)} and is back at {self.shown(self.now)}"


def vital_of(fact: MetricFact) -> Vital:
    """Return the judgement of one metric."""
    values = fact.values
    now = end_level(values)
    measure = measure_of(fact.metric)
    normal = fact.baseline
    if normal is not None and normal.low <= now <= normal.high:
        return Vital(fact, measure, normal.median, now, 0, None)  # wherever it has been meanwhile
    change = change_point(values)
    ramp = ramp_start(values)
    if ramp is not None:
        start, way = ramp
        return Vital(fact, measure, values[0], now, way, fact.times[start])
    if change is not None:
        back = abs(now - change.before) < abs(change.after - change.before) / 4
        moved = 0 if back else (1 if now > change.before else -1)
        return Vital(fact, measure, change.before, now, moved, fact.times[change.index])
    if normal is not None and len(values) >= _LEAST_OFF and abs(now - normal.median) > _OFF * _noise(normal):
        # Off its normal level from the first sample on: the change itself lies before what was recorded.
        return Vital(fact, measure, normal.median, now, 1 if now > normal.median else -1, None)
    return Vital(fact, measure, median(values), now, 0, None)


def _noise(normal: Baseline) -> float:
    """Return how much of a difference from the normal level still is none."""
    return max(normal.spread, 0.02 * abs(normal.median), (normal.high - normal.low) / 4)


def vital_signs(vitals: Sequence[Vital], limits: Callable[[str], int | None]) -> Iterator[Sign]:
    """Yield what is out of order among the metrics.

    Args:
        vitals: judged metrics.
        limits: the limit of connections of an object, ``None`` where it is not known.
    """
    for vital in vitals:
        judge = _JUDGES.get(vital.measure)
        if vital.measure is Measure.CONNECTIONS:
            yield from _connections(vital, limits(vital.object))
        elif judge is not None:
            yield from judge(vital)


def _sign(vital: Vital, kind: SignKind, text: str, strength: float, *, current: bool = True) -> Sign:
    return Sign(kind, vital.object, text, (vital.id,), strength, current, vital.onset, {"vital": vital})


def _free_storage(vital: Vital) -> Iterator[Sign]:
    low = _low_storage(vital, vital.fact.low)
    falling = vital.moved < 0 and vital.now < 0.7 * vital.base
    text = vital.course()
    if _low_storage(vital, vital.now):
        yield _sign(vital, SignKind.STORAGE_FULL, text, 0.95 if falling else 0.55)
    elif falling and (left_s := _seconds_to_zero(vital)) is not None and left_s < 6 * 3600:
        text += f" and reaches zero in about {left_s / 60:.0f} minutes at that rate"
        yield _sign(vital, SignKind.STORAGE_FULL, text, 0.75)
    elif low:
        text = vital.excursion(vital.fact.low)
        yield _sign(vital, SignKind.STORAGE_FULL, text, 0.6, current=False)


def _low_storage(vital: Vital, value: float) -> bool:
    share = vital.share(value)
    if share is not None:
        return share <= 0.05
    return (
        value < max(_GIB, 0.05 * vital.fact.high) if vital.fact.unit.lower() == "bytes" else value <= 0.05 * vital.base
    )


def _seconds_to_zero(vital: Vital) -> float | None:
    """Return the time until a falling metric is at zero, at its rate since it began to fall."""
    times, values = vital.fact.times, vital.fact.values
    start = times.index(vital.onset) if vital.onset in times else 0
    elapsed = (times[-1] - times[start]).total_seconds()
    fallen = values[start] - values[-1]
    return values[-1] / (fallen / elapsed) if elapsed > 0 and fallen > 0 else None


def _used_share(kind: SignKind) -> Callable[[Vital], Iterator[Sign]]:
    def judge(vital: Vital) -> Iterator[Sign]:
        share, peak = vital.share(vital.now), vital.share(vital.fact.high)
        if share is None or peak is None:
            return
        if share >= 0.9:
            yield _sign(vital, kind, vital.course(), 0.9 if share >= 0.97 else 0.7)
        elif peak >= 0.95:
            text = vital.excursion(vital.fact.high)
            yield _sign(vital, kind, text, 0.5, current=False)

    return judge


def _cpu(vital: Vital) -> Iterator[Sign]:
    share, peak = vital.share(vital.now), vital.share(vital.fact.high)
    if share is None or peak is None:
        return
    if share >= 0.85:
        yield _sign(vital, SignKind.CPU_SATURATED, vital.course(), 0.85 if share >= 0.95 else 0.65)
    elif peak >= 0.9:
        text = vital.excursion(vital.fact.high)
        yield _sign(vital, SignKind.CPU_SATURATED, text, 0.45, current=False)
    elif vital.moved > 0 and vital.ratio() >= 1.4 and vital.now - vital.base >= (10 if vital.is_percent else 0.1):
        yield _sign(vital, SignKind.CPU_UP, vital.course(), 0.3)


def _free_memory(vital: Vital) -> Iterator[Sign]:
    share = vital.share(vital.now)
    lowest = vital.now < 0.05 * vital.base or (vital.fact.unit.lower() == "bytes" and vital.now < _GIB / 8)
    if (share is not None and share <= 0.05) or (share is None and lowest):
        yield _sign(vital, SignKind.MEMORY_LOW, vital.course(), 0.8)


def _connections(vital: Vital, limit: int | None) -> Iterator[Sign]:
    share = vital.now / limit if limit else vital.share(vital.now)
    of_limit = f", {vital.now / limit:.1%} of the limit of {limit:,}" if limit else ""
    text = vital.course() + of_limit
    if share is not None and share >= 0.85:
        yield _sign(vital, SignKind.CONNECTIONS_FULL, text, 0.9 if share >= 0.95 else 0.6)
    elif share is not None and limit and vital.fact.high / limit >= 0.95:
        text = f"{vital.excursion(vital.fact.high)}, of {limit:,} allowed"
        yield _sign(vital, SignKind.CONNECTIONS_FULL, text, 0.5, current=False)
    elif vital.moved > 0 and vital.ratio() >= 1.5:
        yield _sign(vital, SignKind.CONNECTIONS_UP, text, 0.3)


def _replica_lag(vital: Vital) -> Iterator[Sign]:
    seconds = vital.now / 1000 if vital.fact.unit.lower().startswith("milli") else vital.now
    peak = vital.fact.high / 1000 if vital.fact.unit.lower().startswith("milli") else vital.fact.high
    if seconds >= 30 and (vital.moved > 0 or seconds >= 300):
        yield _sign(vital, SignKind.REPLICA_LAG, vital.course(), 0.9 if seconds >= 120 else 0.6)
    elif peak >= 120:
        text = vital.excursion(vital.fact.high)
        yield _sign(vital, SignKind.REPLICA_LAG, text, 0.5, current=False)


def _credit(vital: Vital) -> Iterator[Sign]:
    share = vital.share(vital.now)
    if share is not None and share <= 0.05:
        yield _sign(vital, SignKind.CREDIT_EMPTY, vital.course(), 0.8)
    elif share is None and vital.moved < 0 and vital.now <= 0.05 * vital.base:
        yield _sign(vital, SignKind.CREDIT_EMPTY, vital.course(), 0.7)


def _transaction_ids(vital: Vital) -> Iterator[Sign]:
    # PostgreSQL stops accepting writes near 2**31 ids; autovacuum forces freezing at 200 million by default.
    if vital.now >= 1_500_000_000:
        yield _sign(vital, SignKind.TRANSACTION_IDS_HIGH, vital.course(), 0.85)


def _raised(kind: SignKind, factor: float, least: float, strength: float) -> Callable[[Vital], Iterator[Sign]]:
    """Return a judge of metrics that are bad (or telling) when they rise ``factor``-fold and by ``least``."""

    def judge(vital: Vital) -> Iterator[Sign]:
        if vital.moved > 0 and vital.ratio() >= factor and vital.now - vital.base >= least:
            yield _sign(vital, kind, vital.course(), min(strength + 0.1 * (vital.ratio() >= 5 * factor), 1.0))

    return judge


def _latency(vital: Vital) -> Iterator[Sign]:
    scale = {"milliseconds": 1000.0, "microseconds": 1_000_000.0}.get(vital.fact.unit.lower(), 1.0)
    yield from _raised(SignKind.LATENCY_UP, 2.0, 0.005 * scale, 0.5)(vital)


def _traffic(vital: Vital) -> Iterator[Sign]:
    if vital.moved < 0 and vital.ratio() <= 0.4:
        yield _sign(vital, SignKind.TRAFFIC_DOWN, vital.course(), 0.4)


_JUDGES: Final[dict[Measure, Callable[[Vital], Iterator[Sign]]]] = {
    Measure.FREE_STORAGE: _free_storage,
    Measure.STORAGE_USED: _used_share(SignKind.STORAGE_FULL),
    Measure.CPU: _cpu,
    Measure.FREE_MEMORY: _free_memory,
    Measure.MEMORY_USED: _used_share(SignKind.MEMORY_LOW),
    Measure.REPLICA_LAG: _replica_lag,
    Measure.WAL_RATE: _raised(SignKind.WAL_UP, 2.0, 0.0, 0.4),
    Measure.WAL_SIZE: _raised(SignKind.WAL_RETAINED, 2.0, _GIB, 0.5),
    Measure.SLOT_LAG: _raised(SignKind.WAL_RETAINED, 2.0, _GIB, 0.6),
    Measure.WRITES: _raised(SignKind.WRITES_UP, 2.0, 0.0, 0.4),
    Measure.READS: _raised(SignKind.READS_UP, 1.15, 0.0, 0.2),
    Measure.LATENCY: _latency,
    Measure.ERRORS: _raised(SignKind.ERRORS_UP, 2.0, 0.0, 0.5),
    Measure.QUEUE: _raised(SignKind.QUEUE_UP, 4.0, 2.0, 0.4),
    Measure.CREDIT: _credit,
    Measure.LOAD: _raised(SignKind.LOAD_UP, 1.3, 0.5, 0.3),
    Measure.TRANSACTION_IDS: _transaction_ids,
    Measure.TRAFFIC: _traffic,
}

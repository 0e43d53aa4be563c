"""Where a series changes its level, robustly: medians and absolute deviations, so that single spikes decide nothing.

Every result keeps when the series is scaled or shifted (``a * x + b``): it depends on shape, not on units.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, heappushpop
from itertools import pairwise
from statistics import median
from typing import Final

_NORMAL: Final = 1.4826  # the median absolute deviation of a normal distribution is sigma / 1.4826
_LEAST_AFTER: Final = 2  # a change that lasts one sample is a spike
_RANGE_SHARE: Final = 0.02  # nothing below 2 % of the whole range counts as more than noise
_TREND_POINTS: Final = 40
_RECENT: Final = 3  # samples at the end that make up "now"
_RAMP_TREND: Final = 0.7  # |tau| from which a series counts as rising or falling throughout


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """``index`` is the first sample off the old level; ``before`` and ``after`` are the medians of the two levels.

    ``score`` is their distance in units of the noise around them.
    """

    index: int
    before: float
    after: float
    score: float


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation as the median absolute deviation estimates it."""
    if not values:
        return 0.0
    centre = median(values)
    return _NORMAL * median(abs(value - centre) for value in values)


def noise(values: Sequence[float]) -> float:
    """Return the standard deviation of the noise, from sample to sample: steps and slow drifts do not count."""
    steps = [after - before for before, after in pairwise(values)]
    return deviation(steps) / math.sqrt(2)


def change_point(values: Sequence[float], *, least_score: float = 4.0) -> ChangePoint | None:
    """Return the one change of level that explains most, or ``None`` if no change stands out of the noise.

    The split minimises the absolute deviations from the two medians. Its place is then moved back to where the series
    first left the old level for good, so that a ramp is dated at its beginning.

    Args:
        values: at least five samples in order of time; fewer give ``None``. n samples cost about n log n.
        least_score: how many standard deviations of noise lie between the levels.
    """
    count = len(values)
    span = max(values, default=0.0) - min(values, default=0.0)
    if count < 5 or span <= 0:
        return None
    ahead, behind = _costs(values), _costs(values[::-1])
    split = min(range(1, count - _LEAST_AFTER + 1), key=lambda index: ahead[index] + behind[count - index])
    before, after = values[:split], values[split:]
    low, high = median(before), median(after)
    spread = max(noise(values), _pooled(before, after), _RANGE_SHARE * span)
    # Differences near the least that a float can hold leave no spread to measure by.
    score = abs(high - low) / spread if spread > 0 else 0.0
    if score < least_score:
        return None
    return ChangePoint(_onset(values, split, low, high, spread), low, high, score)


def trend(values: Sequence[float]) -> float:
    """Return Kendall's tau against time, from -1 (always falling) to 1 (always rising); 0 for a constant series.

    Source: M. G. Kendall, "A new measure of rank correlation", 1938. Long series are thinned, to 80 points at most.
    """
    step = max(1, len(values) // _TREND_POINTS)
    points = values[::step]
    pairs = [(earlier, later) for place, earlier in enumerate(points) for later in points[place + 1 :]]
    if not pairs:
        return 0.0
    return sum((later > earlier) - (later < earlier) for earlier, later in pairs) / len(pairs)


def end_level(values: Sequence[float]) -> float:
    """Return the level of a series at its end: the median of its last few samples, at least one."""
    return median(values[-min(_RECENT, max(1, len(values) // 5)) :])


def ramp_start(values: Sequence[float]) -> tuple[int, int] | None:
    """Return where a series that runs one way throughout leaves its first value for good measure, and its way: 1 or -1.

    Args:
        values: at least five samples in order of time; fewer give ``None``, as does a series that runs no one way.
    """
    slope = trend(values)
    if len(values) < 5 or abs(slope) < _RAMP_TREND or abs(values[-1] - values[0]) <= 3 * noise(values):
        return None
    span = abs(end_level(values) - values[0])
    least = min(0.05 * span, max(3 * noise(values), 0.02 * span))
    start = next((index for index, value in enumerate(values) if abs(value - values[0]) >= least), 0)
    return start, 1 if slope > 0 else -1


def concordance(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Kendall's tau of two series of the same length: 1 when they always move together, -1 when against."""
    step = max(1, len(first) // _TREND_POINTS)
    points = list(zip(first, second, strict=False))[::step]
    pairs = [(one, other) for place, one in enumerate(points) for other in points[place + 1 :]]
    if not pairs:
        return 0.0
    signs = (_sign(b[0] - a[0]) * _sign(b[1] - a[1]) for a, b in pairs)
    return sum(signs) / len(pairs)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _costs(values: Sequence[float]) -> list[float]:
    """Return, for each length of a beginning of ``values``, the sum of its absolute deviations from its median.

    Two heaps hold the lower and the upper half, so that a value more costs a logarithm and not another sort.
    """
    lower: list[float] = []  # negated: its top is the largest of the lower half
    upper: list[float] = []
    below = above = 0.0
    costs = [0.0]
    for value in values:
        moved = -heappushpop(lower, -value)
        below += value - moved
        heappush(upper, moved)
        above += moved
        if len(upper) > len(lower):
            moved = heappop(upper)
            above -= moved
            heappush(lower, -moved)
            below += moved
        costs.append(above - below + (-lower[0] if len(lower) > len(upper) else 0.0))
    return costs


def _pooled(before: Sequence[float], after: Sequence[float]) -> float:
    weight = len(before) + len(after)
    return (deviation(before) * len(before) + deviation(after) * len(after)) / weight


def _onset(values: Sequence[float], split: int, low: float, high: float, spread: float) -> int:
    """Return the first sample of the run up to ``split`` that lies off the old level, towards the new one.

    Along a ramp the median of the old level is off already, so the level is taken from what lies before the run.
    """
    way = 1 if high > low else -1
    index = split
    while index > 1:
        rest = values[: index - 1]
        moved = way * (values[index - 1] - median(rest))
        if moved <= max(3 * deviation(rest), min(spread, abs(high - low) / 10)):
            break
        index -= 1
    return index

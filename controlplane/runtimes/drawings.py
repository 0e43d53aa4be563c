"""Where a chart's drawing puts its parts: geometry for SVG, without any markup."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Final

from controlplane.runtimes.charts import Chart
from controlplane.runtimes.sources.figures import clock

_GAP_STEPS: Final = 2.5  # farther apart than so many usual steps, samples are not joined by a line
_FLAT_SHARE: Final = 0.2  # a series without a change fills the height only from this share of its level on
_DAY_S: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_STEPS_S: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
    _DAY_S, 2 * _DAY_S, 7 * _DAY_S, 14 * _DAY_S, 28 * _DAY_S, 91 * _DAY_S, 365 * _DAY_S,
)  # fmt: skip
_TOP: Final = 18.0  # room for the time of the change
_BELOW: Final = 18.0  # room for the times
_RIGHT: Final = 12.0
_STEM: Final = 1.5
_CHARACTER: Final = 5.8  # of the tick labels, at their font size of 10
_LABEL_HEIGHT: Final = 11.0
_LABEL_GAP: Final = 2.0
ALERT_LABEL: Final = "alert"


@dataclass(frozen=True, slots=True)
class Tick:
    """A label beside the plot, and where: the x of a time, the y of a value; ``anchor`` is its ``text-anchor``."""

    at: float
    label: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Line:
    """A horizontal line."""

    x1: float
    x2: float
    y: float


@dataclass(frozen=True, slots=True)
class Rect:
    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return round(self.x + self.width, 1)

    @property
    def bottom(self) -> float:
        return round(self.y + self.height, 1)


@dataclass(frozen=True, slots=True)
class Marker:
    """Where the change is, as a thin upright ``stem``, and the levels on its two sides (none after a ramp).

    ``anchor`` is the label's ``text-anchor`` at ``x``.
    """

    x: float
    stem: Rect
    label: str
    anchor: str
    before: Line
    after: Line | None


@dataclass(frozen=True, slots=True)
class Note:
    """An upright line at ``x`` and where its label stands: the baseline's ``y``, ``dx`` away, with ``anchor``."""

    x: float
    y: float
    dx: float
    anchor: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart in user units of SVG, y downwards. ``plot`` is where the line runs; ``path`` breaks at gaps.

    ``alert`` is where the alert began, ``None`` where that is not within the chart.
    """

    width: float
    height: float
    plot: Rect
    path: str
    times: tuple[Tick, ...]
    values: tuple[Tick, ...]
    marker: Marker | None
    band: Rect | None
    alert: Note | None


@dataclass(frozen=True, slots=True)
class _Scale:
    """From the chart to the drawing."""

    chart: Chart
    plot: Rect
    floor: float
    ceiling: float

    def x(self, at: datetime) -> float:
        first, last = self.chart.times[0], self.chart.times[-1]
        return round(self.plot.x + self.plot.width * ((at - first) / (last - first)), 1)

    def y(self, value: float) -> float:
        share = (value - self.floor) / (self.ceiling - self.floor)
        return round(self.plot.y + self.plot.height * (1 - share), 1)


def gutter_of(charts: Iterable[Chart]) -> float:
    """Return how wide the labels of the values are, so that charts below each other can share it."""
    labels = [chart.tick(value) for chart in charts for value in (chart.low, chart.high)]
    return round(10 + _CHARACTER * max(map(len, labels), default=0), 1)


def draw(
    chart: Chart,
    *,
    gutter: float | None = None,
    width: float = 340.0,
    height: float = 140.0,
    alert_at: datetime | None = None,
) -> Drawing:
    """Return the geometry of a chart.

    Args:
        chart: what to draw.
        gutter: the room left of the plot, in user units; by default what this chart's own labels need.
        width: of the whole drawing with its labels, in user units; at least 160.
        height: the same; at least 60.
        alert_at: when the alert began, with its time zone.
    """
    left = gutter_of([chart]) if gutter is None else gutter
    plot = Rect(left, _TOP, round(width - left - _RIGHT, 1), height - _TOP - _BELOW)
    scale = _Scale(chart, plot, *_range(chart))
    marker = _marker(chart, scale)
    return Drawing(
        width=width,
        height=height,
        plot=plot,
        path=_path(chart, scale),
        times=tuple(_time_ticks(chart, scale)),
        values=tuple(_value_ticks(chart, scale)),
        marker=marker,
        band=_shaded(chart, scale),
        alert=_alert(alert_at, chart, scale, marker),
    )


def _range(chart: Chart) -> tuple[float, float]:
    """Return which values the height shows. What hardly moves is not blown up to look as if it did."""
    band = (chart.band.low, chart.band.high) if chart.band else ()
    low, high = min(chart.low, *band, chart.low), max(chart.high, *band, chart.high)
    least = _FLAT_SHARE * max(abs(low), abs(high)) or 1.0
    missing = 0.0 if chart.change is not None else max(0.0, least - (high - low))
    # The least part keeps floor and ceiling apart where a level differs from another in its last digits only.
    margin = missing / 2 + 0.05 * (high - low) + 1e-9 * least
    return low - margin, high + margin


def _path(chart: Chart, scale: _Scale) -> str:
    usual = median((after - before).total_seconds() for before, after in pairwise(chart.times))
    parts: list[str] = []
    before: datetime | None = None
    for at, value in zip(chart.times, chart.values, strict=True):
        joined = before is not None and (at - before).total_seconds() <= _GAP_STEPS * usual
        parts.append(f"{'L' if joined else 'M'}{scale.x(at):.1f} {scale.y(value):.1f}")
        before = at
    # A line of no length gives a sample between two gaps a dot.
    dotted = [
        f"{part}h0" if part[0] == "M" and following[0] == "M" else part
        for part, following in zip(parts, [*parts[1:], "M"], strict=True)
    ]
    return "".join(dotted)


def _value_ticks(chart: Chart, scale: _Scale) -> Iterator[Tick]:
    yield Tick(scale.y(chart.high), chart.tick(chart.high), "end")
    if scale.y(chart.low) - scale.y(chart.high) >= _LABEL_HEIGHT:
        yield Tick(scale.y(chart.low), chart.tick(chart.low), "end")


def _time_ticks(chart: Chart, scale: _Scale) -> Iterator[Tick]:
    """Yield round times, as many as have room."""
    first, last = ((at - _EPOCH).total_seconds() for at in (chart.times[0], chart.times[-1]))
    most = max(2, int(scale.plot.width / 56))
    step = next((step for step in _TIME_STEPS_S if (last - first) / step <= most), None)
    step = step or _TIME_STEPS_S[-1] * (int((last - first) / most / _TIME_STEPS_S[-1]) + 1)
    places = range(-int(-first // step), int(last // step) + 1)
    round_times = [_EPOCH + timedelta(seconds=place * step) for place in places]
    for at in round_times or chart.times[:1]:
        x, label = scale.x(at), _time_label(at, step)
        fits = x + _CHARACTER * len(label) / 2 <= scale.plot.right + _RIGHT
        yield Tick(x, label, "middle" if fits else "end")


def _time_label(at: datetime, step: float) -> str:
    if step >= 365 * _DAY_S:
        return f"{at:%b} {at.year}"
    return f"{at.day} {at:%b}" if at.hour == at.minute == at.second == 0 else clock(at)


def _marker(chart: Chart, scale: _Scale) -> Marker | None:
    change = chart.change
    if change is None:
        return None
    x, plot = scale.x(change.at), scale.plot
    label = chart.time(change.at)
    fits = x + _CHARACTER * len(label) <= plot.right
    return Marker(
        x=x,
        stem=Rect(round(x - _STEM / 2, 2), plot.y, _STEM, plot.height),
        label=label,
        anchor="start" if fits else "end",
        before=Line(plot.x, x, scale.y(change.before)),
        after=None if change.ramp else Line(x, plot.right, scale.y(change.after)),
    )


def _alert(at: datetime | None, chart: Chart, scale: _Scale, marker: Marker | None) -> Note | None:
    """Return the alert's line; its label stands beside the time of the change, or within where there is no room."""
    if at is None or not chart.times[0] <= at <= chart.times[-1]:
        return None
    x, plot, wide = scale.x(at), scale.plot, _CHARACTER * len(ALERT_LABEL) + 2 * _LABEL_GAP
    spans = {"start": (x, x + wide), "end": (x - wide, x)}
    fitting = {anchor: span for anchor, span in spans.items() if plot.x <= span[0] and span[1] <= plot.right + _RIGHT}
    taken = (0.0, 0.0) if marker is None else _label_span(marker)
    free = [anchor for anchor, (left, right) in fitting.items() if right <= taken[0] or left >= taken[1]]
    anchor = next(iter([*free, *fitting]), "start")
    above = bool(free) or marker is None
    return Note(x, plot.y - 5 if above else plot.bottom - 4, _LABEL_GAP if anchor == "start" else -_LABEL_GAP, anchor)


def _label_span(marker: Marker) -> tuple[float, float]:
    wide = _CHARACTER * len(marker.label) + _LABEL_GAP
    return (marker.x, marker.x + wide) if marker.anchor == "start" else (marker.x - wide, marker.x)


def _shaded(chart: Chart, scale: _Scale) -> Rect | None:
    if chart.band is None:
        return None
    top, bottom = scale.y(chart.band.high), scale.y(chart.band.low)
    # A band of one value is a line that can be seen.
    return Rect(scale.plot.x, top, scale.plot.width, max(round(bottom - top, 1), 1.0))

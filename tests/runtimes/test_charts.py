"""Metric evidence as charts: words and geometry, and values nobody vouches for."""

import math
import re
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.runtimes.builtin.analysis.facts import facts_from
from controlplane.runtimes.builtin.analysis.vitals import vital_of
from controlplane.runtimes.charts import Chart, chart_of, chart_rows
from controlplane.runtimes.drawings import draw, gutter_of
from controlplane.runtimes.evidence import Observation, ObservationKind
from controlplane.runtimes.sources.drafts import series_draft
from controlplane.runtimes.sources.records import Series
from tests.support.evidence import START, flat, ramp, step

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=20,
)
NUMBERS = st.floats() | st.integers() | st.sampled_from([1e308, -1e308, 5e-324, 10**400, "12", "NaN", None, True])
MOMENTS = st.sampled_from(
    ["2026-03-03T08:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z", "soon", "", 1e18, -1e18, 1772524800]
)
HOSTILE = st.fixed_dictionaries(
    {"start": MOMENTS, "values": st.lists(NUMBERS, max_size=40)},
    optional={
        "step_s": NUMBERS,
        "offsets_s": st.lists(NUMBERS, max_size=40),
        "metric": JSON,
        "unit": st.sampled_from(["Bytes", "Percent", "Count/Second", "x" * 500, ""]) | JSON,
        "statistic": JSON,
        "query": JSON,
        "min": NUMBERS,
        "min_at": MOMENTS,
        "max": NUMBERS,
        "max_at": MOMENTS,
        "baseline": st.dictionaries(st.sampled_from(["low", "high", "median"]), NUMBERS) | JSON,
    },
)


def value_of(values: list[Any], **more: Any) -> dict[str, Any]:
    """Return the value of a metric observation, a sample a minute from 08:00."""
    known = {"metric": "CPU", "unit": "Percent", "start": START.isoformat(), "step_s": 60.0}
    return {**known, "values": values, **more}


def chart(values: list[Any], **more: Any) -> Chart:
    made = chart_of(value_of(values, **more), object="db-1")
    assert made is not None
    return made


def assert_drawable(made: Chart) -> None:
    """Everything lies within the drawing, and the words have numbers in them."""
    drawing = draw(made)
    area = drawing.plot
    assert area.width > 100
    points = [(float(x), float(y)) for x, y in re.findall(r"[ML](\S+) ([\d.]+)", drawing.path)]
    assert len(points) == len(made.times)
    for x, y in points:
        assert area.x - 0.1 <= x <= area.right + 0.1
        assert area.y - 0.1 <= y <= area.bottom + 0.1
    assert drawing.path.startswith("M")
    assert 1 <= len(drawing.values) <= 2
    assert all(len(tick.label) <= 11 for tick in drawing.values)
    assert 1 <= len(drawing.times) <= 8
    assert all(area.x <= tick.at <= area.right for tick in drawing.times)
    if drawing.marker is not None:
        assert area.x <= drawing.marker.x <= area.right
        assert area.y <= drawing.marker.before.y <= area.bottom
        assert drawing.marker.after is None or area.y <= drawing.marker.after.y <= area.bottom
    if drawing.band is not None:
        assert area.y - 0.1 <= drawing.band.y <= drawing.band.y + drawing.band.height <= area.bottom + 1.1
    assert re.search(r"\d", made.course)


@given(value=HOSTILE | JSON)
def test_chart__hostile_value__is_a_drawable_chart_or_none(value: Any) -> None:
    made = chart_of(value, object="db-1")
    if made is not None:
        assert len(made.times) == len(made.values) >= 2
        assert list(made.times) == sorted(set(made.times))
        assert all(math.isfinite(sample) for sample in made.values)
        assert_drawable(made)
        assert len(chart_rows(made)) <= 24


@given(
    values=st.lists(st.floats(min_value=-1e9, max_value=1e9), min_size=2, max_size=300),
    place=st.integers(min_value=0, max_value=299),
)
def test_chart__any_series_as_drafted__is_drawn_with_its_extremes(values: list[float], place: int) -> None:
    values[place % len(values)] *= 100  # a peak that thinning would take away
    times = tuple(START + timedelta(minutes=minute) for minute in range(len(values)))
    made = chart_of(series_draft(Series("prometheus", "db-1", "load", times, tuple(values))).value, object="db-1")
    assert made is not None
    assert_drawable(made)
    last = made.times[-1]
    within = [abs(value) >= 1e-100 for at, value in zip(times, values, strict=True) if at <= last]
    assert len(made.values) <= 122
    if all(within) and max(values) == max(values[: len(within)]):
        assert made.high == max(values)


def test_chart__step__says_from_what_to_what_and_when() -> None:
    made = chart(step(40, 99, place=12))
    assert made.change is not None
    assert made.change.at == START + timedelta(minutes=12)
    assert made.words == "CPU of db-1 rose from 40 % to 99 % at 08:12 UTC"
    marker = draw(made).marker
    assert marker is not None
    assert (marker.label, marker.anchor) == ("08:12", "start")
    assert marker.after is not None
    assert marker.before.y > marker.after.y
    assert marker.before.x2 == marker.x == marker.after.x1


@pytest.mark.parametrize("values", [step(40, 99), ramp(90, 10), ramp(10, 90, begin=9), [*flat(3, 12), *flat(30, 18)]])
def test_chart__change__is_dated_as_the_report_dates_it(values: list[float]) -> None:
    value = value_of(values)
    observation = Observation(
        id="t1.1", source="prometheus", object="db-1", kind=ObservationKind.METRIC, value=value, quote="x"
    )
    (fact,) = facts_from([observation]).metrics
    made = chart(values)
    assert made.change is not None
    assert made.change.at == vital_of(fact).onset


def test_chart__change_near_the_end__label_stands_on_the_left() -> None:
    marker = draw(chart(step(99, 40, place=27))).marker
    assert marker is not None
    assert marker.anchor == "end"


@pytest.mark.parametrize(
    ("values", "course"),
    [
        ([5.0] * 30, "stayed at 5 %"),
        ([-0.0] * 30, "stayed at 0 %"),
        ([*flat(10, 17), 500.0, *flat(10, 12)], "ran between 9.8 % and 500 %, highest at 08:17"),
        ([*flat(90, 17), 2.0, *flat(90, 12)], "ran between 2 % and 91.8 %, lowest at 08:17"),
        ([1.0, 2.0], "ran between 1 % and 2 %"),
        ([99.991] * 15 + [99.994] * 15, "rose from 99.991 % to 99.994 % at 08:15"),
        (ramp(90, 10), "fell from 90 % to 10 % between 08:01 and 08:29"),
        (flat(90), "ran between 88.2 % and 91.8 %"),
        (ramp(10, 90, begin=9), "rose from 10 % to 90 % between 08:10 and 08:29"),
    ],
)
def test_chart__course__in_words(values: list[float], course: str) -> None:
    assert chart(values).course == course


def test_chart__constant__has_one_value_in_the_middle_of_the_height() -> None:
    drawing = draw(chart([7.0] * 10))
    assert [tick.label for tick in drawing.values] == ["7 %"]
    assert abs(drawing.values[0].at - (drawing.plot.y + drawing.plot.height / 2)) < 1


def test_chart__ripple__is_not_blown_up_to_the_whole_height() -> None:
    ticks = draw(chart(flat(100))).values
    assert 0 < ticks[-1].at - ticks[0].at < 30


@pytest.mark.parametrize("values", [[], [1.0], ["x", None], [1.0, "NaN", True]])
def test_chart__fewer_than_two_samples__is_none(values: list[Any]) -> None:
    assert chart_of(value_of(values), object="db-1") is None


def test_chart__gap__breaks_the_line_and_a_lone_sample_is_a_dot() -> None:
    made = chart([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], offsets_s=[0, 60, 120, 1000, 2000, 2060])
    path = draw(made).path
    assert [len(re.findall("[ML]", part)) for part in re.findall(r"M[^M]*", path)] == [3, 1, 2]
    assert re.search(r"M[\d. ]+h0M", path)


def test_chart__one_sample_missing__is_no_gap() -> None:
    assert draw(chart([1.0, None, 3.0, 4.0, 5.0])).path.count("M") == 1


def test_chart__band__is_shaded_and_said() -> None:
    made = chart(step(40, 99), baseline={"median": 40, "spread": 1, "low": 38, "high": 42, "samples": 1440})
    assert made.words.endswith("; normal is 38 % to 42 %")
    band = draw(made).band
    marker = draw(made).marker
    assert band is not None
    assert marker is not None
    assert marker.after is not None
    assert band.y < marker.before.y < band.y + band.height
    assert marker.after.y < band.y


@pytest.mark.parametrize("baseline", [{"low": 3, "high": 1}, {"low": "x", "high": 1}, {"high": 1}, [], "38", None])
def test_chart__broken_baseline__is_none(baseline: Any) -> None:
    assert chart(flat(2), baseline=baseline).band is None


def test_chart__thinned_peak__is_put_back_where_it_was() -> None:
    peak_at = START + timedelta(minutes=7, seconds=30)
    made = chart(flat(10), max=900.0, max_at=peak_at.isoformat())
    assert (made.high, made.high_at) == (900.0, peak_at)
    assert made.change is None


def test_chart__bytes__ticks_have_units() -> None:
    made = chart(step(2 * 2**30, 9 * 2**30), unit="Bytes")
    assert [tick.label for tick in draw(made).values] == ["9.09 GiB", "1.98 GiB"]


def test_chart__long_labels__stay_short() -> None:
    made = chart([1.0, 123_456_789_012.0], unit="requests of customers")
    assert [tick.label for tick in draw(made).values] == ["1.23e+11", "1"]


def test_chart__label_at_the_right_edge__ends_there() -> None:
    ticks = draw(chart([1.0, 2.0, 3.0])).times
    assert [(tick.label, tick.anchor) for tick in ticks][-1] == ("08:02", "end")
    assert ticks[0].anchor == "middle"


def test_charts__with_one_gutter__begin_at_the_same_place() -> None:
    charts = [chart([1.0, 2.0]), chart(step(2 * 2**30, 9 * 2**30), unit="Bytes")]
    gutter = gutter_of(charts)
    assert {draw(made, gutter=gutter).plot.x for made in charts} == {draw(charts[1]).plot.x}


def test_chart__over_midnight__times_name_the_day() -> None:
    made = chart(step(1, 9, place=20), start="2026-03-03T23:50:00+00:00")
    assert made.words.endswith("at 4 Mar 00:10 UTC")
    assert [tick.label for tick in draw(made).times] == ["23:50", "4 Mar", "00:10"]


@pytest.mark.parametrize(
    ("minutes", "labels"),
    [
        (30, ["08:00", "08:10", "08:20"]),
        (4, ["08:00", "08:01", "08:02", "08:03"]),
        (0.05, ["08:00", "08:00:01", "08:00:02"]),
        (60 * 24 * 30, ["5 Mar", "12 Mar", "19 Mar", "26 Mar", "2 Apr"]),
        (60 * 24 * 365 * 12, ["Dec 2026", "Dec 2029", "Dec 2032", "Dec 2035"]),
    ],
)
def test_chart__time_ticks__are_round(minutes: float, labels: list[str]) -> None:
    made = chart([1.0, 2.0, 3.0], offsets_s=[0, minutes * 30, minutes * 60 - 0.1])
    assert [tick.label for tick in draw(made).times] == labels


def test_rows__short_series__are_all_and_mark_the_change() -> None:
    rows = chart_rows(chart(step(1, 9, 20, place=8)))
    assert len(rows) == 20
    assert [place for place, (_, _, changed) in enumerate(rows) if changed] == [8]


def test_rows__long_series__keep_ends_extremes_and_the_change_closely() -> None:
    values = step(10, 90, 120, place=70)
    values[33] = 500.0
    rows = chart_rows(chart(values))
    minutes = [(at - START).total_seconds() / 60 for at, _, _ in rows]
    assert len(rows) <= 24
    assert {0, 33, 119, *range(66, 74)} <= set(minutes)
    assert max(after - before for before, after in pairwise(minutes)) <= 14
    assert [(at - START).total_seconds() / 60 for at, _, changed in rows if changed] == [70]


@pytest.mark.parametrize("minute", [-1, 0, 5, 11, 12, 13, 18, 23, 24])
def test_chart__alert__is_marked_within_and_its_label_covers_no_other(minute: int) -> None:
    made = chart(step(40, 99, place=12)[:24])
    drawing = draw(made, alert_at=START + timedelta(minutes=minute))
    alert, marker = drawing.alert, drawing.marker
    assert (alert is None) == (minute in {-1, 24})
    if alert is None:
        return
    assert marker is not None
    assert alert.x == pytest.approx(drawing.plot.x + drawing.plot.width * minute / 23, abs=0.1)
    left = alert.x + alert.dx if alert.anchor == "start" else alert.x + alert.dx - 29
    assert 0 <= left <= drawing.width - 29
    if alert.y < drawing.plot.y:  # both stand above the plot
        assert left + 29 <= marker.x or marker.x + 29 <= left

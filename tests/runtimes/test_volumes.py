"""Volumes of trouble: what counts as slow or failing, weighted by traffic, whatever the unit."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.runtimes.builtin.analysis.facts import MetricFact
from controlplane.runtimes.builtin.analysis.volumes import Trouble, Volume, volumes
from tests.support.evidence import flat
from tests.support.recordings import BEGIN, SAMPLES, STEP, metric_fact

NORMAL = flat(0.1, 40)


def latency(values: Sequence[float], *, unit: str = "Seconds", normal: Sequence[float] = NORMAL) -> MetricFact:
    return metric_fact("front", "latency", values, unit=unit, normal=normal)


def requests(count: float = 100.0, samples: int = SAMPLES) -> MetricFact:
    return metric_fact("front", "requests", [count] * samples, statistic="Sum")


def availability(
    values: Sequence[float], *, unit: str = "Percent", normal: Sequence[float] = (100.0,) * 39 + (99.0,)
) -> MetricFact:
    return metric_fact("front", "availability", values, unit=unit, normal=normal)


def slow(*facts: MetricFact) -> Volume:
    return volumes(facts, Trouble.SLOW)["front"]


def failing(*facts: MetricFact) -> Volume:
    return volumes(facts, Trouble.FAILING)["front"]


def test_volumes__slower_requests__add_up_to_the_seconds_waited_beyond_the_usual() -> None:
    found = slow(latency([0.6] * SAMPLES), requests(100))
    assert found.excess == pytest.approx(0.5 * 100 * SAMPLES, rel=0.01)
    assert found.total == pytest.approx(0.6 * 100 * SAMPLES, rel=0.01)
    assert found.usual == pytest.approx(0.1, rel=0.02)
    assert found.level == pytest.approx(0.6)
    assert found.significant
    assert found.ids == ("front.latency.Average", "front.requests.Sum")


@pytest.mark.parametrize(
    ("unit", "scale"),
    [("Seconds", 1), ("Milliseconds", 1e3), ("ms", 1e3), ("Microseconds", 1e6), ("us", 1e6), ("ns", 1e9)],
)
def test_volumes__unit_of_latency__changes_nothing(unit: str, scale: float) -> None:
    found = slow(latency([0.6 * scale] * SAMPLES, unit=unit, normal=[v * scale for v in NORMAL]), requests())
    plain = slow(latency([0.6] * SAMPLES), requests())
    assert found.excess == pytest.approx(plain.excess)
    assert found.level == pytest.approx(plain.level)
    assert found.significant


def test_volumes__traffic_per_second__is_counted_over_each_sample() -> None:
    rate = metric_fact("front", "requests", [2.0] * SAMPLES, unit="Count/Second")
    counted = requests(2.0 * STEP.total_seconds())
    assert slow(latency([0.6] * SAMPLES), rate).excess == pytest.approx(slow(latency([0.6] * SAMPLES), counted).excess)


def test_volumes__within_its_usual_range__is_not_significant() -> None:
    assert not slow(latency(flat(0.1, SAMPLES)), requests()).significant


def test_volumes__metric_that_never_moved__may_move_a_little() -> None:
    still = [0.1] * 40
    assert not slow(latency([0.11] * SAMPLES, normal=still), requests()).significant
    assert slow(latency([0.115] * SAMPLES, normal=still), requests()).significant


def test_volumes__spike_of_one_sample__decides_nothing() -> None:
    spike = [0.1, 0.1, 30.0, 0.1, 0.1, 0.1]
    assert not slow(latency(spike), requests()).significant
    assert slow(latency([0.1, 0.1, 30.0, 30.0, 0.1, 0.1]), requests()).significant


def test_volumes__object_that_nobody_calls__has_none() -> None:
    assert volumes([latency([9.0] * SAMPLES), requests(0)], Trouble.SLOW) == {}


def test_volumes__traffic_unknown__each_sample_counts_as_one_request() -> None:
    found = slow(latency([0.6] * SAMPLES))
    assert found.excess == pytest.approx(0.5 * SAMPLES, rel=0.01)
    assert found.significant
    assert found.ids == ("front.latency.Average",)


def test_volumes__normal_operation_unknown__what_lies_before_the_alert_is_normal() -> None:
    fact = metric_fact("front", "latency", [0.1, 0.11, 0.1, 0.1, 0.9, 0.9], unit="Seconds")
    found = volumes([fact], Trouble.SLOW, since=BEGIN + 4 * STEP)["front"]
    assert found.usual == pytest.approx(0.1)
    assert found.significant
    assert not found.is_new
    assert found.onset == BEGIN + 4 * STEP


def test_volumes__nothing_tells_what_is_normal__no_verdict() -> None:
    fact = metric_fact("front", "latency", [0.9, 0.9, 0.9], unit="Seconds")
    assert volumes([fact], Trouble.SLOW) == {}


def test_volumes__object_unknown_to_normal_operation__is_new_and_all_of_it_is_excess() -> None:
    other = metric_fact("back", "latency", [0.2] * SAMPLES, unit="Seconds")
    found = volumes([latency([0.1] * SAMPLES), other], Trouble.SLOW)
    assert found["back"].is_new
    assert found["back"].excess == found["back"].total == pytest.approx(0.2 * SAMPLES)
    assert not found["front"].is_new


def test_volumes__several_statistics__the_one_asked_for_else_the_mean() -> None:
    mean = metric_fact("front", "latency", [0.6] * SAMPLES, unit="Seconds", normal=NORMAL)
    tail = metric_fact("front", "latency", [3.0] * SAMPLES, unit="Seconds", normal=NORMAL, statistic="p99")
    assert volumes([tail, mean], Trouble.SLOW)["front"].fact is mean
    assert volumes([tail, mean], Trouble.SLOW, statistic="P99")["front"].fact is tail
    assert volumes([tail, mean], Trouble.SLOW, statistic="p50")["front"].fact is mean


def test_volumes__failures__are_judged_by_what_chance_may_bring() -> None:
    """Usual are 0.025 % of 600 requests: 0.15. Chance brings 3 sigma of sqrt(0.15 + 1) = 3.2 more, seldom beyond."""
    usual = availability([100.0] * 5 + [99.5], normal=(100.0,) * 39 + (99.0,))
    few = failing(availability([100.0, 99.0, 99.0, 100.0, 99.0, 100.0]), requests())
    many = failing(availability([98.0, 99.0, 99.0, 100.0, 99.0, 99.0]), requests())
    assert not failing(usual, requests()).significant
    assert few.excess == pytest.approx(3 - 0.15, abs=0.01)
    assert not few.significant
    assert many.excess == pytest.approx(6 - 0.15, abs=0.01)
    assert many.significant


def test_volumes__failures_beyond_chance_but_not_twice_the_usual__are_not_significant() -> None:
    normal = [90.0] * 40
    more = failing(availability([85.0] * SAMPLES, normal=normal), requests(10_000))
    twice = failing(availability([79.0] * SAMPLES, normal=normal), requests(10_000))
    assert more.excess == pytest.approx(0.05 * 60_000)
    assert not more.significant
    assert twice.significant


def test_volumes__availability_as_a_share__is_the_same_as_in_percent() -> None:
    share = failing(availability([0.9] * SAMPLES, unit="", normal=[0.999] * 40), requests())
    percent = failing(availability([90.0] * SAMPLES, normal=[99.9] * 40), requests())
    assert share.excess == pytest.approx(percent.excess)
    assert share.significant


def test_volumes__count_of_successes__is_no_share_and_is_not_judged() -> None:
    counted = metric_fact("front", "success", [100.0] * SAMPLES, normal=[500.0] * 40)
    assert volumes([counted, requests()], Trouble.FAILING) == {}


def test_volumes__counted_errors__are_not_weighted_again() -> None:
    errors = metric_fact("front", "errors", [40.0] * SAMPLES, unit="Count", normal=[1.0] * 40)
    found = failing(errors, requests(1_000_000))
    assert found.excess == pytest.approx(39 * SAMPLES)
    assert found.significant


def test_volumes__figures_near_the_end_of_a_float__neither_raise_nor_blame() -> None:
    huge = metric_fact("front", "latency", [1e308, -1e308] * 3, unit="Seconds", normal=[1e308] * 40)
    assert huge.baseline is None
    other = latency([0.1] * SAMPLES)
    assert all(not found.significant for found in volumes([other, requests(1e308)], Trouble.SLOW).values())
    assert volumes([huge, requests(1e308)], Trouble.SLOW) == {}


LATENCIES = st.lists(st.floats(0.001, 100), min_size=2, max_size=8)


@given(values=LATENCIES, usual=st.floats(0.001, 10), power=st.integers(-20, 20))
def test_volumes__all_latencies_scaled__same_verdict(values: list[float], usual: float, power: int) -> None:
    factor = 2.0**power  # exact, so that no verdict hangs on a rounding
    plain = slow(latency(values, normal=flat(usual, 40)), requests(samples=len(values)))
    scaled = slow(
        latency([v * factor for v in values], normal=[v * factor for v in flat(usual, 40)]),
        requests(samples=len(values)),
    )
    assert scaled.significant is plain.significant
    assert scaled.excess == plain.excess * factor
    assert scaled.onset == plain.onset


@given(values=LATENCIES, days=st.integers(-4000, 4000), seconds=st.integers(0, 86_399))
def test_volumes__moved_in_time__same_verdict(values: list[float], days: int, seconds: int) -> None:
    by = timedelta(days=days, seconds=seconds)
    plain = slow(latency(values), requests(samples=len(values)))
    moved = slow(
        metric_fact("front", "latency", values, unit="Seconds", normal=NORMAL, start=BEGIN + by),
        metric_fact("front", "requests", [100.0] * len(values), statistic="Sum", start=BEGIN + by),
    )
    assert (moved.significant, moved.excess, moved.onset - by) == (plain.significant, plain.excess, plain.onset)


@given(values=LATENCIES, extra=st.integers(0, 7))
def test_volumes__a_sample_worse__never_less_excess(values: list[float], extra: int) -> None:
    place = extra % len(values)
    worse = [value + (1.0 if index == place else 0.0) for index, value in enumerate(values)]
    traffic = requests(samples=len(values))
    before, after = (
        volumes([latency(one), traffic], Trouble.SLOW, since=BEGIN)["front"].excess for one in (values, worse)
    )
    assert after >= before - 1e-9


def test_volumes__traffic_sampled_at_other_times__is_taken_from_the_nearest() -> None:
    later = metric_fact("front", "requests", [100.0] * SAMPLES, statistic="Sum", start=BEGIN + STEP / 3)
    finer = metric_fact("front", "requests", [20.0] * (SAMPLES * 5), statistic="Sum")
    finer = replace(finer, times=tuple(BEGIN + STEP / 5 * index for index in range(SAMPLES * 5)))
    plain = slow(latency([0.6] * SAMPLES), requests(100))
    for traffic in (later, finer):
        assert slow(latency([0.6] * SAMPLES), traffic).excess == pytest.approx(plain.excess, rel=0.01)


@pytest.mark.parametrize(
    ("metric", "unit", "values", "expected"),
    [
        ("error_rate", "", [0.2] * SAMPLES, True),
        ("error_rate", "", [0.002] * SAMPLES, False),
        ("errors_percent", "", [20.0] * SAMPLES, True),
        ("error_ratio", "ratio", [0.2] * SAMPLES, True),
        ("errors", "", [20.0] * SAMPLES, True),
        ("errors", "", [1.0] * SAMPLES, False),
    ],
)
def test_volumes__failures_without_traffic__a_share_or_a_count(
    metric: str, unit: str, values: list[float], expected: bool
) -> None:
    normal = [value / 1000 for value in [values[0]] * 40] if expected else [values[0] / 2] * 40
    fact = metric_fact("front", metric, values, unit=unit, normal=normal)
    assert failing(fact).significant is expected


def test_volumes__several_routes_and_a_network_device__only_requests_count_all_of_them() -> None:
    routes = [
        replace(requests(count), id=f"front.requests.{number}", statistic=f"Sum, route /{number}")
        for number, count in enumerate((60.0, 40.0, 0.0))
    ]
    device = metric_fact("front", "network_receive_bytes", [1e9] * SAMPLES, unit="Bytes/Second")
    found = slow(latency([0.6] * SAMPLES), *routes, device)
    assert found.excess == pytest.approx(slow(latency([0.6] * SAMPLES), requests(100)).excess)
    assert found.ids == ("front.latency.Average", *(route.id for route in routes))

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.runtimes.signals.changepoints import (
    change_point,
    concordance,
    deviation,
    noise,
    ramp_start,
    trend,
)
from tests.support.evidence import flat, ramp, step

# Multiples of 1/64: scaling by powers of two and shifting them is exact, so that results must be equal, not only close.
SAMPLES = st.lists(
    st.integers(min_value=-64_000, max_value=64_000).map(lambda value: value / 64), min_size=5, max_size=40
)
FACTOR = st.sampled_from([0.25, 0.5, 2.0, 8.0, 1024.0])
SHIFT = st.integers(min_value=-10_000, max_value=10_000)


@given(values=SAMPLES, factor=FACTOR, shift=SHIFT)
def test_change_point__scaled_and_shifted__is_the_same_place_and_score(
    values: list[float], factor: float, shift: int
) -> None:
    plain, moved = change_point(values), change_point([factor * value + shift for value in values])
    assert (plain is None) == (moved is None)
    if plain is not None and moved is not None:
        assert moved.index == plain.index
        assert math.isclose(moved.score, plain.score, rel_tol=1e-9)
        assert math.isclose(moved.before, factor * plain.before + shift, abs_tol=1e-6)


@given(values=SAMPLES)
def test_change_point__mirrored__keeps_place_and_score(values: list[float]) -> None:
    plain, mirrored = change_point(values), change_point([-value for value in values])
    assert (plain and plain.index) == (mirrored and mirrored.index)


@given(
    values=st.lists(st.integers(min_value=0, max_value=64).map(lambda value: value / 64), min_size=12, max_size=40),
    place=st.integers(min_value=4, max_value=8),
)
def test_change_point__jump_far_above_the_noise__is_found_where_it_is(values: list[float], place: int) -> None:
    jumped = [value + (100 if index >= place else 0) for index, value in enumerate(values)]
    found = change_point(jumped)
    assert found is not None
    assert found.index == place
    assert found.after - found.before > 98


@given(level=st.floats(min_value=-1e9, max_value=1e9), count=st.integers(min_value=0, max_value=50))
def test_change_point__constant_or_short__is_none(level: float, count: int) -> None:
    assert change_point([level] * count) is None


def test_change_point__noise__is_rarely_taken_for_a_change() -> None:
    source = random.Random(7)  # noqa: S311 (noise, not a secret)
    found = sum(change_point([source.gauss(0, 1) for _ in range(40)]) is not None for _ in range(300))
    assert found <= 6


@pytest.mark.parametrize("spikes", [[17], [5, 22], [29]])
def test_change_point__single_spikes__are_no_change_of_level(spikes: list[int]) -> None:
    values = flat(10)
    for place in spikes:
        values[place] = 500
    assert change_point(values) is None


def test_change_point__change_after_the_first_sample__is_found() -> None:
    found = change_point([380, *flat(18_000, 19)])
    assert found is not None
    assert (found.index, found.before) == (1, 380)


def test_change_point__wave__is_no_change() -> None:
    assert change_point([50 + 20 * math.sin(index / 2) for index in range(40)]) is None


def test_change_point__ramp_after_a_plateau__is_dated_at_its_beginning() -> None:
    found = change_point([*flat(1.0, 10), *(1 + 30 * index for index in range(1, 8)), *flat(230, 15)])
    assert found is not None
    assert 10 <= found.index <= 11


@given(values=SAMPLES, factor=FACTOR, shift=SHIFT)
def test_noise_and_deviation__scaled__scale_with_it(values: list[float], factor: float, shift: int) -> None:
    moved = [factor * value + shift for value in values]
    assert math.isclose(noise(moved), factor * noise(values), abs_tol=1e-9)
    assert math.isclose(deviation(moved), factor * deviation(values), abs_tol=1e-9)


@given(values=SAMPLES)
def test_trend__reversed__changes_its_sign_and_stays_within_bounds(values: list[float]) -> None:
    assert -1 <= trend(values) <= 1
    assert math.isclose(trend(values[::-1]), -trend(values), abs_tol=1e-12)


def test_trend__rising_falling_constant__are_told_apart() -> None:
    assert trend(ramp(0, 10)) == 1
    assert trend(ramp(10, 0)) == -1
    assert trend([5.0] * 20) == 0
    assert trend([]) == 0
    assert abs(trend(flat(7))) < 0.3


@given(values=st.lists(st.integers(-99, 99), min_size=5, max_size=15, unique=True), factor=FACTOR)
def test_concordance__with_itself_scaled__is_complete(values: list[int], factor: float) -> None:
    assert concordance(values, [factor * value for value in values]) == 1
    assert concordance(values, [-factor * value for value in values]) == -1


def test_concordance__unrelated__is_small() -> None:
    assert abs(concordance(step(1, 5), flat(3))) < 0.3


def test_ramp_start__runs_one_way__where_it_leaves_its_first_value_and_which_way() -> None:
    assert ramp_start(ramp(10, 90)) == (1, 1)
    assert ramp_start(ramp(90, 10, begin=5)) == (6, -1)


@pytest.mark.parametrize("values", [[], [1, 2, 3, 4], flat(7), step(1, 9), [5.0] * 20])
def test_ramp_start__short_level_or_step__is_none(values: list[float]) -> None:
    assert ramp_start(values) is None


@given(values=SAMPLES, factor=FACTOR, shift=SHIFT)
def test_ramp_start__scaled_and_shifted__is_the_same(values: list[float], factor: float, shift: int) -> None:
    assert ramp_start([factor * value + shift for value in values]) == ramp_start(values)


@pytest.mark.parametrize("values", [[0.0, 5e-324] * 30, [0.0] * 40 + [5e-324] * 20, [0.0] * 40 + [1e-300] * 20])
def test_change_point__values_near_nothing__never_divide_by_it(values: list[float]) -> None:
    found = change_point(values)
    assert found is None or found.score > 0

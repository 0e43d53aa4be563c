"""Identifiers, time, short texts: the smallest pieces of the core."""

import time
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core import clock
from controlplane.core.errors import InvalidInput
from controlplane.core.ids import new_id
from controlplane.core.text import single_line


def test_new_id__many__are_version_7_and_distinct() -> None:
    made = [new_id() for _ in range(1000)]
    assert {(one.version, one.variant) for one in made} == {(7, UUID(int=0x8 << 60).variant)}
    assert len(set(made)) == 1000


def test_new_id__later__sorts_after_and_holds_its_time() -> None:
    before = time.time_ns() // 1_000_000
    first = new_id()
    time_of = first.int >> 80
    assert before <= time_of <= time.time_ns() // 1_000_000


@given(
    st.datetimes(
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=8))])
    )
)
def test_rfc3339__any_moment__is_utc_with_milliseconds_and_reads_back(moment: datetime) -> None:
    text = clock.rfc3339(moment)
    assert text.endswith("Z")
    assert len(text) == len("2026-01-02T03:04:05.678Z")
    difference = moment - datetime.fromisoformat(text)
    assert timedelta() <= difference < timedelta(milliseconds=1)


@pytest.mark.django_db
def test_lease_now__with_offset_and_shift__moves_the_clock_of_the_database() -> None:
    def ask(expression: object) -> datetime:
        from django.contrib.contenttypes.models import ContentType  # any table with a row will do

        value = ContentType.objects.annotate(moment=expression).values_list("moment", flat=True).first()
        assert isinstance(value, datetime)
        return value

    assert connection.vendor in {"sqlite", "postgresql"}
    plain = ask(clock.lease_now())
    assert abs(plain - clock.now()) < timedelta(seconds=10)
    assert ask(clock.lease_now(plus=timedelta(seconds=30))) - plain >= timedelta(seconds=29)
    clock.set_lease_offset(timedelta(hours=1))
    try:
        assert ask(clock.lease_now()) - plain >= timedelta(minutes=59)
    finally:
        clock.set_lease_offset(timedelta())


def test_single_line__surrounding_space__is_taken_off() -> None:
    assert single_line("  Päyments — 1 ", pointer="/name") == "Päyments — 1"
    assert single_line("x" * 200, pointer="/name") == "x" * 200


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("", "blank"),
        (" \t\n", "blank"),
        ("x" * 201, "too_long"),
        ("a\nb", "control_character"),
        ("a\x00b", "control_character"),
        ("a\u2028b", "control_character"),
        ("a\ud800b", "control_character"),
    ],
)
def test_single_line__broken_rule__is_named_with_the_field(value: str, code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        single_line(value, pointer="/name")
    assert caught.value.code == code
    assert [field.pointer for field in caught.value.errors] == ["/name"]


@given(st.text(max_size=300))
def test_single_line__any_text__is_one_clean_line_or_refused(value: str) -> None:
    try:
        line = single_line(value, pointer="/name")
    except InvalidInput:
        return
    assert 1 <= len(line) <= 200
    assert line == line.strip()
    assert len(line.splitlines()) == 1

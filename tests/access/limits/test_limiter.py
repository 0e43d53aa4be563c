"""The limits over processes, in time, and when the database does not answer."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError, connection, connections
from django.test import override_settings
from pytest_django import DjangoAssertNumQueries

from controlplane.access.limits import rules
from controlplane.access.limits.guard import address_subject
from controlplane.access.limits.limiter import Limiter
from controlplane.access.limits.rules import Rule
from controlplane.access.limits.store import WindowStore, windows_sweep
from controlplane.access.limits.windows import chunk_of
from controlplane.access.models import RateWindow


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000_060.0  # 20 s before the end of its minute

    def __call__(self) -> float:
        return self.now


class Unreachable:
    def add(self, rule: Rule, subject: str, window: int, amount: int) -> int:
        raise OperationalError("database is locked")


def admitted(limiter: Limiter, rule: str, times: int, subject: str = "token:a") -> int:
    return sum(limiter.spend(rule, subject).allowed for _ in range(times))


@pytest.mark.django_db(transaction=True)
def test_limiter__two_processes_at_once__limit_and_a_chunk_at_most() -> None:
    clock, results = Clock(), []

    def process() -> None:
        limiter = Limiter(clock=clock)
        try:
            results.append(admitted(limiter, "previews", 150))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=process) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 120 <= sum(results) <= 120 + chunk_of(120)


@pytest.mark.django_db(transaction=True)
def test_limiter__small_limit_from_many_threads__is_exact() -> None:
    limiter, results = Limiter(clock=Clock()), []

    def ask() -> None:
        try:
            results.append(admitted(limiter, "second_factor", 6))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(results) == 10


@pytest.mark.django_db
def test_limiter__next_window__begins_anew_and_callers_are_apart() -> None:
    clock = Clock()
    limiter = Limiter(clock=clock)
    assert admitted(limiter, "exports", 40) == 30
    verdict = limiter.spend("exports", "token:a")
    assert (verdict.allowed, verdict.retry_after_s) == (False, 20)
    assert admitted(limiter, "exports", 40, "token:b") == 30
    clock.now += verdict.retry_after_s
    assert admitted(limiter, "exports", 40) == 30


@pytest.mark.django_db
def test_limiter__usual_caller__costs_no_query_and_a_busy_one_few(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    limiter = Limiter(clock=Clock())
    with django_assert_num_queries(0):
        assert admitted(limiter, "requests", 300) == 300
    with django_assert_num_queries(1):
        assert admitted(limiter, "requests", 300) == 300


@pytest.mark.django_db
def test_limiter__refused_caller__costs_no_query_until_the_window_ends(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    limiter = Limiter(clock=Clock())
    admitted(limiter, "exports", 31)
    with django_assert_num_queries(0):
        assert admitted(limiter, "exports", 1000) == 0
        assert not limiter.is_used_up("exports", "token:a").allowed
        held = limiter.spend_held("exports", "token:a")
        assert held is not None
        assert not held.allowed


def test_limiter__database_out_of_reach__lets_requests_through() -> None:
    limiter = Limiter(Unreachable(), clock=Clock())
    assert admitted(limiter, "exports", 100) == 100


@pytest.mark.django_db
@override_settings(RATE_LIMITS={"exports": "off", "previews": "2/hour"})
def test_limiter__amounts_of_the_installation__hold() -> None:
    limiter = Limiter(clock=Clock())
    assert admitted(limiter, "exports", 100) == 100
    assert admitted(limiter, "previews", 100) == 2


@pytest.mark.django_db
def test_limiter__many_callers__are_not_all_remembered() -> None:
    limiter = Limiter(clock=Clock(), most=10)
    for number in range(100):
        assert limiter.spend("requests", f"token:{number}").allowed
    assert len(limiter._shares) == 10


@pytest.mark.django_db
def test_store__rows__name_nobody_and_are_swept() -> None:
    rule = rules.find_rule("exports")
    assert rule is not None
    window = int(datetime.now(UTC).timestamp() // 60)
    assert WindowStore().add(rule, "address:192.0.2.1", window, 3) == 3
    assert WindowStore().add(rule, "address:192.0.2.1", window, 4) == 7
    WindowStore().add(rule, "x" * 10_000 + "\x00\ud800", window - 5, 1)
    assert not any("192.0.2" in row.key for row in RateWindow.objects.all())
    assert windows_sweep(now=datetime.now(UTC)) == 1
    assert windows_sweep(now=datetime.now(UTC) + timedelta(minutes=5)) == 1
    assert connection.in_atomic_block


@pytest.mark.parametrize(
    ("address", "subject"),
    [
        ("192.0.2.1", "address:192.0.2.1"),
        ("::ffff:192.0.2.1", "address:192.0.2.1"),
        ("2001:db8:1:2:3::4", "address:2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "address:2001:db8:1:2::/64"),
        ("", "address:unknown"),
        (None, "address:unknown"),
        ("not-an-address", "address:unknown"),
    ],
)
def test_address__ipv6__is_counted_by_its_network(address: str | None, subject: str) -> None:
    assert address_subject(address) == subject


@pytest.mark.parametrize(
    ("amounts", "words"),
    [
        ({"export": "3/minute"}, "names no rule 'export'"),
        ({"exports": "3"}, "the amount of exports"),
        ({"exports": "0/minute"}, "the amount of exports"),
        ({"exports": "3/fortnight"}, "the amount of exports"),
    ],
)
def test_faults__wrong_setting__is_named(amounts: dict[str, str], words: str) -> None:
    (fault,) = rules.faults(amounts)
    assert words in fault
    assert rules.faults({name: amount for name, (amount, _) in rules.DEFAULTS.items()}) == []

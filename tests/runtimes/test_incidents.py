"""Recorded incidents: which one is meant, which way causes run, what counts as a change."""

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.runtimes.builtin.analysis.facts import Facts, LogFact
from controlplane.runtimes.builtin.analysis.incidents import (
    Incident,
    changes_before,
    is_setting,
    meant,
    unknown_ids,
    way_back,
)
from controlplane.runtimes.evidence import TimeRange
from controlplane.runtimes.signals.alert import read_alert

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def incident(number: int, service: str, summary: str = "", *, hour: int | None = None, over: bool = False) -> Incident:
    opened = NOON + timedelta(hours=number if hour is None else hour)
    return Incident(
        id=f"t1-2.{number}",
        name=f"INC-{number}",
        service=service,
        title=f"{service} in trouble",
        summary=summary,
        severity="SEV2",
        status="resolved" if over else "open",
        opened=opened,
        resolved=opened + timedelta(hours=1) if over else None,
    )


def names(way: tuple[Incident, ...]) -> list[str]:
    return [one.name for one in way]


RECORDS = [incident(1, "cart", over=True), incident(2, "cart"), incident(3, "store")]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("why did inc-1 happen?", "INC-1"),
        ("why is the cart slow?", "INC-2"),
        ("why is the cart slow in us-east-1 on node-1? utf-8 is fine", "INC-2"),
        ("what about INC-9 of the cart?", None),
    ],
)
def test_meant__words__name_a_record_or_a_service_with_an_open_one(words: str, expected: str | None) -> None:
    found = meant(RECORDS, words, frozenset({"cart"}))
    assert (found.name if found else None) == expected


def test_unknown_ids__only_of_the_kinds_that_the_records_have() -> None:
    assert unknown_ids(RECORDS, "INC-1, INC-9 and INC-10 in us-east-1") == ["INC-9", "INC-10"]


@pytest.mark.parametrize(
    "summary",
    [
        "Requests queued, a symptom of INC-1.",
        "Caused by INC-1.",
        "Due to the pool that INC-1 had drained.",
        "Cache misses from INC-1 multiplied the load.",
        "Slow since INC-1.",
        "Everything is late because of INC-1",
        "After the deploy nothing helped; the trouble resulted from INC-1.",
    ],
)
def test_way_back__record_that_says_what_it_came_of__leads_there(summary: str) -> None:
    late, early = incident(2, "cart", summary, hour=0), incident(1, "store", hour=5)
    assert names(way_back(late, [early, late])) == ["INC-2", "INC-1"]
    assert names(way_back(early, [early, late])) == ["INC-1"]


@pytest.mark.parametrize(
    "summary",
    [
        "Root cause of INC-1.",
        "It was followed by INC-1.",
        "Errors from the pool led to INC-1.",
        "After the deploy it triggered INC-1.",
        "A leak, due to a bad release, set off INC-1.",
    ],
)
def test_way_back__record_that_says_what_came_of_it__is_the_cause(summary: str) -> None:
    cause, effect = incident(2, "cart", summary, hour=5), incident(1, "store", hour=0)
    assert names(way_back(effect, [effect, cause])) == ["INC-1", "INC-2"]


def test_way_back__joined_ids__share_what_was_said_of_the_first() -> None:
    cause = incident(3, "cache", "Root cause of INC-1 and INC-2.")
    records = [incident(1, "store"), incident(2, "cart"), cause]
    assert names(way_back(records[0], records)) == ["INC-1", "INC-3"]
    assert names(way_back(records[1], records)) == ["INC-2", "INC-3"]


def test_way_back__nothing_said__the_earlier_one_came_first() -> None:
    late = incident(2, "cart", "See also INC-1.")
    assert names(way_back(late, [incident(1, "store"), late])) == ["INC-2", "INC-1"]


def test_way_back__records_that_blame_each_other__ends() -> None:
    one, other = incident(1, "store", "Caused by INC-2."), incident(2, "cart", "Caused by INC-1.")
    assert names(way_back(one, [one, other])) == ["INC-1", "INC-2"]


@pytest.mark.parametrize(
    ("message", "is_change", "of_setting"),
    [
        ("deploy v2026.07.05-1 rolled out (3/3 replicas ready)", True, False),
        ("released version 4.2", True, False),
        ("config changed: pool size 20 to 5", True, True),
        ("feature flag new-checkout enabled", True, True),
        ("HPA scaled up to 8 replicas", False, False),
        ("connection released to the pool", False, False),
        ("lock released", False, False),
    ],
)
def test_changes_before__lines_of_the_service__releases_and_settings_alone(
    message: str, is_change: bool, of_setting: bool
) -> None:
    at = NOON + timedelta(minutes=50)
    line = LogFact("t1-3.1", "logs", "cart", message, "info", 1, TimeRange(start=at, end=at))
    later = LogFact("t1-3.2", "logs", "cart", "deploy v9", "info", 1, TimeRange(start=at, end=at))
    found = changes_before(Facts(logs=[line]), incident(1, "cart"))
    assert (found == [line]) is is_change
    assert is_setting(line) is of_setting
    assert changes_before(Facts(logs=[later]), incident(1, "store")) == []


def test_alert__one_that_fires_for_weeks__does_not_date_the_group() -> None:
    times = ["2026-05-01T00:00:00Z", "2026-05-30T11:55:00Z", "2026-05-30T12:00:00Z"]
    view = read_alert({"alerts": [{"status": "firing", "startsAt": at} for at in times]})
    assert view is not None
    assert view.starts_at == datetime(2026, 5, 30, 11, 55, tzinfo=UTC)

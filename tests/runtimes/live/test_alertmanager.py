"""Alertmanager as a source."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.runtimes.sources.records import Level
from tests.runtimes.live.peer import Asked, Peer, Raw, answer, serving
from tests.runtimes.live.support import EVERYTHING, info_of, source


def alert_of(name: str, minute: int, *, state: str = "active", **status: Any) -> dict[str, Any]:
    """Return a ``gettableAlert`` as API v2 has it."""
    members = {"state": state, "silencedBy": [], "inhibitedBy": [], "mutedBy": [], **status}
    return {
        "annotations": {"summary": f"{name} is wrong"},
        "startsAt": f"2026-11-02T09:{minute:02}:00.000Z",
        "endsAt": "2026-11-02T10:00:00.000Z",
        "updatedAt": "2026-11-02T09:30:00.000Z",
        "fingerprint": f"f{minute}",
        "receivers": [{"name": "team"}],
        "generatorURL": "http://prometheus/graph",
        "labels": {"alertname": name, "service": "checkout", "job": "shop", "severity": "warning"},
        "status": members,
    }


ALERTS = [
    alert_of("Quiet", 5, state="suppressed", silencedBy=["e5f2"]),
    alert_of("Behind", 7, state="suppressed", inhibitedBy=["f2"]),
    alert_of("HighErrorRate", 9),
    alert_of("Latency", 2),
]


@pytest.fixture
def peer() -> Iterator[Peer]:
    def respond(asked: Asked) -> Raw:
        return answer(ALERTS) if asked.path == "/api/v2/alerts" else Raw(404)

    with serving(Peer(respond)) as made:
        yield made


async def test_states__alerts__are_monitors_firing_first(peer: Peer) -> None:
    states = (await source(peer.url, "alertmanager").states(EVERYTHING)).records

    assert [(one.object, one.facts["state"]) for one in states] == [
        ("Latency", "firing"), ("HighErrorRate", "firing"), ("Behind", "inhibited"), ("Quiet", "silenced"),
    ]  # fmt: skip
    assert states[0].text == (
        "alert is firing since 2026-11-02 09:02 UTC: service:checkout, job:shop, severity:warning: Latency is wrong"
    )
    assert "silenced since 2026-11-02 09:05 UTC (by e5f2)" in states[3].text


async def test_happenings__alerts__began_when_they_say_about_their_object(peer: Peer) -> None:
    events = (await source(peer.url, "alertmanager").happenings(EVERYTHING)).records

    assert [(one.reason, one.object) for one in events] == [
        ("Latency", "checkout"), ("Quiet", "checkout"), ("Behind", "checkout"), ("HighErrorRate", "checkout"),
    ]  # fmt: skip
    assert events[0].at is not None
    assert events[0].at.start == datetime(2026, 11, 2, 9, 2, tzinfo=UTC)
    assert [one.level for one in events] == [Level.WARNING, Level.INFO, Level.INFO, Level.WARNING]


async def test_collect__asks_for_all_three_and_counts_what_it_gives(peer: Peer) -> None:
    made = source(peer.url, "alertmanager")

    assert (await info_of(made)).counts == {"states": 4, "events": 4}
    (asked,) = peer.asked
    assert asked.params == {"active": ["true"], "silenced": ["true"], "inhibited": ["true"]}


async def test_collect__hundreds_of_alerts__the_first_200_and_says_so(peer: Peer) -> None:
    peer.respond = lambda _: answer([alert_of(f"A{number}", number % 60) for number in range(250)])
    info = await info_of(source(peer.url, "alertmanager"))

    assert info.counts["states"] == 200
    assert info.problems == ("50 further alerts left out",)

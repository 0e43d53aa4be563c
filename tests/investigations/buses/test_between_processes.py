"""Two processes on one bus: what one commits reaches the other's streams, workers and watchers at once."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import httpx
import pytest
from django.db import connection

from controlplane.access import revocations
from controlplane.core.actor import Role
from controlplane.investigations import bus, buses, hub, metrics
from controlplane.investigations.buses.relay import Relay
from tests.factories import Tree, actor_for_user, make_personal_token, make_team_token, make_user
from tests.investigations.buses.conftest import Peer
from tests.investigations.test_stream import Reader, has
from tests.support.redis_server import RedisServer
from tests.support.runs import envelopes, start_run, wait_until
from tests.support.server import Server, serving

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def on_the_bus(bus_environment: dict[str, str], settings: Any) -> None:
    for name, value in bus_environment.items():
        setattr(settings, name, value)


@pytest.fixture
def server(on_the_bus: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server whose hub hears of other processes by the bus alone."""
    monkeypatch.setattr(hub, "POLL_SECONDS", 60.0)
    monkeypatch.setattr(hub, "POLL_SECONDS_WITH_BUS", 60.0)
    with serving() as running:
        wait_until(buses.is_connected, what="the bus")
        yield running


def reading(reader: Reader, until: Callable[[Reader], bool]) -> threading.Thread:
    """Read in a thread, and return once the stream shows what there is."""
    there = len(reader.events) + 1
    thread = threading.Thread(target=lambda: reader.read(until=until))
    thread.start()
    wait_until(lambda: len(reader.events) >= there, what="the stream to open")
    return thread


def log_reads() -> float:
    return float(metrics.hub_log_reads_total.labels(why="catch_up")._value.get())


def test_bus__event_of_another_process__arrives_without_a_look_at_the_log(
    tree: Tree, server: Server, peer: Peer
) -> None:
    thread = start_run(tree.system, tree.payments).thread
    reader = Reader(server, thread.pk, make_team_token(tree.payments))
    open_stream = reading(reader, has(21))
    before = log_reads()

    peer.do("append", thread.pk, 20, 50, "thread")
    open_stream.join(10)

    assert reader.events == envelopes(thread.pk)
    assert log_reads() == before


def test_bus__event_too_large_to_carry__is_read_from_the_log(tree: Tree, server: Server, peer: Peer) -> None:
    thread = start_run(tree.system, tree.payments).thread
    reader = Reader(server, thread.pk, make_team_token(tree.payments))
    open_stream = reading(reader, has(2))

    peer.do("append", thread.pk, 1, 200_000, "thread")
    open_stream.join(10)

    assert reader.events == envelopes(thread.pk)


def test_bus__event_for_the_starter_alone__is_withheld_from_the_team(tree: Tree, server: Server, peer: Peer) -> None:
    person = make_user(tree.payments, Role.RESPONDER)
    thread = start_run(actor_for_user(person), tree.payments, visibility="team").thread
    mine = Reader(server, thread.pk, make_personal_token(person, tree.payments, ["runs:read"]))
    theirs = Reader(server, thread.pk, make_team_token(tree.payments))
    streams = [reading(reader, has(2)) for reader in (mine, theirs)]

    peer.do("append", thread.pk, 1, 9, "starter")
    for stream in streams:
        stream.join(10)

    assert mine.events[1]["data"]["text"] == "x" * 9
    assert theirs.events[1]["data"] == {"withheld": True}


def test_bus__work_and_taken_rights__are_told_both_ways(on_the_bus: None, tree: Tree, peer: Peer) -> None:
    heard: list[str] = []
    taken: list[UUID] = []
    removers = [bus.work.add(lambda: heard.append("work")), revocations.on_rights_taken(taken.append)]
    leave = buses.join()
    try:
        wait_until(buses.is_connected, what="the bus")
        known = len(heard)  # a bus that came up counts as work that may have been missed
        peer.do("work")
        wait_until(lambda: len(heard) > known, what="the other's word")
        peer.do("rights", tree.organization.pk)
        wait_until(lambda: taken == [tree.organization.pk], what="the other's revocation")
        known_there = peer.do("heard")
        bus.work.tell()
        wait_until(lambda: peer.do("heard") != known_there, what="the other to hear")
    finally:
        leave()
        for remove in removers:
            remove()


def test_bus__one_message_in_ten_suppressed__nothing_is_lost(
    tree: Tree, server: Server, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(7)  # noqa: S311 (reproducible losses)
    hear = Relay._hear
    lost: list[bytes] = []

    def unreliable(self: Relay, payload: bytes) -> None:
        if dice.random() < 0.1:
            lost.append(payload)
        else:
            hear(self, payload)

    monkeypatch.setattr(Relay, "_hear", unreliable)
    thread = start_run(tree.system, tree.payments).thread
    reader = Reader(server, thread.pk, make_team_token(tree.payments))
    open_stream = reading(reader, has(301))

    peer.do("append", thread.pk, 300, 400, "thread")
    while open_stream.is_alive():  # a last message that was lost shows with the next one
        peer.do("append", thread.pk, 1, 1, "thread")
        open_stream.join(0.1)

    assert lost
    assert reader.events == envelopes(thread.pk)[: len(reader.events)]
    assert len(reader.events) >= 301


def test_bus__connection_lost__shows_and_what_was_missed_is_read_after_it(
    tree: Tree, server: Server, peer: Peer, kind: str, request: pytest.FixtureRequest, settings: Any
) -> None:
    thread = start_run(tree.system, tree.payments).thread
    headers = {"Authorization": f"Bearer {make_team_token(tree.payments)}"}
    reader = Reader(server, thread.pk, headers["Authorization"].split()[1])
    open_stream = reading(reader, has(8))

    if kind == "redis":
        redis: RedisServer = request.getfixturevalue("redis")
        redis.stop()
        wait_until(lambda: not buses.is_connected(), what="the loss to be noticed")
        ready = httpx.get(f"{server.url}/readyz")
        assert (ready.status_code, ready.json()["status"], ready.json()["warnings"]["bus"]) == (
            200,
            "degraded",
            "failed",
        )
        peer.do("append", thread.pk, 3, 50, "thread")
        redis.start()
    else:
        end_sessions()
        peer.do("append", thread.pk, 3, 50, "thread")
    wait_until(buses.is_connected, what="the bus to be back")
    wait_until(has_events(reader, 4), what="what was missed")
    wait_until(lambda: arrives(peer, thread.pk, reader), what="the other process to be back")
    open_stream.join(10)

    assert reader.events == envelopes(thread.pk)[: len(reader.events)]
    assert httpx.get(f"{server.url}/readyz").json()["warnings"]["bus"] == "ok"


def has_events(reader: Reader, count: int) -> Callable[[], bool]:
    return lambda: len(reader.events) >= count


def arrives(peer: Peer, thread_id: UUID, reader: Reader) -> bool:
    """Have the other process write until the stream is through."""
    if len(reader.events) < 8:
        peer.do("append", thread_id, 1, 50, "thread")
        time.sleep(0.05)
    return len(reader.events) >= 8


def end_sessions() -> None:
    """Do what a restart of PostgreSQL does to the bus, to this database's alone."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE 'opensre bus%'"
        )

"""The hub: what many viewers cost, what one of them may cost, and what a hole in the ring leads to."""

import asyncio
import math
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from asgiref.sync import sync_to_async

from controlplane.core import errors
from controlplane.investigations import bus, metrics, ring
from controlplane.investigations.admission import Places
from controlplane.investigations.frames import Frame, read_frames
from controlplane.investigations.hub import Hub
from controlplane.investigations.log import append, new_event, read_page
from controlplane.investigations.models import Audience, Event, Thread
from controlplane.investigations.ring import SLICE_BYTES, WatchedThread
from controlplane.investigations.waiting import Alarm, Signal
from controlplane.runtimes.events import EventType, Thought
from tests.factories import Tree, make_team_token
from tests.investigations.test_stream import Reader, has, write_thoughts
from tests.support.runs import envelopes, start_run, wait_until
from tests.support.server import Server, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def frame(seq: int, size: int = 10) -> Frame:
    return Frame(seq, b"x" * size, None)


def viewer_reads() -> float:
    return float(metrics.hub_log_reads_total.labels(why="viewer")._value.get())


# ---- the ring --------------------------------------------------------------------------------------------------------


def test_ring__bounded_by_frames_and_bytes__reaches_back_as_far_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring, "RING_FRAMES", 100)
    watched = WatchedThread(uuid4())
    for seq in range(1, 1001):
        watched.push([frame(seq)])
        assert [one.seq for one in watched.after(max(seq - 5, 0)) or []] == list(range(max(seq - 5, 0) + 1, seq + 1))
    assert watched.after(899) is None
    assert len(watched.after(900) or []) == 100
    assert (watched.after(1000), watched.after(5000)) == ([], [])
    watched.push([frame(1001, 3 * 1024 * 1024), frame(1002, 3 * 1024 * 1024)])
    assert watched.after(1000) is None  # only the last one fits into the bytes
    assert [one.seq for one in watched.after(1001) or []] == [1002]


def test_ring__large_frames__are_given_out_in_slices() -> None:
    watched = WatchedThread(uuid4())
    watched.push([frame(seq, 50_000) for seq in range(1, 21)])
    cursor, slices = 0, 0
    while part := watched.after(cursor):
        assert sum(len(one.full) for one in part) < SLICE_BYTES + 50_000
        cursor, slices = part[-1].seq, slices + 1
    assert (cursor, slices) == (20, 7)


def test_ring__a_frame_is_missing__what_follows_waits_for_it() -> None:
    watched = WatchedThread(uuid4())
    assert watched.push([frame(1), frame(2)])
    assert not watched.push([frame(4)])
    assert watched.push([frame(2), frame(3)])  # one known already is passed over
    assert watched.head == 3


# ---- the log ---------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize("micros", [0, 1_000, 999_999])
def test_read_frames__any_time_and_audience__equal_the_frames_of_the_events(tree: Tree, micros: int) -> None:
    thread = start_run(tree.system, tree.payments).thread
    for audience in Audience:
        append(
            thread_id=thread.pk,
            events=[new_event(EventType.THOUGHT, Thought(text="ä"), run_id=None, audience=audience)],
        )
    for event in Event.objects.filter(thread=thread):
        Event.objects.filter(thread=thread, seq=event.seq).update(at=event.at.replace(microsecond=micros))

    frames, more = read_frames(thread.pk, after=0, limit=10)

    assert frames == [Frame.of(event) for event in read_page(thread.pk, after=0, limit=10).events]
    assert (len(frames), more) == (3, False)


@pytest.mark.django_db(transaction=True)
async def test_hub__many_viewers_behind_the_ring__read_the_log_once(tree: Tree) -> None:
    thread = await sync_to_async(_long_thread)(tree, 1_000)
    hub, before = Hub(), viewer_reads()
    hub.start()
    try:
        async with hub.watch(thread):
            # Lost a little before or after each other: no two cursors need be the same.
            await asyncio.gather(*(_catch_up(hub, thread, after=210 + number % 90) for number in range(200)))
    finally:
        await hub.stop()

    assert viewer_reads() - before == 2  # the pages of 201 to 400, and of 401 to 600, where the ring begins


def _long_thread(tree: Tree, events: int) -> UUID:
    thread = start_run(tree.system, tree.payments).thread
    thoughts = [new_event(EventType.THOUGHT, Thought(text=f"{number}"), run_id=None) for number in range(events)]
    append(thread_id=thread.pk, events=thoughts)
    return UUID(str(thread.pk))


async def _catch_up(hub: Hub, thread_id: UUID, *, after: int) -> None:
    async with hub.watch(thread_id) as watched:
        seen = after
        while seen < watched.head:
            frames = watched.after(seen)
            if frames is None:
                frames = await hub.read(thread_id, after=seen)
            assert [one.seq for one in frames] == list(range(seen + 1, frames[-1].seq + 1))
            seen = frames[-1].seq
        assert seen == 1001


@pytest.mark.django_db(transaction=True)
def test_stream__events_after_the_cursor_removed__reset_then_what_there_is(
    tree: Tree, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.investigations.hub.PRELOADED_FRAMES", 5)
    thread = start_run(tree.system, tree.payments).thread
    write_thoughts(thread.pk, 29)
    Event.objects.filter(thread=thread, seq__lte=10).delete()
    reader = Reader(server, thread.pk, make_team_token(tree.payments))
    reader.last_id = "3"

    reader.read(until=has(20))

    assert (reader.resets, reader.seqs()) == (1, list(range(11, 31)))


@pytest.mark.django_db(transaction=True)
def test_stream__told_of_events_twice_and_out_of_order__shows_each_once(tree: Tree, server: Server) -> None:
    thread = start_run(tree.system, tree.payments).thread
    reader = Reader(server, thread.pk, make_team_token(tree.payments))

    def disturb(reader: Reader) -> bool:
        if len(reader.events) == 1:
            Thread.objects.filter(pk=thread.pk).update(last_seq=1)
            write_thoughts(thread.pk, 3)
            events = read_page(thread.pk, after=1, limit=10).events
            for told in (events[2:], events[:1], events, events[1:2]):
                bus.events.hear(told)
            bus.heads.tell(thread.pk, 4)
        return len(reader.events) >= 4

    reader.read(until=disturb)

    assert reader.events == envelopes(thread.pk)


# ---- places ----------------------------------------------------------------------------------------------------------


def test_places__all_taken__refused_by_name_until_one_is_free(settings: Any) -> None:
    settings.STREAMS_MAX, settings.STREAMS_MAX_PER_ORGANIZATION = 3, 2
    places, ours, theirs = Places(), uuid4(), uuid4()
    with places.take(ours), places.take(ours):
        with pytest.raises(errors.TooManyRequests) as refused, places.take(ours):
            pass
        assert (refused.value.code, refused.value.headers) == ("too_many_streams", {"Retry-After": "5"})
        with places.take(theirs):
            with pytest.raises(errors.Unavailable) as full, places.take(theirs):
                pass
            assert (full.value.status, full.value.code) == (503, "streams_full")
    with places.take(ours):
        assert places.taken == 1


@pytest.mark.django_db(transaction=True)
def test_stream__organization_has_its_share_open__429_and_room_again_after_one_left(
    tree: Tree, server: Server, settings: Any
) -> None:
    settings.STREAMS_MAX_PER_ORGANIZATION = 1
    thread = start_run(tree.system, tree.payments).thread
    url = f"{server.url}/api/v1/threads/{thread.pk}/stream"
    headers = {"Authorization": f"Bearer {make_team_token(tree.payments)}"}

    with httpx.stream("GET", url, headers=headers) as first:
        lines = first.iter_lines()  # kept: the client closes a stream whose lines nobody holds
        next(lines)
        refused = httpx.get(url, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
    assert refused.headers["retry-after"] == "5"

    def opens() -> bool:
        with httpx.stream("GET", url, headers=headers) as again:
            return again.status_code == 200

    wait_until(opens, what="the place to be free")


# ---- waiting ---------------------------------------------------------------------------------------------------------


async def test_signal__set_before_during_or_never__says_which() -> None:
    loop = asyncio.get_running_loop()
    signal = Signal()
    signal.set()
    assert await signal.wait(60)
    signal.clear()
    loop.call_soon(signal.set)
    assert await signal.wait(60)
    signal.clear()
    assert not await signal.wait(0.01)
    began = loop.time()
    assert not await signal.wait(0.01)  # a shorter time than the timer still runs for
    assert loop.time() - began < 5
    signal.close()


async def test_alarm__moved_and_unset__rings_once_at_the_last_time_set() -> None:
    loop = asyncio.get_running_loop()
    rung: list[float] = []
    done = asyncio.Event()

    def ring_it() -> None:
        rung.append(loop.time())
        done.set()

    alarm = Alarm(loop, ring_it)
    began = loop.time()
    alarm.set(began + 0.01)
    alarm.set(began + 0.03)
    await done.wait()
    assert rung[0] - began >= 0.03
    alarm.set(loop.time() + 60)
    alarm.set(loop.time() + 0.001)  # earlier than its timer
    done.clear()
    await done.wait()
    alarm.set(loop.time())
    alarm.unset()
    alarm.set(math.inf)
    alarm.close()
    assert len(rung) == 2

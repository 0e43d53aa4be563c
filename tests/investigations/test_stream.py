"""Event streams over the wire: catch-up, live, resume, withheld events, refusals, threads."""

import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from django.conf import settings as django_settings
from django.test import Client

from controlplane.core.actor import Role
from controlplane.investigations import metrics
from controlplane.investigations.log import append, new_event
from controlplane.investigations.models import Audience, Thread
from controlplane.runtimes.events import EventType, Thought
from tests.factories import Tree, actor_for_user, make_personal_token, make_team_token, make_tree, make_user
from tests.support.runs import envelopes, start_run, types, wait_until, working
from tests.support.server import Server, parse_sse, serving

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def write_thoughts(thread_id: UUID, count: int, *, audience: Audience = Audience.THREAD) -> None:
    for number in range(count):
        thought = Thought(text=f"thought {number}")
        append(thread_id=thread_id, events=[new_event(EventType.THOUGHT, thought, run_id=None, audience=audience)])


class Reader:
    """A stream client like EventSource: it keeps the last id and resumes from it."""

    def __init__(self, server: Server, thread_id: UUID, token: str) -> None:
        self.url = f"{server.url}/api/v1/threads/{thread_id}/stream"
        self.headers = {"Authorization": f"Bearer {token}"}
        self.events: list[dict[str, Any]] = []
        self.last_id = ""
        self.resets = 0

    def read(self, *, until: Any, after: str | None = None) -> str:
        """Read until ``until(self)`` is true or the stream ends; return ``"enough"`` or ``"ended"``."""
        headers = self.headers | ({"Last-Event-ID": self.last_id} if self.last_id else {})
        params = {"after": after} if after is not None else {}
        timeout = httpx.Timeout(20.0)
        with httpx.stream("GET", self.url, headers=headers, params=params, timeout=timeout) as response:
            assert response.status_code == 200, response.read()
            if until(self):
                return "enough"
            for frame in parse_sse(response.iter_lines()):
                if frame.get("event") == "reset":
                    self.resets += 1
                    self.events.clear()
                elif "data" in frame:
                    self.last_id = frame["id"]
                    self.events.append(json.loads(frame["data"]))
                if until(self):
                    return "enough"
        return "ended"

    def seqs(self) -> list[int]:
        return [event["seq"] for event in self.events]


def has(count: int) -> Any:
    return lambda reader: len(reader.events) >= count


def test_stream__open__headers_first_bytes_and_whole_log(tree: Tree, server: Server) -> None:
    thread = start_run(tree.system, tree.payments).thread
    write_thoughts(thread.pk, 3)
    token = make_team_token(tree.payments)

    url = f"{server.url}/api/v1/threads/{thread.pk}/stream"
    with httpx.stream("GET", url, headers={"Authorization": f"Bearer {token}"}) as response:
        lines = response.iter_lines()
        first = [next(lines) for _ in range(2)]
        frames = parse_sse(lines)
        events = [next(frames) for _ in range(4)]

    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-cache, no-transform"
    assert response.headers["x-accel-buffering"] == "no"
    assert first == ["retry: 1000", ": open"]
    assert [frame["id"] for frame in events] == ["1", "2", "3", "4"]
    assert [frame["event"] for frame in events] == ["run_started", "thought", "thought", "thought"]
    assert [json.loads(frame["data"]) for frame in events] == envelopes(thread.pk)


@pytest.mark.parametrize(
    ("last_event_id", "after", "first"),
    [("", "2", 3), ("3", None, 4), ("3", "1", 4), ("1", "3", 4), ("nonsense", "2", 3)],
)
def test_stream__cursor__larger_valid_one_wins(
    tree: Tree, server: Server, last_event_id: str, after: str | None, first: int
) -> None:
    thread = start_run(tree.system, tree.payments).thread
    write_thoughts(thread.pk, 5)
    reader = Reader(server, thread.pk, make_team_token(tree.payments))
    reader.last_id = last_event_id

    reader.read(until=has(7 - first), after=after)

    assert reader.seqs() == list(range(first, 7))


def test_stream__cursor_beyond_the_head__reset_then_the_whole_log(tree: Tree, server: Server) -> None:
    thread = start_run(tree.system, tree.payments).thread
    reader = Reader(server, thread.pk, make_team_token(tree.payments))
    reader.last_id = "99"

    reader.read(until=has(1))

    assert (reader.resets, reader.seqs()) == (1, [1])


def test_stream__written_while_open__arrives_live(tree: Tree, server: Server) -> None:
    thread = start_run(tree.system, tree.payments).thread
    reader = Reader(server, thread.pk, make_team_token(tree.payments))
    writer = threading.Thread(target=write_thoughts, args=(thread.pk, 20))

    def start_writing_then_enough(reader: Reader) -> bool:
        if len(reader.events) == 1 and not writer.ident:
            writer.start()
        return len(reader.events) >= 21

    reader.read(until=start_writing_then_enough)
    writer.join()

    assert reader.events == envelopes(thread.pk)


def test_stream__event_for_the_starter_alone__withheld_from_the_team(tree: Tree, server: Server) -> None:
    person = make_user(tree.payments, Role.RESPONDER)
    thread = start_run(actor_for_user(person), tree.payments, visibility="team").thread
    write_thoughts(thread.pk, 1, audience=Audience.STARTER)
    mine = Reader(server, thread.pk, make_personal_token(person, tree.payments, ["runs:read"]))
    theirs = Reader(server, thread.pk, make_team_token(tree.payments))

    mine.read(until=has(2))
    theirs.read(until=has(2))

    assert mine.events[1]["data"]["text"] == "thought 0"
    assert theirs.events[1]["data"] == {"withheld": True}
    assert theirs.seqs() == [1, 2]


def test_stream__refusals__problem_documents_that_tell_nothing(tree: Tree, server: Server) -> None:
    thread = start_run(tree.system, tree.payments).thread
    rival = make_tree("rival")
    person = make_user(tree.payments, Role.RESPONDER)
    private = start_run(actor_for_user(person), tree.payments).thread
    bearer = {"Authorization": f"Bearer {make_team_token(tree.payments)}"}
    cases = [
        (thread.pk, {}, 401, "not_authenticated"),
        (thread.pk, {"Authorization": "Bearer nonsense"}, 401, "not_authenticated"),
        (thread.pk, {"Authorization": f"Bearer {make_team_token(rival.payments)}"}, 404, "not_found"),
        (thread.pk, {"Authorization": f"Bearer {make_team_token(tree.platform)}"}, 404, "not_found"),
        (private.pk, bearer, 404, "not_found"),
        (uuid4(), bearer, 404, "not_found"),
        (thread.pk, {"Authorization": f"Bearer {make_team_token(tree.payments, ['config:read'])}"}, 404, "not_found"),
    ]

    for thread_id, headers, status, code in cases:
        response = httpx.get(f"{server.url}/api/v1/threads/{thread_id}/stream", headers=headers)
        assert (response.status_code, response.json()["code"]) == (status, code)
        assert response.headers["content-type"] == "application/problem+json"

    stream = f"{server.url}/api/v1/threads/{thread.pk}/stream"
    assert httpx.post(stream, headers=bearer).status_code == 405
    assert httpx.get(stream, headers=bearer, params={"after": "-1"}).json()["code"] == "bad_cursor"


def test_stream__unknown_host__is_refused(tree: Tree, server: Server, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["opensre.example"]
    thread = start_run(tree.system, tree.payments).thread
    headers = {"Authorization": f"Bearer {make_team_token(tree.payments)}"}

    response = httpx.get(f"{server.url}/api/v1/threads/{thread.pk}/stream", headers=headers)

    assert (response.status_code, response.json()["code"]) == (400, "host_not_allowed")


def test_stream__quiet__heartbeats_carry_the_head_and_no_id(tree: Tree, server: Server, settings: Any) -> None:
    settings.STREAM_HEARTBEAT_SECONDS = 0.05
    thread = start_run(tree.system, tree.payments).thread
    headers = {"Authorization": f"Bearer {make_team_token(tree.payments)}"}

    with httpx.stream("GET", f"{server.url}/api/v1/threads/{thread.pk}/stream", headers=headers) as response:
        frames = parse_sse(response.iter_lines())
        beats = [frame["comment"] for _, frame in zip(range(8), frames, strict=False) if "comment" in frame]

    assert beats[-3:] == ["hb 1"] * 3


def test_stream__heartbeat_setting__is_at_most_fifteen_seconds() -> None:
    assert 0 < django_settings.STREAM_HEARTBEAT_SECONDS <= 15


def test_stream__access_taken_away__closes_at_the_recheck(
    tree: Tree, server: Server, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr("controlplane.investigations.live.RECHECK_SECONDS", 0.1)
    settings.STREAM_HEARTBEAT_SECONDS = 0.05
    thread = start_run(tree.system, tree.payments).thread
    reader = Reader(server, thread.pk, make_team_token(tree.payments))

    def take_away(reader: Reader) -> bool:
        if reader.events:
            Thread.objects.filter(pk=thread.pk).update(visibility="private")
        return False

    assert reader.read(until=take_away) == "ended"


def test_stream__lifetime_over__ends_cleanly_and_resumes(tree: Tree, server: Server, settings: Any) -> None:
    settings.STREAM_LIFETIME_SECONDS = 0.2
    settings.STREAM_HEARTBEAT_SECONDS = 0.05
    thread = start_run(tree.system, tree.payments).thread
    reader = Reader(server, thread.pk, make_team_token(tree.payments))

    assert reader.read(until=lambda _reader: False) == "ended"
    write_thoughts(thread.pk, 1)
    reader.read(until=has(2))

    assert reader.seqs() == [1, 2]


def test_stream__cut_fifty_times_while_a_run_writes__events_equal_the_log(tree: Tree, server: Server) -> None:
    """The promise of the whole bridge: whatever the network does, the client ends with the log."""
    cuts = random.Random(20261130)  # noqa: S311 (reproducible cuts)
    started = start_run(tree.system, tree.payments, {"thoughts": 5000}, {"result": "done"})
    reader = Reader(server, started.thread.pk, make_team_token(tree.payments))

    def ended(reader: Reader) -> bool:
        return bool(reader.events) and reader.events[-1]["type"] == "run_ended"

    with working():
        for _ in range(50):
            deadline = time.monotonic() + cuts.uniform(0.0, 0.08)
            size = len(reader.events) + cuts.randint(0, 120)
            reader.read(until=lambda r, d=deadline, s=size: ended(r) or len(r.events) > s or time.monotonic() > d)
        while not ended(reader):
            reader.read(until=ended)

    log = envelopes(started.thread.pk)
    assert len(log) == 5003
    assert reader.seqs() == list(range(1, 5004))
    assert reader.events == log


def test_stream__two_hundred_open__add_no_threads(tree: Tree, server: Server) -> None:
    thread = start_run(tree.system, tree.payments).thread
    url = f"{server.url}/api/v1/threads/{thread.pk}/stream"
    headers = {"Authorization": f"Bearer {make_team_token(tree.payments)}"}
    limits = httpx.Limits(max_connections=300)
    with httpx.Client(limits=limits, timeout=20) as client:
        warm = client.send(client.build_request("GET", url, headers=headers), stream=True)
        next(warm.iter_lines())
        before = threading.active_count()
        open_streams = [client.send(client.build_request("GET", url, headers=headers), stream=True) for _ in range(200)]
        firsts = [next(stream.iter_lines()) for stream in open_streams]
        during = threading.active_count()
        for stream in [warm, *open_streams]:
            stream.close()

    assert firsts == ["retry: 1000"] * 200
    assert during <= before + 1  # the hub's second database thread may start meanwhile


def test_stream__server_told_to_stop__open_streams_end_at_once(tree: Tree) -> None:
    thread = start_run(tree.system, tree.payments).thread
    token = make_team_token(tree.payments)
    outcome: list[str] = []
    with serving() as server:
        reader = Reader(server, thread.pk, token)
        reading = threading.Thread(target=lambda: outcome.append(reader.read(until=lambda _reader: False)))
        reading.start()
        wait_until(lambda: reader.events, what="the first event")
        began = time.monotonic()
        hub = server.application.application_mapping["lifespan"]._hub
        hub._loop.call_soon_threadsafe(hub.drain)
        reading.join(5)
    assert outcome == ["ended"]
    assert time.monotonic() - began < 5
    assert types(thread.pk) == ["run_started"]


def test_server__stopped_on_purpose__is_no_failed_check_of_the_process_that_goes_on(client: Client) -> None:
    with serving() as server:
        assert httpx.get(f"{server.url}/readyz").json()["checks"]["hub"] == "ok"
    checks = client.get("/readyz").json()["checks"]
    assert checks == {"database": "ok", "migrations": "ok"}


def test_stream__client_that_never_reads__is_let_go(
    tree: Tree, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.investigations.stream.WRITE_SECONDS", 0.3)
    thread = start_run(tree.system, tree.payments).thread
    for _ in range(60):
        event = new_event(EventType.THOUGHT, Thought(text="word " * 40_000), run_id=None)
        append(thread_id=thread.pk, events=[event])
    host, port = server.url.removeprefix("http://").split(":")
    request = f"GET /api/v1/threads/{thread.pk}/stream HTTP/1.1\r\nHost: {host}\r\n"
    request += f"Authorization: Bearer {make_team_token(tree.payments)}\r\n\r\n"
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((host, int(port)))
        client.sendall(request.encode())
        wait_until(lambda: streams_open() == 1, what="the stream to open")
        wait_until(lambda: streams_open() == 0, what="the server to give up on the client")
        assert len(drained(client)) < 60 * 200_000


def drained(client: socket.socket) -> bytes:
    """Return what the server had sent before it hung up."""
    received = bytearray()
    with suppress(ConnectionResetError):
        while part := client.recv(1 << 20):
            received += part
    return bytes(received)


def streams_open() -> float:
    return float(metrics.streams_open._value.get())

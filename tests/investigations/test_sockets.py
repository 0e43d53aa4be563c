"""Threads over a WebSocket: the log, commands and their acknowledgements, refusals and close codes."""

import asyncio
import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from controlplane.access.services import token_revoke
from controlplane.core.actor import Role
from controlplane.investigations import commands, live, metrics, sockets
from controlplane.investigations.log import append, new_event
from controlplane.investigations.models import Audience, IdempotentCall, Message, Run, Thread
from controlplane.runtimes.events import EventType, Thought
from tests.factories import (
    Tree,
    actor_for_user,
    api_client,
    make_personal_token,
    make_team_token,
    make_token,
    make_tree,
    make_user,
)
from tests.support.runs import envelopes, start_run, thoughts, types, wait_until, work_on, working
from tests.support.server import Server, serving
from tests.support.sockets import Socket, refusal, session_cookie, socket_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def write_thoughts(thread_id: UUID, count: int, *, audience: Audience = Audience.THREAD) -> None:
    for number in range(count):
        thought = Thought(text=f"thought {number}")
        append(thread_id=thread_id, events=[new_event(EventType.THOUGHT, thought, run_id=None, audience=audience)])


def has(count: int) -> Any:
    return lambda socket: len(socket.events) >= count


# ---- events ----------------------------------------------------------------------------------------------------------


def test_socket__hello__whole_log_then_live_as_the_stream_has_it(tree: Tree, server: Server) -> None:
    thread = start_run(tree.system, tree.payments).thread
    write_thoughts(thread.pk, 3)
    with socket_of(server, thread.pk, make_team_token(tree.payments)) as socket:
        socket.hello().read(until=has(4))
        writer = threading.Thread(target=write_thoughts, args=(thread.pk, 20))
        writer.start()
        socket.read(until=has(24))
        writer.join()
    assert socket.events == envelopes(thread.pk)
    assert socket.seqs() == list(range(1, 25))


@pytest.mark.parametrize(
    ("first", "seqs"), [({"after": 2}, [3, 4]), ({"type": "hello"}, [1, 2, 3, 4]), ({}, [1, 2, 3, 4])]
)
def test_socket__first_message__names_where_to_begin(tree: Tree, server: Server, first: Any, seqs: list[int]) -> None:
    thread = start_run(tree.system, tree.payments).thread
    write_thoughts(thread.pk, 3)
    with socket_of(server, thread.pk, make_team_token(tree.payments)) as socket:
        socket.say(**first)
        socket.read(until=has(len(seqs)))
    assert socket.seqs() == seqs


def test_socket__cursor_beyond_the_head__reset_then_the_whole_log(tree: Tree, server: Server) -> None:
    thread = start_run(tree.system, tree.payments).thread
    with socket_of(server, thread.pk, make_team_token(tree.payments)) as socket:
        socket.hello(99).read(until=has(1))
    reset = {"type": "reset", "thread_id": str(thread.pk), "data": {"reason": "cursor_ahead", "head": 1}}
    assert (socket.others, socket.seqs()) == ([reset], [1])


def test_socket__quiet__heartbeats_carry_the_head(tree: Tree, server: Server, settings: Any) -> None:
    settings.STREAM_HEARTBEAT_SECONDS = 0.05
    thread = start_run(tree.system, tree.payments).thread
    with socket_of(server, thread.pk, make_team_token(tree.payments)) as socket:
        socket.hello().read(until=lambda one: len(one.others) >= 3)
    assert socket.others == [{"type": "heartbeat", "head": 1}] * 3


def test_socket__event_for_the_starter_alone__withheld_from_the_team(tree: Tree, server: Server) -> None:
    person = make_user(tree.payments, Role.RESPONDER)
    thread = start_run(actor_for_user(person), tree.payments, visibility="team").thread
    write_thoughts(thread.pk, 1, audience=Audience.STARTER)
    seen = []
    for token in (make_personal_token(person, tree.payments), make_team_token(tree.payments)):
        with socket_of(server, thread.pk, token) as socket:
            socket.hello().read(until=has(2))
            seen.append(socket.events[1]["data"])
    assert seen[0]["text"] == "thought 0"
    assert seen[1] == {"withheld": True}


def test_socket__cut_thirty_times_while_a_run_writes__events_equal_the_log(tree: Tree, server: Server) -> None:
    cuts = random.Random(20261201)  # noqa: S311 (reproducible cuts)
    started = start_run(tree.system, tree.payments, {"thoughts": 2000}, {"result": "done"})
    token = make_team_token(tree.payments)
    got: list[dict[str, Any]] = []

    def ended() -> bool:
        return bool(got) and got[-1]["type"] == "run_ended"

    with working():
        for number in range(400):
            with socket_of(server, started.thread.pk, token) as socket:
                socket.hello(len(got))
                enough = None if number >= 30 else cuts.randint(0, 120)
                socket.read(until=partial(_seen, enough=enough))
            got += socket.events
            if ended():
                break
    assert got == envelopes(started.thread.pk)
    assert len(got) == 2003


def test_socket__two_hundred_open__add_no_threads(tree: Tree, server: Server) -> None:
    thread = start_run(tree.system, tree.payments).thread
    token = make_team_token(tree.payments)
    url = f"{server.url}/ws/threads/{thread.pk}".replace("http", "ws", 1)

    async def two_hundred() -> tuple[int, int]:
        async def opened() -> Any:
            connection = await connect(url, additional_headers={"Authorization": f"Bearer {token}"}, open_timeout=20)
            await connection.send('{"after": 0}')
            assert json.loads(await connection.recv())["seq"] == 1
            return connection

        warm = await opened()
        before = threading.active_count()
        connections = await asyncio.gather(*(opened() for _ in range(200)))
        during = threading.active_count()
        await asyncio.gather(*(one.close() for one in (warm, *connections)))
        return before, during

    before, during = asyncio.run(two_hundred())
    assert during <= before + 1  # the hub's second database thread may start meanwhile


# ---- who may ---------------------------------------------------------------------------------------------------------


def test_socket__refused_handshakes__problem_documents_that_tell_nothing(tree: Tree, server: Server) -> None:
    thread = start_run(tree.system, tree.payments).thread
    rival = make_tree("rival")
    private = start_run(actor_for_user(make_user(tree.payments)), tree.payments).thread
    team = make_team_token(tree.payments)
    cases: list[tuple[Any, str | None, int, str]] = [
        (thread.pk, None, 401, "not_authenticated"),
        (thread.pk, "nonsense", 401, "not_authenticated"),
        (thread.pk, make_team_token(rival.payments), 404, "not_found"),
        (thread.pk, make_team_token(tree.platform), 404, "not_found"),
        (private.pk, team, 404, "not_found"),
        (uuid4(), team, 404, "not_found"),
        ("x", team, 404, "not_found"),
        (thread.pk, make_team_token(tree.payments, ["config:read"]), 404, "not_found"),
    ]
    for thread_id, token, status, code in cases:
        answer = refusal(server, thread_id, token)
        assert (answer[0], answer[1]["code"]) == (status, code), (thread_id, token)


def test_socket__browser__session_with_its_own_origin_alone(tree: Tree, server: Server) -> None:
    person = make_user(tree.payments, Role.RESPONDER)
    thread = start_run(actor_for_user(person), tree.payments).thread
    cookie = session_cookie(person)

    with socket_of(server, thread.pk, headers=cookie, origin=server.url) as socket:
        socket.hello().read(until=has(1))
        assert socket.command(type="message", id="m1", text="from the page")["ok"] is True

    assert refusal(server, thread.pk, headers=cookie, origin="https://evil.example.com")[0] == 403
    assert refusal(server, thread.pk, headers=cookie)[0] == 403
    assert Message.objects.get().by == f"user:{person.pk}"


def test_socket__token_as_subprotocol__works_and_is_not_answered(tree: Tree, server: Server) -> None:
    thread = start_run(tree.system, tree.payments).thread
    token = make_team_token(tree.payments)
    with socket_of(server, thread.pk, subprotocols=["opensre.v1", f"opensre.token.{token}"]) as socket:
        assert socket.connection.subprotocol == "opensre.v1"
        socket.hello().read(until=has(1))
    assert refusal(server, thread.pk, subprotocols=["opensre.v1", "opensre.token.nonsense"])[0] == 401


def test_socket__many_requests__counted_as_on_the_stream(tree: Tree, server: Server, settings: Any) -> None:
    settings.RATE_LIMITS = {"requests": "3/hour", "investigations": "1/hour"}
    thread = start_run(tree.system, tree.payments).thread
    token = make_team_token(tree.payments)
    with socket_of(server, thread.pk, token) as socket:
        socket.hello()
        acks = [socket.command(type="message", id=f"m{n}", text="hello") for n in range(3)]
    assert [ack["ok"] for ack in acks] == [True, False, False]
    assert [ack["error"]["rule"] for ack in acks[1:]] == ["investigations", "requests"]
    assert refusal(server, thread.pk, token)[1]["code"] == "rate_limited"


def test_socket__all_places_taken__refused_until_one_is_free(tree: Tree, server: Server, settings: Any) -> None:
    settings.STREAMS_MAX_PER_ORGANIZATION = 1
    thread = start_run(tree.system, tree.payments).thread
    token = make_team_token(tree.payments)
    with socket_of(server, thread.pk, token) as socket:
        socket.hello().read(until=has(1))
        status, problem = refusal(server, thread.pk, token)
        assert (status, problem["code"]) == (429, "too_many_streams")
    wait_until(lambda: refusal(server, thread.pk, token)[0] == 101, what="a place to be free")


def test_socket__token_revoked__closes_within_five_seconds(tree: Tree, server: Server) -> None:
    thread = start_run(tree.system, tree.payments).thread
    token = make_token(tree.payments)
    with socket_of(server, thread.pk, token.plaintext) as socket:
        socket.hello().read(until=has(1))
        began = time.monotonic()
        token_revoke(actor=tree.system, token=token.token)
        assert socket.close_code() == (4401, "not_authenticated")
    assert time.monotonic() - began < 5


def test_socket__access_taken_away__closes_at_the_recheck(
    tree: Tree, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "RECHECK_SECONDS", 0.1)
    thread = start_run(tree.system, tree.payments).thread
    with socket_of(server, thread.pk, make_team_token(tree.payments)) as socket:
        socket.hello().read(until=has(1))
        Thread.objects.filter(pk=thread.pk).update(visibility="private")
        assert socket.close_code() == (4404, "not_found")


# ---- commands --------------------------------------------------------------------------------------------------------


def test_command__message_repeated_over_connections_and_rest__is_said_once(tree: Tree, server: Server) -> None:
    thread = start_run(tree.system, tree.payments).thread
    token = make_team_token(tree.payments)
    said = {"type": "message", "id": "a-key", "text": "look at the cache"}
    acks = []
    for _ in range(2):
        with socket_of(server, thread.pk, token) as socket:
            socket.hello()
            acks += [socket.command(**said), socket.command(**said)]
    rest = api_client(token=token).post(
        f"/api/v1/threads/{thread.pk}/messages", {"text": "look at the cache"}, headers={"Idempotency-Key": "a-key"}
    )

    message = Message.objects.get()
    result = {"message_id": str(message.pk), "run_id": None, "queued": True, "pending_count": 1}
    assert acks[0] == {"type": "ack", "id": "a-key", "ok": True, "replayed": False, "result": result}
    assert acks[1:] == [acks[0] | {"replayed": True}] * 3
    assert (rest.json(), rest.headers["Idempotent-Replayed"]) == (result, "true")
    assert types(thread.pk) == ["run_started", "message_queued"]


def test_command__same_id_for_something_else__refused(tree: Tree, server: Server) -> None:
    thread = start_run(tree.system, tree.payments).thread
    with socket_of(server, thread.pk, make_team_token(tree.payments)) as socket:
        socket.hello()
        socket.command(type="message", id="k", text="one")
        ack = socket.command(type="message", id="k", text="two")
    assert (ack["id"], ack["ok"], ack["error"]["code"]) == ("k", False, "idempotency_key_reused")
    assert Message.objects.count() == 1


def test_command__answer_and_interrupt__steer_the_run(tree: Tree, server: Server) -> None:
    started = start_run(tree.system, tree.payments, {"ask": "which region?"}, {"block": True})
    work_on(started.run)
    request = f"{started.run.pk}-q1"
    with socket_of(server, started.thread.pk, make_team_token(tree.payments)) as socket:
        socket.hello().read(until=has(2))
        answer = {"type": "answer", "request_id": request, "answers": {"question_0": "eu"}}
        done = socket.command(id="a1", **answer)
        late = socket.command(id="a2", **answer)
        with working():
            socket.read(until=lambda one: any(event["type"] == "thought" for event in one.events))
            stopped = [socket.command(type="interrupt", id="i1") for _ in range(2)]
            socket.read(until=lambda one: one.events[-1]["type"] == "run_ended")
        nothing = socket.command(type="interrupt", id="i2")

    assert (done["ok"], done["result"]["run_id"]) == (True, str(started.run.pk))
    assert (late["error"]["code"], late["error"]["by"]) == ("already_answered", "team of payments")
    assert [ack["ok"] for ack in stopped] == [True, True]
    assert stopped[0]["result"] == stopped[1]["result"]
    assert (nothing["error"]["status"], nothing["error"]["code"]) == (409, "nothing_running")
    assert Run.objects.get().status == "interrupted"
    assert thoughts(started.thread.pk) == ["answer: eu"]


def test_command__decide_what_nobody_asked_for__refused(tree: Tree, server: Server) -> None:
    thread = start_run(tree.system, tree.payments).thread
    with socket_of(server, thread.pk, make_team_token(tree.payments)) as socket:
        socket.hello()
        ack = socket.command(type="decide", id="d", request_id="r", decision="approve")
        odd = socket.command(type="decide", id="e", request_id="r", decision="perhaps")
    assert (ack["ok"], ack["error"]["status"]) == (False, 404)
    assert odd["error"]["errors"][0]["pointer"] == "/decision"


def test_command__each_is_authorised_anew__reader_may_not_steer(tree: Tree, server: Server) -> None:
    thread = start_run(tree.system, tree.payments).thread
    reader = make_team_token(tree.payments, ["runs:read"])
    with socket_of(server, thread.pk, reader) as socket:
        socket.hello().read(until=has(1))
        acks = [
            socket.command(type="message", id="1", text="hi"),
            socket.command(type="interrupt", id="2"),
            socket.command(type="answer", id="3", request_id="q", answers={"question_0": "x"}),
        ]
    assert [(ack["ok"], ack["error"]["status"]) for ack in acks] == [(False, 403)] * 3
    assert not IdempotentCall.objects.exists()
    assert types(thread.pk) == ["run_started"]


@pytest.mark.parametrize(
    ("message", "pointer", "code"),
    [
        ({"type": "message", "id": "1"}, "/text", "required"),
        ({"type": "message", "id": "1", "text": ""}, "/text", "blank"),
        ({"type": "message", "id": "1", "text": 7}, "/text", "invalid"),
        ({"type": "message", "id": "1", "text": "x" * 32_001}, "/text", "too_long"),
        ({"type": "message", "id": "1", "text": "x", "also": 1}, "/also", "unknown_member"),
        ({"type": "answer", "id": "1", "request_id": "q", "answers": []}, "/answers", "answers_required"),
        ({"type": "interrupt", "id": "1", "force": True}, "/force", "unknown_member"),
    ],
)
def test_command__members_that_break_a_rule__acknowledged_with_the_rule(
    tree: Tree, server: Server, message: Any, pointer: str, code: str
) -> None:
    thread = start_run(tree.system, tree.payments).thread
    with socket_of(server, thread.pk, make_team_token(tree.payments)) as socket:
        ack = socket.hello().command(**message)
    assert (ack["id"], ack["ok"], ack["error"]["status"]) == ("1", False, 422)
    assert (ack["error"]["errors"][0]["pointer"], ack["error"]["errors"][0]["code"]) == (pointer, code)


# ---- what is no command ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("garbage", "malformed_json"),
        ("[]", "not_an_object"),
        ('{"a": NaN}', "malformed_json"),
        ('{"a": 1, "a": 2}', "duplicate_key"),
        ("[" * 20 + "]" * 20, "nesting_too_deep"),
        ('{"type": "hello"}', "unknown_command"),
        ('{"type": ["message"]}', "unknown_command"),
        ('{"type": "drop"}', "unknown_command"),
        ('{"type": "interrupt"}', "id_required"),
        ('{"type": "interrupt", "id": 5}', "id_required"),
        ('{"type": "interrupt", "id": ""}', "bad_idempotency_key"),
        ('{"type": "interrupt", "id": "\\u0000"}', "bad_idempotency_key"),
    ],
)
def test_message__no_command__told_so_and_the_connection_goes_on(
    tree: Tree, server: Server, text: str, code: str
) -> None:
    thread = start_run(tree.system, tree.payments).thread
    with socket_of(server, thread.pk, make_team_token(tree.payments)) as socket:
        socket.hello().read(until=has(1))
        socket.connection.send(text)
        socket.read(until=lambda one: one.errors)
        assert socket.command(type="message", id="after", text="still here")["ok"] is True
    assert socket.errors[0]["error"]["code"] == code
    assert "Traceback" not in str(socket.errors)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("garbage", "malformed_json"),
        ('{"type": "interrupt", "id": "1"}', "hello_expected"),
        ('{"after": -1}', "bad_cursor"),
        ('{"after": true}', "bad_cursor"),
        ('{"after": 1e3}', "bad_cursor"),
        ('{"after": 0, "filter": "x"}', "unknown_member"),
    ],
)
def test_message__first_one_no_hello__told_so_and_closed(tree: Tree, server: Server, text: str, code: str) -> None:
    thread = start_run(tree.system, tree.payments).thread
    with socket_of(server, thread.pk, make_team_token(tree.payments)) as socket:
        socket.connection.send(text)
        assert socket.close_code()[0] == 4400
    assert [error["error"]["code"] for error in socket.errors] == [code]
    assert socket.events == []


def test_message__binary__1003(tree: Tree, server: Server) -> None:
    thread = start_run(tree.system, tree.payments).thread
    with socket_of(server, thread.pk, make_team_token(tree.payments)) as socket:
        socket.hello().connection.send(b"\x00\xff")
        assert socket.close_code() == (1003, "messages are text, in JSON")


@pytest.mark.parametrize("size", [commands.MAX_BYTES + 1, 17 * 1024 * 1024])
def test_message__huge__1009(tree: Tree, server: Server, size: int) -> None:
    """Ours, or the server's own above its limit, which is read no further."""
    thread = start_run(tree.system, tree.payments).thread
    with socket_of(server, thread.pk, make_team_token(tree.payments), compression=None) as socket:
        socket.hello()
        with suppress(OSError, ConnectionClosed):
            socket.connection.send("x" * size)
        assert socket.close_code()[0] in ({1009} if size < 1 << 20 else {1009, 1006})


def test_message__garbage_again_and_again__4400(tree: Tree, server: Server) -> None:
    thread = start_run(tree.system, tree.payments).thread
    with socket_of(server, thread.pk, make_team_token(tree.payments)) as socket:
        socket.hello()
        for _ in range(sockets.MOST_FAULTS):
            socket.connection.send("?")
        assert socket.close_code()[0] == 4400
    assert len(socket.errors) == sockets.MOST_FAULTS


def test_message__too_many_at_once__4429(tree: Tree, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "MOST_MESSAGES", 20)
    thread = start_run(tree.system, tree.payments).thread
    with socket_of(server, thread.pk, make_team_token(tree.payments)) as socket:
        socket.hello()
        for number in range(20):
            socket.say(type="interrupt", id=str(number), nonsense=1)
        assert socket.close_code()[0] == 4429
    assert len(socket.acks) == 19


def test_message__no_hello_in_time__4408(tree: Tree, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "HELLO_SECONDS", 0.1)
    thread = start_run(tree.system, tree.payments).thread
    with socket_of(server, thread.pk, make_team_token(tree.payments)) as socket:
        assert socket.close_code()[0] == 4408


# ---- its end ---------------------------------------------------------------------------------------------------------


def test_socket__lifetime_over__4000_and_the_client_resumes(tree: Tree, server: Server, settings: Any) -> None:
    settings.STREAM_LIFETIME_SECONDS = 0.2
    settings.STREAM_HEARTBEAT_SECONDS = 0.05
    thread = start_run(tree.system, tree.payments).thread
    token = make_team_token(tree.payments)
    with socket_of(server, thread.pk, token) as socket:
        assert socket.hello().close_code()[0] == 4000
    write_thoughts(thread.pk, 1)
    with socket_of(server, thread.pk, token) as again:
        again.hello(socket.seqs()[-1]).read(until=has(1))
    assert (socket.seqs(), again.seqs()) == ([1], [2])


def test_socket__server_told_to_stop__1012_at_once(tree: Tree) -> None:
    thread = start_run(tree.system, tree.payments).thread
    token = make_team_token(tree.payments)
    with serving() as server, socket_of(server, thread.pk, token) as socket:
        socket.hello().read(until=has(1))
        began = time.monotonic()
        hub = server.application.application_mapping["lifespan"]._hub
        hub._loop.call_soon_threadsafe(hub.drain)
        assert socket.close_code()[0] == 1012
        assert time.monotonic() - began < 5


def test_socket__client_gone__the_run_goes_on_and_nothing_stays(tree: Tree, server: Server) -> None:
    started = start_run(tree.system, tree.payments, {"thoughts": 50}, {"result": "done"})
    with socket_of(server, started.thread.pk, make_team_token(tree.payments)) as socket:
        socket.hello().read(until=has(1))
        wait_until(lambda: open_sockets() == 1, what="the socket to be counted")
    wait_until(lambda: open_sockets() == 0, what="the socket to be gone")
    assert work_on(started.run).status == "completed"


def test_socket__client_that_never_reads__is_let_go(
    tree: Tree, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "WRITE_SECONDS", 0.3)
    thread = start_run(tree.system, tree.payments).thread
    for _ in range(60):
        append(thread_id=thread.pk, events=[new_event(EventType.THOUGHT, Thought(text="word " * 40_000), run_id=None)])
    with socket_of(server, thread.pk, make_team_token(tree.payments), compression=None, max_queue=1) as socket:
        socket.hello()
        wait_until(lambda: open_sockets() == 1, what="the socket to open")
        wait_until(lambda: open_sockets() == 0, what="the server to give up on the client")


def open_sockets() -> float:
    return float(metrics.sockets_open._value.get())


def test_envelope__of_a_frame__is_what_pages_have(tree: Tree, server: Server) -> None:
    thread = start_run(tree.system, tree.payments, prompt="a \n b \r\n data: c").thread
    with socket_of(server, thread.pk, make_team_token(tree.payments)) as socket:
        socket.hello().read(until=has(1))
    assert isinstance(socket, Socket)
    assert socket.events == envelopes(thread.pk)


def _seen(socket: Socket, *, enough: int | None) -> bool:
    """Return whether a client has the run's end, or as many events as it wants before it is cut off."""
    ended = bool(socket.events) and socket.events[-1]["type"] == "run_ended"
    return ended or (enough is not None and len(socket.events) >= enough)

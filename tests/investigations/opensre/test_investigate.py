"""``POST /investigate`` over a real server, asked as OpenSRE's clients ask."""

import re
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx
import pytest

from controlplane.access.services import token_revoke
from controlplane.core.actor import Role
from controlplane.investigations import metrics
from controlplane.investigations.models import ClientThread, Run, Thread
from controlplane.investigations.services import message_post, question_answer, run_interrupt
from tests.factories import (
    Tree,
    make_admin_token,
    make_personal_token,
    make_team_token,
    make_token,
    make_tree,
    make_user,
)
from tests.investigations.opensre.recorded import SLACK, TEAMS, WEB, headers_of, read
from tests.support.runs import in_threads, script, wait_for_status, wait_until, work_on, working
from tests.support.server import Server, serving
from tests.support.sockets import session_cookie

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def scripted(settings: Any) -> None:
    settings.DEFAULT_RUNTIME = "scripted"


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def investigate(server: Server, token: str, body: Any, client: str = "teams") -> list[dict[str, Any]]:
    """Ask and read to the end, as a client does."""
    url = f"{server.url}/investigate"
    with httpx.stream("POST", url, json=body, headers=headers_of(client, token), timeout=20) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        assert (response.headers["cache-control"], response.headers["x-accel-buffering"]) == ("no-cache", "no")
        return list(read(response))


def refused(server: Server, token: str | None, body: Any, **options: Any) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    response = httpx.post(f"{server.url}/investigate", json=body, headers=headers | options, timeout=20)
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code, response.json()["code"]


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


@pytest.mark.parametrize(
    ("body", "client", "name"),
    [
        (SLACK, "header", re.escape(str(SLACK["thread_id"]))),
        (TEAMS, "teams", re.escape(str(TEAMS["thread_id"]))),
        (WEB, "web", "thread-[0-9a-f]{16}"),
    ],
)
def test_investigate__as_each_client_asks__streams_their_events_and_ends(
    tree: Tree, server: Server, body: Any, client: str, name: str
) -> None:
    with working():
        events = investigate(server, make_team_token(tree.payments), body, client)

    assert kinds(events) == ["run_started", "thought", "result"]
    assert all(set(event) == {"type", "data", "thread_id", "timestamp"} for event in events)
    assert all(re.fullmatch(name, event["thread_id"]) for event in events)
    assert all(datetime.fromisoformat(event["timestamp"]).utcoffset() is not None for event in events)
    run = Run.objects.get()
    assert events[0]["data"] == {"run_id": str(run.pk), "agent": "scripted"}
    assert events[-1]["data"] == {"text": "done", "success": True, "subtype": "success"}
    thread = Thread.objects.get()
    assert (thread.node_id, thread.visibility, thread.channel) == (tree.payments.pk, "team", "api")


def test_investigate__where_it_comes_from__is_kept_and_vouches_for_nothing(tree: Tree, server: Server) -> None:
    token = make_team_token(tree.payments)
    long = TEAMS | {"trigger_actor": "x" * 500, "trigger_source": 7}
    with working():
        investigate(server, token, TEAMS)
        first = ClientThread.objects.get().origin
        investigate(server, token, long)
    assert first == {key: TEAMS[key] for key in ("trigger_source", "trigger_actor", "trigger_actor_teams_id")} | {
        "conversation_ref": {key: value for key, value in TEAMS["conversation_ref"].items() if key != "more"}  # type: ignore[attr-defined]
    }
    assert ClientThread.objects.get().origin["trigger_actor"] == "x" * 128
    assert Thread.objects.get().started_by.startswith("token:")


def test_investigate__same_thread_again__continues_it(tree: Tree, server: Server) -> None:
    token = make_team_token(tree.payments)
    with working():
        investigate(server, token, SLACK)
        events = investigate(server, token, SLACK | {"prompt": "and the cache?"})
    assert [run.prompt for run in Run.objects.order_by("number")] == [SLACK["prompt"], "and the cache?"]
    assert Thread.objects.count() == 1
    assert kinds(events) == ["run_started", "thought", "result"]
    assert events[1]["data"] == {"text": "asked: and the cache?"}


def test_investigate__same_name_in_two_teams__two_threads(tree: Tree, server: Server) -> None:
    with working():
        for node in (tree.payments, tree.platform, make_tree("rival").payments):
            investigate(server, make_team_token(node), SLACK)
    assert (Thread.objects.count(), Run.objects.filter(number=1).count()) == (3, 3)


def test_investigate__busy__409_and_nothing_is_queued(tree: Tree, server: Server) -> None:
    token = make_team_token(tree.payments)
    body = SLACK | {"prompt": script({"block": True})}
    with (
        working(),
        httpx.stream("POST", f"{server.url}/investigate", json=body, headers=headers_of("teams", token)) as answer,
    ):
        events = read(answer)
        next(events)
        assert refused(server, token, SLACK) == (409, "thread_busy")
        run_interrupt(actor=tree.system, thread_id=Thread.objects.get().pk)
        last = list(events)[-1]
    assert (last["type"], last["data"]["subtype"], last["data"]["success"]) == ("result", "interrupted", False)
    assert Run.objects.count() == 1


def test_investigate__eight_at_once__one_thread_one_run(tree: Tree, server: Server) -> None:
    token = make_team_token(tree.payments)
    body = SLACK | {"prompt": script({"block": True})}

    def ask() -> int:
        url = f"{server.url}/investigate"
        with httpx.stream("POST", url, json=body, headers=headers_of("teams", token), timeout=20) as response:
            return response.status_code

    statuses = in_threads(*[ask] * 8)
    assert sorted(statuses) == [200] + [409] * 7
    assert (Thread.objects.count(), Run.objects.count(), ClientThread.objects.count()) == (1, 1, 1)


def test_investigate__message_queued_meanwhile__same_stream_has_its_answer(tree: Tree, server: Server) -> None:
    token = make_team_token(tree.payments)
    headers, name = headers_of("teams", token), SLACK["thread_id"]
    body = SLACK | {"prompt": script({"ask": "Which?"}, {"result": "first"})}
    seen: list[dict[str, Any]] = []
    with working(), httpx.stream("POST", f"{server.url}/investigate", json=body, headers=headers) as answer:
        for event in read(answer):
            seen.append(event)
            if event["type"] == "question":
                queued = httpx.post(
                    f"{server.url}/threads/{name}/queue-message", json={"text": "look at the cache"}, headers=headers
                )
                reply = {"thread_id": name, "answers": {"question_0": "eu"}}
                assert httpx.post(f"{server.url}/answer", json=reply, headers=headers).status_code == 200
    assert (queued.status_code, queued.json()) == (200, {"queued": True, "pending_count": 1})
    first = ["run_started", "question", "message_queued", "thought", "result"]
    assert kinds(seen) == [*first, "message_queued", "thought", "result"]
    counts = [event["data"] for event in seen if event["type"] == "message_queued"]
    assert counts == [{"pending_count": 1}, {"pending_count": 0}]
    assert seen[-2]["data"]["text"] == "asked: look at the cache"


def test_investigate__message_after_the_end__is_another_stream(tree: Tree, server: Server) -> None:
    token = make_team_token(tree.payments)
    with working():
        events = investigate(server, token, SLACK)
        thread = Thread.objects.get()
        accepted = message_post(actor=tree.system, thread_id=thread.pk, text="more")
        assert accepted.run is not None
        wait_for_status(accepted.run)
    assert kinds(events)[-1] == "result"


def test_investigate__question__asked_and_answered_over_their_routes(tree: Tree, server: Server) -> None:
    token = make_team_token(tree.payments)
    body = TEAMS | {"prompt": script({"ask": "Which region?", "options": ["eu", "us"]}, {"result": "found"})}
    seen: list[dict[str, Any]] = []
    with (
        working(),
        httpx.stream("POST", f"{server.url}/investigate", json=body, headers=headers_of("teams", token)) as answer,
    ):
        for event in read(answer):
            seen.append(event)
            if event["type"] == "question":
                reply = httpx.post(
                    f"{server.url}/answer",
                    json={"thread_id": TEAMS["thread_id"], "answers": {"question_0": "eu // the old one"}},
                    headers=headers_of("teams", token),
                )
    assert (reply.status_code, reply.json()) == (200, {"status": "ok", "thread_id": TEAMS["thread_id"]})
    assert kinds(seen) == ["run_started", "question", "thought", "result"]
    assert seen[1]["data"] == {
        "questions": [
            {
                "question": "Which region?",
                "header": "",
                "options": [{"label": "eu", "description": ""}, {"label": "us", "description": ""}],
                "multiSelect": False,
            }
        ]
    }
    assert seen[2]["data"]["text"] == "answer: eu // the old one"


def test_investigate__quiet__keepalive_comments(tree: Tree, server: Server, settings: Any) -> None:
    settings.STREAM_HEARTBEAT_SECONDS = 0.05
    token = make_team_token(tree.payments)
    with httpx.stream("POST", f"{server.url}/investigate", json=SLACK, headers=headers_of("teams", token)) as answer:
        lines = answer.iter_lines()
        first = [next(lines) for _ in range(8)]
    assert first[0] == ": open"
    assert first[2].startswith("data: {")
    assert first[4::2] == [": keepalive"] * 2


def test_investigate__client_leaves__the_run_goes_on(tree: Tree, server: Server) -> None:
    token = make_team_token(tree.payments)
    with httpx.stream("POST", f"{server.url}/investigate", json=SLACK, headers=headers_of("teams", token)) as answer:
        next(read(answer))
    wait_until(lambda: streams_open() == 0, what="the server to see it")
    assert work_on(Run.objects.get()).status == "completed"


def test_investigate__sixty_open__add_no_threads(tree: Tree, server: Server, settings: Any) -> None:
    settings.RATE_LIMITS = {"investigations": "off"}
    token = make_team_token(tree.payments)
    limits = httpx.Limits(max_connections=100)
    url, headers = f"{server.url}/investigate", headers_of("teams", token)
    with httpx.Client(limits=limits, timeout=30) as client:

        def opened(number: int) -> httpx.Response:
            body = {"prompt": "why?", "thread_id": f"t-{number}"}
            response = client.send(client.build_request("POST", url, json=body, headers=headers), stream=True)
            next(response.iter_lines())
            return response

        streams = [opened(0), opened(1)]
        before = threading.active_count()
        streams += [opened(number) for number in range(2, 60)]
        during = threading.active_count()
        for stream in streams:
            stream.close()
    assert during <= before + 2  # the pools' second threads may start meanwhile


def test_investigate__token_revoked__the_stream_says_so_and_ends(tree: Tree, server: Server) -> None:
    token = make_token(tree.payments)
    url, headers = f"{server.url}/investigate", headers_of("teams", token.plaintext)
    with httpx.stream("POST", url, json=SLACK, headers=headers, timeout=20) as answer:
        events = read(answer)
        next(events)
        began = time.monotonic()
        token_revoke(actor=tree.system, token=token.token)
        rest = list(events)
    assert time.monotonic() - began < 5
    assert kinds(rest) == ["error"]
    assert rest[0]["data"]["recoverable"] is True


def test_investigate__server_stops__the_stream_says_that_the_run_is_kept(tree: Tree) -> None:
    token = make_team_token(tree.payments)
    with serving() as server:
        url, headers = f"{server.url}/investigate", headers_of("teams", token)
        with httpx.stream("POST", url, json=SLACK, headers=headers, timeout=20) as answer:
            events = read(answer)
            next(events)
            hub = server.application.application_mapping["lifespan"]._hub
            hub._loop.call_soon_threadsafe(hub.drain)
            rest = list(events)
    assert kinds(rest) == ["error"]
    assert "ask again in this thread" in rest[0]["data"]["message"]


def test_investigate__refusals__problem_documents(tree: Tree, server: Server) -> None:
    token = make_team_token(tree.payments)
    image = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    file = {
        "filename": "a.log",
        "size": 3,
        "media_type": "text/plain",
        "download_url": "https://x/y",
        "auth_header": "z",
    }
    cases: list[tuple[str | None, Any, tuple[int, str]]] = [
        (None, SLACK, (401, "not_authenticated")),
        ("nonsense", SLACK, (401, "not_authenticated")),
        (token, SLACK | {"images": [image]}, (422, "attachments_not_supported")),
        (token, SLACK | {"file_attachments": [file]}, (422, "attachments_not_supported")),
        (token, SLACK | {"prompt": " "}, (422, "blank")),
        (token, {"thread_id": "x"}, (422, "not_text")),
        (token, SLACK | {"thread_id": "x" * 241}, (422, "bad_thread_id")),
        (token, SLACK | {"thread_id": "a/b"}, (422, "bad_thread_id")),
        (token, SLACK | {"thread_id": "a\x00"}, (422, "bad_thread_id")),
        (token, SLACK | {"thread_id": 7}, (422, "bad_thread_id")),
        (token, [SLACK], (400, "not_an_object")),
        (make_team_token(tree.payments, ["runs:read"]), SLACK, (403, "no_team")),
        (make_admin_token(tree.engineering), SLACK, (422, "team_required")),
    ]
    for presented, body, expected in cases:
        assert refused(server, presented, body) == expected, body
    assert httpx.get(f"{server.url}/investigate").status_code == 405
    garbage = httpx.post(f"{server.url}/investigate", content=b"{", headers={"Authorization": f"Bearer {token}"})
    assert (garbage.status_code, garbage.json()["code"]) == (400, "malformed_json")
    person = make_user(tree.payments, Role.RESPONDER)
    assert httpx.post(f"{server.url}/investigate", json=SLACK, headers=session_cookie(person)).status_code == 401
    assert not Thread.objects.exists()


def test_investigate__body_larger_than_accepted__413(tree: Tree, server: Server, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    token = make_team_token(tree.payments)
    assert refused(server, token, SLACK | {"prompt": "x" * 1000}) == (413, "payload_too_large")


def test_investigate__too_many__429(tree: Tree, server: Server, settings: Any) -> None:
    settings.RATE_LIMITS = {"investigations": "1/hour"}
    token = make_team_token(tree.payments)
    with working():
        investigate(server, token, SLACK)
    assert refused(server, token, SLACK) == (429, "rate_limited")


def test_investigate__personal_token__private_thread_that_others_do_not_continue(tree: Tree, server: Server) -> None:
    person = make_user(tree.payments, Role.RESPONDER)
    with working():
        investigate(server, make_personal_token(person, tree.payments), SLACK)
    assert Thread.objects.get().visibility == "private"
    assert refused(server, make_team_token(tree.payments), SLACK) == (404, "not_found")


def test_investigate__unknown_host__is_refused(tree: Tree, server: Server, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["opensre.example"]
    assert refused(server, make_team_token(tree.payments), SLACK) == (400, "host_not_allowed")


def test_investigate__builtin_runtime__structured_report(tree: Tree, server: Server, settings: Any) -> None:
    settings.DEFAULT_RUNTIME = "builtin"
    with working():
        events = investigate(server, make_team_token(tree.payments), TEAMS)
    result = events[-1]["data"]
    assert events[-1]["type"] == "result"
    assert set(result) == {"text", "success", "subtype", "structured_report"}
    report = result["structured_report"]
    assert report["status"] in {"resolved", "mitigated", "ongoing", "inconclusive"}
    assert {"version", "title", "severity", "affected_services", "executive_summary", "impact", "timeline"} <= set(
        report
    )


def test_answer__question_of_another_team_with_the_same_name__not_touched(tree: Tree, server: Server) -> None:
    mine, theirs = make_team_token(tree.payments), make_team_token(tree.platform)
    with working():
        investigate(server, theirs, SLACK)
        body = SLACK | {"prompt": script({"ask": "Which?"})}
        with httpx.stream("POST", f"{server.url}/investigate", json=body, headers=headers_of("teams", mine)) as answer:
            assert [next(read(answer))["type"]] == ["run_started"]
            run = Run.objects.order_by("-created_at")[0]
            wait_for_status(run, "waiting")
            url = f"{server.url}/answer"
            sent = {"thread_id": SLACK["thread_id"], "answers": {"question_0": "x"}}
            assert httpx.post(url, json=sent, headers=headers_of("teams", theirs)).status_code == 409
            run.refresh_from_db()
            assert run.status == "waiting"
            question_answer(
                actor=tree.system, thread_id=run.thread_id, request_id=run.waiting_for, answers={"question_0": "y"}
            )
            wait_for_status(run)


def streams_open() -> float:
    return float(metrics.streams_open._value.get())

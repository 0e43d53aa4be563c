"""The AG-UI routes over a real server: starting, joining, stopping, resuming, refusals."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.conf import settings as django_settings
from django.test import Client as Browser

from controlplane.core.actor import Role
from controlplane.investigations.agui import application
from controlplane.investigations.models import Message, Run, Thread
from controlplane.orgs.models import Node
from tests.factories import make_personal_token, make_team_token, make_tree, make_user
from tests.support.runs import script, wait_until, working
from tests.support.server import Server, parse_sse, serving

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = "/api/v1/agui"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Server]:
    settings.DEFAULT_RUNTIME = "scripted"
    with serving() as running:
        yield running


@pytest.fixture
def payments() -> Node:
    return make_tree().payments


class Client:
    """A front end: it keeps its own ids, and the events of every call."""

    def __init__(self, server: Server, token: str) -> None:
        self.url = server.url + ROOT
        self.headers = {"Authorization": f"Bearer {token}"}

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return httpx.post(self.url + path, json=body, headers=self.headers, timeout=20)

    def stream(self, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        with httpx.stream("POST", self.url + path, json=body, headers=self.headers, timeout=20) as response:
            assert response.status_code == 200, response.read()
            assert response.headers["content-type"].startswith("text/event-stream")
            frames = list(parse_sse(response.iter_lines()))
        return [json.loads(frame["data"]) for frame in frames if "data" in frame]

    def run(self, *steps: dict[str, Any], run: str = "r1") -> list[dict[str, Any]]:
        message = {"id": run, "role": "user", "content": script(*steps)}
        body = {"threadId": "chat-1", "runId": run, "messages": [message], "tools": [], "context": [], "state": {}}
        return self.stream("/agent/payments/run", body)


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


@pytest.fixture
def client(server: Server, payments: Node) -> Client:
    return Client(server, make_team_token(payments))


def test_run__new_thread__events_to_its_end(client: Client) -> None:
    with working():
        events = client.run({"thought": "hm"}, {"result": "It was DNS."})

    assert kinds(events) == [
        "RUN_STARTED", "REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END", "REASONING_END", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END",
        "STATE_SNAPSHOT", "RUN_FINISHED",
    ]  # fmt: skip
    assert (events[0]["threadId"], events[0]["runId"]) == ("chat-1", "r1")
    assert events[7]["delta"] == "It was DNS."
    assert Thread.objects.get().node.slug == "payments"


def test_run__same_run_id_again__follows_the_one_there_is(client: Client) -> None:
    with working():
        first, second = (client.run({"result": "done"}) for _ in range(2))
    assert first == second
    assert Run.objects.count() == 1


def test_run__follow_up__next_run_of_the_same_thread(client: Client) -> None:
    with working():
        client.run({"result": "one"})
        events = client.run({"result": "two"}, run="r2")
    assert events[0]["runId"] == "r2"
    assert [event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"] == ["two"]
    assert (Thread.objects.count(), Run.objects.count()) == (1, 2)


def test_question__interrupt_then_resume(client: Client) -> None:
    with working():
        asked = client.run({"ask": "Which?", "options": ["eu", "us"]}, {"result": "done"})
        (interrupt,) = asked[-1]["outcome"]["interrupts"]
        resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"question_0": "eu"}}]
        body = {"threadId": "chat-1", "runId": "r2", "messages": [], "resume": resume}
        events = client.stream("/agent/payments/run", body)
        late = client.post("/agent/payments/run", body | {"runId": "r3"})
    assert asked[-1]["outcome"]["type"] == "interrupt"
    assert [event["delta"] for event in events if event["type"] == "REASONING_MESSAGE_CONTENT"] == ["answer: eu"]
    assert events[-1]["outcome"] == {"type": "success"}
    assert (late.status_code, late.json()["code"]) == (409, "not_waiting")


def test_message_to_a_running_turn__stream_goes_on_to_its_answer(client: Client) -> None:
    found: list[list[dict[str, Any]]] = []
    with working():
        blocked = threading.Thread(target=lambda: found.append(client.run({"block": True})))
        blocked.start()
        wait_until(lambda: Run.objects.filter(status="running").exists(), what="the run to be worked on")
        joined = threading.Thread(target=lambda: found.append(client.run({"result": "second"}, run="r2")))
        joined.start()
        wait_until(Message.objects.exists, what="the message")
        assert client.post("/agent/payments/stop/chat-1", {}).json()["stopped"] is True
        blocked.join(20)
        joined.join(20)
    first, second = sorted(found, key=lambda events: str(events[0]["runId"]))
    assert first[-1]["outcome"] == {"type": "cancelled"}
    assert [event["delta"] for event in second if event["type"] == "TEXT_MESSAGE_CONTENT"][-1] == "second"
    assert second[-1]["outcome"] == {"type": "success"}


def test_connect__second_client__history_with_what_was_asked(client: Client, server: Server, payments: Node) -> None:
    with working():
        client.run({"thought": "hm"}, {"tool": "nothing_such"}, {"result": "one"})
        client.run({"result": "two"}, run="r2")
    thread = str(Thread.objects.get().pk)
    other = Client(server, make_personal_token(make_user(payments, Role.VIEWER), payments, ["runs:read"]))
    body = {"threadId": thread, "runId": "c1", "messages": []}

    for one, name in ((client, "chat-1"), (client, thread), (other, thread)):
        events = one.stream("/agent/payments/connect", body | {"threadId": name})
        assert kinds(events) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "RUN_FINISHED"]
        messages = events[1]["messages"]
        roles = [message["role"] for message in messages]
        assert roles == ["user", "reasoning", "assistant", "tool", "assistant", "user", "assistant"]
        assert messages[-1]["content"] == "two"
    assert other.post("/agent/payments/connect", body | {"threadId": "chat-1"}).status_code == 404


def test_connect__running__history_then_live(client: Client) -> None:
    with working():
        blocked = threading.Thread(target=lambda: client.run({"thought": "hm"}, {"block": True}))
        blocked.start()
        wait_until(lambda: Thread.objects.filter(last_seq__gte=2).exists(), what="the thought")
        found: list[list[dict[str, Any]]] = []
        body = {"threadId": "chat-1", "runId": "c1", "messages": []}
        joining = threading.Thread(target=lambda: found.append(client.stream("/agent/payments/connect", body)))
        joining.start()
        client.post("/agent/payments/stop/chat-1", {})
        joining.join(20)
        blocked.join(20)
    assert found[0][1]["messages"][0]["role"] == "user"
    assert found[0][-1]["type"] == "RUN_FINISHED"


def test_connect__waiting__says_what_for(client: Client) -> None:
    with working():
        client.run({"ask": "Which?"})
        events = client.stream("/agent/payments/connect", {"threadId": "chat-1", "runId": "c", "messages": []})
    assert events[-1]["outcome"]["interrupts"][0]["message"] == "Which?"


def test_stream__ended_by_its_time__taken_up_again(
    client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.STREAM_LIFETIME_SECONDS = 0.3
    monkeypatch.setattr(application, "SHORTEST_SECONDS", 0.1)
    with working():
        events = client.run({"sleep_ms": 1500}, {"result": "late"})
    assert [event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"] == ["late"]


def test_single_route__same_calls_in_an_envelope(client: Client) -> None:
    message = {"id": "m", "role": "user", "content": script({"result": "done"})}
    body = {"threadId": "chat-1", "runId": "r1", "messages": [message]}
    with working():
        events = client.stream("", {"method": "agent/run", "params": {"agentId": "payments"}, "body": body})
    joined = client.stream("/", {"method": "agent/connect", "params": {"agentId": "default"}, "body": body})
    stopped = client.post("", {"method": "agent/stop", "params": {"agentId": "default", "threadId": "chat-1"}})
    info = client.post("", {"method": "info"})
    assert (kinds(events)[-1], kinds(joined)[1]) == ("RUN_FINISHED", "MESSAGES_SNAPSHOT")
    assert stopped.json() == {"stopped": False}
    assert set(info.json()["agents"]) == {"payments", "default"}
    assert client.post("", {"method": "transcribe"}).json()["code"] == "unknown_method"


def test_info__lists_the_teams_one_may_ask(server: Server, payments: Node) -> None:
    person = make_user(payments.parent, Role.RESPONDER)  # type: ignore[arg-type]  # it has a parent
    token = make_personal_token(person, payments, ["runs:create"])
    answer = httpx.get(f"{server.url}{ROOT}/info", headers={"Authorization": f"Bearer {token}"})
    assert set(answer.json()["agents"]) == {"payments", "platform"}


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "code"),
    [
        ("POST", "/info", b"{}", 405, "method_not_allowed"),
        ("GET", "/agent/payments/run", b"", 405, "method_not_allowed"),
        ("POST", "/agent/payments/run", b"{", 400, "malformed_json"),
        ("POST", "/agent/payments/run", b"[]", 400, "not_an_object"),
        ("POST", "/agent/payments/run", b'{"threadId": "t"}', 422, "no_user_message"),
        ("POST", "/agent/nobody/run", None, 422, "unknown_team"),
        ("POST", "/agent/payments/connect", None, 404, "not_found"),
        ("POST", "/agent/payments/stop/none", b"{}", 404, "not_found"),
        ("POST", "/agent/payments/dance", b"{}", 404, None),
        ("POST", "/agent/payments/run", b'{"a": "' + b"x" * 10_000_000 + b'"}', 413, "payload_too_large"),
    ],
)
def test_bad_call__clear_problem_and_nothing_started(
    client: Client, method: str, path: str, content: bytes | None, status: int, code: str | None
) -> None:
    if content is None:
        content = json.dumps(
            {"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": "why?"}]}
        ).encode()
    answer = httpx.request(method, client.url + path, content=content, headers=client.headers, timeout=20)
    assert answer.status_code == status
    assert code is None or answer.json()["code"] == code
    assert not Thread.objects.exists()


def test_cookie__opens_nothing(server: Server, payments: Node) -> None:
    browser = Browser()
    browser.force_login(make_user(payments))
    cookie = browser.cookies[django_settings.SESSION_COOKIE_NAME].value
    answer = httpx.get(
        f"{server.url}{ROOT}/info", headers={"Cookie": f"{django_settings.SESSION_COOKIE_NAME}={cookie}"}
    )
    assert answer.status_code == 401

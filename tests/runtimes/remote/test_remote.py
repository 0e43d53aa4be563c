"""Runs of the remote runtime against an agent server over the wire."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import Settings

from controlplane.configs.services import config_patch
from controlplane.core.actor import Actor, Role
from controlplane.investigations.models import Event, Run
from controlplane.investigations.services import message_post, question_answer, run_interrupt
from tests.factories import Tree, actor_for_user, entrust, make_user
from tests.support.agent_server import AgentDouble, Play, agent_server, frame
from tests.support.runs import envelopes, start_run, thoughts, wait_for_status, wait_until, work_on, working

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "agent-server-secret-91bd"
RESULT = frame("result", text="The disk is full.", success=True, subtype="success")


@pytest.fixture
def server(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentDouble]:
    settings.OUTBOUND_PRIVATE_ALLOW = ["127.0.0.0/8"]
    monkeypatch.setenv("OPENSRE_CRED_AGENT", SECRET)
    with agent_server() as double:
        yield double


@pytest.fixture
def asker(tree: Tree) -> Actor:
    return actor_for_user(make_user(tree.payments, Role.RESPONDER, username="asker"))


def configure(tree: Tree, server: AgentDouble, **section: Any) -> None:
    entrust(tree.root, "OPENSRE_CRED_AGENT", ["127.0.0.1"])
    runtime = {"kind": "remote", "url": server.url, "token": "${OPENSRE_CRED_AGENT}"} | section
    config_patch(actor=tree.system, node=tree.payments, patch={"runtime": runtime})


def run_with(tree: Tree, asker: Actor, server: AgentDouble, *plays: Play, **section: Any) -> Run:
    configure(tree, server, **section)
    server.plays = list(plays)
    return work_on(start_run(asker, tree.payments, prompt="Why is it slow?", runtime=None).run)


def events(run: Run, type_: str) -> list[dict[str, Any]]:
    return [event["data"] for event in envelopes(run.thread_id) if event["type"] == type_]


def test_remote__a_whole_turn__is_in_the_log(tree: Tree, server: AgentDouble, asker: Actor) -> None:
    report = {
        "title": "Disk full",
        "severity": "high",
        "status": "ongoing",
        "executive_summary": "The disk of db-1 is full.",
        "affected_services": ["db-1"],
        "root_cause": {"summary": "Logs fill the disk.", "confidence": "probable"},
        "timeline": [{"time": "2026-09-01T10:00:00Z", "event": "full"}, {"time": "noon", "event": "?"}],
    }
    start = frame("tool_start", name="Bash", tool_use_id="a", command="df", depth=1, agent_type="db")
    play = Play(
        [
            b"\xef\xbb\xbf: hello\r\n\r\n",
            frame("run_started", run_id="x", agent="planner"),
            frame("thought", text="I look."),
            start,
            start,
            frame("tool_end", name="Bash", tool_use_id="a", success=True, output=f"100% {SECRET}"),
            frame("task_started", task_id="1", description="dig"),
            frame("novelty", a=1),
            b"data: {broken\n\n",
            frame("tool_started", name="Read", file_path="/x"),
            frame("tool_completed", name="Read", success=False, error="no"),
            frame("result", text="The disk is full.", success=True, structured_report=report),
        ]
    )
    run = run_with(tree, asker, server, play)
    assert (run.status, run.runtime) == ("completed", "remote")
    assert [one["name"] for one in events(run, "tool_start")] == ["Bash", "Read"]
    assert [one["success"] for one in events(run, "tool_end")] == [True, False]
    assert events(run, "tool_start")[0]["agent_type"] == "db"
    (result,) = events(run, "result")
    assert result["report"]["root_cause"]["mechanism"] == "Logs fill the disk."
    assert len(result["report"]["timeline"]) == 1
    assert thoughts(run.thread_id)[-1].endswith("novelty (1), invalid_json (1).")
    ((_, _, headers, body),) = [call for call in server.calls if call[1] == "/investigate"]
    assert headers["authorization"] == f"Bearer {SECRET}"
    assert (body["prompt"], body["thread_id"]) == ("Why is it slow?", f"opensre-{run.thread_id}")
    assert SECRET not in "".join(Event.objects.values_list("data", flat=True))


def test_remote__cut_at_any_byte__keeps_what_came_and_goes_on(tree: Tree, server: AgentDouble, asker: Actor) -> None:
    first = frame("thought", text="first")
    server.active = [{"active": True, "sdk_session_id": "s"}, {"active": False, "sdk_session_id": "s"}]
    run = run_with(tree, asker, server, Play([first, RESULT[:30]], cut=True), Play([first, RESULT]))
    assert run.status == "completed", envelopes(run.thread_id)
    assert thoughts(run.thread_id).count("first") == 1
    assert [body.get("resume_session_id") for body in server.bodies("/investigate")] == [None, "s"]


def test_remote__server_lost_its_memory__fails_and_keeps_all(tree: Tree, server: AgentDouble, asker: Actor) -> None:
    server.statuses = {"active": 404}
    run = run_with(tree, asker, server, Play([frame("thought", text="first")], cut=True))
    assert (run.status, run.reason) == ("failed", "remote_lost")
    assert "first" in thoughts(run.thread_id)


def test_remote__silence__counts_as_stall_and_comments_do_not(tree: Tree, server: AgentDouble, asker: Actor) -> None:
    drip: list[bytes | float | str] = [b": keepalive\n", 0.4] * 3
    server.active = [{"active": False, "sdk_session_id": "s"}]
    plays = (Play([b": x\n", 1.5]), Play([*drip, RESULT]))
    run = run_with(tree, asker, server, *plays, idle_timeout_s=1)
    assert run.status == "completed"
    assert len(server.bodies("/investigate")) == 2


@pytest.mark.parametrize(("status", "reason"), [(401, "remote_refused"), (500, "remote_http_error")])
def test_remote__refusal__is_told(tree: Tree, server: AgentDouble, asker: Actor, status: int, reason: str) -> None:
    run = run_with(tree, asker, server, Play(status=status))
    assert (run.status, run.reason) == ("failed", reason)


def test_remote__busy__is_asked_again(tree: Tree, server: AgentDouble, asker: Actor) -> None:
    run = run_with(tree, asker, server, Play(status=409), Play([RESULT]))
    assert run.status == "completed"


def test_remote__error_event__is_the_runs_error(tree: Tree, server: AgentDouble, asker: Actor) -> None:
    run = run_with(tree, asker, server, Play([frame("error", message=f"no model {SECRET}", recoverable=True)]))
    assert (run.status, run.reason) == ("failed", "remote_error")
    assert SECRET not in json.dumps(events(run, "error"))


def test_remote__private_address_that_is_not_open__is_not_asked(
    tree: Tree, server: AgentDouble, asker: Actor, settings: Settings
) -> None:
    settings.OUTBOUND_PRIVATE_ALLOW = []
    run = run_with(tree, asker, server)
    assert (run.status, run.reason) == ("failed", "remote_unreachable")
    assert server.calls == []


def test_remote__credential_not_granted_for_the_host__sends_nothing(
    tree: Tree, server: AgentDouble, asker: Actor
) -> None:
    entrust(tree.root, "OPENSRE_CRED_AGENT", ["agents.example.com"])
    patch = {"runtime": {"kind": "remote", "url": server.url, "token": "${OPENSRE_CRED_AGENT}"}}
    config_patch(actor=tree.system, node=tree.payments, patch=patch)
    run = work_on(start_run(asker, tree.payments, prompt="Why?", runtime=None).run)
    assert (run.status, run.reason) == ("failed", "remote_not_ready")
    assert server.calls == []


def test_remote__question__waits_and_the_answer_goes_on(tree: Tree, server: AgentDouble, asker: Actor) -> None:
    question = frame("question", questions=[{"question": "Which?", "header": "H", "options": [], "multiSelect": True}])
    run = run_with(tree, asker, server, Play([question]), Play([RESULT]))
    assert run.status == "waiting"
    question_answer(actor=asker, thread_id=run.thread_id, request_id=run.waiting_for, answers={"Which?": "that one"})
    run = work_on(run)
    assert run.status == "completed", envelopes(run.thread_id)
    assert server.bodies("/answer")[0]["answers"] == {"question_0": "that one"}


def test_remote__message_and_interrupt__are_passed_on(tree: Tree, server: AgentDouble, asker: Actor) -> None:
    configure(tree, server)
    stopped = frame("result", text="Stopped.", success=False, subtype="interrupted")
    server.plays = [Play([frame("thought", text="working"), "queue-message", "interrupt", stopped])]
    run = start_run(asker, tree.payments, prompt="Why?", runtime=None).run
    with working():
        wait_until(lambda: server.bodies("/investigate"), what="the turn to begin")
        message_post(actor=asker, thread_id=run.thread_id, text="look at db-1")
        wait_until(lambda: server.bodies("/queue-message"), what="the message")
        run_interrupt(actor=asker, thread_id=run.thread_id)
        run = wait_for_status(run)
    assert run.status == "interrupted"
    assert "look at db-1" in server.bodies("/queue-message")[0]["text"]
    assert events(run, "result")[0]["text"] == "Stopped."

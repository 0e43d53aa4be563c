"""Runs that agents elsewhere report, in the shape OpenSRE's agents send and its pages read."""

from datetime import timedelta
from typing import Any

import pytest

from controlplane.audit.models import AuditEvent
from controlplane.core import clock
from controlplane.core.actor import Role
from controlplane.investigations.models import ReportedRun
from controlplane.investigations.retention import retention_set, threads_retire
from tests.factories import Tree, api_client, make_team_token, make_user
from tests.support.runs import in_threads, start_run

URL = "/api/v1/internal/agent-runs"
SECRET = "ghp_" + "a1B2" * 9
BEGUN = {
    "run_id": "run-1",
    "org_id": "somebody-else",
    "correlation_id": "slack-C1-1",
    "agent_name": "planner",
    "trigger_source": "slack",
    "trigger_actor": "rita",
    "trigger_message": f"why? {SECRET}",
    "metadata": {"channel": "C1"},
    "new_member": 1,
}


def client_of(tree: Tree) -> Any:
    return api_client(token=make_team_token(tree.payments))


def test_report__life_of_a_run__read_back_in_their_shape(tree: Tree) -> None:
    client = client_of(tree)
    begun, again = client.post(URL, BEGUN), client.post(URL, BEGUN)
    calls = [{"id": "c1", "tool_name": "Bash", "tool_input": {"command": "ls"}, "status": "running"}]
    client.post(f"{URL}/run-1/tool-calls", {"run_id": "run-1", "tool_calls": calls})
    late = [{"id": "c1", "tool_output": f"out {SECRET}", "status": "success", "duration_ms": 7}]
    counted = client.post(f"{URL}/run-1/tool-calls", {"tool_calls": late})
    thoughts = [{"text": "hm", "ts": "2026-12-01T10:00:00", "seq": 1, "agent": "planner"}]
    for _ in range(2):
        thought = client.put(f"{URL}/run-1/thoughts", {"thoughts": thoughts})
    ended = client.patch(
        f"{URL}/run-1", {"status": "completed", "output_summary": "DNS", "confidence": 0.8, "duration_seconds": 12.5}
    )

    assert (begun.status_code, again.status_code, ended.status_code) == (201, 201, 200)
    assert (counted.json(), thought.json()) == ({"count": 1}, {"count": 1})
    (listed,) = client.get("/api/v1/team/agent-runs").json()
    assert (listed["id"], listed["status"], listed["toolCallsCount"]) == ("run-1", "completed", 1)
    assert (listed["correlationId"], listed["confidence"], listed["durationSeconds"]) == ("slack-C1-1", 0.8, 12.5)
    trace = client.get("/api/v1/team/agent-runs/run-1/trace").json()
    assert trace["toolCalls"][0]["toolInput"] == {"command": "ls"}
    assert (trace["toolCalls"][0]["status"], trace["toolCalls"][0]["durationMs"]) == ("success", 7)
    assert [item["text"] for item in trace["thoughts"]] == ["hm"]
    whole = str(client.get("/api/v1/team/agent-runs/run-1").json()) + str(trace)
    assert SECRET not in whole
    run = ReportedRun.objects.get()
    assert (run.node_id, run.ended_at is not None) == (tree.payments.pk, True)
    assert AuditEvent.objects.filter(action="run.report").count() == 1


def test_list__ours_and_reported__one_order_and_pages(tree: Tree) -> None:
    client = client_of(tree)
    started = [start_run(tree.system, tree.payments) for _ in range(2)]
    client.post(URL, BEGUN)
    ReportedRun.objects.update(
        created_at=started[0].run.created_at + (started[1].run.created_at - started[0].run.created_at) / 2
    )
    pages = [client.get(f"/api/v1/team/agent-runs?limit=1&offset={offset}").json() for offset in range(4)]
    assert [[run["id"] for run in page] for page in pages] == [
        [str(started[1].run.pk)],
        ["run-1"],
        [str(started[0].run.pk)],
        [],
    ]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"run_id": ""}, "bad_run_id"),
        ({"run_id": "x" * 129}, "bad_run_id"),
        ({"run_id": 5}, "bad_run_id"),
        ({"run_id": "r", "agent_name": 5}, "not_text"),
        ({"run_id": "r", "metadata": []}, "bad_document"),
        ({"run_id": "r", "metadata": {"x": "y" * 600_000}}, "bad_document"),
        ({"run_id": "r", "team_node_id": "platform"}, "unknown_team"),
    ],
)
def test_begin__bad_body__refused(tree: Tree, body: dict[str, Any], code: str) -> None:
    answer = client_of(tree).post(URL, body)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert not ReportedRun.objects.exists()


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("patch", "", {"status": "done"}, "unknown_status"),
        ("patch", "", {"duration_seconds": -1}, "not_a_number"),
        ("patch", "", {"confidence": True}, "not_a_number"),
        ("put", "/thoughts", {"thoughts": "x"}, "not_a_list"),
        ("put", "/thoughts", {"thoughts": ["x"]}, "not_an_object"),
        ("post", "/tool-calls", {}, "not_a_list"),
        ("post", "/tool-calls", {"tool_calls": [{}] * 2001}, "not_a_list"),
    ],
)
def test_change__bad_body__refused(tree: Tree, method: str, path: str, body: dict[str, Any], code: str) -> None:
    client = client_of(tree)
    client.post(URL, BEGUN)
    answer = getattr(client, method)(f"{URL}/run-1{path}", body)
    assert (answer.status_code, answer.json()["code"]) == (422, code)


def test_change__long_and_odd_values__bounded(tree: Tree) -> None:
    client = client_of(tree)
    client.post(URL, BEGUN | {"agent_name": "x" * 500})
    client.patch(f"{URL}/run-1", {"output_summary": "x\x00" * 60_000, "tool_calls_count": 7, "error_message": None})
    client.post(f"{URL}/run-1/tool-calls", {"tool_calls": [{"id": "a", "tool_output": "y\x00" * 9_000}]})
    run = ReportedRun.objects.get()
    assert (len(run.agent_name), len(run.output_summary), run.tool_calls_count) == (128, 64_000, 7)
    assert len(run.tool_calls[0]["tool_output"]) == 4_000


def test_reports__of_other_teams_and_organizations__not_there(tree: Tree, other_tree: Tree) -> None:
    client_of(tree).post(URL, BEGUN)
    for node in (tree.platform, other_tree.payments):
        client = api_client(token=make_team_token(node))
        assert client.get("/api/v1/team/agent-runs").json() == []
        assert client.get("/api/v1/team/agent-runs/run-1").status_code == 404
        assert client.patch(f"{URL}/run-1", {"status": "failed"}).status_code == 404
    viewer = api_client(user=make_user(tree.payments, Role.VIEWER))
    assert viewer.patch(f"{URL}/run-1", {"status": "failed"}).status_code == 403


@pytest.mark.django_db(transaction=True)
def test_tool_calls__sent_at_once__none_is_lost(tree: Tree) -> None:
    client_of(tree).post(URL, BEGUN)
    token = make_team_token(tree.payments)

    def send(name: str) -> int:
        answer = api_client(token=token).post(f"{URL}/run-1/tool-calls", {"tool_calls": [{"id": name}]})
        return int(answer.status_code)

    assert in_threads(*(lambda name=name: send(name) for name in "abcd")) == [200] * 4
    assert sorted(call["id"] for call in ReportedRun.objects.get().tool_calls) == list("abcd")


def test_retention__old_reports__go_with_the_investigations(tree: Tree) -> None:
    client_of(tree).post(URL, BEGUN)
    ReportedRun.objects.update(created_at=clock.now() - timedelta(days=31))
    retention_set(actor=tree.system, organization=tree.organization, investigation_days=30)
    threads_retire()
    assert not ReportedRun.objects.exists()
    assert '"reported_runs":1' in AuditEvent.objects.get(action="retention.remove").after_json.replace(" ", "")

"""From a recorded fault to a named service, over the real Prometheus, Alertmanager and node_exporter."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from controlplane.alerts.models import AlertGroup
from controlplane.configs.services import config_replace
from controlplane.investigations.models import Event, Run
from controlplane.investigations.starting import investigation_start
from controlplane.orgs.models import Node
from controlplane.runtimes.events import EventType
from controlplane.runtimes.report import Category, Report
from tests.factories import Tree, make_team_token
from tests.support.monitoring import Program, alertmanager, load_blocks, missing_programs, node_exporter, prometheus
from tests.support.runs import wait_for_status, wait_until, working
from tests.support.server import Server, serving
from tests.support.shop import PAYMENTS_DOWN, RULES, SHOP, openmetrics

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(bool(missing_programs()), reason=f"not installed: {', '.join(missing_programs())}"),
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recorded metrics of a shop whose payments break 25 minutes before now."""
    folder = tmp_path_factory.mktemp("monitoring")
    load_blocks(folder, openmetrics(SHOP, PAYMENTS_DOWN, hours=26, until=time.time()))
    return folder


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def connect(tree: Tree, team: Node, **urls: str) -> None:
    """Configure a team's integrations, by kind."""
    integrations = {kind: {"kind": kind, "url": url} for kind, url in urls.items()}
    config_replace(actor=tree.system, node=team, document={"integrations": integrations})


def report_of(run: Run) -> Report:
    event = Event.objects.get(run_id=run.pk, type=EventType.RESULT)
    return Report.model_validate(orjson.loads(event.data)["report"])


def cited_queries(run: Run, report: Report) -> set[str]:
    """Return the PromQL expressions of the observations that a report cites."""
    ends = Event.objects.filter(run_id=run.pk, type=EventType.TOOL_END)
    observations: list[dict[str, Any]] = [one for end in ends for one in orjson.loads(end.data)["observations"]]
    values = [one["value"] for one in observations if one["id"] in report.cited()]
    return {value["query"] for value in values if isinstance(value, dict) and value.get("query")}


def test_alert_of_the_real_thing__arrives_and_names_the_service_at_fault(
    tree: Tree, server: Server, recorded: Path, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(make_team_token(tree.payments))
    webhook = f"{server.url}/api/v1/alerts/alertmanager"
    with (
        alertmanager(tmp_path, webhook=webhook, token_file=token) as sender,
        prometheus(recorded, rules=RULES, alertmanager=sender.url) as monitoring,
    ):
        connect(tree, tree.payments, prometheus=monitoring.url, alertmanager=sender.url)
        wait_until(lambda: AlertGroup.objects.filter(thread__isnull=False).exists(), what="the webhook to arrive")
        group = AlertGroup.objects.get()
        with working():
            run = wait_for_status(Run.objects.get(thread=group.thread))
    assert (group.title, group.severity, group.status) == ("FrontendErrors", "critical", "firing")
    assert (run.thread.channel, run.thread.node_id) == ("alert", tree.payments.pk)
    report = report_of(run)
    assert report.root_cause is not None
    assert report.root_cause.object == "payments"
    assert report.root_cause.category is Category.DEPENDENCY_FAILURE
    queries = cited_queries(run, report)
    assert any("http_requests_total" in query and "5.." in query for query in queries)
    said = " ".join(claim.text for claim in report.claims)
    assert "frontend → checkout → payments" in said


def test_every_cited_query__asked_again__gives_series(tree: Tree, recorded: Path) -> None:
    with prometheus(recorded) as monitoring, working():
        connect(tree, tree.payments, prometheus=monitoring.url)
        run = ask(tree, {"labels": {"alertname": "SlowCheckout", "service": "checkout"}, "metric": "latency"})
        report = report_of(run)
        assert report.root_cause is not None
        assert report.root_cause.object == "payments"
        queries = cited_queries(run, report)
        assert queries
        for query in queries:
            assert answer(monitoring, query), query


def test_node_exporter__its_host_is_read_in_its_own_units(tree: Tree, tmp_path: Path) -> None:
    with node_exporter(tmp_path) as exporter:
        target = exporter.url.removeprefix("http://")
        with prometheus(tmp_path, targets=[target]) as monitoring, working():
            scraped = 'count_over_time(node_cpu_seconds_total{cpu="0",mode="idle"}[1m]) > 4'
            wait_until(lambda: bool(answer(monitoring, scraped)), what="some scrapes")
            connect(tree, tree.payments, prometheus=monitoring.url)
            run = ask(tree, {"labels": {"alertname": "HostDown", "instance": target}})
    seen = metrics_of(run)
    assert {name for name, _ in seen} >= {"node_cpu_usage_percent", "node_memory_available_percent", "node_load1"}
    assert {value["unit"] for (name, _), value in seen.items() if name.endswith("_percent")} == {"Percent"}
    assert all(0 <= value["min"] <= value["max"] <= 100 for (name, _), value in seen.items() if "percent" in name)
    assert {object_ for name, object_ in seen if name.startswith("node_")} == {target}


def ask(tree: Tree, alert: dict[str, Any]) -> Run:
    """Have the payments team's run on an alert end, and return it."""
    started = investigation_start(actor=tree.system, team=tree.payments, prompt="What is wrong?", alert=alert)
    wait_for_status(started.run)
    return started.run


def metrics_of(run: Run) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the metrics a run read, by name and object."""
    ends = Event.objects.filter(run_id=run.pk, type=EventType.TOOL_END)
    observations = [one for end in ends for one in orjson.loads(end.data)["observations"]]
    return {
        (one["value"]["metric"], one["object"]): one["value"]
        for one in observations
        if one["kind"] == "metric" and "metric" in (one["value"] or {})
    }


def answer(monitoring: Program, query: str) -> Any:
    """Return what a server answers to an instant query now, ``None`` when it does not serve."""
    try:
        reply = httpx.get(f"{monitoring.url}/api/v1/query", params={"query": query}, timeout=5)
    except httpx.HTTPError:
        return None
    return reply.json()["data"]["result"]

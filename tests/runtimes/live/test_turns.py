"""Runs over live sources: those of the configuration they pinned, and none where recorded evidence is given."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.investigations.models import Run
from tests.configs.support import put
from tests.factories import Tree
from tests.runtimes.live.peer import Peer, PrometheusStub, failure, serving
from tests.runtimes.live.support import alert
from tests.support.runs import envelopes, start_run, work_on

pytestmark = pytest.mark.django_db(transaction=True)

FOREIGN = "gK4v9sLqP2xZ7tRb"  # a credential of the server's own, in its error
START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


def failing_shop() -> PrometheusStub:
    """A service whose requests begin to fail ten minutes before the alert, as a metric known by its name alone."""
    onset = (START - timedelta(minutes=10)).timestamp()
    labels = {"__name__": "orders_failed_total", "service": "checkout", "job": "shop"}
    return PrometheusStub(
        series=[labels],
        answers=[("orders_failed_total", [({"service": "checkout"}, lambda at: 0.1 if at < onset else 25.0)])],
        metadata={"orders_failed_total": ("counter", "")},
    )


@pytest.fixture
def peer() -> Iterator[Peer]:
    with serving(Peer(failing_shop().respond)) as made:
        yield made


def investigated(tree: Tree, **fields: Any) -> tuple[Run, list[dict[str, Any]]]:
    """Return a finished run of the built-in runtime and everything its tools observed."""
    started = start_run(tree.system, tree.payments, prompt="What is wrong?", runtime="builtin", **fields)
    run = work_on(started.run)
    ends = [event["data"] for event in envelopes(started.thread.pk) if event["type"] == "tool_end"]
    return run, [observation for end in ends for observation in end["observations"]]


def test_run__integration_configured__its_evidence_is_observed_and_told(tree: Tree, peer: Peer) -> None:
    put(tree.payments, {"integrations": {"mon": {"kind": "prometheus", "url": peer.url}}})
    run, seen = investigated(tree, alert=alert(START, service="checkout"))

    (metric,) = [one for one in seen if one["kind"] == "metric" and one["value"].get("metric")]
    assert (metric["source"], metric["object"], metric["value"]["metric"]) == ("mon", "checkout", "orders_failed_total")
    assert metric["value"]["query"].endswith('(rate(orders_failed_total{service="checkout"}[5m]))')
    assert run.status == "completed"
    assert "orders_failed_total of checkout rose from 0.1/s to 25/s from 08:50 UTC on" in str(
        envelopes(run.thread_id)[-2:]
    )


def test_run__configuration_changed_meanwhile__reads_the_sources_it_pinned(tree: Tree, peer: Peer) -> None:
    put(tree.payments, {"integrations": {"mon": {"kind": "prometheus", "url": peer.url}}})
    started = start_run(tree.system, tree.payments, prompt="?", runtime="builtin", alert=alert(START))
    put(tree.payments, {"integrations": {}})
    run = work_on(started.run)

    assert run.status == "completed"
    assert peer.to("query_range")


def test_run__recorded_evidence__no_live_source_is_asked(tree: Tree, peer: Peer) -> None:
    put(tree.payments, {"integrations": {"mon": {"kind": "prometheus", "url": peer.url}}})
    recorded = {"format": "snapshot/1", "sources": {"datadog_monitors": {"monitors": [{"name": "m", "state": "OK"}]}}}
    run, seen = investigated(tree, evidence=recorded)

    assert run.status == "completed"
    assert {one["source"] for one in seen} == {"datadog_monitors"}
    assert peer.asked == []


def test_run__source_fails__run_completes_and_says_what_is_missing_without_secrets(tree: Tree, peer: Peer) -> None:
    peer.respond = lambda _: failure(500, "internal", f"token={FOREIGN} postgres://app:{FOREIGN}@db/app")
    put(
        tree.payments,
        {
            "integrations": {
                "mon": {"kind": "prometheus", "url": peer.url},
                "logs": {"kind": "loki", "url": peer.url, "auth": {"type": "bearer", "token": "${OPENSRE_CRED_LOKI}"}},
            }
        },
    )
    run, seen = investigated(tree, alert=alert(START, service="checkout"))

    missing = {one["object"]: one["value"]["reason"] for one in seen if one["value"].get("type") == "missing"}
    assert run.status == "completed"
    assert missing["logs"] == "was not asked: the credential OPENSRE_CRED_LOKI is not granted here"
    assert missing["mon"].startswith("could not be read: The server answers with an error (HTTP 500)")
    assert FOREIGN not in str(envelopes(run.thread_id))
    assert {one.path for one in peer.asked} == {"/api/v1/query"}

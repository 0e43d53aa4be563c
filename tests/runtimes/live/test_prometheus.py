"""A Prometheus as a source: what is asked, what comes back, what is said about what did not."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.runtimes.sources.live.endpoint import Endpoint
from controlplane.runtimes.sources.live.http import JsonApi, client_for
from controlplane.runtimes.sources.live.prometheus import PrometheusSource
from controlplane.runtimes.sources.live.source import Reading
from controlplane.runtimes.sources.records import Link, Series
from controlplane.runtimes.sources.source import Query
from tests.runtimes.live.peer import Peer, PrometheusStub, answer, failure, serving
from tests.runtimes.live.support import EVERYTHING, alert, evidence, info_of, series_of, source

START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


def family(name: str, **labels: str) -> dict[str, str]:
    return {"__name__": name, **labels}


def shop() -> PrometheusStub:
    """Two services behind one Prometheus with a node exporter; ``checkout`` fails from the alert's time on."""
    series = [
        family(name, job="shop", service=service, code=code, instance=f"{service}-0:8080")
        for name in ("http_requests_total", "http_request_duration_seconds_bucket")
        for service in ("checkout", "cart")
        for code in ("200", "500")
    ]
    series += [
        family("db_pool_connections", job="shop", service="checkout", pool="main"),
        family("orders_failed_total", job="shop", service="checkout"),
        *(family(name, job="node", instance="host-1:9100") for name in ("node_load1", "node_cpu_seconds_total")),
        family("up", job="shop"),
    ]
    late = START.timestamp()
    both = ("checkout", "cart")
    return PrometheusStub(
        series=series,
        answers=[
            ("count_over_time(up", [({}, lambda _: 40.0)]),
            (
                'service="checkout"}[1m])) > 0)',
                [({"service": "checkout"}, lambda at: 12.5 if at >= late else 0.1)],
            ),
            ("histogram_quantile", [({"service": one}, lambda _: 0.2) for one in both]),
            ("sum by (service) (rate(http_requests_total", [({"service": one}, lambda _: 40.0) for one in both]),
            ("db_pool_connections", [(family("db_pool_connections", service="checkout", pool="main"), lambda _: 7)]),
            ("node_load1", [({"instance": "host-1:9100"}, lambda at: at % 7)]),
        ],
        metadata={"orders_failed_total": ("counter", ""), "db_pool_connections": ("gauge", "")},
    )


@pytest.fixture
def peer() -> Iterator[Peer]:
    with serving(Peer(shop().respond)) as made:
        yield made


async def test_series__alert_on_a_service__its_own_are_named_and_say_what_was_asked(peer: Peer) -> None:
    found = await series_of(source(peer.url, alert=alert(START, service="checkout")))

    failing = found["http_requests_error_percent", "checkout"]
    assert (failing.source, failing.unit, failing.values[0], failing.values[-1]) == ("mon", "Percent", 0.1, 12.5)
    assert failing.query == (
        '100 * (sum by (service) (rate(http_requests_total{code=~"5..",service="checkout"}[1m])) or '
        '0 * sum by (service) (rate(http_requests_total{service="checkout"}[1m]))) / '
        '(sum by (service) (rate(http_requests_total{service="checkout"}[1m])) > 0)'
    )
    assert found["http_requests_duration_p99", "checkout"].unit == "Seconds"
    pool = found["db_pool_connections", "checkout"]
    assert (pool.query, pool.values[0]) == ('db_pool_connections{service="checkout"}', 7.0)
    assert ("http_requests_rate", "cart") in found
    assert ("node_load1", "host-1:9100") in found


async def test_series__window__is_an_hour_before_the_alert_to_a_quarter_after_in_at_most_120_points(
    peer: Peer,
) -> None:
    made = source(peer.url, alert=alert(START, service="checkout"))
    (first, *_) = (await made.series(EVERYTHING)).records

    asked = [one for one in peer.to("query_range") if one.first("step") != "900"]
    assert {(float(one.first("start")), float(one.first("end"))) for one in asked} == {
        ((START - timedelta(minutes=60)).timestamp(), (START + timedelta(minutes=15)).timestamp())
    }
    assert (first.times[0], first.times[-1]) == (START - timedelta(minutes=60), START + timedelta(minutes=15))
    assert len(first.times) <= 120


async def test_series__day_before__is_the_baseline(peer: Peer) -> None:
    found = await series_of(source(peer.url, alert=alert(START, service="checkout")))

    past = [one for one in peer.to("query_range") if one.first("step") == "900"]
    window = START - timedelta(minutes=60)
    assert {(float(one.first("start")), float(one.first("end"))) for one in past} == {
        ((window - timedelta(days=1)).timestamp(), window.timestamp())
    }
    baseline = found["http_requests_error_percent", "checkout"].baseline
    assert baseline is not None
    assert (baseline.median, baseline.samples) == (0.1, 97)


async def test_describe__counts__are_what_the_queries_give_without_asking_again(peer: Peer) -> None:
    made = source(peer.url, alert=alert(START, service="checkout"))
    info = await info_of(made)
    asked = len(peer.asked)
    found = await made.series(EVERYTHING)

    assert (info.counts["metrics"], info.format) == (len(found.records), "prometheus")
    assert found.read == ("mon",)
    assert (await made.series(Query(object="cart"))).records == [one for one in found.records if one.object == "cart"]
    assert len(peer.asked) == asked


async def test_series__alert_without_labels__words_name_the_object(peer: Peer) -> None:
    made = source(peer.url, words="Why is checkout slow?")

    assert 'db_pool_connections{service="checkout"}' in {one.query for one in (await made.series(EVERYTHING)).records}


async def test_series__question_about_another_object__that_one_comes_first(peer: Peer) -> None:
    made = source(peer.url, alert=alert(START, service="checkout"), words="And what about cart?")

    await info_of(made)

    queries = [one.first("query") for one in peer.to("query_range")]
    assert 'service="cart"' in queries[0]
    assert any('service="checkout"' in query for query in queries)


async def test_collect__alert_that_only_has_words__they_name_the_object(peer: Peer) -> None:
    made = source(peer.url, alert={"title": "checkout is slow", "startsAt": START.isoformat()})

    assert 'db_pool_connections{service="checkout"}' in {one.query for one in (await made.series(EVERYTHING)).records}


async def test_collect__server_warns__is_said(peer: Peer) -> None:
    stub = shop()

    def respond(asked: Any) -> Any:
        body = stub.respond(asked).body
        assert isinstance(body, bytes)
        return answer({**json.loads(body), "warnings": ["No StoreAPIs matched for this query"]})

    peer.respond = respond
    problems = (await info_of(source(peer.url))).problems

    assert any("the server warns: No StoreAPIs matched for this query" in problem for problem in problems)


async def test_collect__names_that_need_quotes__left_out_and_said() -> None:
    names = ("http.server.duration", "queue_depth")
    stub = PrometheusStub(series=[family(name, service="a") for name in names])
    with serving(Peer(stub.respond)) as peer:
        problems = (await info_of(source(peer.url))).problems

        assert problems == ("1 families left out whose names PromQL has to quote",)
        assert not any("http.server" in one.first("query") for one in peer.asked)


async def test_series__label_configured__names_the_object() -> None:
    stub = PrometheusStub(
        series=[family("queue_depth", app="x", tier="batch")],
        answers=[("queue_depth", [(family("queue_depth", app="x", tier="batch"), lambda _: 3)])],
    )
    with serving(Peer(stub.respond)) as peer:
        found = await series_of(source(peer.url, labels={"object": "tier"}))

    assert list(found) == [("queue_depth", "batch")]


async def test_series__of_one_object__are_told_apart_by_what_differs() -> None:
    curves: list[tuple[dict[str, str], Any]] = [
        (family("queue_depth", service="mail", queue=name), lambda _: 1) for name in ("in", "out")
    ]
    stub = PrometheusStub(series=[labels for labels, _ in curves], answers=[("queue_depth", curves)])
    with serving(Peer(stub.respond)) as peer:
        found = (await source(peer.url).series(EVERYTHING)).records

    assert [(one.object, one.statistic) for one in found] == [("mail", "queue in"), ("mail", "queue out")]


async def test_collect__thousands_of_families__stay_within_the_budgets_and_say_so() -> None:
    names = [f"app_thing_{number}_total" for number in range(1_000)]
    series = [family(name, service="checkout") for name in names]
    curves: list[tuple[dict[str, str], Any]] = [({"service": f"s{number}"}, lambda _: 1) for number in range(40)]
    stub = PrometheusStub(series=series, answers=[("rate(app_thing_", curves)])
    with serving(Peer(stub.respond)) as peer:
        made = source(peer.url, alert=alert(START, service="checkout"))
        info = await info_of(made)

        assert len(peer.queries()) <= 40
        assert peer.most_at_once <= 4
    assert info.counts["metrics"] == len((await made.series(EVERYTHING)).records) == 100
    assert any("further expressions were not asked" in problem for problem in info.problems)
    assert any("further series left out" in problem for problem in info.problems)


async def test_series__of_many_objects__keep_the_alerts_own_and_what_moved() -> None:
    late = (START - timedelta(minutes=1)).timestamp()
    curves: list[tuple[dict[str, str], Any]] = [
        (family("queue_depth", service=f"s{number}"), lambda _: 5) for number in range(60)
    ]
    curves.append((family("queue_depth", service="moved"), lambda at: 5 if at < late else 500))
    stub = PrometheusStub(series=[labels for labels, _ in curves], answers=[("queue_depth", curves)])
    with serving(Peer(stub.respond)) as peer:
        found = (await source(peer.url, alert=alert(START)).series(EVERYTHING)).records

    assert len(found) == 12
    assert found[0].object == "moved"


async def test_series__nan_infinite_and_stale_samples__left_out_and_counted() -> None:
    def curve(at: float) -> Any:
        minute = round((at - START.timestamp()) / 60)
        if minute == -20:
            return "NaN"
        if minute == -19:
            return "+Inf"
        return None if -15 <= minute < -10 or minute > 5 else 4.0

    labels = family("queue_depth", service="mail")
    stub = PrometheusStub(series=[labels], answers=[("queue_depth", [(labels, curve)])])
    with serving(Peer(stub.respond)) as peer:
        made = source(peer.url, alert=alert(START, service="mail"))
        (one,) = (await made.series(EVERYTHING)).records
        problems = (await info_of(made)).problems

    assert set(one.values) == {4.0}
    assert len(one.values) == 76 - 2 - 5 - 10
    assert "sample left out that is no finite number (NaN, Inf) (2 times)" in problems
    assert "step without a sample left out (a failed scrape, a stale series) (5 times)" in problems
    assert "series ends before the time asked about does" in problems


@pytest.mark.parametrize(("offset_s", "said"), [(300, "300 s ahead of ours"), (-7200, "7,200 s behind ours")])
async def test_collect__servers_clock_is_off__its_time_is_used_and_said(offset_s: int, said: str) -> None:
    stub = shop()
    stub.now = lambda: datetime.now(UTC).timestamp() + offset_s
    with serving(Peer(stub.respond)) as peer:
        problems = (await info_of(source(peer.url))).problems
        (end,) = {float(one.first("end")) for one in peer.to("/values")}

    assert any(said in problem for problem in problems)
    assert abs(end - stub.now()) < 30


async def test_states__firing_alerts__are_monitors() -> None:
    stub = PrometheusStub(
        alerts=[
            {
                "labels": {"alertname": "TargetDown", "job": "node", "severity": "critical"},
                "annotations": {"summary": "a target is down"},
                "state": "firing",
                "activeAt": "2026-11-02T08:58:12.123456789Z",
                "value": "1e+00",
            }
        ]
    )
    with serving(Peer(stub.respond)) as peer:
        (state,) = (await source(peer.url).states(EVERYTHING)).records

    assert (state.type, state.object, state.facts["state"]) == ("monitor", "TargetDown", "firing")
    assert state.facts["tags"] == ["job:node", "severity:critical"]
    assert "since 2026-11-02 08:58:12 UTC" in state.text


async def test_links__service_graph__who_calls_whom() -> None:
    name = "traces_service_graph_request_total"
    calls: list[tuple[dict[str, str], Any]] = [
        ({"client": "checkout", "server": "payments"}, lambda _: 30),
        ({"client": "checkout", "server": "checkout"}, lambda _: 3),
    ]
    stub = PrometheusStub(series=[family(name, client="checkout", server="payments")], answers=[(name, calls)])
    with serving(Peer(stub.respond)) as peer:
        made = source(peer.url)
        found = await made.links(EVERYTHING)
        info = await info_of(made)

    assert found.records == [Link("mon", "checkout", "payments")]
    assert info.counts["calls"] == 1


async def test_series__one_query_refused__said_and_the_others_are_there(peer: Peer) -> None:
    stub = shop()
    refused = "query processing would load too many samples into memory in query execution"
    stub.errors = {"histogram_quantile": failure(422, "execution", refused)}
    peer.respond = stub.respond
    made = source(peer.url, alert=alert(START, service="checkout"))
    found = await series_of(made)

    assert ("http_requests_error_percent", "checkout") in found
    assert ("http_requests_duration_p99", "checkout") not in found
    problems = (await info_of(made)).problems
    assert any(f"The server could not answer the query (HTTP 422): {refused}" in one for one in problems)


def hanging(peer: Peer, text: str, *, catalogue_s: float = 0.0) -> None:
    """Make the peer answer no query with a text in it, and every question about its catalogue after a while."""
    stub = shop()

    def respond(asked: Any) -> Any:
        if text in asked.first("query"):
            peer._over.wait(10)
        elif "/query_range" not in asked.path:
            peer._over.wait(catalogue_s)
        return stub.respond(asked)

    peer.respond = respond


@pytest.mark.parametrize("catalogue_s", [0.0, 0.06])
async def test_series__one_query_never_answered__the_others_are_kept(peer: Peer, catalogue_s: float) -> None:
    hanging(peer, "histogram_quantile", catalogue_s=catalogue_s)
    made = PrometheusSource(Endpoint("mon", "prometheus", peer.url), alert=alert(START, service="checkout"), time_s=3.0)
    found = await series_of(made)

    assert ("http_requests_error_percent", "checkout") in found
    problems = (await info_of(made)).problems
    assert any("not answered in time" in problem for problem in problems)
    assert not any("Not everything was answered" in problem for problem in problems)


async def test_collect__cut_off_while_series_are_asked__what_was_answered_is_kept(peer: Peer) -> None:
    hanging(peer, "histogram_quantile")
    endpoint = Endpoint("mon", "prometheus", peer.url)
    made = PrometheusSource(endpoint, alert=alert(START, service="checkout"))
    reading = Reading(made.kinds)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.8), client_for(endpoint) as client:
            await made.collect(JsonApi(endpoint, client), reading)

    assert "http_requests_error_percent" in {one.metric for one in reading.records[Series]}


async def test_collect__metadata_never_answered__series_are_read(peer: Peer) -> None:
    stub = shop()

    def respond(asked: Any) -> Any:
        if asked.path.endswith("/metadata"):
            peer._over.wait(10)
        return stub.respond(asked)

    peer.respond = respond
    made = PrometheusSource(Endpoint("mon", "prometheus", peer.url), alert=alert(START, service="checkout"), time_s=3.0)

    assert ("http_requests_error_percent", "checkout") in await series_of(made)


async def test_query_metrics__live_series__cite_the_query(peer: Peer) -> None:
    result = await evidence([source(peer.url, alert=alert(START, service="checkout"))], "query_metrics", text="pool")

    (shown,) = [one for one in result.observations if one.value.get("metric")]
    assert shown.value["query"] == 'db_pool_connections{service="checkout"}'
    assert (shown.source, shown.object) == ("mon", "checkout")


async def test_collect__nothing_in_the_window__says_so() -> None:
    with serving(Peer(PrometheusStub().respond)) as peer:
        info = await info_of(source(peer.url))

    assert info.counts == {"metrics": 0, "states": 0}
    assert info.problems == ("the server has no series of the time asked about",)

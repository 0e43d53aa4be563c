import json
from typing import Any

import pytest

from controlplane.configs.limits import Limits
from controlplane.runtimes.evidence import ObservationKind, ToolResult
from controlplane.runtimes.sources import toolbox_for_snapshot
from tests.support.evidence import (
    GIB,
    POSTGRES,
    alert_on,
    at,
    cloudwatch,
    deployment,
    flat,
    insights,
    log,
    metric,
    pod,
    ramp,
    rds_events,
    snapshot,
)

TAKEN = snapshot(
    {
        "metrics": cloudwatch(
            metric("CPUUtilization", ramp(20, 80), unit="Percent", of="db-1"),
            metric("FreeStorageSpace", flat(50 * GIB), unit="Bytes", of="db-1"),
            metric("ReplicaLag", flat(1.0), unit="Seconds", of="db-1-replica"),
        ),
        "events": rds_events((3, "Backup finished", ["backup"]), (9, "failover started", ["failover"]), of="db-1"),
        "logs": {
            "logs": [log(1, "took 12 ms"), log(2, "took 15 ms"), log(3, "cannot connect to db-1", status="error")]
        },
        "pods": {"pods": [pod("web-1-a"), pod("web-1-b", ready=False)]},
        "deployments": {"deployments": [deployment("web")]},
        "sql": insights(("SELECT 1", 1.0, {"CPU": 1.0})),  # holds metrics too, though none are recorded
        "odd": {"nobody": "knows"},
    },
    alert=alert_on("db-1", "db-1 is slow"),
    scenario=POSTGRES | {"available_evidence": ["metrics", "traces"]},
    unreadable={"evidence/broken.json": "the file is not JSON"},
)


async def call(name: str, taken: Any = TAKEN, *, output_bytes: int = 65_536, **arguments: Any) -> ToolResult:
    limits = Limits(tool_output_bytes=output_bytes)
    alert = taken.get("alert") if taken else None
    toolbox = toolbox_for_snapshot(taken, alert=alert, turn=1, limits=limits)
    result, _ = await toolbox.finish(toolbox.start(name, arguments))
    return result


def shown(result: ToolResult, type_: str | None = None) -> list[Any]:
    """Return the observations but the summaries, or those of a type."""
    values = [(one, one.value if isinstance(one.value, dict) else {}) for one in result.observations]
    if type_ is not None:
        return [one for one, value in values if value.get("type") == type_]
    return [one for one, value in values if value.get("type") != "summary"]


async def test_list_evidence__everything__is_told_with_what_is_missing() -> None:
    result = await call("list_evidence")
    (alert,) = [one for one in result.observations if one.kind is ObservationKind.ALERT]
    assert "db-1 is slow" in alert.quote
    assert len(shown(result, "scenario")) == 1
    by_name = {one.object: one for one in shown(result, "source")}
    assert by_name["metrics"].value["counts"] == {"metrics": 3}
    assert by_name["metrics"].value["objects"] == ["db-1", "db-1-replica"]
    assert by_name["odd"].value["problems"] == ["its content has none of the known shapes, so it was not read"]
    assert {one.object: one.value["reason"] for one in shown(result, "missing")} == {
        "traces": "is announced as available, but is not there",
        "evidence/broken.json": "the file is not JSON",
    }


async def test_list_evidence__nothing_at_all__says_so() -> None:
    result = await call("list_evidence", None)
    assert result.ok
    assert result.observations == ()
    assert result.text.startswith("There is no evidence")


async def test_list_evidence__alert_only__is_the_only_observation() -> None:
    toolbox = toolbox_for_snapshot(None, alert=alert_on("db", "slow"), turn=2, limits=Limits())
    result, _ = await toolbox.finish(toolbox.start("list_evidence", {}))
    assert [one.kind for one in result.observations] == [ObservationKind.ALERT]
    assert result.observations[0].id == "t2-1.1"


async def test_query_metrics__series__has_extremes_points_and_a_quote() -> None:
    result = await call("query_metrics", object="db-1", text="cpu")
    (one,) = shown(result)
    assert one.kind is ObservationKind.METRIC
    assert (one.object, one.source) == ("db-1", "metrics")
    assert one.value["step_s"] == 60.0
    assert len(one.value["values"]) == 30
    assert (one.value["min"], one.value["max"], one.value["min_at"]) == (20, 80, "2026-03-03T08:00:00+00:00")
    assert "20 % at 08:00, 80 % at 08:29 UTC" in one.quote


async def test_query_metrics__time_range__clips_the_series() -> None:
    result = await call("query_metrics", text="CPU", start=at(10), end="2026-03-03T08:12:00")
    (one,) = shown(result)
    assert one.value["samples"] == 3
    assert one.at is not None
    assert one.at.start.minute == 10
    assert await call("query_metrics", text="CPU", start=at(500)) == ToolResult(ok=True)


async def test_query_metrics__long_series__is_thinned_and_keeps_its_extremes() -> None:
    values = flat(10, 5_000)
    values[3_333] = 900.0
    result = await call("query_metrics", snapshot({"m": cloudwatch(metric("A", values))}))
    (one,) = shown(result)
    assert len(one.value["values"]) == 120
    assert one.value["max"] == 900.0
    assert one.value["samples"] == 5_000


async def test_query_metrics__uneven_times__keep_their_offsets() -> None:
    part = metric("A", [1.0, 2.0, 3.0])
    part["timestamps"] = [at(0), at(1), at(5)]
    (one,) = shown(await call("query_metrics", snapshot({"m": cloudwatch(part)})))
    assert one.value["offsets_s"] == [0.0, 60.0, 300.0]
    assert "step_s" not in one.value


async def test_query_metrics__pages__cover_everything_once() -> None:
    many = snapshot({"m": cloudwatch(*(metric(f"M{number}", flat(1)) for number in range(25)))})
    pages = [await call("query_metrics", many, limit=10, offset=offset) for offset in (0, 10, 20)]
    names = [one.value["metric"] for page in pages for one in shown(page)]
    assert names == sorted(f"M{number}" for number in range(25))
    assert "15 more metrics. Narrow by object, text, source or time, or read on with offset=10" in pages[0].text


async def test_query_metrics__output_too_small__keeps_whole_observations_and_says_how_many_are_left() -> None:
    many = snapshot({"m": cloudwatch(*(metric(f"M{number}", flat(1)) for number in range(25)))})
    result = await call("query_metrics", many, output_bytes=4_096)
    assert result.truncated
    assert 0 < len(shown(result)) < 25
    assert f"{25 - len(shown(result))} further observations are left out" in result.hint


async def test_query_events__absence__can_be_cited() -> None:
    result = await call("query_events", snapshot({"eks_events": {"warning_events": []}}))
    (summary,) = shown(result, "summary")
    assert summary.quote == "eks_events: no events"
    assert summary.value == {"type": "summary", "of": "event", "count": 0, "loud": 0}


async def test_query_events__filters__apply_together() -> None:
    assert [one.value["message"] for one in shown(await call("query_events"))] == [
        "Backup finished",
        "failover started",
    ]
    assert len(shown(await call("query_events", start=at(5)))) == 1
    assert len(shown(await call("query_events", text="FAILOVER"))) == 1
    assert len(shown(await call("query_events", text="failover", end=at(5)))) == 0
    assert len(shown(await call("query_events", object="web"))) == 0
    assert len(shown(await call("query_events", source="other"))) == 0


async def test_query_events__more_than_the_limit__failures_come_first() -> None:
    routine = [(float(minute), "Backup finished", ["backup"]) for minute in range(20)]
    taken = snapshot({"e": rds_events(*routine, (25.0, "failover started", ["failover"]))})
    result = await call("query_events", taken, limit=3)
    assert shown(result)[0].value["message"] == "failover started"
    assert "18 more events" in result.text


async def test_query_logs__lines__are_grouped_loudest_first() -> None:
    result = await call("query_logs")
    first, second = shown(result)
    assert (first.value["level"], first.value["message"]) == ("error", "cannot connect to db-1")
    assert (second.value["count"], second.value["message"]) == (2, "took 12 ms")
    assert "(2 lines like this)" in second.quote
    assert "shop-api took 15 ms" in result.text
    assert len(shown(await call("query_logs", level="error"))) == 1


async def test_get_states__type__narrows() -> None:
    assert {one.value["type"] for one in shown(await call("get_states"))} == {"pod", "deployment", "query", "waits"}
    result = await call("get_states", type="pod", object="web-1-b")
    (one,) = shown(result)
    assert one.quote.startswith("pod web-1-b: phase Running, not ready, 0 restarts")


@pytest.mark.parametrize("name", ["query_metrics", "query_events", "query_logs", "get_states"])
@pytest.mark.parametrize(
    "arguments", [{"limit": 0}, {"offset": -1}, {"start": "yesterday"}, {"object": "x" * 201}, {"unknown": 1}]
)
async def test_queries__invalid_arguments__are_refused(name: str, arguments: dict[str, Any]) -> None:
    result = await call(name, **arguments)
    assert not result.ok
    assert next(iter(arguments)) in result.error


@pytest.mark.parametrize("name", ["query_metrics", "query_events", "query_logs", "get_states"])
async def test_queries__no_evidence__say_that_no_source_holds_any(name: str) -> None:
    result = await call(name, None)
    assert result.ok
    assert result.observations == ()


async def test_alert__enormous__is_cut_to_what_an_observation_holds() -> None:
    alert = {
        "title": "x",
        "labels": {f"l{number}": "v" for number in range(10_000)},
        "annotations": {"a": "y" * 2_000_000},
    }
    toolbox = toolbox_for_snapshot(None, alert=alert, turn=1, limits=Limits())
    result, _ = await toolbox.finish(toolbox.start("list_evidence", {}))
    assert len(result.observations) == 1
    assert len(json.dumps(result.observations[0].value)) < 10_000


async def test_toolbox_for_snapshot__sources_read__are_those_looked_into() -> None:
    toolbox = toolbox_for_snapshot(TAKEN, alert=None, turn=1, limits=Limits())
    await toolbox.finish(toolbox.start("list_evidence", {}))
    assert toolbox.sources_read == {}
    await toolbox.finish(toolbox.start("query_metrics", {}))
    await toolbox.finish(toolbox.start("get_states", {"source": "pods"}))
    assert set(toolbox.sources_read) == {"metrics", "sql", "pods"}
    assert toolbox.tools_read("pods")
    assert not toolbox.tools_read("deployments")

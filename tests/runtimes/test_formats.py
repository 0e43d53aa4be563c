from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.runtimes.loose_json import leading_time, moment, number
from controlplane.runtimes.sources.formats import FORMATS, format_of
from controlplane.runtimes.sources.formats.kubernetes import level_of
from controlplane.runtimes.sources.records import Happening, Level, LogLine, Record, Series, Skipped, State
from tests.support.evidence import at, cloudwatch, deployment, insights, kube_event, log, metric, node, pod, rds_events

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=6,
)


def read(name: str, value: Any) -> list[Any]:
    known = format_of(name, value)
    assert known is not None
    return list(known.read(name, value))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (cloudwatch(metric("A", [1.0])), "aws_cloudwatch_metrics"),
        (rds_events((1, "x", ["backup"])), "aws_rds_events"),
        (insights(("SELECT 1", 1.0, {"CPU": 1.0})), "aws_performance_insights"),
        ({"pods": [pod("a-b")]}, "eks_pods"),
        ({"warning_events": [kube_event("BackOff", "x", "a")]}, "eks_events"),
        ({"events": [kube_event("BackOff", "x", "a")]}, "eks_events"),
        ({"deployments": [deployment("a")]}, "eks_deployments"),
        ({"nodes": [node("a")]}, "eks_node_health"),
        ({"pod_name": "a", "logs": "x"}, "eks_pod_logs"),
        ({"logs": [log(1, "x")]}, "datadog_logs"),
        ({"monitors": [{"name": "a", "overall_state": "OK"}]}, "datadog_monitors"),
        ({"services": [{"name": "a"}]}, "service_catalogue"),
        ({"incidents": [{"id": "a"}]}, "incident_list"),
        ({"log_files": [{"object": "a", "text": "x"}]}, "text_logs"),
        ({"times": [], "columns": []}, "metric_table"),
        ({"calls": []}, "call_graph"),
    ],
)
def test_format_of__shape__decides_whatever_the_name(value: dict[str, Any], expected: str) -> None:
    for name in (expected, "export", "aws_rds_events", "eks_pods"):
        known = format_of(name, value)
        assert known is not None
        assert known.name == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("eks_events", {"events": []}, "eks_events"),
        ("aws_rds_events", {"events": []}, "aws_rds_events"),
        ("eks_pod_logs", {"logs": []}, "eks_pod_logs"),
        ("datadog_logs", {"logs": []}, "datadog_logs"),
        ("anything", {"pods": []}, "eks_pods"),
    ],
)
def test_format_of__empty_list__name_decides(name: str, value: dict[str, Any], expected: str) -> None:
    known = format_of(name, value)
    assert known is not None
    assert known.name == expected


@pytest.mark.parametrize("value", [None, 1, "text", [], {}, {"something": "else"}])
def test_format_of__unknown_shape__is_none(value: object) -> None:
    assert format_of("aws_rds_events", value) is None


def test_cloudwatch__series__are_sorted_finite_and_named() -> None:
    part = metric("CPUUtilization", [3.0, 1.0, 2.0], unit="Percent", of="db-1")
    part["timestamps"] = [at(2), at(0), at(1)]
    (series,) = read("m", cloudwatch(part))
    assert isinstance(series, Series)
    assert (series.object, series.metric, series.unit, series.statistic) == (
        "db-1",
        "CPUUtilization",
        "Percent",
        "Average",
    )
    assert series.values == (1.0, 2.0, 3.0)
    assert list(series.times) == sorted(series.times)


def test_cloudwatch__malformed_parts__are_skipped_and_counted() -> None:
    good, holes = metric("A", [1.0, 2.0]), metric("B", [1.0, 2.0, 3.0])
    holes["values"] = [1.0, "x", None]
    holes["timestamps"][0] = "yesterday"
    found = read("m", cloudwatch(good, holes, {"no": "name"}, "text", metric("C", [])))  # type: ignore[arg-type]  # malformed on purpose
    assert [part.metric for part in found if isinstance(part, Series)] == ["A"]
    skipped = {part.reason: part.count for part in found if isinstance(part, Skipped)}
    assert skipped["samples of B without a time or a number"] == 3
    assert skipped["C has no samples"] == 1
    assert sum(count for reason, count in skipped.items() if reason == "a metric without a name") >= 1


def test_cloudwatch__names_in_pascal_case__are_read_too() -> None:
    value = {"MetricDataResults": [{"Label": "A", "Timestamps": [at(0)], "Values": [1]}]}
    (series,) = read("m", value)
    assert (series.metric, series.values) == ("A", (1.0,))


def test_rds_events__trouble__is_loud_and_routine_is_not() -> None:
    found = read("e", rds_events((1, "Multi-AZ failover started", ["failover"]), (2, "Backup finished", ["backup"])))
    assert [(event.level, event.reason) for event in found] == [(Level.ERROR, "failover"), (Level.INFO, "backup")]


def test_performance_insights__statements_waits_and_load__become_states_and_a_series() -> None:
    value = insights(("SELECT 1", 3.0, {"CPU": 2.0, "IO:DataFileRead": 1.0}), ("UPDATE x", 1.0, {"CPU": 1.0}))
    value |= {
        "db_load": {"timestamps": [at(0), at(1)], "values": [1, 2]},
        "top_users": [{"name": "app", "db_load_avg": 1}],
    }
    found = read("p", value)
    assert [type(part) for part in found] == [Series, State, State, State, State]
    assert found[0].metric == "DBLoad"
    assert found[1].facts["waits"] == {"CPU": 2.0, "IO:DataFileRead": 1.0}
    assert list(found[3].facts["waits"]) == ["CPU", "IO:DataFileRead"]
    assert found[4].facts == {"by": "users", "loads": {"app": 1.0}}


def test_pods__states_of_containers__are_read_in_the_flat_and_the_native_form() -> None:
    flat = {"waiting": True, "reason": "CrashLoopBackOff", "exit_code": 137, "message": "back-off"}
    native = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    last = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": at(3)}}
    one = pod("web-5f-abcde", ready=False, restarts=4, state=flat, deletion_timestamp=at(9))
    other = pod("web-5f-fghij", ready=False, state=native)
    other["containers"][0]["lastState"] = last
    first, second = read("k", {"pods": [one, other]})
    container = first.facts["containers"][0]
    assert (container["reason"], container["exit_code"], container["waiting"]) == ("CrashLoopBackOff", 137, True)
    assert (first.facts["terminating"], first.facts["owner"], first.facts["restarts"]) == (True, "web-5f", 4)
    container = second.facts["containers"][0]
    assert (container["reason"], container["last_reason"], container["last_exit_code"]) == (
        "CrashLoopBackOff",
        "OOMKilled",
        137,
    )
    assert "container app: CrashLoopBackOff, exit code 137" in second.text


@pytest.mark.parametrize(
    ("change", "ready"),
    [
        ({}, None),
        ({"conditions": [{"type": "Ready", "status": "Unknown"}]}, None),
        ({"phase": "Pending"}, False),
        ({"containers": [{"name": "app", "ready": True}, {"name": "proxy"}]}, None),
        ({"containers": [{"name": "app", "ready": True}]}, True),
        ({"containers": [{"name": "app", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}, False),
    ],
)
def test_pods__readiness__is_unknown_only_where_nothing_tells_it(change: dict[str, Any], ready: bool | None) -> None:
    (state,) = read("k", {"pods": [{"name": "web-5f-abcde", "phase": "Running", **change}]})

    assert state.facts["ready"] is ready


def test_events__involved_object__is_named_without_its_kind() -> None:
    native = {"reason": "OOMKilling", "message": "m", "involvedObject": {"kind": "Pod", "name": "b"}, "type": "Normal"}
    first, second = read("eks_events", {"events": [kube_event("BackOff", "x", "a", count=3), native]})
    assert isinstance(first, Happening)
    assert (first.object, first.count, first.level) == ("a", 3, Level.WARNING)
    assert (second.object, second.level, second.at) == ("b", Level.INFO, None)


def test_deployments_and_nodes__numbers_and_pressures__are_read() -> None:
    (state,) = read("d", {"deployments": [deployment("web", desired=3, ready=1)]})
    assert (state.facts["desired"], state.facts["ready"]) == (3, 1)
    assert state.text == "1 of 3 replicas ready, 2 unavailable"
    ready, sick = read("n", {"nodes": [node("a"), node("b", ready=False, disk_pressure=True)]})
    assert (ready.facts["ready"], ready.facts["pressures"]) == (True, [])
    assert (sick.facts["ready"], sick.facts["pressures"]) == (False, ["disk_pressure"])


def test_pod_logs__lines__have_time_and_level_and_inherit_the_time_above() -> None:
    text = f"{at(0)} INFO up\n\n{at(1)} ERROR down\n  at line 3\n[container terminated with exit code 1]"
    found = read("l", {"pod_name": "a", "logs": text})
    assert all(isinstance(line, LogLine) for line in found)
    assert [line.level for line in found] == [Level.INFO, Level.ERROR, Level.INFO, Level.ERROR]
    assert found[2].at == found[1].at == datetime(2026, 3, 3, 8, 1, tzinfo=UTC)
    assert found[0].message == "INFO up"


def test_pod_logs__several_pods__are_read_each_under_its_name() -> None:
    found = read(
        "eks_pod_logs", {"pods": [{"pod_name": "a", "logs": "x"}, {"pod_name": "b", "logs": ["y", {"message": "z"}]}]}
    )
    assert [(line.object, line.message) for line in found] == [("a", "x"), ("b", "y"), ("b", "z")]


def test_datadog_logs__object__is_the_pod_then_the_service() -> None:
    tagged = log(1, "x") | {"tags": ["pod_name:web-1", "odd"]}
    nested = {"attributes": {"message": "y", "status": "error", "service": "api", "timestamp": at(1)}}
    found = read(
        "datadog_logs", {"logs": [tagged, log(2, "x", service="api", status="warn"), nested, {"status": "info"}]}
    )
    assert [(line.object, line.level) for line in found[:3]] == [
        ("web-1", Level.INFO),
        ("api", Level.WARNING),
        ("api", Level.ERROR),
    ]
    assert isinstance(found[3], Skipped)


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("INFO no errors", Level.INFO),
        ("WARNING: low", Level.WARNING),
        ("level=error ERROR boom", Level.ERROR),
        ("kernel: Killed process 1", Level.ERROR),
        ("served 200 in 3 ms", Level.INFO),
        ("DEBUG failed to see", Level.DEBUG),
    ],
)
def test_level_of__line__is_what_it_states_before_what_it_suggests(line: str, level: Level) -> None:
    assert level_of(line) is level


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-03-03T08:00:00Z", datetime(2026, 3, 3, 8, tzinfo=UTC)),
        ("2026-03-03T10:00:00+02:00", datetime(2026, 3, 3, 8, tzinfo=UTC)),
        ("2026-03-03T08:00:00", datetime(2026, 3, 3, 8, tzinfo=UTC)),
        (1772524800, datetime(2026, 3, 3, 8, tzinfo=UTC)),
        (1772524800000, datetime(2026, 3, 3, 8, tzinfo=UTC)),
        ("yesterday", None),
        (10**30, None),
        (True, None),
        (None, None),
    ],
)
def test_moment__any_form__is_aware_or_none(value: object, expected: datetime | None) -> None:
    assert moment(value) == expected


def test_number__nan_and_text__are_no_numbers() -> None:
    assert [number(value) for value in (1, "2.5", float("nan"), "inf", True, None, "x", 10**400)] == [
        1.0,
        2.5,
        None,
        None,
        None,
        None,
        None,
        None,
    ]


def test_leading_time__without_one__leaves_the_line() -> None:
    assert leading_time("started at 2026-03-03T08:00:00Z") == (None, "started at 2026-03-03T08:00:00Z")


def _members() -> st.SearchStrategy[dict[str, Any]]:
    names = sorted({member for known in FORMATS for member in (*known.members, *known.item_keys)})
    return st.dictionaries(st.sampled_from(names), JSON, min_size=1, max_size=3)


@given(value=_members(), name=st.sampled_from([known.name for known in FORMATS]))
def test_readers__any_json__skip_what_they_cannot_read_and_never_raise(value: dict[str, Any], name: str) -> None:
    known = format_of(name, value)
    for record in known.read(name, value) if known else ():
        assert isinstance(record, Record | Skipped)


BROKEN: list[Callable[[Any], dict[str, Any]]] = [
    lambda item: {
        "metric_data_results": [{"metric_name": "A", "timestamps": item, "values": item, "dimensions": item}]
    },
    lambda item: {"events": [{"source_identifier": "a", "message": item, "date": item, "event_categories": item}]},
    lambda item: {"top_sql": [{"statement": item, "db_load_avg": 1, "wait_events": item}], "db_load": item},
    lambda item: {"pods": [{"name": "a", "containers": item, "conditions": item, "start_time": item}]},
    lambda item: {"pods": [{"name": "a", "containers": [{"state": item, "restart_count": item, "last_state": item}]}]},
    lambda item: {"warning_events": [{"reason": "a", "involved_object": item, "count": item, "first_time": item}]},
    lambda item: {"nodes": [{"name": "a", "ready": item, "disk_pressure": item}]},
    lambda item: {"deployments": [{"name": "a", "desired": item, "ready": item}]},
    lambda item: {"logs": [{"message": item, "tags": item, "timestamp": item, "attributes": item}]},
    lambda item: {"pod_name": item, "logs": item},
    lambda item: {"monitors": [{"name": "a", "overall_state": item, "tags": item}]},
    lambda item: {"services": [{"name": "a", "status": item, "owner": item, "description": item}]},
    lambda item: {"incidents": [{"id": "a", "title": "b", "status": item, "opened_at": item, "service": item}]},
    lambda item: {"log_files": [{"object": item, "text": item}, item]},
    lambda item: {"times": item, "columns": [{"object": "a", "metric": "b", "values": item}], "normal": item},
    lambda item: {
        "times": [1, 2, item],
        "columns": [{"object": item, "metric": "b", "statistic": item, "unit": item, "values": [item] * 6}],
        "normal": {"columns": [{"object": item, "metric": "b", "statistic": item, "values": [item] * 6}]},
    },
    lambda item: {"calls": [{"caller": item, "callee": item}, item]},
]


@given(item=JSON, build=st.sampled_from(BROKEN))
def test_readers__any_json_in_any_field__give_records_or_skip(
    item: Any, build: Callable[[Any], dict[str, Any]]
) -> None:
    value = build(item)
    known = format_of("x", value)
    for record in known.read("x", value) if known else ():
        assert isinstance(record, (*known.kinds, Skipped) if known else ())

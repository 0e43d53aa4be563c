"""What names and words mean: measures of metrics, sizes of instances, alerts, messages, questions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.runtimes.builtin.analysis.facts import Facts
from controlplane.runtimes.builtin.analysis.messages import (
    DATABASE_EVENTS,
    PROGRAM_FAULTS,
    dependency_in,
    image_in,
    pull_cause,
    reported,
)
from controlplane.runtimes.builtin.analysis.signs import SignKind
from controlplane.runtimes.builtin.analysis.sizes import instance_size
from controlplane.runtimes.builtin.questions import is_a_question, pointers_in
from controlplane.runtimes.signals.alert import named_in, read_alert, without_names
from controlplane.runtimes.signals.measures import Measure, measure_of
from controlplane.runtimes.sources.figures import figure


@pytest.mark.parametrize(
    ("name", "measure"),
    [
        ("FreeStorageSpace", Measure.FREE_STORAGE),
        ("node_filesystem_avail_bytes", Measure.FREE_STORAGE),
        ("disk_used_percent", Measure.STORAGE_USED),
        ("CPUUtilization", Measure.CPU),
        ("container_cpu_usage_seconds_total", Measure.CPU),
        ("FreeableMemory", Measure.FREE_MEMORY),
        ("container_memory_working_set_bytes", Measure.MEMORY_USED),
        ("DatabaseConnections", Measure.CONNECTIONS),
        ("ReplicaLag", Measure.REPLICA_LAG),
        ("pg_replication_lag_seconds", Measure.REPLICA_LAG),
        ("OldestReplicationSlotLag", Measure.SLOT_LAG),
        ("TransactionLogsGeneration", Measure.WAL_RATE),
        ("TransactionLogsDiskUsage", Measure.WAL_SIZE),
        ("MaximumUsedTransactionIDs", Measure.TRANSACTION_IDS),
        ("WriteIOPS", Measure.WRITES),
        ("ReadThroughput", Measure.READS),
        ("CommitLatency", Measure.LATENCY),
        ("http_request_duration_seconds", Measure.LATENCY),
        ("http_errors_total", Measure.ERRORS),
        ("DiskQueueDepth", Measure.QUEUE),
        ("kafka_consumer_group_lag", Measure.QUEUE),
        ("BurstBalance", Measure.CREDIT),
        ("DBLoad", Measure.LOAD),
        ("http_requests_total", Measure.TRAFFIC),
        ("SwapUsage", Measure.SWAP),
        ("temperature", Measure.OTHER),
        ("", Measure.OTHER),
    ],
)
def test_measure_of__name_in_any_style__is_what_it_measures(name: str, measure: Measure) -> None:
    assert measure_of(name) is measure


@pytest.mark.parametrize(
    ("name", "cpus", "gib", "connections"),
    [
        ("db.r6g.large", 2, 16, 1_802),
        ("db.r6g.xlarge", 4, 32, 3_604),
        ("db.r6g.2xlarge", 8, 64, 5_000),
        ("db.m6g.xlarge", 4, 16, 1_802),
        ("db.t3.micro", 2, 1, 112),
        ("db.t4g.2xlarge", 8, 32, 3_604),
        ("DB.C6G.4XLARGE", 16, 32, 3_604),
    ],
)
def test_instance_size__class__has_processors_memory_and_postgres_connections(
    name: str, cpus: int, gib: int, connections: int
) -> None:
    size = instance_size(name)
    assert size is not None
    assert (size.cpus, size.memory_bytes >> 30, size.postgres_connections()) == (cpus, gib, connections)
    assert size.mysql_connections() < size.memory_bytes


@pytest.mark.parametrize("name", ["", "m5.large", "db.unknown", "db.q9.large", "db.m5.nano"])
def test_instance_size__unknown_class__is_none(name: str) -> None:
    assert instance_size(name) is None


def test_named_in__names__are_whole_and_longest_first() -> None:
    names = ["db", "db-1", "db-1-replica", "web", "x"]
    assert named_in("Lag on DB-1-replica of db.", names) == ["db-1-replica", "db"]
    assert named_in("the webhook and db_1", names) == []
    assert without_names("Failover-db failed", ["failover-db"]) == "… failed"


@pytest.mark.parametrize(
    ("alert", "title", "summary", "severity", "firing"),
    [
        (
            {
                "title": "T",
                "state": "normal",
                "commonAnnotations": {"summary": "S"},
                "commonLabels": {"severity": "Info"},
            },
            "T",
            "S",
            "info",
            False,
        ),
        (
            {
                "status": "firing",
                "commonLabels": {"alertname": "N", "severity": "page"},
                "alerts": [{"labels": {"pod": "p"}}],
            },
            "N",
            "",
            "page",
            True,
        ),
        ({"name": "N", "message": "M"}, "N", "M", "", None),
        ({"title": 7, "commonLabels": "odd", "commonAnnotations": None}, "7", "", "", None),
    ],
)
def test_read_alert__shapes_of_several_senders__are_understood(
    alert: dict[str, Any], title: str, summary: str, severity: str, firing: bool | None
) -> None:
    view = read_alert(alert)
    assert view is not None
    assert (view.title, view.summary, view.severity, view.firing) == (title, summary, severity, firing)


def test_read_alert__nothing__is_none() -> None:
    assert read_alert(None) is None
    assert read_alert({}) is None


def test_read_alert__enormous__stays_bounded() -> None:
    view = read_alert({"title": "x", "labels": {str(number): "v" * 9_000 for number in range(10_000)}})
    assert view is not None
    assert len(view.words) <= 20_000


ANY = st.none() | st.integers() | st.text(max_size=6)
NESTED = ANY | st.dictionaries(st.text(max_size=6), ANY | st.lists(ANY, max_size=3), max_size=3)


@given(st.dictionaries(st.text(max_size=6), NESTED, max_size=4))
def test_read_alert__any_json__is_a_view_of_bounded_texts(value: dict[str, Any]) -> None:
    view = read_alert(value)
    assert (view is None) == (not value)
    if view is not None:
        assert len(view.title) <= 200
        assert len(view.summary) <= 1_000
        assert view.words == view.words.lower()


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("db instance ran out of storage space.", SignKind.STORAGE_FULL),
        ("free storage capacity of db instance x is low: 4 gib remaining", SignKind.STORAGE_FULL),
        ("multi-az instance failover started", SignKind.FAILOVER),
        ("approaching the maximum of 500 connections", SignKind.CONNECTIONS_FULL),
        ("replication lag exceeded 600 seconds", SignKind.REPLICA_LAG),
        ("replication slot x is inactive", SignKind.WAL_RETAINED),
        ("parameter group applied", SignKind.CHANGED),
        ("automated backup finished", None),
    ],
)
def test_reported__database_events__are_told_apart(message: str, kind: SignKind | None) -> None:
    assert reported(message, DATABASE_EVENTS) is kind


def test_reported__program_faults__take_the_most_telling_wording() -> None:
    assert reported("exception: connection refused", PROGRAM_FAULTS) is SignKind.DEPENDENCY
    assert reported("something odd", PROGRAM_FAULTS) is SignKind.LOG_ERRORS
    assert reported("", PROGRAM_FAULTS) is None


@pytest.mark.parametrize(
    ("message", "host"),
    [
        ("dial tcp orders-db:5432: connect: connection refused", "orders-db:5432"),
        ("failed to connect to 10.0.0.7:6379", "10.0.0.7:6379"),
        ("upstream request timeout", ""),
        ("could not connect to server: Connection refused", ""),
        ('no such host: lookup "cache.internal"', "cache.internal"),
    ],
)
def test_dependency_in__message__names_the_host_or_nothing(message: str, host: str) -> None:
    assert dependency_in(message) == host


def test_image_in_and_pull_cause__message__are_read() -> None:
    said = 'Failed to pull image "registry.local:5000/shop/api:1.4": not found: manifest unknown'
    assert image_in(said) == "registry.local:5000/shop/api:1.4"
    assert pull_cause(said) == "missing"
    assert (image_in("nothing"), pull_cause("nothing")) == ("", "")


@pytest.mark.parametrize(
    ("words", "asking"),
    [("What about CPU?", True), ("and the disk?", True), ("why", True), ("look at db-1", False), ("", False)],
)
def test_is_a_question__words__are_told_apart(words: str, asking: bool) -> None:
    assert is_a_question(words) is asking


def test_pointers_in__words__point_at_measures_objects_and_topics() -> None:
    pointers = pointers_in("Any errors in the logs of web-1, and its latency?", Facts(), ["web-1", "web-2"])
    assert pointers.objects == ("web-1",)
    assert pointers.measures == {Measure.ERRORS, Measure.LATENCY}
    assert pointers.topics == {"log"}
    assert pointers.asks_for_facts()
    assert not pointers_in("hello there", Facts())


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (2_000_000_000, "Bytes", "1.86 GiB"),
        (512, "Bytes", "512 B"),
        (12_900_000, "Bytes/Second", "12.3 MiB/s"),
        (94.123, "Percent", "94.1 %"),
        (4_998, "Count", "4,998"),
        (0.5, "Seconds", "0.5 s"),
        (3.2, "widgets", "3.2 widgets"),
        (-3 * 2**30, "Bytes", "-3 GiB"),
    ],
)
def test_figure__value_with_unit__reads_as_a_person_writes_it(value: float, unit: str, shown: str) -> None:
    assert figure(value, unit) == shown

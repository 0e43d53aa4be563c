"""The built-in runtime on databases: one small recording for each kind of fault, and its harmless twin."""

from collections.abc import Mapping
from typing import Any

import pytest

from controlplane.runtimes.report import Category, ReportStatus, Severity
from tests.support.evidence import (
    DATABASE,
    GIB,
    POSTGRES,
    Ran,
    alert_on,
    cloudwatch,
    flat,
    insights,
    metric,
    quiet_database,
    ramp,
    rds_events,
    run_turn,
    snapshot,
    step,
    with_metrics,
)

REPLICA = f"{DATABASE}-replica-1"
QUIET = rds_events((-300, f"Automated backup finished for {DATABASE}.", ["backup"]))
BULK = "UPDATE accounts SET settled = true WHERE batch = $1"
SCAN = "SELECT region, sum(amount) FROM accounts GROUP BY region"


async def investigate(
    metrics: Mapping[str, Any],
    *,
    summary: str = f"Something is wrong with {DATABASE}.",
    state: str = "alerting",
    **sources: Any,
) -> Ran:
    taken = snapshot(
        {"metrics": metrics, "events": QUIET, **sources},
        alert=alert_on(DATABASE, summary, state=state),
        scenario=POSTGRES,
    )
    return await run_turn(taken)


def root(ran: Ran) -> tuple[Category, str]:
    assert ran.report.root_cause is not None
    return ran.report.root_cause.category, ran.report.root_cause.object


async def test_storage__falls_to_nothing_under_bulk_writes__is_exhausted() -> None:
    ran = await investigate(
        with_metrics(metric("FreeStorageSpace", ramp(20 * GIB, 0.4 * GIB, begin=5), unit="Bytes")),
        events=rds_events((28, "DB instance ran out of storage space.", ["failure"])),
        sql=insights((BULK, 5.0, {"IO:DataFileWrite": 4.0, "CPU": 1.0}), (SCAN, 0.5, {"CPU": 0.5})),
    )
    assert root(ran) == (Category.RESOURCE_EXHAUSTION, DATABASE)
    assert ran.report.status is ReportStatus.ONGOING
    assert ran.report.severity is Severity.CRITICAL
    assert "FreeStorageSpace of ledger-db fell from 20 GiB to" in ran.text()
    assert "UPDATE accounts" in ran.text()
    assert [entry.at for entry in ran.report.timeline] == sorted(entry.at for entry in ran.report.timeline)


async def test_storage__write_ahead_log_retained_by_a_slot__is_the_mechanism() -> None:
    ran = await investigate(
        with_metrics(
            metric("FreeStorageSpace", ramp(40 * GIB, 1.0 * GIB, begin=4), unit="Bytes"),
            metric("OldestReplicationSlotLag", ramp(0.1 * GIB, 38 * GIB, begin=4), unit="Bytes"),
        ),
        sql=insights((BULK, 5.0, {"IO:DataFileWrite": 4.0})),
    )
    assert root(ran)[0] is Category.RESOURCE_EXHAUSTION
    assert "replication slot" in ran.report.summary
    assert "no surge of writes fills the disk" in ran.text()


async def test_storage__only_events_speak_of_it__is_still_found() -> None:
    quiet = cloudwatch(*(part for part in quiet_database() if part["metric_name"] != "FreeStorageSpace"))
    ran = await investigate(quiet, events=rds_events((25, "DB instance ran out of storage space.", ["failure"])))
    assert root(ran) == (Category.RESOURCE_EXHAUSTION, DATABASE)
    assert ran.report.root_cause is not None
    assert ran.report.root_cause.confidence < 0.9


async def test_storage__was_low_and_was_enlarged__is_no_failure() -> None:
    ran = await investigate(
        with_metrics(metric("FreeStorageSpace", [*ramp(20 * GIB, 0.5 * GIB, 20), *flat(90 * GIB, 10)], unit="Bytes")),
        events=rds_events(
            (18, "DB instance storage is critically low.", ["failure"]), (20, "Storage scaled.", ["backup"])
        ),
    )
    assert root(ran) == (Category.HEALTHY, DATABASE)
    assert ran.report.status is ReportStatus.RESOLVED
    assert "went to" in ran.text()


async def test_replication__lag_with_write_surge__is_write_heavy_workload() -> None:
    ran = await investigate(
        with_metrics(
            metric("ReplicaLag", ramp(1, 900, begin=3), unit="Seconds", of=REPLICA),
            metric("WriteIOPS", step(400, 17_000, place=2), unit="Count/Second"),
            metric("TransactionLogsGeneration", step(4e6, 2e8, place=2), unit="Bytes/Second"),
            metric("CPUUtilization", step(30, 70, place=4), unit="Percent"),
        ),
        sql=insights((BULK, 5.0, {"IO:WALWrite": 4.0, "CPU": 0.5}), (SCAN, 2.0, {"CPU": 2.0})),
    )
    assert root(ran) == (Category.RESOURCE_EXHAUSTION, REPLICA)
    assert "write-heavy workload" in ran.text()
    assert "causally independent" in ran.text(), "the CPU rise comes from the reading statement"
    assert "CPU saturation" not in {item.hypothesis for item in ran.report.ruled_out}


async def test_replication__lag_without_write_surge__is_the_replicas_own() -> None:
    ran = await investigate(with_metrics(metric("ReplicaLag", ramp(1, 900, begin=3), unit="Seconds", of=REPLICA)))
    assert root(ran) == (Category.INFRASTRUCTURE, REPLICA)


async def test_replication__caught_up_again__is_no_failure() -> None:
    lag = [*ramp(1, 800, 15), *ramp(800, 1, 5), *flat(1, 10)]
    ran = await investigate(
        with_metrics(metric("ReplicaLag", lag, unit="Seconds", of=REPLICA)),
        events=rds_events((12, f"Replication lag of {REPLICA} exceeded 600 seconds.", ["read replica"])),
    )
    assert root(ran)[0] is Category.HEALTHY


async def test_connections__idle_clients_hold_them__is_a_pool_leak_with_one_root() -> None:
    limit = 1_802  # 16 GiB / 9531392
    ran = await investigate(
        with_metrics(
            metric("DatabaseConnections", ramp(limit * 0.9, limit * 0.998)),
            metric("CPUUtilization", ramp(86, 94), unit="Percent"),
        ),
        sql=insights((SCAN, 5.0, {"Client:ClientRead": 4.0, "CPU": 1.0})),
    )
    assert root(ran) == (Category.RESOURCE_EXHAUSTION, DATABASE)
    assert "connection pool leak" in ran.text()
    assert "idle" in ran.text()
    assert "of the limit of 1,802" in ran.text()
    assert "one root" in ran.text()
    assert len(ran.report.hypotheses) >= 2, "the processor stays a possibility of its own"


async def test_connections__limit_told_by_an_event__is_used() -> None:
    ran = await investigate(
        with_metrics(metric("DatabaseConnections", ramp(300, 498))),
        events=rds_events((20, "DB instance has 480 connections, approaching the maximum of 500.", ["notification"])),
    )
    assert root(ran) == (Category.RESOURCE_EXHAUSTION, DATABASE)
    assert "98.2% of the limit of 500" in ran.text()


async def test_connections__elevated_but_far_from_the_limit__is_no_failure() -> None:
    wave = [1_000 + 90 * ((index % 8) - 4) / 4 for index in range(30)]
    ran = await investigate(
        with_metrics(metric("DatabaseConnections", wave)),
        summary=f"Connections of {DATABASE} are elevated.",
    )
    assert root(ran) == (Category.HEALTHY, DATABASE)
    assert ran.report.severity is Severity.INFO
    assert "of the limit of 1,802" in ran.text()
    assert {"CPU saturation", "Too many connections"} <= {item.hypothesis for item in ran.report.ruled_out}


async def test_processor__saturated_by_one_statement__names_it() -> None:
    ran = await investigate(
        with_metrics(
            metric("CPUUtilization", step(35, 97, place=8), unit="Percent"),
            metric("ReadLatency", step(1.0, 9.0, place=9), unit="Milliseconds"),
        ),
        sql=insights((SCAN, 9.0, {"CPU": 8.0}), ("SELECT 1", 1.0, {"CPU": 0.2})),
    )
    assert root(ran) == (Category.RESOURCE_EXHAUSTION, DATABASE)
    assert SCAN in ran.text()


async def test_memory__used_up__is_exhausted() -> None:
    ran = await investigate(
        with_metrics(
            metric("FreeableMemory", ramp(9 * GIB, 0.05 * GIB), unit="Bytes"),
            metric("SwapUsage", ramp(0.01 * GIB, 3 * GIB), unit="Bytes"),
        )
    )
    assert root(ran) == (Category.RESOURCE_EXHAUSTION, DATABASE)
    assert "runs out of memory" in ran.report.title


async def test_burst_credit__used_up__is_exhausted() -> None:
    ran = await investigate(with_metrics(metric("BurstBalance", ramp(90, 0), unit="Percent")))
    assert "burst credit" in ran.report.summary


async def test_disk__queue_and_latency_up__cannot_keep_up() -> None:
    ran = await investigate(
        with_metrics(
            metric("DiskQueueDepth", step(0.5, 40, place=10)),
            metric("WriteLatency", step(2, 60, place=10), unit="Milliseconds"),
        ),
        sql=insights((BULK, 5.0, {"IO:DataFileWrite": 4.5, "CPU": 0.5})),
    )
    assert root(ran) == (Category.RESOURCE_EXHAUSTION, DATABASE)
    assert "cannot keep up" in ran.report.title


async def test_locks__sessions_wait_for_them__block_each_other() -> None:
    ran = await investigate(
        with_metrics(metric("ReadLatency", step(1, 60, place=10), unit="Milliseconds")),
        sql=insights((BULK, 5.0, {"Lock:transactionid": 4.5, "CPU": 0.5})),
    )
    assert "block each other" in ran.report.title


async def test_failover__reported_and_over__is_infrastructure_and_mitigated() -> None:
    dip = [*flat(140, 12), 5, 3, 20, *flat(140, 15)]
    ran = await investigate(
        with_metrics(metric("DatabaseConnections", dip)),
        summary=f"{DATABASE} did not answer for two minutes.",
        events=rds_events(
            (12, "Multi-AZ instance failover started.", ["failover"]),
            (14, "Multi-AZ instance failover completed.", ["failover"]),
        ),
    )
    assert root(ran) == (Category.INFRASTRUCTURE, DATABASE)
    assert ran.report.status is ReportStatus.MITIGATED
    assert "dropped to 3" in ran.text()


async def test_transaction_ids__near_wraparound__is_exhausted() -> None:
    ran = await investigate(with_metrics(metric("MaximumUsedTransactionIDs", flat(1.9e9))))
    assert "transaction ids" in ran.report.title


async def test_quiet__check_reports_normal__is_healthy_with_what_was_read() -> None:
    ran = await investigate(cloudwatch(*quiet_database()), state="normal", summary="Periodic check passed.")
    assert root(ran) == (Category.HEALTHY, DATABASE)
    assert ran.report.root_cause is not None
    assert ran.report.root_cause.confidence == 0.9
    assert "No failure" in ran.report.summary
    assert "normal bounds" in ran.text()
    assert ran.report.actions == ()


async def test_symptom_without_cause__is_unknown_and_named() -> None:
    ran = await investigate(with_metrics(metric("ReadLatency", step(1.0, 80.0), unit="Milliseconds")))
    assert root(ran) == (Category.UNKNOWN, DATABASE)
    assert ran.report.status is ReportStatus.INCONCLUSIVE
    assert "ReadLatency of ledger-db rose from 1" in ran.text()


async def test_other_object_in_trouble__counts_less_than_the_one_asked_about() -> None:
    other = metric("CPUUtilization", step(35, 88), unit="Percent", of="reports-db")
    ran = await investigate(
        with_metrics(
            other,
            metric("FreeStorageSpace", ramp(20 * GIB, 0.4 * GIB), unit="Bytes"),
        )
    )
    assert root(ran)[1] == DATABASE
    assert [one.object for one in ran.report.hypotheses] == [DATABASE, "reports-db"]


async def test_metric_of_another_object__rules_nothing_out() -> None:
    storage = metric("FreeStorageSpace", flat(80 * GIB), unit="Bytes", of="reports-db")
    kept = [part for part in quiet_database() if part["metric_name"] != "FreeStorageSpace"]
    ran = await investigate(cloudwatch(*kept, storage))
    assert "Lack of storage" not in {item.hypothesis for item in ran.report.ruled_out}


@pytest.mark.parametrize("name", ["failover-db", "no-space-left-db", "oomkilled", "too-many-connections"])
async def test_name_of_an_object__that_sounds_like_a_fault__decides_nothing(name: str) -> None:
    taken = snapshot(
        {
            "metrics": cloudwatch(*quiet_database(name)),
            "events": rds_events((3, f"Backup of {name} finished.", ["backup"]), of=name),
        },
        alert=alert_on(name, "A check."),
        scenario=POSTGRES | {"db_instance_identifier": name},
    )
    assert root(await run_turn(taken)) == (Category.HEALTHY, name)

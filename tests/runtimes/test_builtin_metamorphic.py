"""The verdict follows from what happens, not from names and dates."""

import json
from datetime import timedelta
from typing import Any

import pytest

from controlplane.runtimes.loose_json import moment
from tests.runtimes.test_builtin_clusters import CRASHING, OLD, SICK, WELL, crash_log
from tests.support.evidence import (
    DATABASE,
    GIB,
    POSTGRES,
    Ran,
    alert_on,
    at,
    cloudwatch,
    deployment,
    flat,
    insights,
    kube_event,
    log,
    metric,
    node,
    pod,
    quiet_database,
    ramp,
    rds_events,
    run_turn,
    snapshot,
    step,
    with_metrics,
)


def database(summary: str, metrics: dict[str, Any], **more: Any) -> dict[str, Any]:
    return snapshot({"m": metrics, **more}, alert=alert_on(DATABASE, summary), scenario=POSTGRES)


def cluster(*pods: dict[str, Any], **more: Any) -> dict[str, Any]:
    sources = {
        "pods": {"pods": list(pods)},
        "nodes": {"nodes": [node("node-a")]},
        "deployments": {"deployments": [deployment("shop-api")]},
        **more,
    }
    return snapshot(sources, alert=alert_on("shop-api", "Pods of shop-api restart."))


CASES = {
    "storage": database(
        "Storage is low.",
        with_metrics(metric("FreeStorageSpace", ramp(20 * GIB, 0.4 * GIB, begin=5), unit="Bytes")),
        events=rds_events((28, f"{DATABASE} ran out of storage space.", ["failure"])),
    ),
    "lag": database(
        f"{DATABASE}-replica-1 lags.",
        with_metrics(
            metric("ReplicaLag", ramp(1, 900, begin=3), unit="Seconds", of=f"{DATABASE}-replica-1"),
            metric("WriteIOPS", step(400, 17_000, place=2), unit="Count/Second"),
        ),
        sql=insights(("UPDATE x SET y = 1", 5.0, {"IO:WALWrite": 4.0})),
    ),
    "failover": database(
        "It does not answer.",
        with_metrics(metric("DatabaseConnections", [*flat(140, 12), 5, 3, 20, *flat(140, 15)])),
        events=rds_events((12, f"Failover of {DATABASE} started.", ["failover"])),
    ),
    "quiet": database("A check.", cloudwatch(*quiet_database())),
    "crash": cluster(
        pod(SICK, ready=False, restarts=4, state=CRASHING | {"exit_code": 1}),
        pod(WELL),
        logs={"pod_name": SICK, "logs": crash_log("dial tcp orders:5432: connection refused")},
    ),
    "rollout": cluster(
        pod(OLD, ready=False, restarts=2, state=CRASHING, deletion_timestamp=at(28)),
        pod(SICK),
        pod(WELL),
        events={"warning_events": [kube_event("BackOff", "Back-off", OLD)]},
    ),
    "dependency": cluster(
        pod(SICK),
        logs={"logs": [log(20 + n, "connection refused to ledger.internal", status="error") for n in range(6)]},
        monitors={"monitors": [{"name": "errors", "overall_state": "Alert"}]},
    ),
}
RENAMED = {DATABASE: "q7", "shop-api": "zeta-worker", "node-a": "n1", "5f6d7": "77c8d", "44c9b": "99b1f"}


def renamed(taken: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(taken)
    for old, new in RENAMED.items():
        text = text.replace(old, new)
    changed: dict[str, Any] = json.loads(text)
    return changed


def shifted(value: Any, by: timedelta) -> Any:
    """Return JSON with every time in it, wherever it stands, moved."""
    if isinstance(value, dict):
        return {key: shifted(item, by) for key, item in value.items()}
    if isinstance(value, list):
        return [shifted(item, by) for item in value]
    if isinstance(value, str) and "2026-" in value:
        found = moment(value)
        if found is not None:
            return (found + by).isoformat()
        return "\n".join(_line(line, by) for line in value.split("\n"))
    return value


def _line(line: str, by: timedelta) -> str:
    first, _, rest = line.partition(" ")
    found = moment(first)
    return f"{(found + by).isoformat()} {rest}" if found else line


def verdict(ran: Ran) -> list[tuple[str, float]]:
    return [(one.category.value, one.confidence) for one in ran.report.hypotheses]


@pytest.mark.parametrize("name", CASES)
async def test_verdict__renamed__is_the_same(name: str) -> None:
    plain, changed = await run_turn(CASES[name]), await run_turn(renamed(CASES[name]))
    assert verdict(changed) == verdict(plain)
    assert plain.report.root_cause is not None
    assert changed.report.root_cause is not None
    assert (
        changed.report.root_cause.object == json.loads(json.dumps(renamed({"x": plain.report.root_cause.object})))["x"]
    )
    assert [item.hypothesis for item in changed.report.ruled_out] == [
        item.hypothesis for item in plain.report.ruled_out
    ]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("by", [timedelta(days=-731, hours=5), timedelta(days=90, seconds=17)])
async def test_verdict__moved_in_time__is_the_same(name: str, by: timedelta) -> None:
    plain, changed = await run_turn(CASES[name]), await run_turn(shifted(CASES[name], by))
    assert verdict(changed) == verdict(plain)
    assert [entry.at - by for entry in changed.report.timeline] == [entry.at for entry in plain.report.timeline]


@pytest.mark.parametrize("name", CASES)
async def test_verdict__sources_renamed_and_reordered__is_the_same(name: str) -> None:
    taken = CASES[name]
    mixed = {f"source-{index}": value for index, (_, value) in enumerate(reversed(taken["sources"].items()))}
    assert verdict(await run_turn(taken | {"sources": mixed})) == verdict(await run_turn(taken))

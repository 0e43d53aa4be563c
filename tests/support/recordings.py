"""Recordings of many services that tests build themselves: tables of metrics, call graphs, records of operations."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Self

from controlplane.runtimes.builtin.analysis.case import Case, case_of
from controlplane.runtimes.builtin.analysis.facts import CallsFact, Facts, MetricFact
from controlplane.runtimes.signals.alert import read_alert
from controlplane.runtimes.sources.records import baseline_of
from tests.support.evidence import flat, snapshot

BEGIN: Final = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
STEP: Final = timedelta(minutes=5)
SAMPLES: Final = 6
NORMAL_SAMPLES: Final = 40

Columns = Mapping[tuple[str, str, str], Sequence[float | None]]
Calls = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Service:
    """A service in normal operation and now: latency in seconds, share of requests that fail, requests per sample.

    ``now`` and ``failing_now`` may be the samples themselves; ``known`` is whether normal operation has it.
    """

    name: str
    latency: float = 0.1
    now: float | Sequence[float] | None = None
    failing: float = 0.001
    failing_now: float | Sequence[float] | None = None
    requests: float = 100.0
    known: bool = True

    def renamed(self, names: Mapping[str, str]) -> Self:
        return replace(self, name=names[self.name])

    def slower(self, factor: float) -> Self:
        """Return the service with all its latencies multiplied."""
        return replace(self, latency=self.latency * factor, now=[factor * value for value in self.latencies()])

    def latencies(self) -> list[float]:
        return _samples(self.latency if self.now is None else self.now)

    def failures(self) -> list[float]:
        return _samples(self.failing if self.failing_now is None else self.failing_now)

    def columns(self) -> Columns:
        """Return what is measured now: latency in seconds, availability in percent, requests."""
        return {
            (self.name, "latency", "Average"): self.latencies(),
            (self.name, "availability", "Average"): [100 * (1 - share) for share in self.failures()],
            (self.name, "requests", "Sum"): [self.requests] * len(self.latencies()),
        }

    def normal_columns(self) -> Columns:
        if not self.known:
            return {}
        return {
            (self.name, "latency", "Average"): flat(self.latency, NORMAL_SAMPLES),
            (self.name, "availability", "Average"): [100 * (1 - share) for share in flat(self.failing, NORMAL_SAMPLES)],
            (self.name, "requests", "Sum"): [self.requests] * NORMAL_SAMPLES,
        }


def _samples(value: float | Sequence[float]) -> list[float]:
    return [float(value)] * SAMPLES if isinstance(value, int | float) else list(value)


def alarm(name: str, metric: str = "latency", *, start: datetime = BEGIN, statistic: str = "Average") -> dict[str, Any]:
    """Return an alert as it comes with tables of metrics."""
    return {"node": name, "metric": metric, "agg": statistic, "timestamp": start.timestamp()}


def shop_case(
    services: Sequence[Service],
    calls: Calls = (),
    alert: Mapping[str, Any] | None = None,
    *,
    unit: str = "Seconds",
    start: datetime = BEGIN,
) -> Case:
    """Return the case of some services; latencies are given in ``unit``, the incident begins at ``start``."""
    metrics = [fact for service in services for fact in _facts(service, unit, start)]
    graph: dict[str, list[str]] = {}
    for caller, callee in calls:
        graph.setdefault(caller, []).append(callee)
    known = [CallsFact(f"c.{n}", "topology", name, tuple(names)) for n, (name, names) in enumerate(graph.items())]
    return case_of(Facts(metrics=metrics, calls=known), read_alert(alert))


def _facts(service: Service, unit: str, start: datetime) -> list[MetricFact]:
    normal = service.normal_columns()
    units = {"latency": unit, "availability": "Percent", "requests": "Count"}
    return [
        metric_fact(
            name, metric, [value for value in values if value is not None], unit=units[metric], start=start,
            normal=[value for value in normal.get((name, metric, statistic), ()) if value is not None],
            statistic=statistic,
        )
        for (name, metric, statistic), values in service.columns().items()
    ]  # fmt: skip


def metric_fact(
    object_: str,
    metric: str,
    values: Sequence[float],
    *,
    unit: str = "",
    normal: Sequence[float] = (),
    statistic: str = "Average",
    start: datetime = BEGIN,
) -> MetricFact:
    """Return a metric with the samples of normal operation it is compared with."""
    return MetricFact(
        id=f"{object_}.{metric}.{statistic}",
        source="metrics",
        object=object_,
        metric=metric,
        unit=unit,
        statistic=statistic,
        times=tuple(start + STEP * index for index in range(len(values))),
        values=tuple(values),
        low=min(values),
        high=max(values),
        baseline=baseline_of(normal),
    )


def shop_snapshot(services: Sequence[Service], calls: Calls = (), alert: Mapping[str, Any] | None = None) -> Any:
    """Return the same as a snapshot, which a runtime can be run on."""
    now: dict[tuple[str, str, str], Sequence[float | None]] = {}
    normal: dict[tuple[str, str, str], Sequence[float | None]] = {}
    for service in services:
        now |= service.columns()
        normal |= service.normal_columns()
    table = _table(now, BEGIN) | {"normal": _table(normal, BEGIN - timedelta(days=2))}
    sources: dict[str, Any] = {"metrics": table}
    if calls:
        sources["topology"] = {"calls": [{"caller": caller, "callee": callee} for caller, callee in calls]}
    return snapshot(sources, alert=alert)


def _table(columns: Columns, start: datetime) -> dict[str, Any]:
    count = max((len(values) for values in columns.values()), default=0)
    return {
        "times": [(start + STEP * index).timestamp() for index in range(count)],
        "columns": [
            {"object": object_, "metric": metric, "statistic": statistic, "values": list(values)}
            for (object_, metric, statistic), values in columns.items()
        ],
    }


def table_csv(columns: Columns, *, start: datetime = BEGIN, named_time: bool = True) -> str:
    """Return a ``metrics.csv``: three header rows, a fourth that names the time column, a gap as an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out)
    for place, head in enumerate(("microservice", "metric", "statistic")):
        writer.writerow([head, *(key[place] for key in columns)])
    if named_time:
        writer.writerow(["timestamp", *("" for _ in columns)])
    for index in range(max((len(values) for values in columns.values()), default=0)):
        cells = ["" if values[index] is None else repr(values[index]) for values in columns.values()]
        writer.writerow([int((start + STEP * index).timestamp()), *cells])
    return out.getvalue()


def graph_csv(calls: Calls) -> str:
    """Return a ``graph.csv``: an adjacency matrix."""
    names = sorted({name for pair in calls for name in pair})
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["", *names])
    for caller in names:
        writer.writerow([caller, *(int((caller, callee) in set(calls)) for callee in names)])
    return out.getvalue()


def write_shop(
    root: Path, services: Sequence[Service], calls: Calls, issues: Mapping[str, tuple[Mapping[str, Any], str]]
) -> Path:
    """Write a system with its normal operation and some issues: ``{folder: (alert, name of the root cause)}``."""
    normal: dict[tuple[str, str, str], Sequence[float | None]] = {}
    now: dict[tuple[str, str, str], Sequence[float | None]] = {}
    for service in services:
        normal |= service.normal_columns()
        now |= service.columns()
    (root / "noissue").mkdir(parents=True)
    (root / "noissue" / "metrics.csv").write_text(table_csv(normal, start=BEGIN - timedelta(days=2)))
    (root / "graph.csv").write_text(graph_csv(calls))
    for name, (alert, cause) in issues.items():
        folder = root / name
        folder.mkdir(parents=True)
        (folder / "metrics.csv").write_text(table_csv(now))
        (folder / "alert.json").write_text(json.dumps(alert))
        (folder / "answer.json").write_text(json.dumps({"root_cause": {"node": cause, "metric": None}}))
    return root


def write_records(
    root: Path, services: Sequence[Any] = (), incidents: Sequence[Any] = (), logs: Mapping[str, bytes] | None = None
) -> Path:
    """Write records of operations; what is no object is written as the line it is."""
    root.mkdir(parents=True, exist_ok=True)
    for name, records in (("services", services), ("incidents", incidents)):
        lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
        (root / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (root / "logs").mkdir()
    for name, raw in (logs or {}).items():
        (root / "logs" / f"{name}.log").write_bytes(raw)
    return root

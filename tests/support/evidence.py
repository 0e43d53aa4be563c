"""Evidence that tests build themselves, in the shapes monitoring systems export, and runs of it by a runtime."""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from controlplane.configs.limits import Limits
from controlplane.runtimes.builtin import BuiltinRuntime
from controlplane.runtimes.events import EventType, Result, Thought, ToolEnd, ToolStart
from controlplane.runtimes.evidence import Observation
from controlplane.runtimes.interface import AgentRuntime, HistoryTurn, Resume, RuntimeEvent, Suspend, TurnContext
from controlplane.runtimes.report import Report
from controlplane.runtimes.sources import toolbox_for_snapshot
from controlplane.runtimes.toolbox import Toolbox

START = datetime(2026, 3, 3, 8, 0, tzinfo=UTC)
DATABASE = "ledger-db"
GIB = float(1 << 30)


def at(minute: float, start: datetime = START) -> str:
    """Return the time ``minute`` minutes after the start of the window, as sources write it."""
    return (start + timedelta(minutes=minute)).isoformat().replace("+00:00", "Z")


def ramp(first: float, last: float, count: int = 30, *, begin: int = 0) -> list[float]:
    """Return samples that stay at ``first`` up to ``begin`` and then run evenly to ``last``."""
    steps = count - 1 - begin
    return [first + (last - first) * max(index - begin, 0) / steps for index in range(count)]


def step(before: float, after: float, count: int = 30, *, place: int = 10) -> list[float]:
    """Return samples at one level and then at another, with a little ripple."""
    return [
        level * (1 + 0.01 * (-1) ** index) for index, level in enumerate([before] * place + [after] * (count - place))
    ]


def flat(level: float, count: int = 30) -> list[float]:
    """Return samples around one level."""
    return [level * (1 + 0.02 * ((index * 7) % 5 - 2) / 2) for index in range(count)]


def metric(
    name: str, values: Sequence[float], *, unit: str = "Count", of: str = DATABASE, statistic: str = "Average"
) -> dict[str, Any]:
    """Return one result of CloudWatch's ``GetMetricData``, a sample each minute."""
    return {
        "metric_name": name,
        "dimensions": [{"Name": "DBInstanceIdentifier", "Value": of}],
        "stat": statistic,
        "unit": unit,
        "timestamps": [at(minute) for minute in range(len(values))],
        "values": list(values),
    }


def cloudwatch(*metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {"namespace": "AWS/RDS", "period": 60, "metric_data_results": list(metrics)}


def rds_events(*events: tuple[float, str, Sequence[str]], of: str = DATABASE) -> dict[str, Any]:
    """Return RDS events from ``(minute, message, categories)``."""
    return {
        "events": [
            {"date": at(minute), "message": said, "source_identifier": of, "event_categories": list(categories)}
            for minute, said, categories in events
        ]
    }


def insights(*statements: tuple[str, float, Mapping[str, float]], of: str = DATABASE) -> dict[str, Any]:
    """Return Performance Insights from ``(statement, load, waits)``."""
    waits: dict[str, float] = {}
    for _, _, part in statements:
        for name, load in part.items():
            waits[name] = waits.get(name, 0.0) + load
    return {
        "db_instance_identifier": of,
        "start_time": at(0),
        "end_time": at(30),
        "top_sql": [
            {
                "statement": statement,
                "db_load_avg": load,
                "wait_events": [{"name": name, "db_load_avg": part} for name, part in own.items()],
            }
            for statement, load, own in statements
        ],
        "top_wait_events": [{"name": name, "db_load_avg": load} for name, load in waits.items()],
    }


def quiet_database(of: str = DATABASE) -> list[dict[str, Any]]:
    """Return the metrics of a database with nothing out of order."""
    return [
        metric("CPUUtilization", flat(31), unit="Percent", of=of),
        metric("DatabaseConnections", flat(140), of=of),
        metric("FreeStorageSpace", flat(80 * GIB), unit="Bytes", of=of),
        metric("FreeableMemory", flat(9 * GIB), unit="Bytes", of=of),
        metric("WriteIOPS", flat(900), unit="Count/Second", of=of),
        metric("ReadLatency", flat(1.1), unit="Milliseconds", of=of),
    ]


def with_metrics(*changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the quiet database with some metrics in place of its own, or beside them."""
    names = {(part["metric_name"], part["dimensions"][0]["Value"]) for part in changed}
    kept = [part for part in quiet_database() if (part["metric_name"], part["dimensions"][0]["Value"]) not in names]
    return cloudwatch(*kept, *changed)


def pod(
    name: str,
    *,
    ready: bool = True,
    restarts: int = 0,
    phase: str = "Running",
    node: str = "node-a",
    state: Mapping[str, Any] | None = None,
    started: float = -5000,
    **more: Any,
) -> dict[str, Any]:
    """Return a pod as ``eks_pods`` holds it."""
    running = {"running": True, "started_at": at(started)}
    status = "True" if ready else "False"
    return {
        "name": name,
        "namespace": "shop",
        "phase": phase,
        "node_name": node,
        "start_time": at(started),
        "containers": [
            {
                "name": "app",
                "ready": ready,
                "restart_count": restarts,
                "state": dict(state if state is not None else running),
            }
        ],
        "conditions": [{"type": "Ready", "status": status, "reason": "", "message": ""}],
        **more,
    }


def kube_event(
    reason: str, message: str, of: str, *, first: float = 5, last: float = 29, count: int = 6
) -> dict[str, Any]:
    return {
        "reason": reason,
        "message": message,
        "type": "Warning",
        "count": count,
        "involved_object": f"Pod/{of}",
        "first_time": at(first),
        "last_time": at(last),
    }


def log(minute: float, message: str, *, status: str = "info", service: str = "shop-api") -> dict[str, Any]:
    return {"timestamp": at(minute), "message": message, "status": status, "service": service, "tags": []}


def node(name: str, *, ready: bool = True, **pressures: bool) -> dict[str, Any]:
    return {"name": name, "ready": str(ready), **{key: str(value) for key, value in pressures.items()}}


def deployment(name: str, *, desired: int = 2, ready: int = 2) -> dict[str, Any]:
    return {"name": name, "desired": desired, "ready": ready, "available": ready, "unavailable": desired - ready}


def snapshot(
    sources: Mapping[str, Any],
    *,
    alert: Mapping[str, Any] | None = None,
    scenario: Mapping[str, Any] | None = None,
    unreadable: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    return {
        "format": "snapshot/1",
        "alert": alert,
        "scenario": scenario,
        "sources": dict(sources),
        "unreadable": dict(unreadable or {}),
    }


def alert_on(object_: str, summary: str, *, state: str = "alerting", severity: str = "critical") -> dict[str, Any]:
    return {
        "title": f"Alert on {object_}",
        "state": state,
        "commonLabels": {"alertname": "SomethingIsWrong", "severity": severity},
        "commonAnnotations": {"summary": summary, "object": object_},
    }


POSTGRES = {"engine": "postgres", "instance_class": "db.r6g.large", "db_instance_identifier": DATABASE}


def write_folder(root: Path, taken: Mapping[str, Any]) -> Path:
    """Write a snapshot as the folder it could have been read from."""
    (root / "evidence").mkdir(parents=True, exist_ok=True)
    for name in ("alert", "scenario"):
        if taken.get(name) is not None:
            (root / f"{name}.json").write_text(json.dumps(taken[name]))
    for name, value in taken["sources"].items():
        (root / "evidence" / f"{name}.json").write_text(json.dumps(value))
    return root


@dataclass
class Control:
    """A turn's control that tests hold. ``stop_after`` interrupts at that look (from 0); ``messages`` come by look."""

    stop_after: int | None = None
    messages: dict[int, list[str]] = field(default_factory=dict)
    looks: int = 0

    @property
    def interrupted(self) -> bool:
        self.looks += 1
        return self.stop_after is not None and self.looks > self.stop_after

    def take_messages(self) -> Sequence[str]:
        return self.messages.pop(self.looks, [])


@dataclass
class Ran:
    """What a turn emitted."""

    events: list[RuntimeEvent | Suspend]
    toolbox: Toolbox

    @property
    def result(self) -> Result:
        last = self.events[-1]
        assert isinstance(last, RuntimeEvent)
        assert isinstance(last.data, Result)
        return last.data

    @property
    def report(self) -> Report:
        assert self.result.report is not None
        return self.result.report

    @property
    def thoughts(self) -> list[str]:
        return [event.data.text for event in self._events() if isinstance(event.data, Thought)]

    @property
    def starts(self) -> list[ToolStart]:
        return [event.data for event in self._events() if isinstance(event.data, ToolStart)]

    @property
    def observations(self) -> dict[str, Observation]:
        ends = [event.data for event in self._events() if isinstance(event.data, ToolEnd)]
        return {one.id: one for end in ends for one in end.observations}

    def text(self) -> str:
        """Return everything the report says of the cause, as a scorer would read it."""
        report = self.report
        parts = [report.title, report.summary, *report.causal_chain, *(claim.text for claim in report.claims)]
        return " ".join(parts)

    def pairs(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the events as the log would give them to a resumed run."""
        return [(str(event.type), event.data.model_dump(mode="json")) for event in self._events()]

    def _events(self) -> list[RuntimeEvent]:
        return [event for event in self.events if isinstance(event, RuntimeEvent)]


async def run_turn(
    taken: Mapping[str, Any] | None,
    *,
    prompt: str = "Investigate this alert.",
    alert: Mapping[str, Any] | None = None,
    runtime: AgentRuntime | None = None,
    control: Control | None = None,
    history: Sequence[HistoryTurn] = (),
    limits: Limits | None = None,
    toolbox: Toolbox | None = None,
    turn: int = 1,
    attempt: int = 1,
    resume: Resume | None = None,
    events: Sequence[tuple[str, Mapping[str, Any]]] = (),
    by_person: bool = False,
) -> Ran:
    """Run one turn to its end; the built-in runtime unless another is given."""
    bounds = limits or Limits()
    alert = alert if alert is not None or taken is None else taken.get("alert")
    box = toolbox or toolbox_for_snapshot(taken, alert=alert, turn=turn, limits=bounds)
    context = TurnContext(
        run_id=uuid.uuid5(uuid.NAMESPACE_URL, prompt),
        thread_id=uuid.uuid5(uuid.NAMESPACE_URL, "thread"),
        turn=turn,
        attempt=attempt,
        team="demo/payments",
        prompt=prompt,
        alert=alert,
        history=history,
        config={},
        limits=bounds,
        toolbox=box,
        control=control or Control(),
        resume=resume,
        events=events,
        by_person=by_person,
    )
    emitted = [event async for event in (runtime or BuiltinRuntime()).run(context)]
    ran = Ran(emitted, box)
    if emitted and isinstance(emitted[-1], RuntimeEvent) and emitted[-1].type is EventType.RESULT and runtime is None:
        known = set(ran.observations) | {one["id"] for _, data in events for one in data.get("observations", ())}
        assert ran.report.cited() <= known, "a citation names no observation of the run"
    return ran

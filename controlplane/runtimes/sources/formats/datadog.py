"""Datadog: log search and monitors (Datadog API reference, ``logs`` v2 and ``monitor`` v1)."""

from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.runtimes.loose_json import items, mapping, moment, text
from controlplane.runtimes.sources.formats.kubernetes import level_of
from controlplane.runtimes.sources.records import Level, LogLine, Record, Skipped, State

_STATUS = {
    "debug": Level.DEBUG,
    "info": Level.INFO,
    "notice": Level.INFO,
    "ok": Level.INFO,
    "warn": Level.WARNING,
    "warning": Level.WARNING,
    "error": Level.ERROR,
    "critical": Level.ERROR,
    "alert": Level.ERROR,
    "emergency": Level.ERROR,
    "fatal": Level.ERROR,
}


def read_logs(source: str, value: Mapping[str, Any]) -> Iterator[Record | Skipped]:
    """Yield each log entry; its object is the pod it is tagged with, else the service, else the host."""
    for item in items(value.get("logs")):
        outer = mapping(item)
        entry = {**outer, **mapping(outer.get("attributes"))}
        message = text(entry.get("message"))
        if not message:
            yield Skipped("a log entry without a message")
            continue
        tags = dict(tag.split(":", 1) for tag in items(entry.get("tags")) if isinstance(tag, str) and ":" in tag)
        name = tags.get("pod_name") or tags.get("kube_pod") or text(entry.get("service")) or text(entry.get("host"))
        status = _STATUS.get(text(entry.get("status")).lower())
        yield LogLine(source, name, message, moment(entry.get("timestamp")), status or level_of(message))


def read_monitors(source: str, value: Mapping[str, Any]) -> Iterator[Record | Skipped]:
    """Yield a state for each monitor."""
    for item in items(value.get("monitors")):
        monitor = mapping(item)
        name = text(monitor.get("name")) or text(monitor.get("id"))
        if not name:
            yield Skipped("a monitor without a name")
            continue
        state = text(monitor.get("overall_state", monitor.get("state")), "unknown")
        facts = {
            "state": state,
            "query": text(monitor.get("query")),
            "message": text(monitor.get("message")),
            "tags": [text(tag) for tag in items(monitor.get("tags"))],
        }
        yield State(source, name, "monitor", facts, f"monitor is {state}: {facts['query'] or facts['message']}")

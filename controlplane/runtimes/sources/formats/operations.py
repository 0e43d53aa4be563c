"""Readers of what operations teams write down: services with their status, incidents, and logs as plain text."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from controlplane.runtimes.loose_json import between, leading_time, moment, objects, text
from controlplane.runtimes.sources.formats.kubernetes import level_of
from controlplane.runtimes.sources.records import Level, LogLine, Skipped, State

_LEVEL: Final = re.compile(
    r"^\[?(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|PANIC)\b\]?[:\s]*", re.IGNORECASE
)
_LEVELS: Final = {
    "trace": Level.DEBUG,
    "debug": Level.DEBUG,
    "info": Level.INFO,
    "notice": Level.INFO,
    "warn": Level.WARNING,
    "warning": Level.WARNING,
}
_MOST_LINES: Final = 200_000


def read_services(source: str, value: Mapping[str, Any]) -> Iterator[State | Skipped]:
    """Yield a state for each of ``{"services": [{"name", "status", "description", "owner"}]}``."""
    for service in objects(value.get("services")):
        name, status = text(service.get("name")), text(service.get("status"))
        if not name:
            yield Skipped("services without a name")
            continue
        told = ", ".join(part for part in (status, text(service.get("description"))) if part)
        yield State(source, name, "service", {"status": status, "owner": text(service.get("owner"))}, told)


def read_incidents(source: str, value: Mapping[str, Any]) -> Iterator[State | Skipped]:
    """Yield a state for each of ``{"incidents": [{"id", "service", "title", "summary", "opened_at", …}]}``."""
    for incident in objects(value.get("incidents")):
        id_, title = text(incident.get("id")), text(incident.get("title"))
        if not id_ or not title:
            yield Skipped("incidents without an id or a title")
            continue
        at = between(incident.get("opened_at"), incident.get("resolved_at"))
        opened, resolved = moment(incident.get("opened_at")), moment(incident.get("resolved_at"))
        facts = {
            "id": id_,
            "title": title,
            "summary": text(incident.get("summary")),
            "severity": text(incident.get("severity")),
            "status": text(incident.get("status")),
            "opened": opened.isoformat() if opened else None,
            "resolved": resolved.isoformat() if resolved else None,
        }
        told = f"{id_}, {text(incident.get('status'))}: {title}. {text(incident.get('summary'))}"
        yield State(source, text(incident.get("service")), "incident", facts, told, at)


def read_text_logs(source: str, value: Mapping[str, Any]) -> Iterator[LogLine | Skipped]:
    """Yield the lines of ``{"log_files": [{"object", "text"}]}``; each may begin with its time and its level."""
    for file in objects(value.get("log_files")):
        object_ = text(file.get("object"))
        lines = text(file.get("text")).splitlines()
        if len(lines) > _MOST_LINES:
            yield Skipped(f"lines beyond the last {_MOST_LINES:,} of a log", len(lines) - _MOST_LINES)
        for line in lines[-_MOST_LINES:]:
            if line.strip():
                yield _line(source, object_, line)


def _line(source: str, object_: str, line: str) -> LogLine:
    at, rest = leading_time(line)
    match = _LEVEL.match(rest)
    if match is None:
        return LogLine(source, object_, rest.strip(), at, level_of(rest))
    level = _LEVELS.get(match.group(1).lower(), Level.ERROR)
    return LogLine(source, object_, rest[match.end() :].strip() or rest.strip(), at, level)

"""Kubernetes as monitoring agents record it: pods, events, deployments, node health, pod logs.

Field meanings: Kubernetes API reference (Pod ``status``, Event, Deployment ``status``, Node ``conditions``).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from controlplane.runtimes.loose_json import (
    between,
    flag,
    items,
    leading_time,
    mapping,
    moment,
    objects,
    text,
    whole,
)
from controlplane.runtimes.sources.records import Happening, Level, LogLine, Record, Skipped, State

_PRESSURES: Final = ("memory_pressure", "disk_pressure", "pid_pressure", "network_unavailable")
_PHASES_UNREADY: Final = ("Pending", "Succeeded", "Failed")
_READINESS: Final[Mapping[bool | None, str]] = {True: "ready", False: "not ready", None: "of unknown readiness"}
_LEVEL_WORD: Final = re.compile(r"\b(DEBUG|TRACE|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|FATAL|CRIT(?:ICAL)?|PANIC)\b")
_LOUD: Final = re.compile(
    r"\b(?:error|fatal|panic|exception|traceback|out of memory|oom-?kill\w*|killed process|segmentation fault|"
    r"exit code [1-9]\d*|cannot|could not|failed|refused)\b",
    re.IGNORECASE,
)


def read_pods(source: str, value: Mapping[str, Any]) -> Iterator[Record | Skipped]:
    """Yield a state for each pod, with the facts that matter of its containers."""
    for item in items(value.get("pods")):
        pod = mapping(item)
        name = text(pod.get("name"))
        if not name:
            yield Skipped("a pod without a name")
            continue
        containers = [_container(part) for part in objects(pod.get("containers"))]
        conditions = {
            text(part.get("type")): {key: part.get(key) for key in ("status", "reason", "message")}
            for part in objects(pod.get("conditions"))
        }
        facts: dict[str, Any] = {
            "namespace": text(pod.get("namespace")),
            "phase": text(pod.get("phase")),
            "reason": text(pod.get("reason")),
            "node": text(pod.get("node_name")),
            "owner": text(pod.get("owner")) or _owner(name),
            "ready": _pod_ready(pod, flag(mapping(conditions.get("Ready")).get("status")), containers),
            "terminating": bool(pod.get("deletion_timestamp")),
            "started": _iso(pod.get("start_time")),
            "restarts": sum(container["restarts"] for container in containers),
            "containers": containers,
            "conditions": {key: part for key, part in conditions.items() if flag(part["status"]) is not True},
        }
        yield State(source, name, "pod", facts, _pod_text(facts), between(pod.get("start_time")))


def read_events(source: str, value: Mapping[str, Any]) -> Iterator[Record | Skipped]:
    """Yield a happening for each event; the object is the name without its kind."""
    for item in (*items(value.get("warning_events")), *items(value.get("events")), *items(value.get("items"))):
        event = mapping(item)
        message, reason = text(event.get("message")), text(event.get("reason"))
        if not message and not reason:
            yield Skipped("an event without reason and message")
            continue
        involved = event.get("involved_object", event.get("involvedObject"))
        name = text(mapping(involved).get("name")) or text(involved)
        yield Happening(
            source=source,
            object=name.rpartition("/")[2],
            message=message,
            at=between(
                event.get("first_time", event.get("firstTimestamp")), event.get("last_time", event.get("lastTimestamp"))
            ),
            reason=reason,
            level=Level.WARNING if text(event.get("type"), "Warning").lower() == "warning" else Level.INFO,
            count=max(whole(event.get("count"), 1), 1),
        )


def read_deployments(source: str, value: Mapping[str, Any]) -> Iterator[Record | Skipped]:
    """Yield a state for each deployment: how many replicas are wanted and how many are there."""
    for item in items(value.get("deployments")):
        deployment = mapping(item)
        name = text(deployment.get("name"))
        if not name:
            yield Skipped("a deployment without a name")
            continue
        facts = {key: deployment[key] for key in deployment if isinstance(deployment[key], str | int | float | bool)}
        for key in ("desired", "ready", "available", "unavailable"):
            facts[key] = whole(deployment.get(key))
        shown = f"{facts['ready']} of {facts['desired']} replicas ready, {facts['unavailable']} unavailable"
        yield State(source, name, "deployment", facts, shown)


def read_nodes(source: str, value: Mapping[str, Any]) -> Iterator[Record | Skipped]:
    """Yield a state for each node: whether it is ready, and which pressures it reports."""
    for item in items(value.get("nodes")):
        node = mapping(item)
        name = text(node.get("name"))
        if not name:
            yield Skipped("a node without a name")
            continue
        pressures = [key for key in _PRESSURES if flag(node.get(key)) is True]
        facts = {key: node[key] for key in node if isinstance(node[key], str | int | float | bool)}
        facts |= {"ready": flag(node.get("ready")), "pressures": pressures}
        shown = f"node is {_READINESS[facts['ready']]}, " + (
            " and ".join(pressures).replace("_", " ") if pressures else "no pressure reported"
        )
        yield State(source, name, "node", facts, shown)


def read_pod_logs(source: str, value: Mapping[str, Any]) -> Iterator[Record | Skipped]:
    """Yield each line of one pod's log, or of several pods' (an array under ``pods`` or ``pod_logs``)."""
    several = items(value.get("pods")) or items(value.get("pod_logs"))
    for part in several or (value,):
        pod = mapping(part)
        name, logs = text(pod.get("pod_name")) or text(pod.get("name")), pod.get("logs")
        if isinstance(logs, str):
            lines = logs.splitlines()
        elif isinstance(logs, list):
            lines = [text(mapping(line).get("message"), text(line)) for line in logs]
        else:
            yield Skipped("a pod without a log")
            continue
        at = None
        for line in lines:
            if line.strip():
                found, rest = leading_time(line)
                at = found or at  # a line without a time belongs to the one above it
                yield LogLine(source, name, rest.strip(), at, level_of(rest))


def level_of(line: str, default: Level = Level.INFO) -> Level:
    """Return the level a log line states, else the one its words suggest."""
    match = _LEVEL_WORD.search(line[:200])
    if match is not None:
        word = match.group(1)
        if word.startswith("WARN"):
            return Level.WARNING
        if word in ("DEBUG", "TRACE"):
            return Level.DEBUG
        if word in ("INFO", "NOTICE"):
            return Level.INFO
        return Level.ERROR
    return Level.ERROR if _LOUD.search(line) else default


def _pod_ready(pod: Mapping[str, Any], condition: bool | None, containers: Sequence[Mapping[str, Any]]) -> bool | None:
    """Return a pod's readiness by its condition, else by its phase and containers; ``None`` where nothing tells it."""
    if condition is not None:
        return condition
    told = [container["ready"] for container in containers]
    if text(pod.get("phase")) in _PHASES_UNREADY or False in told:
        return False
    return True if told and None not in told else None


def _container(part: Mapping[str, Any]) -> dict[str, Any]:
    state, last = mapping(part.get("state")), mapping(part.get("last_state", part.get("lastState")))
    nested = next(
        (mapping(state[key]) for key in ("waiting", "terminated", "running") if isinstance(state.get(key), Mapping)), {}
    )
    state = {**state, **nested}
    last = {**last, **mapping(last.get("terminated"))}
    stopped = bool(state.get("waiting") or state.get("terminated"))
    ready = flag(part.get("ready"))
    return {
        "name": text(part.get("name")),
        "image": text(part.get("image")),
        "ready": False if ready is None and stopped else ready,
        "restarts": whole(part.get("restart_count", part.get("restartCount"))),
        "waiting": bool(state.get("waiting")),
        "terminated": bool(state.get("terminated")),
        "reason": text(state.get("reason")),
        "message": text(state.get("message")),
        "exit_code": _exit_code(state),
        "started": _iso(state.get("started_at", state.get("startedAt"))),
        "last_reason": text(last.get("reason")),
        "last_exit_code": _exit_code(last),
        "last_finished": _iso(last.get("finished_at", last.get("finishedAt"))),
    }


def _exit_code(state: Mapping[str, Any]) -> int | None:
    code = state.get("exit_code", state.get("exitCode"))
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def _iso(value: Any) -> str | None:
    at = moment(value)
    return at.isoformat() if at else None


def _owner(pod: str) -> str:
    """Return the ReplicaSet (or other owner) a pod's generated name ends after: ``{owner}-{five characters}``."""
    return pod.rpartition("-")[0] or pod


def _pod_text(facts: Mapping[str, Any]) -> str:
    parts = [f"phase {facts['phase'] or 'unknown'}", _READINESS[facts["ready"]]]
    parts.append(f"{facts['restarts']} restart{'' if facts['restarts'] == 1 else 's'}")
    if facts["terminating"]:
        parts.append("being deleted")
    for container in facts["containers"]:
        what = container["reason"] or container["last_reason"]
        if what:
            code = container["exit_code"] if container["exit_code"] is not None else container["last_exit_code"]
            parts.append(f"container {container['name']}: {what}" + (f", exit code {code}" if code is not None else ""))
        if container["message"]:
            parts.append(container["message"])
    for name, condition in facts["conditions"].items():
        if name == "PodScheduled":
            parts.append(f"not scheduled: {text(condition['message']) or text(condition['reason'])}")
    return ", ".join(parts)

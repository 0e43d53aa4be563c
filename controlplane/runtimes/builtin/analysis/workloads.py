"""Signs in the states of a cluster: pods, deployments, nodes, monitors. The present state decides, not its history."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from controlplane.runtimes.builtin.analysis.facts import EventFact, Facts, LogFact, Pod, StateFact, distinct, pods
from controlplane.runtimes.builtin.analysis.messages import PROGRAM_FAULTS, image_in, pull_cause, rank, reported
from controlplane.runtimes.builtin.analysis.signs import Sign, SignKind
from controlplane.runtimes.loose_json import items, text, whole

_PULL_REASONS: Final = frozenset({"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"})
_CONFIG_REASONS: Final = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_FLAPPING_RESTARTS: Final = 3
_FLAPPING: Final = timedelta(minutes=15)
_FRESH: Final = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class Sick:
    """A pod that is not well now, with everything said about it that is not stale."""

    pod: Pod
    events: tuple[EventFact, ...]
    logs: tuple[LogFact, ...]

    @property
    def words(self) -> str:
        """All that is said about the pod, in lower case."""
        parts = [self.pod.reason]
        for container in self.pod.containers:
            parts += [container.reason, container.last_reason, container.message]
        parts += [f"{event.reason} {event.message}" for event in self.events]
        return " ".join(parts).lower()

    @property
    def exit_code(self) -> int | None:
        codes = [container.exit_code for container in self.pod.containers if container.exit_code]
        return codes[0] if codes else None

    def cite(self, *facts: EventFact | LogFact) -> tuple[str, ...]:
        return distinct([self.pod.id, *(fact.id for fact in facts)])


def workload_signs(facts: Facts) -> Iterator[Sign]:
    """Yield what is wrong with pods, deployments, nodes and monitors."""
    present = pods(facts)
    now = facts.now()
    down = {state.object for state in facts.of_type("node") if state.facts.get("ready") is False}
    for pod in present:
        if is_sick(pod, now):
            yield _diagnosis(_sick(pod, facts, now), down)
    seen = {pod.name for pod in present}
    yield from _events_without_pod(facts, seen, now)
    for state in facts.of_type("node"):
        yield from _node_signs(state)
    for state in facts.of_type("deployment"):
        yield from _deployment_signs(state)
    for state in facts.of_type("monitor"):
        yield from _monitor_signs(state)


def is_sick(pod: Pod, now: datetime | None) -> bool:
    """Return whether a pod is known to be unwell at present. One that is being deleted is not expected to be well."""
    if pod.terminating or pod.phase in ("Succeeded", "Completed"):
        return False
    if pod.ready is False:
        return True
    return now is not None and any(
        container.restarts >= _FLAPPING_RESTARTS
        and container.started is not None
        and now - container.started < _FLAPPING
        for container in pod.containers
    )


def has_recovered(pod: Pod, now: datetime | None) -> bool:
    """Return whether a pod restarted in the past and is well now."""
    return pod.restarts > 0 and pod.ready is not None and not pod.terminating and not is_sick(pod, now)


def _sick(pod: Pod, facts: Facts, now: datetime | None) -> Sick:
    started = pod.started
    events = [
        event
        for event in facts.events
        if event.object == pod.name and not (event.at and started and event.at.end < started - timedelta(minutes=1))
    ]
    fresh = [event for event in events if not (event.at and now and now - event.at.end > _FRESH)]
    logs = [
        line
        for line in facts.logs
        if line.loud and line.object == pod.name and not (line.at and now and now - line.at.end > _FRESH)
    ]
    return Sick(pod, tuple(fresh), tuple(logs))


def _diagnosis(sick: Sick, down: set[str]) -> Sign:
    """Return the one sign that says why a pod is unwell, from the most certain cause to the least."""
    for diagnose in (_node_down, _image, _unscheduled, _oom, _config, _sandbox, _probe, _crash):
        sign = diagnose(sick, down)
        if sign is not None:
            return sign
    what = "is not ready" if sick.pod.ready is False else "restarts again and again"
    return _made(sick, SignKind.REPLICAS_MISSING, f"{what}, and nothing recorded says why", 0.5, sick.cite())


def _made(sick: Sick, kind: SignKind, what: str, strength: float, cited: tuple[str, ...], **details: Any) -> Sign:
    details |= {"pod": sick.pod, "exit_code": sick.exit_code, "restarts": sick.pod.restarts}
    began = [event.at.start for event in sick.events if event.at and event.id in cited]
    at = min(began, default=sick.pod.started)
    return Sign(kind, sick.pod.name, f"Pod {sick.pod.name} {what}", cited, strength, True, at, details)


def _node_down(sick: Sick, down: set[str]) -> Sign | None:
    if sick.pod.node in down:
        return _made(sick, SignKind.NODE_DOWN, f"runs on node {sick.pod.node}, which is not ready", 0.85, sick.cite())
    return None


def _image(sick: Sick, _: set[str]) -> Sign | None:
    pulling = [event for event in sick.events if "pull" in event.message.lower() and "image" in event.message.lower()]
    reasons = [container.reason for container in sick.pod.containers if container.reason in _PULL_REASONS]
    if not reasons and not pulling:
        return None
    said = [event.message for event in pulling] + [container.message for container in sick.pod.containers]
    image = next((found for found in map(image_in, said) if found), "") or _first(
        container.image for container in sick.pod.containers
    )
    cause = _first(pull_cause(message) for message in said)
    reason = reasons[0] if reasons else pulling[0].reason
    what = f"cannot start: {reason} for image {image or '(not named)'}"
    quote = _first(message for message in said if pull_cause(message))
    said_by = {
        "missing": _missing_words(quote),
        "denied": "access is denied",
        "unreachable": "the registry is unreachable",
    }
    if cause:
        what += f"; {said_by[cause]}"
    return _made(sick, SignKind.IMAGE_PULL, what, 0.95, sick.cite(*pulling), image=image, cause=cause, reason=reason)


def _missing_words(message: str) -> str:
    return (
        "the registry answers manifest unknown" if "manifest unknown" in message.lower() else "the image is not found"
    )


def _unscheduled(sick: Sick, _: set[str]) -> Sign | None:
    failing = [event for event in sick.events if event.reason == "FailedScheduling"]
    why = sick.pod.unscheduled or _first(event.message for event in failing)
    if not why and not failing:
        return None
    shortage = "insufficient" in why.lower()
    what = f"cannot be scheduled: {why[:300]}"
    return _made(sick, SignKind.UNSCHEDULABLE, what, 0.9, sick.cite(*failing), shortage=shortage, why=why)


def _oom(sick: Sick, _: set[str]) -> Sign | None:
    reasons = {reason for part in sick.pod.containers for reason in (part.reason, part.last_reason)}
    telling = [line for line in sick.logs if reported(line.message.lower(), PROGRAM_FAULTS) is SignKind.OOM_KILLED]
    saying = [
        event
        for event in sick.events
        if "oomkill" in event.message.lower() or event.reason in ("OOMKilling", "OOMKilled")
    ]
    if "OOMKilled" not in reasons and "oomkilled" not in sick.words and not telling and not saying:
        return None
    restarts = f" after {sick.pod.restarts} restarts" if sick.pod.restarts > 1 else ""
    code = f", exit code {sick.exit_code}" if sick.exit_code else ""
    what = f"is OOM-killed{restarts} (OOMKilled{code}): it needs more memory than its limit"
    return _made(sick, SignKind.OOM_KILLED, what, 0.95, sick.cite(*saying, *telling), logs=telling)


def _config(sick: Sick, _: set[str]) -> Sign | None:
    reason = _first(container.reason for container in sick.pod.containers if container.reason in _CONFIG_REASONS)
    mounts = [
        event
        for event in sick.events
        if event.reason in ("FailedMount", "Failed", "FailedCreate")
        and (
            "not found" in event.message.lower()
            or "configmap" in event.message.lower()
            or "secret" in event.message.lower()
        )
        and "retried successfully" not in event.message.lower()
    ]
    if not reason and not mounts:
        return None
    why = _first([container.message for container in sick.pod.containers] + [event.message for event in mounts])
    what = f"cannot start its container: {reason or mounts[0].reason}: {why[:300]}"
    return _made(sick, SignKind.BAD_CONFIG, what, 0.9, sick.cite(*mounts), why=why)


def _sandbox(sick: Sick, _: set[str]) -> Sign | None:
    failing = [
        event
        for event in sick.events
        if event.reason in ("FailedCreatePodSandBox", "NetworkNotReady", "FailedAttachVolume", "FailedMount")
        and "retried successfully" not in event.message.lower()
    ]
    if not failing or sick.pod.ready:
        return None
    what = f"cannot be set up by its node: {failing[0].reason}: {failing[0].message[:300]}"
    return _made(sick, SignKind.SANDBOX, what, 0.8, sick.cite(*failing))


def _probe(sick: Sick, _: set[str]) -> Sign | None:
    failing = [event for event in sick.events if event.reason == "Unhealthy" or "probe failed" in event.message.lower()]
    if not failing:
        return None
    fault = next((line for line in sick.logs if _program_fault(line) not in (None, SignKind.LOG_ERRORS)), None)
    if fault is not None and _program_fault(fault) is SignKind.DEPENDENCY:
        return None  # the probe fails because of what the log says
    message = failing[0].message
    what = f"fails its probe: {message[:300]}"
    return _made(sick, SignKind.PROBE_FAILING, what, 0.8, sick.cite(*failing), why=message)


def _crash(sick: Sick, _: set[str]) -> Sign | None:
    ended = [container for container in sick.pod.containers if container.reason or container.exit_code is not None]
    if not ended and not sick.logs:
        return None
    line = min(sick.logs, key=lambda one: rank(one.message.lower(), PROGRAM_FAULTS) or 0, default=None)
    kind = _program_fault(line) if line is not None else None
    code = f" with exit code {sick.exit_code}" if sick.exit_code is not None else ""
    what = f"ends again and again{code}" if sick.pod.restarts else f"is not ready{code}"
    if line is None or kind is None:
        if sick.exit_code == 139:
            return _made(sick, SignKind.CODE_FAULT, f"{what}: the program violates memory (SIGSEGV)", 0.7, sick.cite())
        return _made(sick, SignKind.CRASHING, f"{what}; no log says why", 0.6, sick.cite(*sick.events))
    what += f'; its log says "{line.message[:300]}"'
    strength = 0.6 if kind is SignKind.LOG_ERRORS else 0.85
    kind = SignKind.CRASHING if kind is SignKind.LOG_ERRORS else kind
    return _made(sick, kind, what, strength, sick.cite(*sick.events, line), log=line)


def _program_fault(line: LogFact) -> SignKind | None:
    return reported(line.message.lower(), PROGRAM_FAULTS)


_BY_REASON: Final = {
    "OOMKilling": (SignKind.OOM_KILLED, 0.7),
    "Evicted": (SignKind.NODE_PRESSURE, 0.7),
    "NodeNotReady": (SignKind.NODE_DOWN, 0.8),
    "FailedScheduling": (SignKind.UNSCHEDULABLE, 0.7),
    "FailedCreate": (SignKind.BAD_CONFIG, 0.6),
}


def _events_without_pod(facts: Facts, seen: set[str], now: datetime | None) -> Iterator[Sign]:
    """Yield what events say of objects whose state was not recorded."""
    for event in facts.events:
        found = None if event.object in seen else _told_alone(event, any_pods=bool(seen))
        if found is None:
            continue
        kind, strength = found
        lowered = event.message.lower()
        yield Sign(
            kind,
            event.object,
            f"{event.reason} for {event.object}: {event.message[:300].rstrip('.')}",
            (event.id,),
            strength,
            not (event.at and now and now - event.at.end > _FRESH),
            event.at.start if event.at else None,
            {
                "why": event.message,
                "shortage": "insufficient" in lowered or "quota" in lowered,
                "image": image_in(event.message),
                "cause": pull_cause(event.message),
                "reason": event.reason,
            },
        )


def _told_alone(event: EventFact, *, any_pods: bool) -> tuple[SignKind, float] | None:
    """Return what an event means without the state of its object, and how strongly it says so.

    Where pods were recorded and this one is not among them it is gone, and its troubles with it: then only events count
    that name a cause outside the pod.
    """
    lowered = event.message.lower()
    found: tuple[SignKind, float] | None = None
    if "quota" in lowered:
        found = SignKind.UNSCHEDULABLE, 0.6
    elif event.reason in _BY_REASON:
        found = _BY_REASON[event.reason]
    elif any_pods or not event.loud:
        found = None
    elif "image" in lowered and "pull" in lowered:
        found = SignKind.IMAGE_PULL, 0.7
    elif "oomkill" in lowered:
        found = SignKind.OOM_KILLED, 0.7
    elif event.reason == "Unhealthy" or "probe failed" in lowered:
        found = SignKind.PROBE_FAILING, 0.6
    return found


def _node_signs(state: StateFact) -> Iterator[Sign]:
    if state.facts.get("ready") is False:
        yield Sign(SignKind.NODE_DOWN, state.object, f"Node {state.object} is not ready", (state.id,), 0.85)
    pressures = [text(item).replace("_", " ") for item in items(state.facts.get("pressures"))]
    if pressures:
        said = f"Node {state.object} reports {' and '.join(pressures)}"
        yield Sign(SignKind.NODE_PRESSURE, state.object, said, (state.id,), 0.75, details={"pressures": pressures})


def _deployment_signs(state: StateFact) -> Iterator[Sign]:
    desired, ready = whole(state.facts.get("desired")), whole(state.facts.get("ready"))
    if ready < desired:
        said = f"Deployment {state.object} has {ready} of {desired} replicas ready"
        yield Sign(SignKind.REPLICAS_MISSING, state.object, said, (state.id,), 0.5 if ready else 0.7)


def _monitor_signs(state: StateFact) -> Iterator[Sign]:
    status = text(state.facts.get("state"))
    if status.lower() in ("alert", "warn", "warning", "triggered", "alerting", "firing"):
        strength = 0.5 if status.lower() in ("alert", "triggered", "alerting", "firing") else 0.35
        said = f'Monitor "{state.object}" is in state {status}'
        yield Sign(SignKind.MONITOR_ALERT, state.object, said, (state.id,), strength)


def _first(values: Iterator[str] | Sequence[str] | Any) -> str:
    return next((value for value in values if value), "")

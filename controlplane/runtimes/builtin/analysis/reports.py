"""Signs in what is told: events of a platform and lines of logs that belong to no sick pod."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from controlplane.runtimes.builtin.analysis.facts import EventFact, Facts, LogFact, pods
from controlplane.runtimes.builtin.analysis.messages import DATABASE_EVENTS, PROGRAM_FAULTS, dependency_in, reported
from controlplane.runtimes.builtin.analysis.signs import Sign, SignKind
from controlplane.runtimes.signals.alert import without_names

_FRESH: Final = timedelta(minutes=45)
_ROUTINE: Final = ("backup", "completed successfully", "finished", "snapshot")
_STRENGTH: Final = {
    SignKind.STORAGE_FULL: 0.8,
    SignKind.CONNECTIONS_FULL: 0.7,
    SignKind.FAILOVER: 0.75,
    SignKind.REPLICA_LAG: 0.6,
    SignKind.MEMORY_LOW: 0.7,
    SignKind.CHANGED: 0.3,
}


def platform_signs(facts: Facts, start: datetime | None) -> Iterator[Sign]:
    """Yield what events of a database platform report, those of pods left aside.

    Args:
        facts: all facts.
        start: when the recorded window begins; what lies more than 45 minutes before it is history.
    """
    names, of_pods = facts.objects(), {pod.name for pod in pods(facts)}
    for event in facts.events:
        if event.object in of_pods or _is_routine(event) or _is_of_cluster(event):
            continue
        words = without_names(f"{event.reason} {event.message}", names)
        kind = reported(words, DATABASE_EVENTS)
        if kind is None:
            continue
        current = not (start and event.at and event.at.end < start - _FRESH)
        yield Sign(
            kind,
            event.object,
            f'Event on {event.object}: "{event.message[:300].rstrip(".")}"',
            (event.id,),
            _STRENGTH.get(kind, 0.4),
            current,
            event.at.start if event.at else None,
            {"event": event},
        )


def log_signs(facts: Facts, sick: Sequence[str], now: datetime | None) -> Iterator[Sign]:
    """Yield what loud log lines report; those of sick pods are part of the pod's own diagnosis."""
    names = facts.objects()
    for line in facts.logs:
        if not line.loud or line.object in sick:
            continue
        kind = reported(without_names(line.message, names), PROGRAM_FAULTS)
        if kind is None:
            continue
        yield Sign(
            kind,
            line.object,
            _said(line),
            (line.id,),
            _log_strength(kind, line),
            not (now and line.at and now - line.at.end > _FRESH),
            line.at.start if line.at else None,
            {"log": line, "dependency": dependency_in(line.message) if kind is SignKind.DEPENDENCY else ""},
        )


def _is_of_cluster(event: EventFact) -> bool:
    """Return whether an event is one of Kubernetes, whose reasons are single words in camel case (``FailedMount``)."""
    return event.reason.isalpha() and event.reason[0].isupper()


def _is_routine(event: EventFact) -> bool:
    return not event.loud and any(word in event.message.lower() for word in _ROUTINE)


def _said(line: LogFact) -> str:
    times = f" ({line.count} lines like this)" if line.count > 1 else ""
    return f'{line.object} logs "{line.message[:300].rstrip(".")}"{times}'


def _log_strength(kind: SignKind, line: LogFact) -> float:
    """One line says little; repeats say more. A warning says less than an error."""
    base = 0.3 if kind is SignKind.LOG_ERRORS else 0.45
    repeats = 0.25 if line.count >= 5 else 0.15 if line.count >= 2 else 0.0
    return base + repeats - (0.15 if line.level == "warning" else 0.0)

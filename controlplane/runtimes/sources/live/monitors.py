"""Alerts of Prometheus and Alertmanager as states of monitors."""

from collections.abc import Mapping
from typing import Any, Final

from controlplane.runtimes.loose_json import between, mapping, moment, text
from controlplane.runtimes.sources.figures import clock_dated
from controlplane.runtimes.sources.live.scope import OBJECT_LABELS
from controlplane.runtimes.sources.records import State

_DESCRIBING: Final = ("summary", "description", "message")
_MESSAGE_CHARS: Final = 4_000
#: Labels of an alert that are kept before all others.
NAMING: Final = ("alertname", "severity", *OBJECT_LABELS)


def monitor_state(
    source: str, labels: Mapping[str, Any], annotations: Mapping[str, Any], *, state: str, since: Any, note: str = ""
) -> State | None:
    """Return an alert as the state of its monitor, which is called as its rule is; ``None`` without a name.

    Args:
        state: ``firing``, ``pending``, ``silenced`` or ``inhibited``.
        since: when it began, in any readable form.
        note: why it is in that state, where the source says so.
    """
    name = text(labels.get("alertname"))
    if not name:
        return None
    message = message_of(annotations)
    tags = [f"{key}:{text(value)}" for key, value in labels.items() if key != "alertname"]
    at = between(since)
    facts = {
        "state": state,
        "query": "",
        "message": message,
        "tags": tags,
        "severity": text(labels.get("severity")),
        "since": at.start.isoformat() if at else None,
    }
    began = f" since {clock_dated(at.start)} UTC" if at else ""
    words = [f"alert is {state}{began}{f' ({note})' if note else ''}", ", ".join(tags[:8]), message]
    return State(source, name, "monitor", facts, ": ".join(word for word in words if word), at)


def message_of(annotations: Any) -> str:
    """Return what an alert's annotations say, of at most 4,000 characters."""
    said = (text(mapping(annotations).get(key)) for key in _DESCRIBING)
    return next((one for one in said if one), "")[:_MESSAGE_CHARS]


def has_begun(value: Any) -> bool:
    """Return whether a time is a real one: Go writes the year 1 for none."""
    at = moment(value)
    return at is not None and at.year > 1970

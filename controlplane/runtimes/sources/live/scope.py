"""What to ask first: the labels of the alert as selectors, and the time around it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from controlplane.runtimes.loose_json import mapping, objects, text
from controlplane.runtimes.signals.alert import named_in, read_alert

BEFORE: Final = timedelta(minutes=60)
AFTER: Final = timedelta(minutes=15)
MOST_POINTS: Final = 120
MOST_SELECTORS: Final = 10
#: Labels that name what a series is about, the most telling first.
OBJECT_LABELS: Final = (
    "service", "service_name", "app", "job", "deployment", "pod", "instance", "node",
)  # fmt: skip
#: Labels of an alert that name something, in the order in which they narrow the question best.
ALERT_LABELS: Final = (
    "service", "service_name", "app", "deployment", "statefulset", "daemonset", "pod", "container", "instance", "node",
    "job",
)  # fmt: skip
_SERVICES: Final = ("service", "service_name", "app", "deployment", "job", "container")
_HOSTS: Final = ("instance", "node", "nodename")
_WITHIN: Final = ("namespace", "cluster")
_STEPS_S: Final = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900)
_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,99}")


@dataclass(frozen=True, slots=True)
class Window:
    """The time asked about, and the seconds between two points of an answer."""

    start: datetime
    end: datetime
    step_s: int

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()

    def params(self) -> list[tuple[str, str]]:
        """Return the window as the HTTP APIs of Prometheus take it (Unix seconds)."""
        return [("start", f"{self.start.timestamp():.3f}"), ("end", f"{self.end.timestamp():.3f}")]


def window_at(now: datetime, alert: Mapping[str, Any] | None) -> Window:
    """Return the hour before the alert began and at most the quarter of an hour after it; else the last hour.

    Args:
        now: the present by the clock that will be asked.
        alert: one that began later than ``now`` counts as beginning now.
    """
    view = read_alert(alert)
    began = min(view.starts_at, now) if view is not None and view.starts_at is not None else now
    start, end = began - BEFORE, min(now, began + AFTER)
    span = (end - start).total_seconds()
    step = next(step for step in _STEPS_S if span / step + 1 <= MOST_POINTS)
    return Window(start, end, step)


@dataclass(frozen=True, slots=True)
class Scope:
    """What the alert is about. ``selectors`` are PromQL matchers, the best first; ``values`` name objects."""

    labels: Mapping[str, str]
    selectors: tuple[str, ...]
    values: tuple[str, ...]

    def after(self, other: "Scope") -> "Scope":
        """Return the scope that asks about another's objects first, then about its own."""
        selectors = tuple(dict.fromkeys([*other.selectors, *self.selectors]))[:MOST_SELECTORS]
        return Scope(self.labels, selectors, tuple(dict.fromkeys([*other.values, *self.values])))

    def names(self, object_: str) -> bool:
        """Return whether an object is one the alert is about, or belongs to it (a pod, an instance's port)."""
        return any(object_ == value or object_.startswith((f"{value}-", f"{value}:")) for value in self.values)


def scope_of(alert: Mapping[str, Any] | None, *, object_label: str = "") -> Scope:
    """Return the scope of an alert by its labels.

    A value that names a service is also looked for under the other labels that name services, and as the beginning of
    pods' names: exporters and applications rarely agree on one label.
    """
    labels = alert_labels(alert)
    order = [name for name in (object_label, *ALERT_LABELS) if name and name in labels]
    within = "".join(f',{name}=~"{quoted(re.escape(labels[name]))}|"' for name in _WITHIN if name in labels)
    exact = [f'{name}="{quoted(labels[name])}"{within}' for name in order]
    others = [f"{part}{within}" for name in order for part in _elsewhere(name, labels[name], object_label)]
    alone = [f'{name}="{quoted(labels[name])}"' for name in ("namespace",) if name in labels]
    selectors = tuple(dict.fromkeys([*exact, *others, *alone]))[:MOST_SELECTORS]
    return Scope(labels, selectors, tuple(dict.fromkeys(labels[name] for name in order)))


def scope_of_words(words: str, values: Mapping[str, Sequence[str]]) -> Scope:
    """Return the scope of a question, or of an alert without labels: the objects that its words name.

    Args:
        words: what was asked, or what the alert says.
        values: the objects there are, by the label that names them.
    """
    found = {label: named_in(words, listed)[:2] for label, listed in values.items()}
    selectors = [f'{label}="{quoted(value)}"' for label, named in found.items() for value in named]
    named = dict.fromkeys(value for listed in found.values() for value in listed)
    return Scope({}, tuple(selectors[:MOST_SELECTORS]), tuple(named))


def alert_labels(alert: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the labels of an alert in any of the known shapes; those of a group's first firing alert come last."""
    alert = mapping(alert)
    firing = [part for part in objects(alert.get("alerts")) if text(part.get("status"), "firing") == "firing"]
    parts = [alert.get("labels"), alert.get("commonLabels"), alert.get("groupLabels")]
    parts += [part.get("labels") for part in firing[:1]]
    labels: dict[str, str] = {}
    for part in parts:
        for name, value in mapping(part).items():
            if _NAME.fullmatch(str(name)) and 0 < len(text(value)) <= 200:
                labels.setdefault(str(name), text(value))
    return labels


def _elsewhere(name: str, value: str, object_label: str) -> Iterator[str]:
    if name in _HOSTS:
        host = re.escape(value.partition(":")[0])
        yield from (f'{label}=~"{quoted(host)}(:[0-9]+)?"' for label in _HOSTS)
    elif name != "pod":
        yield from (f'{label}="{quoted(value)}"' for label in _SERVICES if label not in (name, object_label))
        yield f'pod=~"{quoted(re.escape(value))}-.+"'


def quoted(value: str) -> str:
    """Return a text as the inside of a double-quoted PromQL or LogQL string."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

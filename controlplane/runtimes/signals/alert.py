"""Reading an alert, whatever sent it: who is meant, what is said to be wrong, whether it still fires."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from controlplane.runtimes.loose_json import items, mapping, moment, objects, text

_MOST_TEXTS: Final = 400
_TEXT_CHARS: Final = 4_000
_WORDS_CHARS: Final = 20_000
_MOST_NAMES: Final = 500
_QUIET: Final = frozenset({"normal", "ok", "resolved", "inactive", "recovered", "closed"})
_TOGETHER: Final = timedelta(hours=6)
_METRIC: Final = ("metric", "metric_name", "metricName", "MetricName")
_ABOUT: Final = ("service", "node", "workload", "host", "instance", "object")
_SUBJECTS: Final = (
    "service",
    "service_name",
    "app",
    "deployment",
    "pod",
    "instance",
    "node",
    "host",
    "workload",
    "job",
)
_STATISTIC: Final = ("agg", "aggregation", "statistic", "Statistic")
_STARTED: Final = ("startsAt", "starts_at", "startedAt", "started_at", "activeAt", "timestamp", "date", "time")
_DESCRIBING: Final = ("summary", "description", "message", "error", "suspected_symptom", "title", "text")


@dataclass(frozen=True, slots=True)
class AlertView:
    """``words`` is everything the alert says in lower case; ``firing`` is ``None`` when it does not say.

    ``starts_at`` is when the first of its alerts began, of those that began within hours of the newest; ``metric`` and
    ``statistic`` are what it measures by, where it has members of that kind. ``subjects`` are what it is about, by
    the labels that name services, hosts and workloads.
    """

    title: str
    summary: str
    severity: str
    firing: bool | None
    words: str
    starts_at: datetime | None = None
    metric: str = ""
    statistic: str = ""
    subjects: tuple[str, ...] = ()

    def names(self, objects: Sequence[str]) -> list[str]:
        """Return which of ``objects`` the alert speaks of, the longest names first."""
        return named_in(self.words, objects)


def read_alert(alert: Mapping[str, Any] | None) -> AlertView | None:
    """Return the alert as the rules need it; the shapes of Alertmanager, Datadog, CloudWatch and plain text all do."""
    if not alert:
        return None
    labels = {**mapping(alert.get("labels")), **mapping(alert.get("commonLabels"))}
    notes = {**mapping(alert.get("annotations")), **mapping(alert.get("commonAnnotations"))}
    texts = [value[:_TEXT_CHARS] for value in _texts(alert)]
    title = text(alert.get("title")) or text(labels.get("alertname")) or text(alert.get("name"))
    metric, about = _first(alert, labels, _METRIC), _first(alert, labels, _ABOUT)
    if not title:
        title = f"{metric} of {about}" if metric and about else metric or about or "Alert"
    described = [text(part.get(key)) for part in (notes, alert) for key in _DESCRIBING]
    state = text(alert.get("state", alert.get("status"))).strip().lower()
    return AlertView(
        title=title[:200],
        summary=next((said for said in described if said and said != title), "")[:1_000],
        severity=text(labels.get("severity", alert.get("severity"))).strip().lower()[:40],
        firing=None if not state else state not in _QUIET,
        words=" ".join(texts).lower()[:_WORDS_CHARS],
        starts_at=_started(alert),
        metric=metric[:200],
        subjects=tuple(dict.fromkeys(said for key in _SUBJECTS if (said := _first(alert, labels, [key])[:200])))[:5],
        statistic=_first(alert, labels, _STATISTIC)[:40],
    )


def _first(alert: Mapping[str, Any], labels: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Return the first text among some members of the alert and its labels."""
    said = (text(part.get(key)).strip() for key in keys for part in (alert, labels))
    return next((value for value in said if value), "")


def _started(alert: Mapping[str, Any]) -> datetime | None:
    single = [part for part in objects(alert.get("alerts")) if text(part.get("status")).lower() not in _QUIET]
    parts = [alert, *single[:_MOST_TEXTS]]
    times = (moment(part.get(key)) for part in parts for key in _STARTED)
    known = [at for at in times if at is not None and at.year > 1970]
    # One that has been firing for weeks is not what woke somebody now: those that began with the newest count.
    return min((at for at in known if max(known) - at <= _TOGETHER), default=None)


def named_in(words: str, objects: Sequence[str]) -> list[str]:
    """Return which of ``objects`` occur in ``words`` as whole names, not as parts of longer ones."""
    lowered = words.lower()
    found: list[str] = []
    for name in sorted(objects, key=len, reverse=True)[:_MOST_NAMES]:
        pattern = rf"(?<![a-z0-9_-]){re.escape(name.lower())}(?![a-z0-9_]|-[a-z0-9])"
        if len(name) > 1 and re.search(pattern, lowered):
            found.append(name)
    return found


def without_names(message: str, objects: Sequence[str]) -> str:
    """Return a message in lower case without the names of objects, so that a name never decides what it means."""
    lowered = message.lower()
    for name in objects:
        if len(name) > 2:
            lowered = lowered.replace(name.lower(), "…")
    return lowered


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in JSON, breadth first, not endlessly many."""
    level, count = [value], 0
    while level:
        following: list[Any] = []
        for item in level:
            if isinstance(item, str):
                yield item
                count += 1
                if count >= _MOST_TEXTS:
                    return
            elif isinstance(item, Mapping):
                following += list(item.values())[:_MOST_TEXTS]
            else:
                following += list(items(item))[:_MOST_TEXTS]
        level = following

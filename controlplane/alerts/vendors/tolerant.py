"""Reading any JSON that looks like an alert: by the names that senders give to the same things.

A body may be an alert, hold one below a single member, or a list of them; labels and annotations may stand at several
places, all of which count. What only one vendor says is read by that vendor's parser, never here.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from controlplane.alerts.normalised import (
    HOSTS,
    SERVICES,
    WORKLOADS,
    Reading,
    Signal,
    digest,
    first,
    marked,
    no_alert,
    require_object,
    severity_of,
    status_of,
    tags,
    texts,
    time_of,
    word,
)
from controlplane.runtimes.loose_json import mapping, objects

_LISTS: Final = ("alerts", "events", "incidents", "problems", "items", "evalMatches", "notifications", "data")
_WRAPPERS: Final = ("alert", "event", "incident", "problem", "payload", "data", "body", "detail", "notification",
                    "check", "monitor", "result", "attributes")  # fmt: skip
_LABELS: Final = ("groupLabels", "commonLabels", "labels", "dimensions", "group_labels", "common_labels")
_NOTES: Final = (
    "commonAnnotations",
    "annotations",
    "details",
    "custom_details",
    "common_annotations",
    "customProperties",
)
_NAMES: Final = ("alertname", "alert_name", "alertName", "rule_name", "ruleName", "monitor_name", "monitorName",
                 "check_name", "checkName", "policy_name", "condition_name", "alert_title", "ProblemTitle", "title",
                 "name", "event_title", "summary", "subject", "short_description", "headline", "message", "description",
                 "text", "msg")  # fmt: skip
_STATUSES: Final = ("status", "state", "alert_status", "alertStatus", "alert_state", "event_action", "current_state",
                    "newState", "transition", "monitorCondition", "condition_state", "State", "action")  # fmt: skip
_SEVERITIES: Final = ("severity", "alert_severity", "severity_level", "priority", "urgency", "level", "alertlevel",
                      "criticality", "impact", "ProblemSeverity")  # fmt: skip
_STARTED: Final = ("startsAt", "starts_at", "started_at", "startedAt", "start_time", "startTime", "firedDateTime",
                   "triggered_at", "triggeredAt", "opened_at", "created_at", "createdAt", "activeAt", "first_seen",
                   "date_happened", "timestamp", "occurred_at", "eventTime", "date", "time")  # fmt: skip
_ENDED: Final = ("endsAt", "ends_at", "ended_at", "resolved_at", "resolvedAt", "end_time", "closed_at")
_URLS: Final = ("generatorURL", "url", "link", "html_url", "web_url", "permalink", "incident_url", "event_url",
                "source_url", "ProblemURL", "ruleUrl", "dashboardURL", "externalURL")  # fmt: skip
_FINGERPRINTS: Final = ("fingerprint", "alert_id", "alertId", "dedup_key", "dedupKey", "deduplication_key",
                        "incident_key", "alias", "incident_id", "incidentId", "problem_id", "ProblemID", "event_id",
                        "correlation_id", "uuid", "id")  # fmt: skip
_GROUPS: Final = ("groupKey", "group_key", "aggregation_key", "aggreg_key", "group")
_SUMMARIES: Final = ("summary", "description", "message", "text", "body", "reason", "details", "msg")
_DEEPEST: Final = 4


def read(body: Any) -> Reading:
    """Return the alerts in a body of any shape.

    Raises:
        MalformedRequest: ``not_an_object``.
        InvalidInput: ``invalid_alert``: nothing in it could be an alert's name.
    """
    reading = try_read(body)
    if reading is None:
        if not isinstance(body, list):
            require_object(body)
        raise no_alert(
            "any kind that is known", ("", "nothing says what the alert is called: a title, name or summary")
        )
    return reading


def try_read(body: Any) -> Reading | None:
    """Return the alerts in a body of any shape, or ``None`` when there are none."""
    if isinstance(body, list):
        body = {"alerts": body}
    if not isinstance(body, dict):
        return None
    outer = _unwrapped(body)
    items = _items(outer)
    signals = [signal for item in items or [{}] if (signal := _signal(outer, item, alone=len(items) < 2)) is not None]
    if not signals:
        return None
    service = _shared_service(signals)
    return Reading(signals=signals, identifiers={"service": service} if service else {}, original=body)


def has_labels(body: Mapping[str, Any]) -> bool:
    """Return whether a body, or the alert in it, has labels in a block of their own, as Alertmanager has them."""
    return any(mapping(part.get(name)) for part in (body, _unwrapped(body)) for name in _LABELS)


def _unwrapped(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the alert inside a wrapper; what is beside it stays there, but for what it says itself."""
    for _ in range(_DEEPEST):
        if _speaks(body):
            return body
        inner = next((mapping(body.get(name)) for name in _WRAPPERS if mapping(body.get(name))), None)
        if inner is None and len(body) == 1:
            inner = mapping(next(iter(body.values())))
        if not inner:
            return body
        beside = {name: value for name, value in body.items() if not isinstance(value, dict | list)}
        body = beside | dict(inner)
    return body


def _speaks(body: Mapping[str, Any]) -> bool:
    """Return whether a body says itself what it is about."""
    blocks = any(mapping(body.get(name)) for name in _LABELS)
    return blocks or bool(_items(body)) or bool(first(*(_said(body, name) for name in _NAMES)))


def _said(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    return word(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _items(body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    for name in _LISTS:
        found = list(objects(body.get(name)))
        if found and (name == "alerts" or any(_speaks(one) for one in found)):
            return found
    return []


def _signal(outer: Mapping[str, Any], item: Mapping[str, Any], *, alone: bool) -> Signal | None:
    labels = {**_block(outer, _LABELS), **_block(item, _LABELS)}
    labels = {**tags(outer.get("tags")), **tags(item.get("tags")), **labels}
    notes = {**_block(outer, _NOTES), **_block(item, _NOTES)}
    #: The alert itself before what is around it; of the outer members only those of a single alert speak of it alone.
    said = [dict(item), labels] + ([dict(outer)] if alone else []) + [notes]
    state, bare = marked(first(_first(said[:3], ("title", "event_title"))))
    own = [labels, item, *([outer] if alone else [])]
    name = (
        first(_first(own, _NAMES[:12]))
        or bare
        or _first(own, _NAMES[12:])
        or _first([notes], ("summary", "description"))
    )
    if not name:
        return None
    status = status_of(_first([item, outer, labels], _STATUSES), state)
    about = {
        "service": _first([labels, item, *([outer] if alone else []), notes], SERVICES),
        "host": _first([labels, item, *([outer] if alone else []), notes], HOSTS) or _instance(labels),
        "workload": _first([labels, item, *([outer] if alone else []), notes], WORKLOADS),
    }
    kept = {**(_plain(outer) if alone else {}), **_plain(item), **notes}
    kept.setdefault("summary", _first([notes, item, outer], _SUMMARIES))
    fingerprint = _first([item, *([outer] if alone else [])], _FINGERPRINTS) or _first([notes], _FINGERPRINTS[:10])
    identity = {key: value for key, value in labels.items() if key not in ("severity", "status", "state")}
    return Signal(
        name=marked(name)[1],
        status=status,
        severity=severity_of(_first([labels, item, outer, notes], _SEVERITIES)),
        labels=labels,
        annotations=kept,
        starts_at=time_of(*_all([item, *([outer] if alone else []), labels, notes], _STARTED)),
        ends_at=time_of(*_all([item, *([outer] if alone else [])], _ENDED)),
        url=_first([item, *([outer] if alone else []), notes], _URLS),
        fingerprint=fingerprint or digest(name, identity, about)[:16],
        group=_first([outer, item], _GROUPS) or (f"{name} {digest(_group_labels(outer), about if alone else {})[:16]}"),
        about=about,
    )


def _group_labels(outer: Mapping[str, Any]) -> dict[str, str]:
    return {key: value for key, value in _block(outer, _LABELS[:2]).items() if key != "severity"}


def _block(part: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """Return the members of some blocks of a part, the later ones first; lists of pairs count too."""
    found: dict[str, str] = {}
    for name in names:
        value = part.get(name)
        if isinstance(value, dict):
            found |= texts(value)
        elif isinstance(value, list):
            found |= {
                first(one.get("name"), one.get("key"), one.get("label")): first(one.get("value"))
                for one in objects(value)
                if first(one.get("name"), one.get("key"), one.get("label"))
            }
    return found


def _plain(part: Mapping[str, Any]) -> dict[str, str]:
    """Return the members that are texts or numbers, which no other field takes."""
    kept = {
        str(key): value
        for key, value in part.items()
        if isinstance(value, str | int | float) and not isinstance(value, bool) and str(key)[:1] != "_" and value != ""
    }
    return {key: value for key, value in texts(kept).items() if key not in ("status", "state", "severity", "startsAt")}


def _all(parts: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[Any]:
    for part in parts:
        for name in names:
            if part.get(name) is not None:
                yield part[name]


def _first(parts: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Return the first text among some members, name by name, of each the parts in their order."""
    for name in names:
        for part in parts:
            value = part.get(name)
            if isinstance(value, Mapping):
                value = first(value.get("name"), value.get("summary"), value.get("value"))
            if isinstance(value, str | int | float) and not isinstance(value, bool) and (said := word(value)):
                return said
    return ""


def _instance(labels: Mapping[str, str]) -> str:
    """Return the label of a kind of its own, such as ``mysql_instance``, that names where it runs."""
    return next((value for name, value in labels.items() if name.endswith(("_instance", "_host", "_node"))), "")


def _shared_service(signals: Sequence[Signal]) -> str:
    named = {signal.labels.get("service") or signal.about.get("service", "") for signal in signals}
    return named.pop() if len(named) == 1 else ""

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
    about_of,
    digest,
    first,
    marked,
    no_alert,
    require_few,
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
                    "check", "monitor", "attributes", "result")  # fmt: skip
_LABELS: Final = ("groupLabels", "commonLabels", "labels", "dimensions", "group_labels", "common_labels")
_NOTES: Final = ("commonAnnotations", "annotations", "details", "custom_details", "common_annotations",
                 "customProperties")  # fmt: skip


def _plain(name: str) -> str:
    """Return a name as it is compared: ``alert_name``, ``alertName`` and ``Alert-Name`` are one."""
    return "".join(character for character in name.lower() if character.isalnum())


def _names(*names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(_plain, names)))


#: Names that people give to alerts themselves, before titles that a tool makes of them, before texts.
_NAMED: Final = _names("alertname", "rule_name", "monitor_name", "monitor_friendly_name", "check_name", "policy_name",
                       "condition_name", "trigger_name", "event_name", "search_name", "alert_title", "problem_title",
                       "service_description")  # fmt: skip
_TITLED: Final = _names("title", "name", "event_title", "rule", "check", "trigger", "condition")
_TOLD: Final = _names("summary", "subject", "short_description", "headline", "message", "description", "text", "msg",
                      "cause", "reason")  # fmt: skip
_STATUSES: Final = _names("notification_type", "status", "state", "event_status", "alert_status", "alert_state",
                          "event_action", "current_state", "new_state", "transition", "monitor_condition",
                          "condition_state", "service_state", "alert_type_friendly_name", "action_group",
                          "action")  # fmt: skip
_SEVERITIES: Final = _names("severity", "alert_severity", "event_severity", "severity_level", "priority", "urgency",
                            "level", "alert_level", "criticality", "impact", "problem_severity")  # fmt: skip
_STARTED: Final = _names("starts_at", "started_at", "start_time", "fired_date_time", "triggered_at", "opened_at",
                         "created_at", "active_at", "first_seen", "date_happened", "timestamp", "occurred_at",
                         "event_time", "alert_date_time", "event_date", "date", "time")  # fmt: skip
_ENDED: Final = _names("ends_at", "ended_at", "resolved_at", "end_time", "closed_at")
_URLS: Final = _names("generator_url", "url", "link", "html_url", "web_url", "permalink", "incident_url", "issue_url",
                      "event_url", "source_url", "problem_url", "rule_url", "result_url", "results_link",
                      "dashboard_url", "external_url")  # fmt: skip
#: Ids that stay the same while an alert goes on, and those that may be of one message alone.
_LASTING: Final = _names("fingerprint", "dedup_key", "deduplication_key", "incident_key", "alert_id", "alias",
                         "incident_id", "issue_id", "problem_id", "correlation_id")  # fmt: skip
_PASSING: Final = _names("event_id", "uuid", "id", "number")
_GROUPS: Final = _names("group_key", "aggregation_key", "aggreg_key")
_SUMMARIES: Final = _names("summary", "description", "message", "text", "body", "reason", "details", "output", "msg")
_SERVICES: Final = _names(*SERVICES, "resource_name", "resource_display_name", "impacted_entity", "impacted_entities")
_HOSTS: Final = _names(*HOSTS)
_WORKLOADS: Final = _names(*WORKLOADS)
_DEEPEST: Final = 4
_UNTITLED: Final = _names("status", "state", "severity", "starts_at")
Part = Mapping[str, Any]


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
    """Return the alerts in a body of any shape, or ``None`` when there are none.

    Raises:
        PayloadTooLarge: ``too_many_alerts``.
    """
    if isinstance(body, list):
        body = {"alerts": body}
    if not isinstance(body, dict):
        return None
    outer = _unwrapped(body)
    items = _items(outer)
    require_few(items)
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


def _speaks(body: Part) -> bool:
    """Return whether a body says itself what it is about."""
    blocks = any(mapping(body.get(name)) for name in _LABELS)
    return blocks or bool(_items(body)) or bool(_first([_folded(body)], [*_NAMED, *_TITLED, *_TOLD]))


def _items(body: Part) -> Sequence[Part]:
    for name in _LISTS:
        found = list(objects(body.get(name)))
        if found and (name == "alerts" or any(_speaks(one) for one in found)):
            return found
    return []


def _folded(part: Part) -> dict[str, Any]:
    """Return the members by their names as they are compared; of two that are one, the first."""
    found: dict[str, Any] = {}
    for name, value in part.items():
        if value is not None and value != "":
            found.setdefault(_plain(str(name)), value)
    return found


def _signal(outer: Part, item: Part, *, alone: bool) -> Signal | None:
    labels = {**tags(outer.get("tags")), **tags(item.get("tags")), **_block(outer, _LABELS), **_block(item, _LABELS)}
    notes = {**_block(outer, _NOTES), **_block(item, _NOTES)}
    named, own, around, noted = map(_folded, (labels, item, outer, notes))
    # What is around a single alert speaks of it; around several it speaks of all of them.
    speaking = [named, own, around] if alone else [named, own]
    state, title = marked(_first(speaking, _TITLED[:1]))
    name = _first(speaking, _NAMED) or title or _first(speaking, _TITLED) or _first([*speaking, noted], _TOLD)
    if not name:
        return None
    inner = [
        _folded(value) for value in (*item.values(), *(outer.values() if alone else ())) if isinstance(value, dict)
    ]
    whole = [*speaking, noted, *inner]
    about = {
        "service": _first(whole, _SERVICES),
        "host": _first(whole, _HOSTS) or about_of(labels)["host"],
        "workload": _first(whole, _WORKLOADS),
    }
    lasting = _first([own, *([around] if alone else []), noted], _LASTING)
    passing = "" if alone else _first([own], _PASSING)
    identity = {key: value for key, value in labels.items() if key not in ("severity", "status", "state")}
    kept = {**(_texts_of(outer) if alone else {}), **_texts_of(item), **notes}
    kept.setdefault("summary", _first([noted, own, around], _SUMMARIES))
    return Signal(
        name=marked(name)[1],
        status=status_of(_first([own, around, named], _STATUSES), state),
        severity=severity_of(_first([named, own, around, noted, *inner], _SEVERITIES)),
        labels=labels,
        annotations=kept,
        starts_at=time_of(*_all([*speaking[1:], named, noted], _STARTED)),
        ends_at=time_of(*_all(speaking[1:], _ENDED)),
        url=_first([*speaking[1:], noted], _URLS),
        fingerprint=lasting or passing or digest(name, identity, about)[:16],
        group=_first([around, own], _GROUPS) or _group(outer, name, about, lasting, alone=alone),
        about=about,
    )


def _group(outer: Part, name: str, about: Mapping[str, str], lasting: str, *, alone: bool) -> str:
    """Return what an alert is put together by: several of one name in a body, or a single one with itself."""
    if alone and lasting:
        return lasting
    return f"{name} {digest(_group_labels(outer), dict(about) if alone else {})[:16]}"


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


def _texts_of(part: Part) -> dict[str, str]:
    """Return the members that are texts or numbers, but for those that a field of their own has."""
    kept = {
        str(key): value
        for key, value in part.items()
        if isinstance(value, str | int | float) and not isinstance(value, bool) and str(key)[:1] != "_" and value != ""
    }
    return {key: value for key, value in texts(kept).items() if _plain(key) not in _UNTITLED}


def _all(parts: Sequence[Part], names: Sequence[str]) -> Iterator[Any]:
    for part in parts:
        for name in names:
            if part.get(name) is not None:
                yield part[name]


def _first(parts: Sequence[Part], names: Sequence[str]) -> str:
    """Return the first text among some members, name by name, of each the parts in their order."""
    for name in names:
        for part in parts:
            if said := _text(part.get(name)):
                return said
    return ""


def _text(value: Any) -> str:
    """Return what a member says: a text or number, what an object is called, the first of a list."""
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, dict):
        value = first(*(value.get(name) for name in ("name", "title", "summary", "description", "value")),
                      mapping(value.get("metadata")).get("name"))  # fmt: skip
    return word(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _shared_service(signals: Sequence[Signal]) -> str:
    named = {signal.labels.get("service") or signal.about.get("service", "") for signal in signals}
    return named.pop() if len(named) == 1 else ""

"""Reading Sentry's webhooks: alerts and issues of its integration platform, and what the older plugin sends.

Source: https://docs.sentry.io/organization/integrations/integration-platform/webhooks/ (issue-alerts, metric-alerts,
issues): ``action``, ``data``, ``installation``, ``actor``; the resource is in the header ``Sentry-Hook-Resource``, and
to be seen in ``data`` too.
"""

from collections.abc import Mapping
from typing import Any, Final

from controlplane.alerts.normalised import (
    FIRING,
    RESOLVED,
    Reading,
    Signal,
    first,
    no_alert,
    require_object,
    severity_of,
    tags,
    time_of,
    word,
)
from controlplane.alerts.vendors import tolerant
from controlplane.runtimes.loose_json import items, mapping, text

#: Sentry's levels; ``fatal`` is as grave as critical.
_ISSUE_FIRING: Final = frozenset({"created", "unresolved", "triggered", "escalating", "regressed"})
_ISSUE_OVER: Final = frozenset({"resolved", "ignored", "archived"})


def read(body: Any) -> Reading:
    """Return the alert. Installations, comments and assignments are ignored.

    Raises:
        MalformedRequest, InvalidInput: there is no alert in it.
    """
    body = require_object(body)
    data = mapping(body.get("data"))
    action = word(body.get("action")).lower()
    if metric := mapping(data.get("metric_alert")):
        return Reading(signals=[_metric(data, metric, action)], original=body)
    if event := mapping(data.get("event")) or mapping(data.get("error")):
        return _reading(_event(data, event), event, body)
    if issue := mapping(data.get("issue")):
        return _issue_reading(body, issue, action)
    if action and (data or mapping(body.get("installation"))):
        return Reading(ignored=f"{action[:40]} of Sentry is no alert", original=body)
    return _otherwise(body)


def _otherwise(body: Mapping[str, Any]) -> Reading:
    event = mapping(body.get("event"))
    if event and (body.get("project") or body.get("project_name")):
        return _reading(_plugin(body), event, body)
    reading = tolerant.try_read(body)
    if reading is None:
        raise no_alert("Sentry", ("/data", "an event, an issue or a metric alert"))
    return reading


def _reading(signal: Signal, event: Mapping[str, Any], body: Any) -> Reading:
    service = first(signal.labels.get("service"), signal.about.get("service"))
    event_id = first(event.get("event_id"), event.get("id"))
    return Reading(
        signals=[signal],
        delivery_id=f"event {event_id} {signal.annotations.get('rule', '')}" if event_id else "",
        identifiers={"service": service} if service else {},
        original=body,
    )


def _event(data: Mapping[str, Any], event: Mapping[str, Any]) -> Signal:
    meta = mapping(event.get("metadata"))
    kind = first(meta.get("type"), event.get("type"))
    value = first(meta.get("value"))
    title = first(
        event.get("title"), f"{kind}: {value}" if kind and value else "", event.get("message"), "Sentry event"
    )
    labels = tags(event.get("tags"))
    issue = first(event.get("issue_id"), event.get("groupID"), event.get("issue_url"))
    project = _project(event.get("project_slug"), event.get("project_name"), event.get("project"), event.get("url"))
    return Signal(
        name=title,
        status=FIRING,
        severity=severity_of(event.get("level"), labels.get("level")),
        labels=labels,
        annotations={
            "summary": title,
            "description": first(event.get("message"), event.get("culprit"), event.get("transaction"), value),
            "culprit": first(event.get("culprit"), event.get("transaction")),
            "rule": first(data.get("triggered_rule"), mapping(data.get("issue_alert")).get("title")),
            "platform": word(event.get("platform")),
        },
        starts_at=time_of(event.get("datetime"), event.get("timestamp"), event.get("received")),
        url=first(event.get("web_url"), event.get("url"), event.get("issue_url")),
        fingerprint=first(issue, title),
        group=first(f"issue {issue}" if issue else "", title),
        about={"service": first(labels.get("service"), project), "host": word(labels.get("server_name"))},
    )


def _metric(data: Mapping[str, Any], metric: Mapping[str, Any], action: str) -> Signal:
    rule = mapping(metric.get("alert_rule"))
    title = first(rule.get("name"), metric.get("title"), data.get("description_title"), "Sentry metric alert")
    projects = metric.get("projects") if isinstance(metric.get("projects"), list) else rule.get("projects")
    named = [word(one) for one in projects] if isinstance(projects, list) else []
    over = action == "resolved"
    return Signal(
        name=title,
        status=RESOLVED if over else FIRING,
        severity="" if over else severity_of(action),
        labels={"environment": word(rule.get("environment")), "organization_id": word(metric.get("organization_id"))},
        annotations={
            "summary": first(data.get("description_title"), title),
            "description": word(data.get("description_text")),
            "query": first(rule.get("query")),
            "aggregate": first(rule.get("aggregate")),
        },
        starts_at=time_of(metric.get("date_started"), metric.get("date_detected"), metric.get("date_created")),
        ends_at=time_of(metric.get("date_closed")) if over else "",
        url=first(data.get("web_url"), metric.get("web_url")),
        fingerprint=first(rule.get("id"), metric.get("identifier"), metric.get("id"), title),
        group=first(f"rule {rule.get('id')}" if rule.get("id") else "", metric.get("identifier"), title),
        about={"service": ", ".join(name for name in named if name)},
    )


def _issue_reading(body: Mapping[str, Any], issue: Mapping[str, Any], action: str) -> Reading:
    if action not in _ISSUE_FIRING | _ISSUE_OVER:
        return Reading(ignored=f"{action[:40] or 'this'} of an issue changes nothing about its firing", original=body)
    project = mapping(issue.get("project"))
    service = first(project.get("slug"), project.get("name"))
    key = first(issue.get("id"), issue.get("shortId"), issue.get("title"))
    signal = Signal(
        name=first(issue.get("title"), mapping(issue.get("metadata")).get("type"), "Sentry issue"),
        status=RESOLVED if action in _ISSUE_OVER else FIRING,
        severity=severity_of(issue.get("level")),
        labels={"short_id": word(issue.get("shortId")), "platform": word(issue.get("platform"))},
        annotations={
            "summary": word(issue.get("title")),
            "description": first(issue.get("culprit"), mapping(issue.get("metadata")).get("value")),
        },
        starts_at=time_of(issue.get("lastSeen") if action != "created" else None, issue.get("firstSeen")),
        url=first(issue.get("web_url"), issue.get("permalink"), issue.get("url")),
        fingerprint=key,
        group=f"issue {key}",
        about={"service": service},
    )
    return Reading(signals=[signal], identifiers={"service": service} if service else {}, original=body)


def _plugin(body: Mapping[str, Any]) -> Signal:
    """Return what the older plugin *WebHooks* sends: the event inside, what it is about beside it."""
    event = mapping(body.get("event"))
    outer = {name: body.get(name) for name in ("level", "culprit", "url", "message") if body.get(name)}
    project = first(body.get("project_slug"), body.get("project"), body.get("project_name"))
    issue = first(event.get("issue_id"), body.get("id"))
    rules = [text(one) for one in items(body.get("triggering_rules"))]
    merged = {**outer, "project_slug": project, "issue_id": issue, **event}
    return _event({"triggered_rule": ", ".join(rule for rule in rules if rule)}, merged)


def _project(*values: Any) -> str:
    """Return the project's name, from an address such as …/projects/ORG/PROJECT/… at last."""
    for value in values:
        said = word(value)
        if "/projects/" in said:
            parts = said.partition("/projects/")[2].split("/")
            if len(parts) > 1 and parts[1]:
                return parts[1]
        elif said and not said.startswith("http") and not said.isdecimal():
            return said
    return ""

"""Reading PagerDuty's webhooks of version 3.

Source: https://developer.pagerduty.com/docs/webhooks-overview (the repository PagerDuty/developer-docs, docs/webhooks):
one ``event`` with ``id``, ``event_type``, ``resource_type``, ``occurred_at`` and ``data``, which is the incident for
the types that say how an incident goes on. PagerDuty puts alerts together into incidents: one is one alert here.
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
    status_of,
    time_of,
    word,
)
from controlplane.runtimes.loose_json import mapping, moment, objects

#: Types that say that an incident goes on, or is over.
_FIRING: Final = frozenset({"triggered", "reopened", "unacknowledged", "escalated", "delegated", "reassigned"})
_TOLD: Final = frozenset({"acknowledged", "priority_updated", "resolved", *_FIRING})


def read(body: Any) -> Reading:
    """Return the incident an event is about; events of other resources, and tests of the connection, are ignored.

    Raises:
        MalformedRequest, InvalidInput: it is no event of version 3.
    """
    event = mapping(require_object(body).get("event"))
    kind = word(event.get("event_type"))
    if not kind:
        raise no_alert("PagerDuty", ("/event/event_type", "the type of an event of version 3"))
    resource, _, what = kind.partition(".")
    data = mapping(event.get("data"))
    delivery = {"delivery_id": word(event.get("id")), "occurred_at": moment(event.get("occurred_at")), "original": body}
    if resource != "incident" or what not in _TOLD:
        return Reading(ignored=f"the event {kind[:60]} tells nothing about how an incident goes on", **delivery)
    if what == "acknowledged" and status_of(data.get("status")) == FIRING:
        return Reading(ignored="an acknowledged incident goes on as before", **delivery)
    service = mapping(data.get("service"))
    identifiers = {"pagerduty_service_id": word(service.get("id")), "service": word(service.get("summary"))}
    return Reading(
        signals=[_signal(event, data, service, what)],
        identifiers={name: key for name, key in identifiers.items() if key},
        **delivery,
    )


def _signal(event: Mapping[str, Any], data: Mapping[str, Any], service: Mapping[str, Any], what: str) -> Signal:
    key = first(data.get("incident_key"), data.get("id"))
    teams = [word(team.get("summary")) for team in objects(data.get("teams"))]
    return Signal(
        name=first(data.get("title"), data.get("summary"), "PagerDuty incident"),
        status=RESOLVED if what == "resolved" else FIRING,
        severity=severity_of(mapping(data.get("priority")).get("summary"), data.get("urgency")),
        labels={
            "urgency": word(data.get("urgency")),
            "incident_number": word(data.get("number")),
            "pagerduty_team": ", ".join(name for name in teams if name),
            "pagerduty_service_id": word(service.get("id")),
        },
        annotations={
            "summary": word(data.get("title")),
            "description": first(mapping(data.get("body")).get("details"), data.get("description")),
            "priority": word(mapping(data.get("priority")).get("summary")),
            "escalation_policy": word(mapping(data.get("escalation_policy")).get("summary")),
            "resolve_reason": word(mapping(data.get("resolve_reason")).get("type")),
        },
        starts_at=time_of(data.get("created_at"), event.get("occurred_at")),
        ends_at=time_of(event.get("occurred_at")) if what == "resolved" else "",
        url=first(data.get("html_url"), data.get("self")),
        fingerprint=first(data.get("id"), key),
        group=first(data.get("id"), key, data.get("title")),
        about={"service": word(service.get("summary"))},
    )

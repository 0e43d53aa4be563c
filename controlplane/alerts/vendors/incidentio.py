"""Reading incident.io's webhooks: alerts and incidents.

Source: https://docs.incident.io/api-reference/webhooks: ``event_type``, and a member of that very name with the alert
(``public_alert.alert_created_v1``, ``…resolved_v1``) or the incident (``public_incident.incident_created_v2``,
``…updated_v2``, ``…status_updated_v2``, of which the last has the incident below ``incident``). Of private ones only
the id is sent.
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
    texts,
    time_of,
    word,
)
from controlplane.alerts.vendors import tolerant
from controlplane.runtimes.loose_json import mapping, objects

_ALERTS: Final = ("alert_created", "alert_resolved", "alert_updated", "alert_status_updated")
_INCIDENTS: Final = ("incident_created", "incident_updated", "incident_status_updated")
#: Categories of an incident's status that mean that nothing is to be looked into. Source: the incidents API, v2.
_OVER: Final = frozenset({"closed", "declined", "canceled", "merged", "learning", "post-incident", "paused"})


def read(body: Any) -> Reading:
    """Return the alert or the incident; other events, and private ones, are ignored.

    Raises:
        MalformedRequest, InvalidInput: there is no event in it.
    """
    body = require_object(body)
    kind = word(body.get("event_type"))
    if not kind:
        reading = tolerant.try_read(body)
        if reading is None:
            raise no_alert("incident.io", ("/event_type", "the type of the event"))
        return reading
    visibility, _, what = kind.partition(".")
    if visibility.startswith("private"):
        return Reading(ignored="of private incidents and alerts only the id is sent", original=body)
    data = mapping(body.get(kind)) or mapping(body.get("event"))
    if what.startswith(_ALERTS):
        return _alert(body, mapping(data.get("alert")) or data, what)
    if what.startswith(_INCIDENTS):
        return _incident(body, mapping(data.get("incident")) or data)
    return Reading(ignored=f"the event {kind[:80]} is about no alert", original=body)


def _alert(body: Any, alert: Mapping[str, Any], what: str) -> Reading:
    attributes = _attributes(alert.get("attributes")) | texts(alert.get("metadata"))
    over = "resolved" in what or status_of(alert.get("status")) == RESOLVED
    source = word(alert.get("alert_source_id"))
    team = first(attributes.get("team_id"), attributes.get("incidentio_team_id"))
    service = first(attributes.get("service"), attributes.get("Service"), attributes.get("feature"))
    key = first(alert.get("deduplication_key"), alert.get("id"), alert.get("title"))
    signal = Signal(
        name=first(alert.get("title"), alert.get("name"), "incident.io alert"),
        status=RESOLVED if over else FIRING,
        severity=severity_of(attributes.get("severity"), attributes.get("priority"), attributes.get("Priority")),
        labels=attributes | {"alert_source_id": source},
        annotations={"summary": word(alert.get("title")), "description": word(alert.get("description")),
                     "alert_id": word(alert.get("id"))},
        starts_at=time_of(alert.get("created_at"), alert.get("firing_at")),
        ends_at=time_of(alert.get("resolved_at")) if over else "",
        url=first(alert.get("source_url"), alert.get("permalink")),
        fingerprint=key,
        group=f"{source} {key}",
        about={"service": service},
    )  # fmt: skip
    found = {"incidentio_team_id": team, "incidentio_alert_source_id": source, "service": service}
    return Reading([signal], identifiers={name: value for name, value in found.items() if value}, original=body)


def _incident(body: Any, incident: Mapping[str, Any]) -> Reading:
    status = mapping(incident.get("incident_status"))
    fields = _fields(incident)
    over = first(status.get("category"), incident.get("status")).lower() in _OVER
    service = first(
        fields.get("service"), fields.get("Service"), fields.get("Affected services"), fields.get("Service(s)")
    )
    signal = Signal(
        name=first(incident.get("name"), incident.get("reference"), "incident.io incident"),
        status=RESOLVED if over else FIRING,
        severity=severity_of(mapping(incident.get("severity")).get("name"), incident.get("severity")),
        labels=fields | {"incident_type": word(mapping(incident.get("incident_type")).get("name"))},
        annotations={"summary": first(incident.get("summary"), incident.get("name")),
                     "incident_status": first(status.get("name")), "reference": word(incident.get("reference"))},
        starts_at=time_of(incident.get("created_at")),
        ends_at=time_of(incident.get("updated_at")) if over else "",
        url=first(incident.get("permalink")),
        fingerprint=first(incident.get("id"), incident.get("reference")),
        group=f"incident {first(incident.get('id'), incident.get('reference'), incident.get('name'))}",
        about={"service": service},
    )  # fmt: skip
    return Reading([signal], identifiers={"service": service} if service else {}, original=body)


def _attributes(value: Any) -> dict[str, str]:
    """Return an alert's attributes by name: a list of ``{attribute, value | array_value}``, or an object."""
    if isinstance(value, Mapping):
        return texts(value)
    found: dict[str, str] = {}
    for item in objects(value):
        name = first(mapping(item.get("attribute")).get("name"), item.get("name"), item.get("label"))
        values = [_value(item.get("value")), *(_value(one) for one in objects(item.get("array_value")))]
        if name and (said := ", ".join(one for one in values if one)):
            found[name] = said
    return found


def _value(value: Any) -> str:
    inner = mapping(value)
    return first(inner.get("label"), inner.get("value"), inner.get("literal"), value)


def _fields(incident: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in objects(incident.get("custom_field_entries")):
        name = word(mapping(entry.get("custom_field")).get("name"))
        values = [
            first(
                one.get("value_text"), one.get("value_numeric"), one.get("value_link"),
                mapping(one.get("value_option")).get("value"), mapping(one.get("value_catalog_entry")).get("name"),
            )
            for one in objects(entry.get("values"))
        ]  # fmt: skip
        if name and (said := ", ".join(one for one in values if one)):
            found[name] = said
    return found

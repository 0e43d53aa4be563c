"""Reading Opsgenie's webhooks (also those of Jira Service Management, which took it over).

Source: https://docs.opsgenie.com/docs/webhook-integration and .../opsgenie-edge-connector-alert-action-data:
``action``, ``alert`` (``alertId``, ``alias``, ``message``, ``tags``, ``entity``, ``source``, ``priority``, ``details``,
``description``, ``createdAt``, ``updatedAt`` …), ``source``, ``integrationId``, ``integrationName``.
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
    texts,
    time_of,
    word,
)
from controlplane.alerts.vendors import tolerant
from controlplane.runtimes.loose_json import items, mapping

_FIRING: Final = frozenset({"create", "unacknowledge", "escalate", "escalatenext", "updatepriority", "unsnooze"})
_OVER: Final = frozenset({"close", "delete", "resolve"})


def read(body: Any) -> Reading:
    """Return the alert an action is about; actions that do not change whether it fires are ignored.

    Raises:
        MalformedRequest, InvalidInput: there is no alert in it.
    """
    body = require_object(body)
    action = word(body.get("action"))
    alert = mapping(body.get("alert"))
    if not action or not alert:
        reading = tolerant.try_read(body)
        if reading is None:
            raise no_alert("Opsgenie", ("/action", "what was done"), ("/alert", "the alert it was done to"))
        return reading
    done = action.replace(" ", "").lower()
    if done not in _FIRING | _OVER:
        return Reading(ignored=f"the action {action[:60]} does not change whether the alert fires", original=body)
    key = first(alert.get("alias"), alert.get("alertId"), alert.get("tinyId"))
    labels = tags(alert.get("tags"))
    named = texts(alert.get("details"))
    updated = first(alert.get("updatedAt"))
    return Reading(
        signals=[_signal(alert, labels | named, done, key)],
        delivery_id=f"{word(alert.get('alertId'))} {done} {updated}" if alert.get("alertId") and updated else "",
        identifiers={"service": found} if (found := first(named.get("service"), labels.get("service"))) else {},
        original=body,
    )


def _signal(alert: Mapping[str, Any], labels: Mapping[str, str], done: str, key: str) -> Signal:
    return Signal(
        name=first(alert.get("message"), alert.get("alias"), "Opsgenie alert"),
        status=RESOLVED if done in _OVER else FIRING,
        severity=severity_of(alert.get("priority"), labels.get("severity")),
        labels=labels,
        annotations={
            "summary": word(alert.get("message")),
            "description": first(alert.get("description"), alert.get("note")),
            "opsgenie_alert_id": word(alert.get("alertId")),
            "opsgenie_alias": word(alert.get("alias")),
            "opsgenie_source": word(alert.get("source")),
            "opsgenie_teams": ", ".join(word(team) for team in items(alert.get("teams")) if word(team)),
            "priority": word(alert.get("priority")),
        },
        starts_at=time_of(alert.get("createdAt")),
        ends_at=time_of(alert.get("updatedAt")) if done in _OVER else "",
        fingerprint=first(alert.get("alertId"), key),
        group=first(alert.get("alias"), key, alert.get("message")),
        about={"host": word(alert.get("entity"))},
    )

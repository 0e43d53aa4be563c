"""Reading Azure Monitor's common alert schema, and the older bodies of metric and activity log alerts.

Source: https://learn.microsoft.com/azure/azure-monitor/alerts/alerts-common-schema: ``schemaId``
``azureMonitorCommonAlertSchema``, ``data.essentials`` (``alertId``, ``alertRule``, ``severity`` Sev0 to Sev4,
``monitorCondition`` Fired or Resolved, ``alertTargetIDs``, ``configurationItems``, ``firedDateTime`` …),
``data.alertContext`` and ``data.customProperties``. The older ones:
https://learn.microsoft.com/azure/azure-monitor/alerts/activity-log-alerts-webhook.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.alerts.normalised import (
    FIRING,
    RESOLVED,
    Reading,
    Signal,
    digest,
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
from controlplane.runtimes.loose_json import items, mapping, objects


def read(body: Any) -> Reading:
    """Return the alert.

    Raises:
        MalformedRequest, InvalidInput: there is no alert in it.
    """
    body = require_object(body)
    data = mapping(body.get("data"))
    essentials = mapping(data.get("essentials"))
    if essentials:
        signal = _common(data, essentials)
    elif mapping(data.get("context")) or mapping(body.get("context")):
        signal = _older(data or body)
    else:
        reading = tolerant.try_read(body)
        if reading is None:
            raise no_alert("Azure Monitor", ("/data/essentials", "the essentials of the common alert schema"))
        return reading
    service = first(signal.labels.get("service"))
    alert_id, at = word(essentials.get("alertId")), first(signal.ends_at, signal.starts_at)
    return Reading(
        signals=[signal],
        delivery_id=f"{alert_id} {signal.status} {at}" if alert_id and at else "",
        identifiers={"service": service} if service else {},
        original=body,
    )


def _common(data: Mapping[str, Any], essentials: Mapping[str, Any]) -> Signal:
    context = mapping(data.get("alertContext"))
    targets = [word(one) for one in items(essentials.get("alertTargetIDs")) if word(one)]
    named = [word(one) for one in items(essentials.get("configurationItems")) if word(one)]
    custom = texts(data.get("customProperties")) | texts(context.get("properties"))
    over = status_of(essentials.get("monitorCondition")) == RESOLVED
    conditions = list(objects(mapping(context.get("condition")).get("allOf")))
    dimensions = {
        word(one.get("name")): word(one.get("value"))
        for condition in conditions[:20]
        for one in objects(condition.get("dimensions"))
    }
    rule = first(essentials.get("alertRule"), "Azure Monitor alert")
    return Signal(
        name=rule,
        status=RESOLVED if over else FIRING,
        severity=severity_of(essentials.get("severity")),
        labels={
            "signal_type": word(essentials.get("signalType")),
            "monitoring_service": word(essentials.get("monitoringService")),
            "resource": first(*named, *(target.rpartition("/")[2] for target in targets)),
            "resource_group": _part(targets, "resourcegroups"),
            "subscription": _part(targets, "subscriptions"),
            **{name: value for name, value in dimensions.items() if name},
            **custom,
        },
        annotations={
            "summary": first(essentials.get("description"), context.get("description")),
            "description": "; ".join(filter(None, map(_condition, conditions[:10]))),
            "severity_code": word(essentials.get("severity")),
            "targets": ", ".join(targets[:20]),
            "alert_id": word(essentials.get("alertId")),
        },
        starts_at=time_of(essentials.get("firedDateTime")),
        ends_at=time_of(essentials.get("resolvedDateTime")) if over else "",
        url=first(essentials.get("investigationLink"), context.get("linkToFilteredSearchResultsUI"),
                  context.get("LinkToSearchResults")),
        fingerprint=first(essentials.get("alertId"), essentials.get("originAlertId"),
                          digest(rule, sorted(targets))[:16]),
        group=f"{rule} {digest(sorted(target.lower() for target in targets))[:16]}",
        about=_about(targets, named),
    )  # fmt: skip


def _about(targets: list[str], named: list[str]) -> dict[str, str]:
    """Return what the alert is about by the type of its resource: machines are hosts, the rest are services."""
    name = first(*named, *(target.rpartition("/")[2] for target in targets))
    kinds = " ".join(targets).lower()
    if "/virtualmachines/" in kinds or "/machines/" in kinds:
        return {"host": name}
    if "/managedclusters/" in kinds:
        return {"workload": name}
    return {"service": name}


def _condition(condition: Mapping[str, Any]) -> str:
    what = first(condition.get("metricName"), condition.get("searchQuery"), condition.get("metricMeasureColumn"))
    said = [
        first(condition.get("timeAggregation")),
        what,
        first(condition.get("operator")),
        first(condition.get("threshold")),
    ]
    value = first(condition.get("metricValue"))
    return " ".join(filter(None, said)) + (f" (is {value})" if value else "") if what else ""


def _part(targets: list[str], name: str) -> str:
    """Return what follows ``name`` in the path of the first resource that has it."""
    for target in targets:
        parts = target.split("/")
        lowered = [part.lower() for part in parts]
        if name in lowered and lowered.index(name) + 1 < len(parts):
            return parts[lowered.index(name) + 1]
    return ""


def _older(data: Mapping[str, Any]) -> Signal:
    """Return an alert of before the common schema: ``status`` and ``context`` (or ``context.activityLog``)."""
    context = mapping(data.get("context"))
    log = mapping(context.get("activityLog")) or mapping(context.get("condition"))
    target = first(context.get("resourceId"), log.get("resourceId"))
    name = first(context.get("name"), log.get("operationName"), "Azure Monitor alert")
    over = status_of(data.get("status"), context.get("status")) == RESOLVED
    return Signal(
        name=name,
        status=RESOLVED if over else FIRING,
        severity=severity_of(context.get("severity") if word(context.get("severity")) else None, log.get("level")),
        labels={
            "resource": first(context.get("resourceName"), target.rpartition("/")[2]),
            **texts(data.get("properties")),
        },
        annotations={"summary": first(context.get("description"), log.get("description")), "target": target},
        starts_at=time_of(context.get("timestamp"), log.get("eventTimestamp")),
        url=first(context.get("portalLink")),
        fingerprint=first(context.get("id"), digest(name, target)[:16]),
        group=f"{name} {target.lower()}",
        about=_about([target] if target else [], []),
    )

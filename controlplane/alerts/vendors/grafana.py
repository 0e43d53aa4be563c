"""Reading Grafana's webhooks: those of unified alerting, and bodies that look alike with members left out.

Source: https://grafana.com/docs/grafana/latest/alerting/configure-notifications/manage-contact-points/integrations/webhook-notifier/
(version 13.2): Alertmanager's members, and ``title``, ``state`` (``alerting`` or ``ok``), ``message``, ``orgId``; of
each alert also ``values``, ``valueString``, ``silenceURL``, ``dashboardURL``, ``panelURL``, ``imageURL``.
"""

from collections.abc import Mapping
from typing import Any, Final

from controlplane.alerts.normalised import (
    RESOLVED,
    digest,
    first,
    marked,
    no_alert,
    require_object,
    status_of,
    texts,
    time_of,
    word,
)
from controlplane.runtimes.loose_json import mapping, objects

_MAPS: Final = ("groupLabels", "commonLabels", "commonAnnotations")
_KEPT: Final = ("receiver", "externalURL", "title", "state", "message")
_LINKS: Final = ("dashboardURL", "panelURL", "silenceURL", "imageURL", "valueString")


def canonical(body: Any) -> dict[str, Any]:
    """Return the body as Alertmanager's webhook of version 4, which it nearly is.

    Raises:
        MalformedRequest: ``not_an_object``.
        InvalidInput: ``invalid_alert``: it has neither alerts nor labels nor a title.
    """
    body = require_object(body)
    maps = {name: texts(body.get(name)) for name in _MAPS}
    alerts = list(objects(body.get("alerts")))
    title = word(body.get("title"))
    if not alerts and not any(maps.values()) and not title:
        raise no_alert("Grafana", ("/alerts", "a list of alerts"), ("/title", "or else a title"))
    state, bare = marked(title)
    status = status_of(body.get("status"), body.get("state"), state)
    name = first(maps["commonLabels"].get("alertname"), maps["groupLabels"].get("alertname"), bare, "Grafana alert")
    singles = [_single(one, maps, name, status) for one in alerts or [{}]]
    if alerts and not word(body.get("status")) and all(one["status"] == RESOLVED for one in singles):
        status = RESOLVED
    return {
        "version": "4",
        "groupKey": first(body.get("groupKey"), _group(body, maps, name)),
        "status": status,
        "truncatedAlerts": body.get("truncatedAlerts"),
        **{key: body[key] for key in _KEPT if isinstance(body.get(key), str)},
        **maps,
        "alerts": singles,
    }


def _single(one: Mapping[str, Any], maps: Mapping[str, dict[str, str]], name: str, status: str) -> dict[str, Any]:
    shared = {"alertname": name} | maps["groupLabels"] | maps["commonLabels"]
    notes = texts(one.get("annotations")) or dict(maps["commonAnnotations"])
    notes |= {key: word(one.get(key)) for key in _LINKS if word(one.get(key))}
    if values := mapping(one.get("values")):
        notes["values"] = ", ".join(f"{key}={value}" for key, value in sorted(texts(values).items()))
    return {
        "status": status_of(one.get("status"), otherwise=status),
        "labels": shared | texts(one.get("labels")),
        "annotations": notes,
        "startsAt": time_of(one.get("startsAt")),
        "endsAt": time_of(one.get("endsAt")),
        "generatorURL": word(one.get("generatorURL")),
        "fingerprint": word(one.get("fingerprint")),
    }


def _group(body: Mapping[str, Any], maps: Mapping[str, dict[str, str]], name: str) -> str:
    """Return a key for a body without ``groupKey``: what its alerts are put together by."""
    labels = maps["groupLabels"] or {key: value for key, value in maps["commonLabels"].items() if key != "severity"}
    return f"{name} {digest(word(body.get('receiver')), labels)[:16]}"

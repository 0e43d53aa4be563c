"""Reading Datadog's webhooks, whose body people write themselves out of Datadog's variables.

Source: https://docs.datadoghq.com/integrations/webhooks/: the default body has ``id``, ``title``, ``body``,
``event_type``, ``last_updated``, ``date`` and ``org``; the variables that matter are ``$ALERT_ID``,
``$ALERT_CYCLE_KEY``, ``$ALERT_TRANSITION``, ``$ALERT_TYPE``, ``$ALERT_PRIORITY``, ``$ALERT_SCOPE``, ``$ALERT_STATUS``,
``$ALERT_TITLE``, ``$AGGREG_KEY``, ``$EVENT_TITLE``, ``$TEXT_ONLY_MSG``, ``$TAGS``, ``$HOSTNAME``, ``$LINK``, ``$DATE``.
A member is found by the variable's name in lower case, with or without ``_``, and by what people call it.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from controlplane.alerts.normalised import (
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
    time_of,
)
from controlplane.alerts.vendors import tolerant
from controlplane.runtimes.loose_json import mapping

#: What an alert has that only Datadog's variables give.
_OWN: Final = (
    "alert_id", "alert_transition", "alert_type", "alert_cycle_key", "alert_scope", "alert_status", "alert_query",
    "aggreg_key", "event_type", "event_title", "last_updated", "monitor_id", "alert_title",
)  # fmt: skip
_NOT_NAMES: Final = re.compile(r"[^a-z0-9]+")


class _Said:
    """The members of a body by their names in lower case without separators; ``alert`` or ``monitor`` may hold them."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._by_name: dict[str, Any] = {}
        for part in (mapping(body.get("monitor")), mapping(body.get("event")), mapping(body.get("alert")), body):
            self._by_name |= {_plain(str(name)): value for name, value in part.items() if value not in (None, "")}

    def __call__(self, *names: str) -> Any:
        """Return the first that is said; a variable that Datadog did not know stands there as ``$NAME``."""
        for name in names:
            value = self._by_name.get(_plain(name))
            if value is not None and not (isinstance(value, str) and re.fullmatch(r"\$[A-Z_0-9]+", value.strip())):
                return value
        return None


def _plain(name: str) -> str:
    return _NOT_NAMES.sub("", name.lower())


def read(body: Any) -> Reading:
    """Return the monitor's alert.

    Raises:
        MalformedRequest, InvalidInput: there is no alert in it.
    """
    body = require_object(body)
    said = _Said(body)
    if all(said(name) is None for name in _OWN) or tolerant.has_labels(body):
        reading = tolerant.try_read(body)
        if reading is None:
            raise no_alert("Datadog", ("/title", "$EVENT_TITLE"), ("/alert_id", "$ALERT_ID"))
        return reading
    state, title = marked(first(said("alert_title"), said("title", "event_title"), said("monitor_name", "name")))
    labels = tags(said("tags", "event_tags")) | tags(said("alert_scope", "scope"))
    if not title and not said("alert_id", "monitor_id", "alert_cycle_key"):
        raise no_alert("Datadog", ("/title", "$EVENT_TITLE"), ("/alert_id", "$ALERT_ID"))
    monitor = first(said("alert_id", "monitor_id"), title)
    scope = first(said("alert_scope", "scope"))
    status = status_of(said("alert_transition", "transition"), state, said("alert_type"), said("status", "state"))
    signal = Signal(
        name=first(title, f"Datadog monitor {monitor}"),
        status=status,
        severity=_severity(said, labels, state),
        labels=labels,
        annotations={
            "summary": first(said("alert_status"), title),
            "description": first(said("text_only_msg", "event_msg"), said("body", "message", "text", "msg")),
            "query": first(said("alert_query", "query")),
            "metric": first(said("alert_metric", "metric")),
            "monitor_id": first(said("alert_id", "monitor_id")),
            "snapshot": first(said("snapshot", "snapshot_url")),
        },
        starts_at=time_of(said("alert_started_at", "date", "date_posix"), said("last_updated")),
        url=first(said("link", "event_url", "url")),
        fingerprint=first(digest(monitor, scope)[:16] if scope else "", said("alert_cycle_key"), monitor),
        group=first(said("alert_id", "monitor_id"), said("aggreg_key", "aggregation_key"), title),
        about={"host": first(said("hostname", "host")), "service": first(said("service"))},
    )
    event_id = first(said("id", "event_id"))
    return Reading(
        signals=[signal],
        delivery_id=f"{event_id} {first(said('alert_transition', 'transition'))}" if event_id else "",
        identifiers={"service": name} if (name := first(labels.get("service"), said("service"))) else {},
        original=body,
    )


def _severity(said: _Said, labels: Mapping[str, str], state: str) -> str:
    """Return what the monitor's tags or its priority say, or else how grave the kind of the alert is."""
    spoken = severity_of(labels.get("severity"), said("severity"), said("alert_priority"))
    if spoken and spoken not in {"normal", "low", "none"}:
        return spoken
    kind = first(said("alert_type")).lower()
    if kind == "warning" or state.startswith("warn"):
        return "warning"
    return {"error": "error", "success": "", "info": "info"}.get(kind, "" if spoken == "normal" else spoken)

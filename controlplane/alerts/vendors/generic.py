"""Reading JSON of one's own: by a mapping from the team's configuration, or else by what the body looks like."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from controlplane.alerts.normalised import (
    FIRING,
    RESOLVED,
    Reading,
    Signal,
    digest,
    first,
    no_alert,
    require_few,
    require_object,
    severity_of,
    status_of,
    texts,
    time_of,
    word,
)
from controlplane.alerts.vendors import azure, cloudwatch, incidentio, opsgenie, pagerduty, sentry, tolerant
from controlplane.configs.alert_sections import AlertMapping
from controlplane.configs.pointers import decode
from controlplane.runtimes.loose_json import mapping, objects

_GONE: Final = object()


def read(body: Any, by: AlertMapping | None = None) -> Reading:
    """Return the alerts in a body.

    Args:
        body: a JSON value.
        by: where the body has what; without it the body is recognised: the shapes of the known vendors, then any.

    Raises:
        MalformedRequest, InvalidInput: there is no alert in it; the mapping's pointer that finds nothing is named.
    """
    return recognised(body) if by is None else _mapped(body, by)


def recognised(body: Any) -> Reading:
    """Return the alerts in a body of a known vendor's shape, or else of any shape that looks like an alert."""
    return next((parser for fits, parser in _SHAPES if isinstance(body, dict) and fits(body)), tolerant.read)(body)


def _of_sentry(body: Mapping[str, Any]) -> bool:
    data = mapping(body.get("data"))
    return bool(
        mapping(data.get("metric_alert")) or mapping(data.get("issue")) or mapping(data.get("event")).get("event_id")
    )


def _of_cloudwatch(body: Mapping[str, Any]) -> bool:
    return "AlarmName" in body or cloudwatch.is_envelope(body) or bool(mapping(body.get("detail")).get("alarmName"))


#: What only one vendor's bodies have.
_SHAPES: Final[tuple[tuple[Callable[[Mapping[str, Any]], bool], Callable[[Any], Reading]], ...]] = (
    (lambda body: bool(mapping(body.get("event")).get("event_type")), pagerduty.read),
    (lambda body: bool(body.get("action") and mapping(body.get("alert")).get("alertId")), opsgenie.read),
    (lambda body: word(body.get("event_type")).startswith(("public_", "private_")), incidentio.read),
    (lambda body: bool(mapping(mapping(body.get("data")).get("essentials"))), azure.read),
    (_of_cloudwatch, cloudwatch.read),
    (_of_sentry, sentry.read),
)


def _mapped(body: Any, by: AlertMapping) -> Reading:
    if not isinstance(body, list):
        require_object(body)
    items = [body]
    if by.alerts is not None:
        found = _at(body, by.alerts)
        items = list(objects(found)) if isinstance(found, list) else [found] if isinstance(found, dict) else []
        require_few(items)
        if not items:
            raise no_alert("this source's mapping", (by.alerts, "the list of alerts"))
    signals = [signal for item in items if (signal := _signal(body, item, by)) is not None]
    if not signals:
        raise no_alert("this source's mapping", (by.name or "", "what the alert is called"))
    services = {signal.about["service"] for signal in signals if signal.about["service"]}
    return Reading(
        signals=signals,
        delivery_id=word(_at(body, by.delivery_id)) if by.delivery_id is not None else "",
        identifiers={"service": services.pop()} if len(services) == 1 else {},
        original=body,
    )


def _signal(body: Any, item: Any, by: AlertMapping) -> Signal | None:
    def said(pointer: str | None) -> str:
        """A pointer is looked up in the alert, then in the body, so that what all share need not be repeated."""
        if pointer is None:
            return ""
        return first(_at(item, pointer), _at(body, pointer))

    fallback = tolerant.try_read(item) if by.name is None else None
    name = said(by.name) or (fallback.signals[0].name if fallback and fallback.signals else "")
    if not name:
        return None
    about = {"service": said(by.service), "host": said(by.host), "workload": said(by.workload)}
    labels = {label: value for label, pointer in by.labels.items() if (value := said(pointer))}
    fingerprint = said(by.fingerprint)
    identity = {label: value for label, value in labels.items() if label != "severity"}
    return Signal(
        name=name,
        status=_status(said(by.status), by),
        severity=severity_of(said(by.severity)),
        labels=labels,
        annotations={"summary": said(by.summary), **_notes(item)},
        starts_at=time_of(_at(item, by.starts_at), _at(body, by.starts_at)) if by.starts_at is not None else "",
        url=said(by.url),
        fingerprint=fingerprint or digest(name, identity, about)[:16],
        group=said(by.group) or f"{name} {digest(about)[:16]}",
        about=about,
    )


def _status(said: str, by: AlertMapping) -> str:
    if not said:
        return FIRING
    if by.resolved_values is None:
        return status_of(said)
    return RESOLVED if said.lower() in {value.lower() for value in by.resolved_values} else FIRING


def _notes(item: Any) -> dict[str, str]:
    """Return the alert's own texts, of which nothing says more."""
    plain = {
        str(name): value
        for name, value in mapping(item).items()
        if isinstance(value, str | int | float) and not isinstance(value, bool) and name != "summary"
    }
    return texts(plain)


def _at(value: Any, pointer: str | None) -> Any:
    """Return what is at a pointer, ``None`` where there is nothing; a list is entered by its index."""
    if pointer is None:
        return None
    for token in decode(pointer):
        if isinstance(value, Mapping):
            value = value.get(token, _GONE)
        elif isinstance(value, list) and token.isdecimal() and len(token) < 6 and int(token) < len(value):
            value = value[int(token)]
        else:
            return None
        if value is _GONE:
            return None
    return value

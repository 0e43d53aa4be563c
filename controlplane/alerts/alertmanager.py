"""Reading Alertmanager's webhook, version 4.

Source: https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from controlplane.alerts.building import VERSION, delivery_of
from controlplane.alerts.delivery import Delivery
from controlplane.alerts.models import GroupStatus, Source
from controlplane.core.errors import FieldError, InvalidInput, MalformedRequest
from controlplane.core.redaction import redact_text

_LISTED_ERRORS: Final = 10
_MAPS: Final = ("groupLabels", "commonLabels", "commonAnnotations")


def delivery_read(body: Any) -> Delivery:
    """Return what a webhook's body says.

    Args:
        body: a JSON value. Members that version 4 does not have are ignored.

    Raises:
        MalformedRequest: ``not_an_object``.
        InvalidInput: ``invalid_alert``; ``errors`` names the fields and the rules they break.
    """
    if not isinstance(body, dict):
        raise MalformedRequest("The body must be a JSON object.", code="not_an_object")
    errors: list[FieldError] = []
    for fault in _faults(body):
        errors.append(fault)
        if len(errors) == _LISTED_ERRORS:
            break
    if errors:
        first = errors[0]
        detail = f"This is no Alertmanager webhook of version 4: {first.pointer}: {first.detail}"
        raise InvalidInput(detail, code="invalid_alert", errors=errors)
    return delivery_of(body, source=Source.ALERTMANAGER.value)


def _faults(body: Mapping[str, Any]) -> Iterator[FieldError]:
    if str(body.get("version", "")) != VERSION:
        yield FieldError("/version", "unsupported_version", 'This must be "4".')
    key = body.get("groupKey")
    if not isinstance(key, str) or not key.strip():
        yield FieldError("/groupKey", "required", "This must be a text that names the group.")
    yield from _status_faults("/status", body.get("status"))
    for name in _MAPS:
        yield from _member_faults(f"/{name}", body.get(name))
    alerts = body.get("alerts")
    if not isinstance(alerts, list):
        yield FieldError("/alerts", "not_a_list", "This must be a list of alerts.")
        return
    for index, alert in enumerate(alerts):
        yield from _alert_faults(f"/alerts/{index}", alert)


def _alert_faults(pointer: str, alert: Any) -> Iterator[FieldError]:
    if not isinstance(alert, dict):
        yield FieldError(pointer, "not_an_object", "An alert is an object.")
        return
    if "status" in alert:
        yield from _status_faults(f"{pointer}/status", alert["status"])
    for name in ("labels", "annotations"):
        yield from _member_faults(f"{pointer}/{name}", alert.get(name))


def _status_faults(pointer: str, value: Any) -> Iterator[FieldError]:
    if value not in GroupStatus.values:
        yield FieldError(pointer, "unknown_status", "This must be firing or resolved.")


def _member_faults(pointer: str, value: Any) -> Iterator[FieldError]:
    if value is None:
        return
    if not isinstance(value, dict):
        yield FieldError(pointer, "not_an_object", "This must be an object of texts.")
        return
    for name, item in value.items():
        if isinstance(item, dict | list):
            escaped = redact_text(name[:200])[:80].replace("~", "~0").replace("/", "~1")
            yield FieldError(f"{pointer}/{escaped}", "not_a_text", "This must be a text.")

"""Reading Alertmanager's webhook, version 4.

Source: https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson

from controlplane.alerts.bounding import MAX_ALERTS, Notes, bounded_members, bounded_text, one_line, redacted
from controlplane.alerts.delivery import Delivery
from controlplane.alerts.models import GroupStatus, Source
from controlplane.core.errors import FieldError, InvalidInput, MalformedRequest
from controlplane.core.redaction import redact_text
from controlplane.runtimes.loose_json import moment

VERSION: Final = "4"
MAX_FINGERPRINTS: Final = 5_000
"""How many alerts of one group are told apart; more are counted, not known one by one."""
_LISTED_ERRORS: Final = 10
_MAPS: Final = ("groupLabels", "commonLabels", "commonAnnotations")
_TEXTS: Final = ("receiver", "externalURL", "title", "state", "message")  # the last three: what Grafana adds
_ALERT_TEXTS: Final = ("startsAt", "endsAt", "generatorURL", "fingerprint")
_ROUTING_CHARS: Final = 1_000
#: Labels that say what an alert is about, and what to call them.
_OBJECTS: Final = {
    "service": "service", "service_name": "service", "app": "service", "job": "job", "deployment": "deployment",
    "pod": "pod", "instance": "instance", "node": "node",
}  # fmt: skip
_SUMMARIES: Final = ("summary", "description", "message")


@dataclass(frozen=True, slots=True)
class _Alert:
    """One alert with its members as they came."""

    status: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    texts: Mapping[str, str]

    @property
    def fires(self) -> bool:
        return self.status == GroupStatus.FIRING

    @property
    def digest(self) -> str:
        """A digest of Alertmanager's fingerprint, which tells the group's alerts apart, or else of the labels."""
        identity = self.texts.get("fingerprint") or orjson.dumps(sorted(self.labels.items())).decode()
        return hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:16]


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
    return _delivery(body, [_alert(item, body["status"]) for item in body["alerts"]])


def _delivery(body: Mapping[str, Any], alerts: Sequence[_Alert]) -> Delivery:
    firing = [alert for alert in alerts if alert.fires]
    kept = [*firing, *(alert for alert in alerts if not alert.fires)][:MAX_ALERTS]
    digests = sorted({alert.digest for alert in firing})[:MAX_FINGERPRINTS]
    common = _common(body, alerts)
    document = redacted(_document(body, kept, common, total=len(alerts) + _truncated(body)))
    labels = document.pop("labels")
    shown = document["alerts"]
    first = shown[0] if shown else {"labels": {}, "annotations": {}}
    notes = {**first["annotations"], **document["commonAnnotations"]}
    named = {**first["labels"], **labels}
    return Delivery(
        source=Source.ALERTMANAGER,
        group_key=hashlib.sha256(body["groupKey"].encode("utf-8", "replace")).hexdigest(),
        group_text=one_line(document["groupKey"], 500),
        status=body["status"],
        title=one_line(named.get("alertname", ""), 200) or "(no name)",
        severity=one_line(named.get("severity", ""), 40),
        about=_about(named),
        summary=next((line for key in _SUMMARIES if (line := one_line(notes.get(key, ""), 500))), ""),
        labels=labels,
        firing=frozenset(digests),
        names={raw.digest: _name(alert) for raw, alert in zip(kept, shown, strict=False) if raw.fires},
        firing_count=len(firing),
        starts_at=_starts_at(firing),
        routing_labels={name: value[:_ROUTING_CHARS] for name, value in common.items()},
        payload=document,
    )


def _document(body: Mapping[str, Any], kept: Sequence[_Alert], common: Mapping[str, str], total: int) -> dict[str, Any]:
    """Return the bounded body, not yet redacted, with ``intake``: what was left out of it."""
    notes = Notes()
    if total > len(kept):
        notes.add(f"{len(kept)} of {total:,} alerts are kept, the firing ones first")
    texts = {name: bounded_text(body[name], name, notes) for name in _TEXTS if isinstance(body.get(name), str)}
    document = {
        "version": VERSION,
        "groupKey": bounded_text(body["groupKey"], "groupKey", notes),
        "status": body["status"],
        **texts,
        **{
            name: bounded_members(_members(body.get(name)), name, notes)
            for name in ("groupLabels", "commonAnnotations")
        },
        "commonLabels": bounded_members(_members(body.get("commonLabels")) or common, "commonLabels", notes),
        "labels": bounded_members(common, "labels", Notes()),
        "alerts": [
            {
                "status": alert.status,
                "labels": bounded_members(alert.labels, f"alerts/{index}/labels", notes),
                "annotations": bounded_members(alert.annotations, f"alerts/{index}/annotations", notes),
                **{name: bounded_text(value, f"alerts/{index}/{name}", notes) for name, value in alert.texts.items()},
            }
            for index, alert in enumerate(kept)
        ],
    }
    return document | {"intake": {"alerts_total": total, "alerts_kept": len(kept), "cut": notes.listed()}}


def _alert(item: Mapping[str, Any], status: str) -> _Alert:
    texts = {name: item[name] for name in _ALERT_TEXTS if isinstance(item.get(name), str)}
    return _Alert(item.get("status", status), _members(item.get("labels")), _members(item.get("annotations")), texts)


def _members(value: Any) -> dict[str, str]:
    return {name: _scalar_text(item) for name, item in (value or {}).items()}


def _scalar_text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _truncated(body: Mapping[str, Any]) -> int:
    """Return how many alerts Alertmanager itself left out (its ``max_alerts``)."""
    count = body.get("truncatedAlerts")
    return count if isinstance(count, int) and not isinstance(count, bool) and 0 < count < 10**9 else 0


def _common(body: Mapping[str, Any], alerts: Sequence[_Alert]) -> dict[str, str]:
    """Return the labels all alerts share; where the sender does not say, they are compared."""
    said = {**_members(body.get("groupLabels")), **_members(body.get("commonLabels"))}
    if said or not alerts:
        return said
    shared = dict(alerts[0].labels)
    for alert in alerts[1:]:
        shared = {name: value for name, value in shared.items() if alert.labels.get(name) == value}
    return shared


def _about(labels: Mapping[str, str]) -> str:
    """Return for whom the alert fires, as the end of a sentence."""
    found = ((word, one_line(labels.get(name, ""), 120)) for name, word in _OBJECTS.items())
    return next((f" for {word} {value}" for word, value in found if value), "")


def _name(alert: Mapping[str, Any]) -> str:
    labels = alert["labels"]
    title = one_line(labels.get("alertname", ""), 80) or "an alert without a name"
    # The most particular label tells alerts of one group apart.
    where = next((value for name in reversed(_OBJECTS) if (value := one_line(labels.get(name, ""), 80))), "")
    return f"{title} on {where}" if where else title


def _starts_at(firing: Iterable[_Alert]) -> datetime | None:
    times = (moment(alert.texts.get("startsAt")) for alert in firing)
    return min((at for at in times if at is not None and at.year > 1970), default=None)


# ---- the form ----------------------------------------------------------------------------------------------------


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

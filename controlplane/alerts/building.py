"""Making deliveries out of alerts in Alertmanager's form, whoever sent them: bounded, redacted, told apart."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson

from controlplane.alerts.bounding import (
    MAX_ALERTS,
    Notes,
    bounded_members,
    bounded_text,
    bounded_value,
    one_line,
    redacted,
)
from controlplane.alerts.delivery import Delivery, Single
from controlplane.alerts.models import GroupStatus
from controlplane.alerts.normalised import URGENT, Reading, Signal, about_of, digest, severity_of, shared
from controlplane.core.errors import PayloadTooLarge
from controlplane.core.redaction import redact_json
from controlplane.runtimes.loose_json import moment

VERSION: Final = "4"
MAX_FINGERPRINTS: Final = 5_000
"""How many alerts of one group are told apart; more are counted, not known one by one."""
MAX_SINGLES: Final = 200
"""How many alerts of one delivery are kept each with a fate of its own; the others share the group's."""
MAX_GROUPS: Final = 50
"""How many groups one delivery may have alerts of."""
_TEXTS: Final = ("receiver", "externalURL", "title", "state", "message")  # the last three: what Grafana adds
_ALERT_TEXTS: Final = ("startsAt", "endsAt", "generatorURL", "fingerprint")
_ROUTING_CHARS: Final = 1_000
_DETAIL_CHARS: Final = 1_000
#: Labels that say what an alert is about, and what to call them.
_OBJECTS: Final = {
    "service": "service", "service_name": "service", "app": "service", "job": "job", "deployment": "deployment",
    "pod": "pod", "workload": "workload", "instance": "instance", "host": "host", "node": "node",
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


def deliveries_of(reading: Reading, *, source: str) -> list[Delivery]:
    """Return a reading as deliveries, one for each group that the vendor puts alerts into, in their order.

    Raises:
        PayloadTooLarge: ``too_many_groups``.
    """
    groups: dict[str, list[Signal]] = {}
    for signal in reading.signals:
        groups.setdefault(signal.group or signal.name, []).append(signal)
    if len(groups) > MAX_GROUPS:
        detail = f"One delivery has alerts of at most {MAX_GROUPS} groups here; this one has {len(groups):,}."
        raise PayloadTooLarge(detail, code="too_many_groups")
    return [
        delivery_of(
            _canonical(key, signals),
            source=source,
            whole=False,
            delivery_id=reading.delivery_id,
            identifiers=reading.identifiers,
            original=reading.original if len(groups) == 1 else None,
        )
        for key, signals in groups.items()
    ]


def _canonical(key: str, signals: Sequence[Signal]) -> dict[str, Any]:
    alerts = [signal.canonical() for signal in signals]
    fires = any(signal.status == GroupStatus.FIRING for signal in signals)
    return {
        "version": VERSION,
        "groupKey": key,
        "status": GroupStatus.FIRING if fires else GroupStatus.RESOLVED,
        "commonLabels": shared(alert["labels"] for alert in alerts),
        "commonAnnotations": shared(alert["annotations"] for alert in alerts),
        "alerts": alerts,
    }


def delivery_of(
    body: Mapping[str, Any],
    *,
    source: str,
    whole: bool = True,
    delivery_id: str = "",
    identifiers: Mapping[str, str] | None = None,
    original: Any = None,
) -> Delivery:
    """Return the delivery that a checked body of Alertmanager's version 4 is.

    Args:
        body: the body, whose members are of the types that version 4 has.
        source: who sent it.
        whole: whether it tells the state of the whole group, as Alertmanager's do, or of some of its alerts.
        delivery_id: the vendor's id of the delivery, ``""`` where it has none.
        identifiers: kinds of routes and their keys, beside the labels.
        original: the vendor's own body, of which a part is kept.
    """
    alerts = [_alert(item, body["status"]) for item in body["alerts"]]
    firing = [alert for alert in alerts if alert.fires]
    kept = [*firing, *(alert for alert in alerts if not alert.fires)][:MAX_ALERTS]
    digests = sorted({alert.digest for alert in firing})[:MAX_FINGERPRINTS]
    common = _common(body, alerts)
    document = redacted(_document(body, kept, common, total=len(alerts) + _truncated(body), original=original))
    labels = document.pop("labels")
    shown = document["alerts"]
    first = shown[0] if shown else {"labels": {}, "annotations": {}}
    notes = {**first["annotations"], **document["commonAnnotations"]}
    named = {**first["labels"], **labels}
    return Delivery(
        source=source,
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
        whole=whole,
        singles=_singles([*firing, *(alert for alert in alerts if not alert.fires)][:MAX_SINGLES]),
        key=digest(source, delivery_id, body["groupKey"]) if delivery_id else "",
        identifiers=dict(identifiers or {}),
        urgent=any(severity_of(alert.labels.get("severity")) in URGENT for alert in firing),
    )


def _singles(alerts: Sequence[_Alert]) -> tuple[Single, ...]:
    """Return the alerts one by one, each once, with the little of them that a list shows and their texts, bounded."""
    raw = {alert.digest: alert for alert in reversed(alerts)}
    notes = Notes()
    documents: Any = redact_json(
        [
            {
                "labels": bounded_members(alert.labels, "labels", notes),
                "annotations": bounded_members(alert.annotations, "annotations", notes),
                "url": bounded_text(alert.texts.get("generatorURL", ""), "generatorURL", notes),
            }
            for alert in raw.values()
        ]
    )
    return tuple(_single(key, alert, document) for (key, alert), document in zip(raw.items(), documents, strict=True))[
        ::-1
    ]


def _single(key: str, alert: _Alert, document: Mapping[str, Any]) -> Single:
    labels, notes = document["labels"], document["annotations"]
    about = about_of(labels)
    return Single(
        digest=key,
        status=GroupStatus.FIRING.value if alert.fires else GroupStatus.RESOLVED.value,
        name=one_line(labels.get("alertname", ""), 200) or "(no name)",
        severity=one_line(labels.get("severity", ""), 40),
        service=one_line(about["service"], 200),
        host=one_line(about["host"], 200),
        workload=one_line(about["workload"], 200),
        summary=next((line for name in _SUMMARIES if (line := one_line(notes.get(name, ""), 500))), ""),
        url=_link(document["url"]),
        starts_at=_began(alert),
        details={
            "labels": {name: _cut(value) for name, value in labels.items()},
            "annotations": {name: _cut(value) for name, value in notes.items()},
        },
    )


def _link(url: str) -> str:
    """Return an address that may stand in a page as a link: of the web, short and on one line."""
    fit = url.startswith(("https://", "http://")) and len(url) <= 1_000 and url.isprintable() and " " not in url
    return url if fit else ""


def _cut(text: str) -> str:
    return text if len(text) <= _DETAIL_CHARS else text[: _DETAIL_CHARS - 1] + "…"


def _began(alert: _Alert) -> datetime | None:
    at = moment(alert.texts.get("startsAt"))
    return at if at is not None and at.year > 1970 else None


def _document(
    body: Mapping[str, Any], kept: Sequence[_Alert], common: Mapping[str, str], total: int, original: Any
) -> dict[str, Any]:
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
    if original is not None:
        document["original"] = bounded_value(original, notes)
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
    return min((at for at in map(_began, firing) if at is not None), default=None)

"""What every vendor's parser makes of a body: alerts in one form, whatever they looked like.

A parser is a pure function from a JSON value to a :class:`Reading`. It keeps to what its vendor documents, takes what
is missing or of another type as not said, and never raises but for a body in which there is no alert at all.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import orjson

from controlplane.core.errors import FieldError, InvalidInput, MalformedRequest, PayloadTooLarge
from controlplane.runtimes.loose_json import mapping, moment, text

MAX_ITEMS: Final = 5_000
"""How many alerts of one body are read, but for Alertmanager's and Grafana's, of which more are counted."""
FIRING: Final = "firing"
RESOLVED: Final = "resolved"
#: Words of all vendors for "it is over"; every other word means that it goes on.
_OVER: Final = frozenset(
    {
        "resolved", "resolve", "ok", "okay", "closed", "close", "recovered", "recovery", "normal", "inactive",
        "cleared", "clear", "expired", "fixed", "healthy", "success", "succeeded", "up", "ended", "deactivated",
        "ignored", "done", "archived", "declined", "canceled", "cancelled", "merged", "green", "solved",
        "deleted", "delete",
    }
)  # fmt: skip
#: Codes that vendors use for severities, in the words they give them. Sources: Opsgenie, "What is a priority"; Datadog,
#: "Monitors, priority"; Azure Monitor, "Common alert schema".
_SEVERITY_WORDS: Final = {
    "p0": "critical", "p1": "critical", "p2": "high", "p3": "medium", "p4": "low", "p5": "info",
    "sev0": "critical", "sev1": "error", "sev2": "warning", "sev3": "info", "sev4": "verbose", "warn": "warning",
    "crit": "critical", "err": "error", "informational": "info", "moderate": "medium", "1": "critical", "2": "high",
    "3": "medium", "4": "low", "5": "info",
}  # fmt: skip
#: Labels and members that say what an alert is about, the telling ones first.
SERVICES: Final = ("service", "service_name", "serviceName", "app", "application", "app_name", "component", "system",
                   "pipeline_name", "queue", "dag_id", "job_name", "project", "entity", "resource",
                   "cluster")  # fmt: skip
HOSTS: Final = ("host", "hostname", "host_name", "instance", "server", "node", "node_name", "instance_id", "device")
WORKLOADS: Final = ("workload", "deployment", "kube_deployment", "statefulset", "kube_stateful_set", "daemonset",
                    "kube_daemon_set", "kube_job", "cronjob", "pod", "pod_name", "container", "container_name", "job",
                    "namespace", "kube_namespace")  # fmt: skip
#: Severities that wait for nothing.
URGENT: Final = frozenset({"critical", "fatal", "emergency", "disaster", "page", "blocker"})
_OWN_HOSTS: Final = ("_instance", "_host", "_node")
#: A state in front of a title: "[FIRING:2] …", "[Triggered] …", "[Recovered] …".
_MARKED: Final = re.compile(
    r"^\s*\[(?P<state>firing|alerting|triggered|re-triggered|warn|warning|alert|no data|resolved|recovered|ok|closed)"
    r"(?::\d+)?(?:[^\]]{0,40})\]\s*(?P<rest>.*)$",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Signal:
    """One alert. Texts are as they came: nothing here is redacted or bounded yet.

    ``fingerprint`` tells alerts of a group apart and stays the same from firing to resolved; ``group`` is what the
    vendor puts together; alerts with the same ``group`` share a thread. ``about`` has the labels ``service``, ``host``
    and ``workload`` where the vendor's members say them and no label does.
    """

    name: str
    status: str = FIRING
    severity: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    starts_at: str = ""
    ends_at: str = ""
    url: str = ""
    fingerprint: str = ""
    group: str = ""
    about: Mapping[str, str] = field(default_factory=dict)

    def canonical(self) -> dict[str, Any]:
        """Return the alert as Alertmanager would put it, which is the form that the rest of intake works with."""
        labels = {name: value for name, value in self.about.items() if value and not self.labels.get(name)}
        labels |= {name: value for name, value in self.labels.items() if value}
        named = {"alertname": self.name} | labels
        if self.severity:
            named["severity"] = self.severity
        return {
            "status": self.status,
            "labels": named,
            "annotations": {name: value for name, value in self.annotations.items() if value},
            "startsAt": self.starts_at,
            "endsAt": self.ends_at,
            "generatorURL": self.url,
            "fingerprint": self.fingerprint,
        }


@dataclass(frozen=True, slots=True)
class Reading:
    """What a delivery says.

    ``delivery_id`` is the vendor's own id of the delivery, the same when it is sent again. ``occurred_at`` is when the
    vendor made it. ``identifiers`` are kinds of routes (``pagerduty_service_id``, …) with their keys. ``ignored`` says
    why a delivery that is in order has no alert in it. ``original`` is the body, of which a bounded part is kept.
    """

    signals: Sequence[Signal] = ()
    delivery_id: str = ""
    occurred_at: datetime | None = None
    identifiers: Mapping[str, str] = field(default_factory=dict)
    ignored: str = ""
    original: Any = None


def require_object(body: Any) -> Mapping[str, Any]:
    """Return the body if it is an object.

    Raises:
        MalformedRequest: ``not_an_object``.
    """
    if not isinstance(body, dict):
        raise MalformedRequest("The body must be a JSON object.", code="not_an_object")
    return body


def require_few(items: Sequence[Any]) -> None:
    """Refuse a body with more alerts than are read at once.

    Raises:
        PayloadTooLarge: ``too_many_alerts``.
    """
    if len(items) > MAX_ITEMS:
        detail = f"One delivery has at most {MAX_ITEMS:,} alerts here; this one has {len(items):,}."
        raise PayloadTooLarge(detail, code="too_many_alerts")


def no_alert(vendor: str, *missing: tuple[str, str]) -> InvalidInput:
    """Return the error of a body in which there is no alert: ``invalid_alert``, naming what was looked for."""
    errors = [FieldError(pointer, "required", rule) for pointer, rule in missing]
    where = "; ".join(f"{error.pointer or 'the body'}: {error.detail}" for error in errors)
    return InvalidInput(f"This is no alert of {vendor}: {where}", code="invalid_alert", errors=errors)


def word(value: Any) -> str:
    """Return a text of one line without what surrounds it; a number as a text, anything else as nothing."""
    said = text(value)
    return " ".join(said[:4_000].split()) if said else ""


def first(*values: Any) -> str:
    """Return the first of some values that says anything, as :func:`word`."""
    return next((said for said in map(word, values) if said), "")


def texts(members: Any) -> dict[str, str]:
    """Return the members of an object as texts: nested values as JSON, null left out."""
    kept: dict[str, str] = {}
    for name, value in mapping(members).items():
        if value is None:
            continue
        if isinstance(value, str):
            kept[str(name)] = value
        elif isinstance(value, bool):
            kept[str(name)] = "true" if value else "false"
        elif isinstance(value, int | float):
            kept[str(name)] = str(value)
        else:
            kept[str(name)] = orjson.dumps(value, default=str)[:4_000].decode("utf-8", "replace")
    return kept


def tags(values: Any) -> dict[str, str]:
    """Return ``name:value`` tags as labels; a tag without a value is true. A text is split at commas."""
    listed = values.split(",") if isinstance(values, str) else values if isinstance(values, list) else []
    found: dict[str, str] = {}
    for item in listed[:500]:
        if isinstance(item, list | tuple) and len(item) == 2:  # Sentry's pairs
            name, value = word(item[0]), word(item[1])
        else:
            name, separator, value = word(item).partition(":")
            value = value.strip() if separator else "true"
        if name:
            found.setdefault(name.strip(), value)
    return found


def status_of(*values: Any, otherwise: str = FIRING) -> str:
    """Return the status that the first word that says anything means."""
    said = first(*values).lower()
    if not said:
        return otherwise
    return RESOLVED if said in _OVER else FIRING


def severity_of(*values: Any) -> str:
    """Return the first severity that is said, in lower case, codes such as P1 and Sev0 in their vendors' words."""
    said = first(*values).lower()[:40]
    return _SEVERITY_WORDS.get(said.replace(" ", "").replace("-", ""), said)


def marked(title: str) -> tuple[str, str]:
    """Return the state in front of a title, ``""`` if there is none, and the title without it."""
    match = _MARKED.match(title)
    if match is None or not match["rest"].strip():
        return "", title.strip()
    return match["state"].lower(), match["rest"].strip()


def time_of(*values: Any) -> str:
    """Return the first readable time in ISO 8601, ``""`` if there is none; year 1 stands for none."""
    for value in values:
        numeric = int(value) if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20 else value
        at = moment(_scaled(numeric))
        if at is not None and 1970 < at.year < 9000:
            return at.isoformat().replace("+00:00", "Z")
    return ""


def _scaled(value: Any) -> Any:
    """Return a number of micro- or nanoseconds since 1970 as milliseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    scaled = float(value)
    for _ in range(2):  # milliseconds have 13 digits until the year 2286, microseconds 16, nanoseconds 19
        scaled = scaled / 1_000 if scaled >= 1e14 else scaled
    return scaled


def about_of(labels: Mapping[str, str]) -> dict[str, str]:
    """Return what labels say an alert is about: ``service``, ``host`` and ``workload``, each ``""`` if unsaid."""
    host = _among(labels, HOSTS)
    return {
        "service": _among(labels, SERVICES),
        "host": host or next((labels[name] for name in labels if name.endswith(_OWN_HOSTS)), ""),
        "workload": _among(labels, WORKLOADS),
    }


def _among(labels: Mapping[str, str], names: Sequence[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def digest(*parts: Any) -> str:
    """Return a digest of some JSON values, whatever their members' order."""
    encoded = orjson.dumps(parts, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=str)
    return hashlib.sha256(encoded).hexdigest()


def shared(maps: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the members that all of some objects have alike."""
    rest = iter(maps)
    common = dict(next(rest, {}))
    for other in rest:
        common = {name: value for name, value in common.items() if other.get(name) == value}
    return common

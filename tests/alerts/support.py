"""Webhooks as Alertmanager sends them, and their delivery."""

from collections.abc import Mapping
from typing import Any

from controlplane.alerts.alertmanager import delivery_read
from controlplane.alerts.models import AlertGroup
from controlplane.alerts.services import Ingested, alert_ingest
from controlplane.core.actor import Actor
from controlplane.investigations.models import Run, RunStatus, Thread
from controlplane.investigations.services import run_interrupt
from tests.factories import Tree, actor_for_token, make_team_token

URL = "/api/v1/alerts/alertmanager"
KEY = '{}/{severity="critical"}:{alertname="HighErrorRate"}'
STARTED = "2026-03-03T08:00:00.123456789Z"


def alert(name: str = "a", *, status: str = "firing", **more: Any) -> dict[str, Any]:
    """Return one alert; ``name`` tells it from others."""
    return {
        "status": status,
        "labels": {"alertname": "HighErrorRate", "severity": "critical", "service": "checkout", "pod": f"pod-{name}"},
        "annotations": {"summary": "5xx above 5 %", "description": f"Pod pod-{name} answers 503."},
        "startsAt": STARTED,
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus.example.com/graph?g0.expr=up",
        "fingerprint": f"00000000000000{name}",
        **more,
    }


def webhook(*alerts: Mapping[str, Any], status: str = "firing", **more: Any) -> dict[str, Any]:
    """Return a webhook of version 4; by default with one firing alert."""
    return {
        "version": "4",
        "groupKey": KEY,
        "truncatedAlerts": 0,
        "status": status,
        "receiver": "opensre",
        "groupLabels": {"alertname": "HighErrorRate"},
        "commonLabels": {"alertname": "HighErrorRate", "severity": "critical", "service": "checkout"},
        "commonAnnotations": {"summary": "5xx above 5 %"},
        "externalURL": "http://alertmanager.example.com:9093",
        "alerts": list(alerts) or [alert(status=status)],
        **more,
    }


def resolved(*names: str) -> dict[str, Any]:
    """Return the webhook that says that everything has ended."""
    return webhook(*(alert(name, status="resolved") for name in names or ("a",)), status="resolved")


def ingest_token(tree: Tree) -> str:
    """Return a token of the team ``payments`` that may deliver alerts and nothing else."""
    return make_team_token(tree.payments, ["alerts:ingest"])


def sender(tree: Tree) -> Actor:
    """Return the actor of :func:`ingest_token`."""
    return actor_for_token(ingest_token(tree))


def deliver(actor: Actor, body: Mapping[str, Any]) -> Ingested:
    """Take a webhook in, as the view does."""
    return alert_ingest(actor=actor, delivery=delivery_read(body))


def end_run(tree: Tree) -> Run:
    """End the active run of the only thread."""
    thread = Thread.objects.get()
    run_interrupt(actor=tree.system, thread_id=thread.pk)
    return Run.objects.filter(thread=thread).order_by("-number")[0]


def active_runs() -> int:
    return Run.objects.filter(status=RunStatus.QUEUED).count()


def the_group() -> AlertGroup:
    return AlertGroup.objects.get()


def kept_alert(number: int = 1) -> dict[str, Any]:
    """Return the alert that the run of this number was given."""
    kept = Run.objects.get(number=number).alert
    assert isinstance(kept, dict)
    return kept


def pods(number: int = 1) -> list[str]:
    """Return the pods of the alerts that the run of this number was given, in their order."""
    return [one["labels"]["pod"] for one in kept_alert(number)["alerts"]]

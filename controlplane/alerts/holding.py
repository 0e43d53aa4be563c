"""Groups of alerts that wait whether they resolve by themselves, before a run is started for them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from controlplane.alerts.bounding import MAX_ALERTS
from controlplane.alerts.delivery import Delivery
from controlplane.alerts.models import AlertGroup
from controlplane.core import clock
from controlplane.core.actor import Actor, ActorKind, Channel


def hold(group: AlertGroup, delivery: Delivery, intake: Actor, debounce: timedelta) -> None:
    """Let a group wait, from its first delivery on; what came later is what the run will be started with.

    The caller holds the group's row and writes it.
    """
    if group.held_until is None:
        group.held_until = clock.now() + debounce
    elif group.held is not None and not delivery.whole:
        delivery = _merged(Delivery.from_json(group.held["delivery"]), delivery)
    group.held = {"delivery": delivery.as_json(), "sender": _sender(intake)}


def is_due(group: AlertGroup) -> bool:
    """Return whether a group has waited long enough."""
    return group.held_until is not None and group.held_until <= clock.now()


def held_read(held: Mapping[str, Any]) -> tuple[Delivery, Actor]:
    """Return what a run is to be started with, and in whose name."""
    sender = held["sender"]
    actor = Actor(
        kind=ActorKind(sender["kind"]),
        principal=sender["principal"],
        label=sender["label"],
        organization_id=UUID(sender["organization_id"]),
        scopes=frozenset(),
        token_node_id=UUID(sender["node_id"]),
        credential_id=sender["credential_id"],
        channel=Channel.ALERT,
    )
    return Delivery.from_json(held["delivery"]), actor


def held_clear(group: AlertGroup) -> None:
    """Let a group wait no longer; the caller writes it."""
    group.held_until, group.held = None, None


def _sender(intake: Actor) -> dict[str, Any]:
    return {
        "kind": intake.kind.value,
        "principal": intake.principal,
        "label": intake.label,
        "organization_id": str(intake.organization_id),
        "node_id": str(intake.token_node_id),
        "credential_id": intake.credential_id,
    }


def _merged(before: Delivery, now: Delivery) -> Delivery:
    """Return a delivery with the alerts of the one before, so that a run sees all that waited for it."""
    seen = list(now.payload.get("alerts", ()))
    told = {str(alert.get("fingerprint") or alert) for alert in seen}
    rest = [alert for alert in before.payload.get("alerts", ()) if str(alert.get("fingerprint") or alert) not in told]
    return replace(
        now,
        payload={**now.payload, "alerts": [*seen, *rest][:MAX_ALERTS]},
        names={**before.names, **now.names},
        urgent=now.urgent or before.urgent,
    )

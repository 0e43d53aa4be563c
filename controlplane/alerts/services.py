"""Taking alerts in: one run for a group of alerts, however often and from however many senders it arrives."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from django.db import transaction

from controlplane.alerts import metrics
from controlplane.alerts.delivery import Delivery
from controlplane.alerts.models import AlertGroup, GroupStatus, Source
from controlplane.alerts.policy import repeat_window
from controlplane.alerts.routing import team_route
from controlplane.audit.services import audit_record
from controlplane.configs.selectors import config_effective
from controlplane.core import clock
from controlplane.core.actor import Actor, Channel
from controlplane.core.permissions import RULES, Action
from controlplane.investigations.selectors import run_active
from controlplane.investigations.services import News, Telling, investigation_start, thread_tell
from controlplane.orgs.models import Node

MAX_TOLD = 5_000


class Taken(StrEnum):
    """What became of a delivery."""

    STARTED = "started"
    COALESCED = "coalesced"
    UPDATED = "updated"
    REPEATED = "repeated"
    RESOLVED = "resolved"


_TOLD: Final = ("thread", "fingerprints", "told_status", "pending_message")
#: What a delivery that told the thread nothing is called, by whether its alerts fire.
_UNTOLD: Final = {
    (Telling.KNOWN, True): Taken.COALESCED,
    (Telling.KNOWN, False): Taken.RESOLVED,
    # People's messages take all the room there is: a later delivery tells, for the group does not count this as told.
    (Telling.NO_ROOM, True): Taken.COALESCED,
    (Telling.NO_ROOM, False): Taken.COALESCED,
    (Telling.IDLE, True): Taken.REPEATED,
    (Telling.IDLE, False): Taken.RESOLVED,
}


@dataclass(frozen=True, slots=True)
class Ingested:
    """A delivery's group, and the run it belongs to: the active one or else the last one, if there was any."""

    group: AlertGroup
    action: Taken
    run_id: UUID | None


def alert_ingest(*, actor: Actor, delivery: Delivery) -> Ingested:
    """Take a delivery in. Deliveries of one group come one after the other, so two at once start one run.

    While a run of the group works, a repeat is counted (``coalesced``), and alerts that joined or another status are
    told to it (``updated``) with at most one message waiting. Otherwise alerts that fire start a run (``started``), on
    the group's thread if it has one, unless they are those already looked at and the repeat window of the team's
    configuration is not over (``repeated``); the end of the alerts is recorded (``resolved``).

    Args:
        actor: needs ``alert.ingest`` on the team; nothing else: the run is started by the intake in its name.
        delivery: what arrived, redacted and bounded.

    Raises:
        PermissionDenied, InvalidInput: see :func:`team_route`.
    """
    team = team_route(actor=actor, labels=delivery.routing_labels)
    intake = _intake(actor, team, Source(delivery.source))
    with transaction.atomic():
        group = _group_locked(team, delivery)
        turned = group.deliveries > 0 and group.status != delivery.status
        changed = _record(group, delivery)
        action, run_id = _act(intake, team, group, delivery)
        told = action in {Taken.STARTED, Taken.UPDATED}
        # A repeat writes its counters alone, not thousands of digests.
        group.save(update_fields=[*changed, *_TOLD] if told else changed)
        if turned or told:
            # Repeats are counted in the row alone: a record for each would let a noisy source hold the audit chain.
            _audit(actor.via(Channel.ALERT), group, action, run_id)
        transaction.on_commit(metrics.deliveries_total.labels(source=group.source, action=action.value).inc)
    return Ingested(group, action, run_id)


def _intake(actor: Actor, team: Node, source: Source) -> Actor:
    """Return the actor in whose name the intake starts runs: the credential, no person, and this team alone.

    It is called what it is to people, ``Alertmanager``; who holds the credential stays its principal.

    A token that alert sources hold needs no right to start runs of its own choice.
    """
    return Actor(
        kind=actor.kind,
        principal=actor.principal,
        label=source.label,
        organization_id=team.organization_id,
        scopes=RULES[Action.RUN_CREATE].scopes,
        token_node_id=team.pk,
        credential_id=actor.credential_id,
        channel=Channel.ALERT,
        address=actor.address,
    )


def _group_locked(team: Node, delivery: Delivery) -> AlertGroup:
    groups = AlertGroup.objects.select_for_update()
    key = {"node_id": team.pk, "source": delivery.source, "group_key": delivery.group_key}
    group = groups.filter(**key).first()
    if group is not None:
        return group
    now = clock.now()
    fresh = AlertGroup(
        organization_id=team.organization_id, status=delivery.status, first_at=now, last_at=now, title="", **key
    )
    # Of two at once the second waits here for the first, then inserts nothing and finds the first one's row.
    AlertGroup.objects.bulk_create([fresh], ignore_conflicts=True)
    return groups.get(**key)


def _record(group: AlertGroup, delivery: Delivery) -> list[str]:
    """Count the delivery, take over what it says, and return the fields that changed."""
    said = {
        "status": delivery.status,
        "group_text": delivery.group_text,
        "title": delivery.title,
        "severity": delivery.severity,
        "labels": dict(delivery.labels),
        "firing_count": delivery.firing_count,
        "starts_at": delivery.starts_at or group.starts_at,
        "last_at": clock.now(),
        "deliveries": group.deliveries + 1,
    }
    changed = [name for name, value in said.items() if getattr(group, name) != value]
    for name in changed:
        setattr(group, name, said[name])
    return changed


def _act(intake: Actor, team: Node, group: AlertGroup, delivery: Delivery) -> tuple[Taken, UUID | None]:
    firing = delivery.status == GroupStatus.FIRING
    thread_id = group.thread_id
    if thread_id is None:
        return _start(intake, team, group, delivery) if firing else (Taken.RESOLVED, None)
    fresh = delivery.firing.difference(group.fingerprints)
    turned = group.told_status != delivery.status
    line = delivery.news(fresh, turned=turned) if fresh or turned else None
    if line is None and (active := run_active(thread_id)) is not None:
        return _UNTOLD[Telling.KNOWN, firing], active
    window = repeat_window(config_effective(node_id=team.pk).document)
    news = News(
        line=line,
        prompt=delivery.prompt() if firing else None,
        starts_run=bool(fresh),
        alert=delivery.payload,
        quiet=timedelta() if fresh else window,
    )
    told = thread_tell(actor=intake, thread_id=thread_id, news=news, message_id=group.pending_message)
    if told.outcome not in {Telling.STARTED, Telling.TOLD}:
        return _UNTOLD[told.outcome, firing], told.run_id
    started = told.outcome is Telling.STARTED
    anew = started and (told.idle_since is None or told.idle_since + window <= clock.now())
    group.fingerprints = _known(set() if anew else set(group.fingerprints), delivery)
    group.told_status = delivery.status
    group.pending_message = told.message_id
    return (Taken.STARTED if started else Taken.UPDATED), told.run_id


def _start(intake: Actor, team: Node, group: AlertGroup, delivery: Delivery) -> tuple[Taken, UUID | None]:
    started = investigation_start(actor=intake, team=team, prompt=delivery.prompt(), alert=delivery.payload)
    group.thread = started.thread
    group.fingerprints = sorted(delivery.firing)
    group.told_status = delivery.status
    group.pending_message = None
    return Taken.STARTED, started.run.pk


def _known(told: set[str], delivery: Delivery) -> list[str]:
    """Return the alerts the thread knows of now: those that fire, and of the others as many as there is room for."""
    others = sorted(told - delivery.firing)[: max(MAX_TOLD - len(delivery.firing), 0)]
    return sorted([*delivery.firing, *others])


def _audit(sender: Actor, group: AlertGroup, action: Taken, run_id: UUID | None) -> None:
    audit_record(
        actor=sender,
        organization_id=group.organization_id,
        action=f"alert.{action.value}",
        object_kind="alert_group",
        object_id=str(group.pk),
        node_id=group.node_id,
        after={
            "status": group.status,
            "firing": group.firing_count,
            "thread": str(group.thread_id) if group.thread_id else None,
            "run": str(run_id) if run_id else None,
        },
    )

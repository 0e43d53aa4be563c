"""Taking alerts in: one run for a group of alerts, however often and from however many senders it arrives."""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from django.db import transaction

from controlplane.alerts import metrics
from controlplane.alerts.delivery import Delivery
from controlplane.alerts.models import AlertGroup, GroupStatus
from controlplane.alerts.policy import repeat_window
from controlplane.alerts.routing import team_route
from controlplane.audit.services import audit_record
from controlplane.configs.selectors import config_effective
from controlplane.core import clock
from controlplane.core.actor import Actor, Channel
from controlplane.core.errors import Conflict
from controlplane.core.permissions import RULES, Action
from controlplane.investigations.models import Run, Thread
from controlplane.investigations.services import investigation_start, message_extend, message_post
from controlplane.orgs.models import Node

MAX_TOLD = 5_000


class Taken(StrEnum):
    """What became of a delivery."""

    STARTED = "started"
    COALESCED = "coalesced"
    UPDATED = "updated"
    REPEATED = "repeated"
    RESOLVED = "resolved"


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
    intake = _intake(actor, team)
    with transaction.atomic():
        group = _group_locked(team, delivery)
        turned = group.deliveries > 0 and group.status != delivery.status
        _record(group, delivery)
        action, run_id = _act(intake, team, group, delivery, turned=turned)
        group.save()
        if turned or action in {Taken.STARTED, Taken.UPDATED}:
            # Repeats are counted in the row alone: a record for each would let a noisy source hold the audit chain.
            _audit(intake, group, action, run_id)
        transaction.on_commit(metrics.deliveries_total.labels(source=group.source, action=action.value).inc)
    return Ingested(group, action, run_id)


def _intake(actor: Actor, team: Node) -> Actor:
    """Return the actor in whose name the intake starts runs: the credential, no person, and this team alone.

    A token that alert sources hold needs no right to start runs of its own choice.
    """
    return Actor(
        kind=actor.kind,
        principal=actor.principal,
        label=actor.label,
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


def _record(group: AlertGroup, delivery: Delivery) -> None:
    group.deliveries += 1
    group.last_at = clock.now()
    group.status = delivery.status
    group.group_text = delivery.group_text
    group.title = delivery.title
    group.severity = delivery.severity
    group.labels = dict(delivery.labels)
    group.firing_count = delivery.firing_count
    group.starts_at = delivery.starts_at or group.starts_at
    group.last_payload = dict(delivery.payload)


def _act(
    intake: Actor, team: Node, group: AlertGroup, delivery: Delivery, *, turned: bool
) -> tuple[Taken, UUID | None]:
    firing = delivery.status == GroupStatus.FIRING
    thread_id = group.thread_id
    if thread_id is None:
        return _start(intake, team, group, delivery) if firing else (Taken.RESOLVED, None)
    fresh = delivery.firing.difference(group.fingerprints)
    active = _active_run(thread_id)
    if active is not None and not fresh and not turned:
        return (Taken.COALESCED if firing else Taken.RESOLVED), active
    # What follows depends on whether a run is active: from here on none begins or ends meanwhile.
    active = _active_run(thread_id, lock=True)
    if active is not None:
        return _tell(intake, thread_id, group, delivery, fresh, turned=turned), active
    last = Run.objects.filter(thread_id=thread_id).order_by("-number").only("pk", "ended_at").first()
    if not firing:
        return Taken.RESOLVED, last.pk if last else None
    ended_at = last.ended_at if last else None
    window = repeat_window(config_effective(node_id=team.pk).document)
    over = ended_at is None or ended_at + window <= clock.now()
    if not fresh and not over:
        return Taken.REPEATED, last.pk if last else None
    return _start_again(intake, thread_id, group, delivery, told=set() if over else set(group.fingerprints))


def _active_run(thread_id: UUID, *, lock: bool = False) -> UUID | None:
    threads = Thread.objects.select_for_update() if lock else Thread.objects.all()
    return threads.values_list("active_run", flat=True).get(pk=thread_id)


def _start(intake: Actor, team: Node, group: AlertGroup, delivery: Delivery) -> tuple[Taken, UUID | None]:
    started = investigation_start(actor=intake, team=team, prompt=delivery.prompt(), alert=delivery.payload)
    group.thread = started.thread
    group.fingerprints = sorted(delivery.firing)
    group.pending_message = None
    return Taken.STARTED, started.run.pk


def _start_again(
    intake: Actor, thread_id: UUID, group: AlertGroup, delivery: Delivery, *, told: set[str]
) -> tuple[Taken, UUID | None]:
    accepted = message_post(actor=intake, thread_id=thread_id, text=delivery.prompt(), alert=delivery.payload)
    group.fingerprints = _known(told, delivery)
    group.pending_message = None
    return Taken.STARTED, accepted.run.pk if accepted.run else None


def _tell(
    intake: Actor, thread_id: UUID, group: AlertGroup, delivery: Delivery, fresh: frozenset[str], *, turned: bool
) -> Taken:
    """Tell the running turn what changed: one message, which grows while nobody has taken it up."""
    line = delivery.news(fresh, turned=turned)
    waiting = group.pending_message
    if waiting is None or not message_extend(actor=intake, thread_id=thread_id, message_id=waiting, line=line):
        try:
            group.pending_message = message_post(actor=intake, thread_id=thread_id, text=line).message.pk
        except Conflict:
            # So many messages of people wait that there is no room: the next delivery tells of these alerts.
            return Taken.COALESCED
    group.fingerprints = _known(set(group.fingerprints), delivery)
    return Taken.UPDATED


def _known(told: set[str], delivery: Delivery) -> list[str]:
    """Return the alerts the thread knows of now: those that fire, and of the others as many as there is room for."""
    others = sorted(told - delivery.firing)[: max(MAX_TOLD - len(delivery.firing), 0)]
    return sorted([*delivery.firing, *others])


def _audit(intake: Actor, group: AlertGroup, action: Taken, run_id: UUID | None) -> None:
    audit_record(
        actor=intake,
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

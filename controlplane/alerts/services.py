"""Taking alerts in: one run for a group of alerts, however often and from however many senders it arrives."""

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Final
from uuid import UUID

from django.db import transaction

from controlplane.alerts import holding, metrics
from controlplane.alerts.delivery import Delivery
from controlplane.alerts.fates import alerts_take_in, fates_set, widened
from controlplane.alerts.models import AlertDelivery, AlertGroup, Fate, GroupStatus, Reason, Source
from controlplane.alerts.normalised import digest
from controlplane.alerts.outcomes import Act, Taken, settle
from controlplane.alerts.policy import AlertPolicy, alert_policy
from controlplane.alerts.routing import team_route
from controlplane.audit.services import audit_record
from controlplane.configs.selectors import config_effective
from controlplane.core import clock
from controlplane.core.actor import Actor, Channel
from controlplane.core.permissions import RULES, Action
from controlplane.investigations.models import Run
from controlplane.investigations.selectors import run_active
from controlplane.investigations.services import News, Telling, thread_tell
from controlplane.investigations.starting import investigation_start
from controlplane.orgs.models import Node

__all__ = ["Ingested", "Taken", "alert_ingest", "held_give_up", "held_release"]

MAX_TOLD = 5_000
BUDGET_PERIOD: Final = timedelta(hours=1)


_TOLD: Final = ("thread", "fingerprints", "told_status", "pending_message")
_FATE: Final = ("fate", "fate_reason", "run_id", "held_until", "held")
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
    configuration is not over (``repeated``), must keep firing for a while first (``waiting``), or the team's budget of
    runs is used up (``skipped``); the end of the alerts is recorded (``resolved``). A delivery that was taken in before
    changes nothing (``duplicate``). Every alert's fate is kept with it.

    Args:
        actor: needs ``alert.ingest`` on the team; nothing else: the run is started by the intake in its name.
        delivery: what arrived, redacted and bounded.

    Raises:
        PermissionDenied, InvalidInput: see :func:`team_route`.
    """
    team = team_route(actor=actor, labels=delivery.routing_labels, identifiers=delivery.identifiers)
    intake = _intake(actor, team, Source(delivery.source))
    if not delivery.whole:
        delivery = _regrouped(delivery, _policy(team))
    with transaction.atomic():
        group = _group_locked(team, delivery)
        if delivery.key and AlertDelivery.objects.filter(group=group, key=delivery.key).exists():
            _count(group, Taken.DUPLICATE)
            return Ingested(group, Taken.DUPLICATE, group.run_id)
        taken = alerts_take_in(group, delivery)
        if not delivery.whole:
            delivery = widened(group, delivery)
        turned = group.deliveries > 0 and group.status != delivery.status
        changed = _record(group, delivery)
        before = {name: getattr(group, name) for name in _FATE}
        act = _act(intake, team, group, delivery, anew=bool(taken.fires_anew))
        settle(group, taken, act, fires=delivery.status == GroupStatus.FIRING)
        changed += [name for name, value in before.items() if getattr(group, name) != value]
        # A repeat writes its counters alone, not thousands of digests.
        told = act.action in {Taken.STARTED, Taken.UPDATED}
        group.save(update_fields=[*changed, *_TOLD] if told else changed)
        _remember(group, delivery.key, act.action)
        if turned or told:
            # Repeats are counted in the row alone: a record for each would let a noisy source hold the audit chain.
            _audit(actor.via(Channel.ALERT), group, act.action, act.run_id)
        _count(group, act.action)
    return Ingested(group, act.action, act.run_id)


def held_release(group_id: UUID) -> bool:
    """Start the run that a group has waited for, if it still fires; return whether the group still waited.

    Raises:
        AppError: the run cannot be started, of which the group's fate then tells nothing yet.
    """
    with transaction.atomic():
        group = AlertGroup.objects.select_for_update().select_related("node").get(pk=group_id)
        if group.held is None or group.held_until is None or group.held_until > clock.now():
            return False
        delivery, sender = holding.held_read(group.held)
        intake = _intake(sender, group.node, Source(group.source))
        act = _act(intake, group.node, group, delivery, released=True)
        holding.held_clear(group)
        settle(group, None, act, fires=True)
        group.save(update_fields=[*_TOLD, *_FATE])
        _remember(group, "", act.action)
        _audit(sender, group, act.action, act.run_id)
        _count(group, act.action)
    return True


def held_give_up(group_id: UUID, reason: Reason) -> None:
    """Let a group wait no longer because its run cannot be started."""
    with transaction.atomic():
        group = AlertGroup.objects.select_for_update().get(pk=group_id)
        if group.held_until is not None:
            fates_set(group, None, fate=Fate.SKIPPED, reason=reason)
            holding.held_clear(group)
            group.fate, group.fate_reason = Fate.SKIPPED, reason
            group.save(update_fields=[*_FATE])


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


def _policy(team: Node) -> AlertPolicy:
    return alert_policy(config_effective(node_id=team.pk).document)


def _regrouped(delivery: Delivery, policy: AlertPolicy) -> Delivery:
    """Return a delivery in the group that the team's ``group_by`` puts it into, where it has any of those labels."""
    values = {name: delivery.labels[name] for name in policy.group_by if delivery.labels.get(name)}
    if not values:
        return delivery
    text = ", ".join(f"{name}={value}" for name, value in values.items())
    return replace(delivery, group_key=digest("group_by", sorted(values.items())), group_text=text[:500])


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


def _act(
    intake: Actor, team: Node, group: AlertGroup, delivery: Delivery, *, anew: bool = False, released: bool = False
) -> Act:
    firing = delivery.status == GroupStatus.FIRING
    thread_id = group.thread_id
    fresh = delivery.firing.difference(group.fingerprints)
    if thread_id is None:
        if not firing:
            return Act(Taken.RESOLVED)
        put_off = _put_off(intake, team, group, delivery, waits=not released)
        return put_off or _start(intake, team, group, delivery)
    turned = group.told_status != delivery.status
    line = delivery.news(fresh, turned=turned) if fresh or turned else None
    active = run_active(thread_id)
    if line is None and active is not None:
        return Act(_UNTOLD[Telling.KNOWN, firing], active)
    put_off, window = None, _policy(team).repeat_window
    if active is None and firing:
        # Alerts that are known start a run too, once they come back after the repeat window.
        starts = bool(fresh) or ((anew or group.held is not None) and _quiet_since(thread_id, window))
        put_off = _put_off(intake, team, group, delivery, waits=starts and not released)
        if put_off is not None and starts:
            return put_off
    news = News(
        line=line,
        prompt=delivery.prompt() if firing and put_off is None else None,
        starts_run=bool(fresh),
        alert=delivery.payload,
        quiet=timedelta() if fresh else window,
    )
    told = thread_tell(actor=intake, thread_id=thread_id, news=news, message_id=group.pending_message)
    if told.outcome not in {Telling.STARTED, Telling.TOLD}:
        reason = Reason.NO_ROOM if told.outcome is Telling.NO_ROOM else None
        return Act(_UNTOLD[told.outcome, firing], told.run_id, reason, fresh)
    started = told.outcome is Telling.STARTED
    anew = started and (told.idle_since is None or told.idle_since + window <= clock.now())
    group.fingerprints = _known(set() if anew else set(group.fingerprints), delivery)
    group.told_status = delivery.status
    group.pending_message = told.message_id
    return Act(Taken.STARTED if started else Taken.UPDATED, told.run_id, fresh=fresh)


def _quiet_since(thread_id: UUID, window: timedelta) -> bool:
    """Return whether a thread's last run ended at least ``window`` ago."""
    ended_at = Run.objects.filter(thread_id=thread_id).order_by("-number").values_list("ended_at", flat=True).first()
    return ended_at is not None and ended_at + window <= clock.now()


def _put_off(intake: Actor, team: Node, group: AlertGroup, delivery: Delivery, *, waits: bool) -> Act | None:
    """Return why no run is started now, ``None`` where one may be: alerts must fire on first, or no budget is left."""
    policy = _policy(team)
    if waits and policy.debounce and not delivery.urgent and not holding.is_due(group):
        holding.hold(group, delivery, intake, policy.debounce)
        return Act(Taken.WAITING, reason=Reason.DEBOUNCE)
    # The team's row is the lock under which its runs are counted, or two senders would both see the last place.
    Node.objects.select_for_update(no_key=True).get(pk=team.pk)
    since = clock.now() - BUDGET_PERIOD
    started = AlertDelivery.objects.filter(node=team, action=Taken.STARTED.value, at__gt=since).count()
    return Act(Taken.SKIPPED, reason=Reason.BUDGET) if started >= policy.runs_per_hour else None


def _start(intake: Actor, team: Node, group: AlertGroup, delivery: Delivery) -> Act:
    started = investigation_start(actor=intake, team=team, prompt=delivery.prompt(), alert=delivery.payload)
    group.thread = started.thread
    group.fingerprints = sorted(delivery.firing)
    group.told_status = delivery.status
    group.pending_message = None
    return Act(Taken.STARTED, started.run.pk, fresh=delivery.firing)


def _known(told: set[str], delivery: Delivery) -> list[str]:
    """Return the alerts the thread knows of now: those that fire, and of the others as many as there is room for."""
    others = sorted(told - delivery.firing)[: max(MAX_TOLD - len(delivery.firing), 0)]
    return sorted([*delivery.firing, *others])


def _remember(group: AlertGroup, key: str, action: Taken) -> None:
    if key or action is Taken.STARTED:
        AlertDelivery.objects.create(group=group, node_id=group.node_id, key=key, action=action.value, at=clock.now())


def _count(group: AlertGroup, action: Taken) -> None:
    transaction.on_commit(partial(metrics.deliveries_total.labels(source=group.source, action=action.value).inc))


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

"""The alerts of a group one by one, and what becomes of each. All of it happens under the lock of the group's row."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from django.db.models import F

from controlplane.alerts.building import MAX_FINGERPRINTS
from controlplane.alerts.delivery import Delivery, Single
from controlplane.alerts.models import Alert, AlertGroup, Fate, GroupStatus, Reason
from controlplane.core import clock

_SAID: Final = (
    "name", "severity", "service", "host", "workload", "summary", "url", "starts_at", "details", "status",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TakenIn:
    """The alerts of one delivery, by digest: how each was known before, and which fire anew."""

    alerts: Mapping[str, Alert]
    fires_anew: frozenset[str]


def alerts_take_in(group: AlertGroup, delivery: Delivery) -> TakenIn:
    """Record the alerts of a delivery. One that is known and goes on as before is counted, and nothing else."""
    digests = [single.digest for single in delivery.singles]
    known = {alert.digest: alert for alert in Alert.objects.filter(group=group, digest__in=digests).defer("details")}
    now = clock.now()
    created: list[Alert] = []
    changed: list[Alert] = []
    same: list[UUID] = []
    anew: set[str] = set()
    for single in delivery.singles:
        alert = known.get(single.digest)
        if alert is None:
            alert = Alert(group=group, digest=single.digest, first_at=now, last_at=now, **_said(single))
            created.append(alert)
            known[single.digest] = alert
        elif alert.status != single.status or alert.severity != single.severity:
            if single.status == GroupStatus.FIRING and alert.status != GroupStatus.FIRING:
                anew.add(single.digest)
            for name, value in _said(single).items():
                setattr(alert, name, value)
            alert.last_at, alert.times = now, alert.times + 1
            changed.append(alert)
        else:
            same.append(alert.pk)
    Alert.objects.bulk_create(created)
    if changed:
        Alert.objects.bulk_update(changed, [*_SAID, "last_at", "times"])
    if same:
        Alert.objects.filter(pk__in=same).update(last_at=now, times=F("times") + 1)
    if delivery.whole and delivery.status == GroupStatus.RESOLVED:
        # What the last delivery does not list is over too.
        others = Alert.objects.filter(group=group, status=GroupStatus.FIRING).exclude(digest__in=digests)
        others.update(status=GroupStatus.RESOLVED)
    return TakenIn(known, frozenset(anew))


def widened(group: AlertGroup, delivery: Delivery) -> Delivery:
    """Return what a delivery of some of a group's alerts says about the group: it fires while any of them does."""
    firing = Alert.objects.filter(group=group, status=GroupStatus.FIRING)
    rows = list(firing.values_list("digest", "name")[:MAX_FINGERPRINTS])
    status = GroupStatus.FIRING if rows else GroupStatus.RESOLVED
    return replace(
        delivery,
        status=status.value,
        firing=frozenset(digest for digest, _ in rows),
        names={**dict(rows), **delivery.names},
        firing_count=len(rows),
    )


def fates_set(
    group: AlertGroup,
    taken: TakenIn | None,
    *,
    fate: Fate,
    reason: Reason | None = None,
    run_id: UUID | None = None,
    only: Collection[str] | None = None,
    status: GroupStatus | None = GroupStatus.FIRING,
) -> None:
    """Say what became of alerts of a group.

    Args:
        group: the group, locked.
        taken: the alerts of the delivery; ``None`` for all alerts of the group that wait.
        fate: what became of them.
        reason: why they wait or were skipped.
        run_id: the run it is about.
        only: digests of those that are meant, instead of all.
        status: only those that fire, or that are over; ``None``: both.
    """
    rows = Alert.objects.filter(group=group)
    if taken is None:
        rows = rows.filter(fate=Fate.WAITING)
    elif only is None:
        rows = rows.filter(digest__in=taken.alerts)
    if only is not None:
        rows = rows.filter(digest__in=only)
    if status is not None:
        rows = rows.filter(status=status)
    rows.update(fate=fate, fate_reason=reason or "", run_id=run_id)


def without_fate(taken: TakenIn, *, status: GroupStatus = GroupStatus.FIRING) -> list[str]:
    """Return the digests of the delivery's alerts of a status of which nothing has become yet."""
    return [digest for digest, alert in taken.alerts.items() if alert.status == status and not alert.fate]


def _said(single: Single) -> dict[str, Any]:
    return {name: getattr(single, name) for name in _SAID}

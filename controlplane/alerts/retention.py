"""How long alerts are kept: groups that nothing has been heard of go, with their alerts, in bounded batches."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef

from controlplane.alerts.models import AlertGroup
from controlplane.audit.services import audit_record
from controlplane.core import clock
from controlplane.core.actor import system_actor
from controlplane.investigations.models import LegalHold, RetentionPolicy
from controlplane.orgs.models import Node

BATCH: Final = 200
BATCHES: Final = 10
EVERY_S: Final = 600.0


def alerts_retire() -> int:
    """Remove the alerts that every organization's policy lets go; return how many groups went."""
    gone = 0
    due = RetentionPolicy.objects.filter(alert_days__isnull=False, hold=False).values_list("pk", flat=True)
    for organization_id in list(due):
        for _ in range(BATCHES):
            removed = _batch(organization_id)
            gone += removed
            if not removed:
                break
    return gone


@transaction.atomic
def _batch(organization_id: UUID) -> int:
    # The policy's row is the lock: a hold is seen, or waits until the batch is over.
    policy = RetentionPolicy.objects.select_for_update().get(pk=organization_id)
    if policy.alert_days is None or policy.hold:
        return 0
    cutoff = clock.now() - timedelta(days=policy.alert_days)
    kept = LegalHold.objects.filter(organization=OuterRef("organization"), thread_id=OuterRef("thread_id"))
    old = AlertGroup.objects.filter(
        ~Exists(kept), organization_id=organization_id, last_at__lt=cutoff, held_until__isnull=True
    )
    ids = list(old.order_by("last_at").values_list("pk", flat=True)[:BATCH])
    locked = AlertGroup.objects.select_for_update(skip_locked=True).filter(pk__in=ids, last_at__lt=cutoff)
    groups = [group.pk for group in locked]
    if not groups:
        return 0
    AlertGroup.objects.filter(pk__in=groups).delete()
    root = Node.objects.get(organization_id=organization_id, parent__isnull=True)
    audit_record(
        actor=system_actor(name="retention", organization_id=organization_id, root_id=root.pk),
        organization_id=organization_id,
        action="retention.remove",
        object_kind="alert_group",
        object_id=f"{len(groups)} alert groups",
        after={"alert_groups": [str(group) for group in groups], "days": policy.alert_days},
    )
    return len(groups)

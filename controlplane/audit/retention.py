"""Removing what is older than the installation keeps: only behind a signed checkpoint, and on the record.

The checkpoint is written first and becomes the place where the chain begins; the database's triggers let go of the
events that it covers and of no others. What is removed was verified before.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Max, Min

from controlplane.audit.checkpoints import checkpoint_add
from controlplane.audit.heads import head_locked
from controlplane.audit.models import AuditCheckpoint, AuditEvent, CheckpointKind, SecurityEvent
from controlplane.audit.sealing import SEAL, audit_actor
from controlplane.audit.services import audit_record
from controlplane.audit.verification import verification_keep, verification_of
from controlplane.audit.verifying import SECURITY_RETENTION, audit_verify, events_of
from controlplane.core import clock
from controlplane.core.clock import rfc3339
from controlplane.core.errors import Conflict

log = structlog.get_logger(__name__)

#: Rows of one DELETE, in a transaction of its own: nobody waits for a large one.
CHUNK: Final = 2_000


@dataclass(frozen=True, slots=True)
class Removed:
    """What a run of the retention removed; ``anchor`` is where the chain begins behind."""

    events: int = 0
    security_events: int = 0
    anchor: int = 0


def retention_apply(*, organization_id: UUID, days: int, security_days: int) -> Removed:
    """Remove events older than ``days``, and security events older than ``security_days``; 0 keeps them.

    The last event always stays. Security events that are not sealed yet stay too.

    Raises:
        Conflict: ``audit_chain_broken``: nothing is removed from a chain that does not hold.
    """
    security = _remove_security(organization_id, clock.now() - timedelta(days=security_days)) if security_days else 0
    if not days:
        return Removed(security_events=security)
    anchor = _anchor(organization_id, clock.now() - timedelta(days=days))
    if not anchor:
        return Removed(security_events=security)
    return Removed(_remove_events(organization_id, anchor), security, anchor)


def _anchor(organization_id: UUID, before: datetime) -> int:
    """Return up to which event to remove, having put that on the record; 0 for nothing.

    A run that was killed has left events behind its checkpoint: they are the next run's.
    """
    checkpoints = AuditCheckpoint.objects.filter(organization_id=organization_id, kind=CheckpointKind.RETENTION)
    anchor: int = checkpoints.aggregate(last=Max("org_seq"))["last"] or 0
    left = AuditEvent.objects.filter(organization_id=organization_id, org_seq__gt=anchor)
    first_kept = left.filter(at__gte=before).aggregate(seq=Min("org_seq"))["seq"]
    last = left.aggregate(seq=Max("org_seq"))["seq"] or 0
    cut = (first_kept or last) - 1
    if cut <= anchor:
        return anchor
    _check(organization_id, cut)
    return _anchored(organization_id, cut, before)


def _check(organization_id: UUID, cut: int) -> None:
    kept = verification_of(organization_id)
    if kept is None or not kept.intact or kept.verified_seq < cut:
        kept = verification_keep(audit_verify(organization_id))
    if not kept.intact:
        raise Conflict(
            f"The chain is broken at {kept.broken_seq} ({kept.problem}); nothing is removed.", code="audit_chain_broken"
        )


@transaction.atomic
def _anchored(organization_id: UUID, cut: int, before: datetime) -> int:
    last_removed = events_of(organization_id).get(org_seq=cut)
    first = events_of(organization_id).values_list("org_seq", flat=True).first()
    audit_record(
        actor=audit_actor(organization_id),
        organization_id=organization_id,
        action="audit.retention",
        object_kind="audit_events",
        object_id=f"{first}-{cut}",
        after={"first": first, "last": cut, "mac": last_removed.mac, "older_than": rfc3339(before)},
    )
    head = head_locked(organization_id)
    checkpoint_add(head, kind=CheckpointKind.RETENTION, org_seq=cut, mac=last_removed.mac)
    return cut


def _remove_events(organization_id: UUID, anchor: int) -> int:
    removed = 0
    while True:
        covered = events_of(organization_id).filter(org_seq__lte=anchor)
        first = covered.values_list("org_seq", flat=True).first()
        if first is None:
            break
        removed += covered.filter(org_seq__lt=first + CHUNK).order_by().delete()[0]
    _remove_batches(organization_id, anchor)
    if removed:
        log.info("audit.retention", organization=str(organization_id), events=removed, anchor=anchor)
    return removed


def _remove_security(organization_id: UUID, before: datetime) -> int:
    """Remove the batches that were sealed before; their digests stay in the chain."""
    seals = AuditEvent.objects.filter(organization_id=organization_id, action=SEAL, at__lt=before)
    through: int | None = seals.aggregate(last=Max("org_seq"))["last"]
    rows = SecurityEvent.objects.filter(organization_id=organization_id, batch__lte=through or 0)
    if through is None or not rows.exists():
        return 0
    with transaction.atomic():
        audit_record(
            actor=audit_actor(organization_id),
            organization_id=organization_id,
            action=SECURITY_RETENTION,
            object_kind="security_events",
            object_id=str(through),
            after={"through": through, "older_than": rfc3339(before)},
        )
    return _remove_batches(organization_id, through)


def _remove_batches(organization_id: UUID, through: int) -> int:
    removed = 0
    while True:
        rows = SecurityEvent.objects.filter(organization_id=organization_id, batch__lte=through).order_by("batch")
        first = rows.values_list("batch", flat=True).first()
        if first is None:
            return removed
        removed += rows.filter(batch=first).order_by().delete()[0]

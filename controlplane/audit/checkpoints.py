"""Signed checkpoints: that a chain was at a position with a MAC, under a key of their own, each naming the one before.

A checkpoint that is kept elsewhere (``manage.py audit checkpoint --json``, the log line ``audit.checkpoint``) proves a
later cut even against somebody who puts back an old copy of the whole database.
"""

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Self
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

from controlplane.audit.chain import GENESIS, checkpoint_signature, current_key, same
from controlplane.audit.heads import head_locked, head_moved
from controlplane.audit.models import AuditCheckpoint, AuditEvent, AuditHead, CheckpointKind
from controlplane.core import clock
from controlplane.core.clock import rfc3339
from controlplane.core.errors import MalformedRequest

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Pin:
    """A checkpoint as it is kept outside of the database."""

    organization: str
    number: int
    seq: int
    mac: str
    count: int
    at: str
    signature: str

    @classmethod
    def of(cls, checkpoint: AuditCheckpoint) -> Self:
        """Return what to keep of a checkpoint."""
        return cls(
            organization=str(checkpoint.organization_id),
            number=checkpoint.number,
            seq=checkpoint.org_seq,
            mac=checkpoint.mac,
            count=checkpoint.count,
            at=rfc3339(checkpoint.at),
            signature=checkpoint.signature,
        )

    @classmethod
    def read(cls, value: Any) -> Self:
        """Return a pin from its JSON form.

        Raises:
            MalformedRequest: ``bad_checkpoint``.
        """
        kinds = {"organization": str, "number": int, "seq": int, "mac": str, "count": int, "at": str, "signature": str}
        if not isinstance(value, dict) or any(not isinstance(value.get(name), kind) for name, kind in kinds.items()):
            raise MalformedRequest(
                "This is no checkpoint as `audit checkpoint --json` prints it.", code="bad_checkpoint"
            )
        return cls(**{name: value[name] for name in kinds})

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@transaction.atomic
def checkpoint_write(*, organization_id: UUID, kind: CheckpointKind = CheckpointKind.COMMAND) -> AuditCheckpoint | None:
    """Sign where an organization's chain is now.

    Returns:
        The checkpoint; the latest one where nothing has happened since; ``None`` for a chain without events.
    """
    head = head_locked(organization_id)
    if not head.org_seq:
        return None
    latest = _latest(organization_id)
    if latest is not None and latest.org_seq == head.org_seq and same(latest.mac, head.mac):
        return latest
    return checkpoint_add(head, kind=kind, org_seq=head.org_seq, mac=head.mac)


def checkpoint_add(head: AuditHead, *, kind: CheckpointKind, org_seq: int, mac: str) -> AuditCheckpoint:
    """Add a checkpoint behind the others. ``head`` is locked by the caller's transaction."""
    latest = _latest(head.organization_id)
    events = AuditEvent.objects.filter(organization_id=head.organization_id, org_seq__lte=org_seq)
    checkpoint = AuditCheckpoint(
        organization_id=head.organization_id,
        number=(latest.number if latest else 0) + 1,
        kind=kind.value,
        org_seq=org_seq,
        mac=mac,
        count=events.count(),
        at=clock.now(),
        previous=latest.signature if latest else GENESIS,
        key_version=current_key(),
    )
    checkpoint.signature = checkpoint_signature(checkpoint)
    checkpoint.save(force_insert=True)
    head.checkpoints += 1
    head.checkpoint_seq, head.checkpoint_at = max(org_seq, head.checkpoint_seq), checkpoint.at
    head_moved(head)
    pin = Pin.of(checkpoint)
    transaction.on_commit(lambda: log.info("audit.checkpoint", **pin.as_dict()))
    return checkpoint


def checkpoints_due() -> list[UUID]:
    """Return the organizations whose chain has grown by so many events, or for so long, since the last checkpoint."""
    since = clock.now() - timedelta(minutes=settings.AUDIT_CHECKPOINT_MINUTES)
    grown = Q(org_seq__gte=F("checkpoint_seq") + settings.AUDIT_CHECKPOINT_EVENTS)
    old = Q(checkpoint_at__isnull=True) | Q(checkpoint_at__lte=since)
    due = AuditHead.objects.filter(grown | old, org_seq__gt=F("checkpoint_seq")).order_by("organization_id")
    return list(due.values_list("organization_id", flat=True))


def _latest(organization_id: UUID) -> AuditCheckpoint | None:
    return AuditCheckpoint.objects.filter(organization_id=organization_id).order_by("-number").first()

"""Sealing the security stream into the chain: one event of the chain holds the digest of a batch of rows."""

import hashlib
from collections.abc import Iterable
from datetime import UTC, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from controlplane.audit.chain import canonical, same
from controlplane.audit.models import AuditEvent, SecurityEvent
from controlplane.audit.security_stream import WINDOW
from controlplane.audit.services import audit_record
from controlplane.core import clock
from controlplane.core.actor import Actor, ActorKind, Channel

SEAL: Final = "security.seal"
#: Rows of one batch; more are the next run's.
BATCH: Final = 5_000
#: A row takes counts for a minute, and is written a little later still.
_RIPE: Final = 2 * WINDOW


def audit_actor(organization_id: UUID) -> Actor:
    """Return the actor of the audit log's own work."""
    return Actor(ActorKind.SYSTEM, "system:audit", "audit log", organization_id, channel=Channel.SYSTEM)


@transaction.atomic
def security_seal(organization_id: UUID, *, younger: timedelta = _RIPE) -> int:
    """Seal the rows of an organization whose minute is over, and return how many; 0 writes nothing.

    Args:
        younger: rows that began less than this ago stay open.
    """
    open_rows = SecurityEvent.objects.filter(
        organization_id=organization_id, batch__isnull=True, first_at__lte=clock.now() - younger
    )
    rows = list(open_rows.select_for_update().order_by("id")[:BATCH])
    if not rows:
        return 0
    event = audit_record(
        actor=audit_actor(organization_id),
        organization_id=organization_id,
        action=SEAL,
        object_kind="security_events",
        object_id=str(rows[0].pk),
        after={
            "rows": len(rows),
            "events": sum(row.count for row in rows),
            "digest": batch_digest(rows),
        },
    )
    SecurityEvent.objects.filter(pk__in=[row.pk for row in rows]).update(batch=event.org_seq)
    return len(rows)


def seal_problem(event: AuditEvent) -> str:
    """Return what is wrong with the rows that a ``security.seal`` event vouches for, or ``""``."""
    rows = SecurityEvent.objects.filter(organization_id=event.organization_id, batch=event.org_seq).order_by("id")
    told: dict[str, Any] = event.after or {}
    found = list(rows[: BATCH + 1])
    if len(found) != told.get("rows"):
        return f"the batch has {len(found)} security events, and had {told.get('rows')}"
    return (
        "" if same(batch_digest(found), str(told.get("digest"))) else "a security event of the batch has been changed"
    )


def batch_digest(rows: Iterable[SecurityEvent]) -> str:
    """Return the SHA-256 (hexadecimal) of rows in the order of their ids."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(canonical(_fields(row)).encode() + b"\n")
    return digest.hexdigest()


def _fields(row: SecurityEvent) -> list[Any]:
    return [
        str(row.pk),
        str(row.organization_id),
        row.kind,
        row.code,
        row.actor,
        row.actor_label,
        row.credential_id,
        row.impersonator,
        row.channel,
        row.address,
        row.action,
        row.object_kind,
        row.object_id,
        str(row.node_id or ""),
        row.first_at.astimezone(UTC).isoformat(timespec="microseconds"),
        row.last_at.astimezone(UTC).isoformat(timespec="microseconds"),
        row.count,
    ]

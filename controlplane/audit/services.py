"""Writing the audit log."""

import hashlib
import hmac
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings
from django.db import connection, transaction

from controlplane.audit.models import AuditEvent, AuditHead
from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.core.redaction import redact_json, redact_text

GENESIS = "0" * 64


def audit_record(
    *,
    actor: Actor,
    organization_id: UUID,
    action: str,
    object_kind: str,
    object_id: str,
    node_id: UUID | None = None,
    before: Any = None,
    after: Any = None,
    reason: str = "",
) -> AuditEvent:
    """Append one event to the organization's chain, inside the caller's transaction and as its last write.

    ``before`` and ``after`` are JSON values; they are redacted here, so nothing unredacted can be stored. The chain's
    head is locked until the caller commits, so neither the act nor its record exists without the other.

    Raises:
        RuntimeError: when there is no transaction to belong to.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("audit_record must run inside the transaction of the act it records")
    head = _lock_head(organization_id)
    key_version = max(settings.AUDIT_KEYS)
    event = AuditEvent(
        organization_id=organization_id,
        org_seq=head.org_seq + 1,
        at=clock.now(),
        action=action,
        actor=actor.principal,
        actor_label=actor.label[:200],
        credential_id=actor.credential_id or "",
        channel=actor.channel.value,
        address=actor.address or "",
        object_kind=object_kind,
        object_id=object_id,
        node_id=node_id,
        before=redact_json(before),
        after=redact_json(after),
        reason=redact_text(reason)[:500],
        prev_mac=head.mac or GENESIS,
        key_version=key_version,
    )
    event.mac = event_mac(event)
    event.save(force_insert=True)
    AuditHead.objects.filter(pk=organization_id).update(org_seq=event.org_seq, mac=event.mac)
    return event


def event_mac(event: AuditEvent) -> str:
    """Return the HMAC-SHA256 (hexadecimal) of an event's fields and its predecessor's MAC, under the event's key."""
    key = settings.AUDIT_KEYS[event.key_version].encode()
    fields = {
        "id": str(event.id),
        "organization": str(event.organization_id),
        "seq": event.org_seq,
        "at": clock.rfc3339(event.at),
        "action": event.action,
        "actor": [event.actor, event.actor_label, event.credential_id, event.channel, event.address],
        "object": [event.object_kind, event.object_id, str(event.node_id or "")],
        "before": event.before,
        "after": event.after,
        "reason": event.reason,
        "prev": event.prev_mac,
        "key": event.key_version,
    }
    return hmac.new(key, orjson.dumps(fields, option=orjson.OPT_SORT_KEYS), hashlib.sha256).hexdigest()


def _lock_head(organization_id: UUID) -> AuditHead:
    with transaction.atomic():
        AuditHead.objects.get_or_create(pk=organization_id)
    return AuditHead.objects.select_for_update().get(pk=organization_id)

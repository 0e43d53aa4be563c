"""Writing the audit log."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection

from controlplane.audit.chain import GENESIS, canonical, event_mac
from controlplane.audit.models import AuditEvent, AuditHead
from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.core.redaction import redact_json, redact_text


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
    event = AuditEvent(
        organization_id=organization_id,
        org_seq=head.org_seq + 1,
        at=clock.now(),
        action=action,
        actor=_text(actor.principal, 128),
        actor_label=_text(actor.label, 200),
        credential_id=_text(actor.credential_id or "", 64),
        channel=actor.channel.value,
        address=_text(actor.address or "", 64),
        object_kind=object_kind,
        object_id=_text(object_id, 200),
        node_id=node_id,
        before_json=canonical(redact_json(before)),
        after_json=canonical(redact_json(after)),
        reason=_text(redact_text(reason), 500),
        prev_mac=head.mac or GENESIS,
        key_version=max(settings.AUDIT_KEYS),
    )
    event.mac = event_mac(event)
    event.save(force_insert=True)
    AuditHead.objects.filter(pk=organization_id).update(org_seq=event.org_seq, mac=event.mac)
    return event


def _text(value: str, length: int) -> str:
    # PostgreSQL's text refuses NUL, and a lone surrogate has no UTF-8: neither may keep an act from being recorded.
    return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")[:length]


def _lock_head(organization_id: UUID) -> AuditHead:
    heads = AuditHead.objects.select_for_update()
    head = heads.filter(pk=organization_id).first()
    if head is None:
        # The organization's first event. Of two at once the second waits here for the first, then inserts nothing.
        AuditHead.objects.bulk_create([AuditHead(organization_id=organization_id)], ignore_conflicts=True)
        head = heads.get(pk=organization_id)
    return head

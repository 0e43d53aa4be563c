"""Writing the audit log."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from controlplane.audit.chain import GENESIS, canonical, current_key, event_mac
from controlplane.audit.directory import directory
from controlplane.audit.heads import head_locked, head_moved
from controlplane.audit.models import AuditEvent
from controlplane.audit.text import column_text
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
    head = head_locked(organization_id)
    event = AuditEvent(
        organization_id=organization_id,
        org_seq=head.org_seq + 1,
        at=clock.now(),
        action=action,
        actor=column_text(actor.principal, 128),
        actor_label=column_text(actor.label, 200),
        credential_id=column_text(actor.credential_id or "", 64),
        impersonator=column_text(actor.impersonator or "", 128),
        channel=actor.channel.value,
        address=column_text(actor.address or "", 64),
        object_kind=object_kind,
        object_id=column_text(object_id, 200),
        node_id=node_id,
        before_json=canonical(redact_json(before)),
        after_json=canonical(redact_json(after)),
        reason=column_text(redact_text(reason), 500),
        prev_mac=head.mac or GENESIS,
        key_version=current_key(),
    )
    event.mac = event_mac(event)
    event.save(force_insert=True)
    head.org_seq, head.mac = event.org_seq, event.mac
    head_moved(head)
    return event


@transaction.atomic
def export_record(*, actor: Actor, organization_slug: str, form: str, filters: Mapping[str, str]) -> int:
    """Record that ``actor`` takes events out of the log, and return the position of the last event before that.

    Args:
        form: ``csv``, ``json`` or ``ndjson``.
        filters: what was asked for, by the names of the query's parameters.

    Raises:
        NotFound, PermissionDenied: as :func:`controlplane.audit.selectors.audit_events`.
    """
    event = audit_record(
        actor=actor,
        organization_id=directory().audit_scope(actor, organization_slug).organization_id,
        action="audit.export",
        object_kind="audit",
        object_id=form,
        after={"format": form, "filters": dict(filters)},
    )
    return event.org_seq - 1

"""Reading and verifying the audit log."""

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from django.db.models import Q, QuerySet

from controlplane.audit.directory import directory
from controlplane.audit.models import AuditEvent, AuditHead, AuditVerification, SecurityEvent
from controlplane.audit.verification import verification_of
from controlplane.audit.verifying import ChainReport, audit_verify
from controlplane.core.actor import Actor

__all__ = ["ChainReport", "audit_events", "audit_verify", "audited_organizations", "chain_state", "security_events"]


def audit_events(
    actor: Actor,
    organization_slug: str,
    *,
    action: str | None = None,
    object_kind: str | None = None,
    object_id: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    text: str = "",
) -> QuerySet[AuditEvent]:
    """Return the events ``actor`` may read, newest first: all for one allowed on the root, else those of its nodes.

    Args:
        action: exact, or a prefix ending in ``.`` (``config.``).
        since, until: ``since`` is included, ``until`` is not.
        text: part of the actor's name, of the object's id or of the address.

    Raises:
        NotFound: another organization than the actor's.
        PermissionDenied: the actor may read audit events nowhere.
    """
    scope = directory().audit_scope(actor, organization_slug)
    events = AuditEvent.objects.filter(organization_id=scope.organization_id).order_by("-org_seq")
    if scope.node_ids is not None:
        events = events.filter(node_id__in=scope.node_ids)
    if any("\x00" in word for word in (action, object_kind, object_id, text) if word):
        return events.none()  # PostgreSQL takes no NUL, and no event has one
    if action:
        events = events.filter(action__startswith=action) if action.endswith(".") else events.filter(action=action)
    if text:
        events = events.filter(
            Q(actor_label__icontains=text) | Q(object_id__icontains=text) | Q(address__icontains=text)
        )
    wanted = {"object_kind": object_kind, "object_id": object_id, "at__gte": since, "at__lt": until}
    return events.filter(**{name: value for name, value in wanted.items() if value is not None})


def security_events(
    actor: Actor, organization_slug: str, *, kind: str | None = None, text: str = ""
) -> QuerySet[SecurityEvent]:
    """Return the rows of the security stream that ``actor`` may read, newest first; as :func:`audit_events`.

    Args:
        kind: one of :class:`SecurityKind`; another one finds nothing.
        text: part of the actor's name, of what was tried or of the address.
    """
    scope = directory().audit_scope(actor, organization_slug)
    rows = SecurityEvent.objects.filter(organization_id=scope.organization_id).order_by("-id")
    if scope.node_ids is not None:
        rows = rows.filter(node_id__in=scope.node_ids)
    if "\x00" in text:
        return rows.none()
    if text:
        rows = rows.filter(Q(actor_label__icontains=text) | Q(action__icontains=text) | Q(address__icontains=text))
    return rows.filter(kind=kind) if kind else rows


def chain_state(actor: Actor, organization_slug: str) -> AuditVerification | None:
    """Return how the organization's chain was when it was last verified; ``None`` where it has not been yet.

    Raises:
        NotFound, PermissionDenied: as :func:`audit_events`.
    """
    return verification_of(directory().audit_scope(actor, organization_slug).organization_id)


def audited_organizations() -> Iterator[UUID]:
    """Yield the organizations that have a chain, deleted ones included."""
    heads = set(AuditHead.objects.values_list("organization_id", flat=True))
    yield from sorted(heads | set(AuditEvent.objects.order_by().values_list("organization_id", flat=True).distinct()))

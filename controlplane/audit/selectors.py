"""Reading and verifying the audit log."""

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from controlplane.audit.directory import directory
from controlplane.audit.models import AuditEvent, AuditHead
from controlplane.audit.verifying import ChainReport, audit_verify
from controlplane.core.actor import Actor

__all__ = ["ChainReport", "audit_events", "audit_verify", "audited_organizations"]


def audit_events(
    actor: Actor,
    organization_slug: str,
    *,
    action: str | None = None,
    object_kind: str | None = None,
    object_id: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> QuerySet[AuditEvent]:
    """Return the events ``actor`` may read, newest first: all for one allowed on the root, else those of its nodes.

    Args:
        action: exact, or a prefix ending in ``.`` (``config.``).
        since, until: ``since`` is included, ``until`` is not.

    Raises:
        NotFound: another organization than the actor's.
        PermissionDenied: the actor may read audit events nowhere.
    """
    scope = directory().audit_scope(actor, organization_slug)
    events = AuditEvent.objects.filter(organization_id=scope.organization_id).order_by("-org_seq")
    if scope.node_ids is not None:
        events = events.filter(node_id__in=scope.node_ids)
    if any("\x00" in text for text in (action, object_kind, object_id) if text):
        return events.none()  # PostgreSQL takes no NUL, and no event has one
    if action:
        events = events.filter(action__startswith=action) if action.endswith(".") else events.filter(action=action)
    wanted = {"object_kind": object_kind, "object_id": object_id, "at__gte": since, "at__lt": until}
    return events.filter(**{name: value for name, value in wanted.items() if value is not None})


def audited_organizations() -> Iterator[UUID]:
    """Yield the organizations that have a chain, deleted ones included."""
    heads = set(AuditHead.objects.values_list("organization_id", flat=True))
    yield from sorted(heads | set(AuditEvent.objects.order_by().values_list("organization_id", flat=True).distinct()))

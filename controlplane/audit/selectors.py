"""Reading and verifying the audit log."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from controlplane.audit.chain import GENESIS, event_mac
from controlplane.audit.directory import directory
from controlplane.audit.models import AuditEvent, AuditHead
from controlplane.core.actor import Actor


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


@dataclass(frozen=True, slots=True)
class ChainReport:
    """The outcome of verifying one organization's chain. ``broken_seq`` is the first position that does not hold."""

    organization_id: UUID
    events: int
    broken_seq: int | None = None
    problem: str = ""

    @property
    def intact(self) -> bool:
        return self.broken_seq is None


def audit_verify(organization_id: UUID) -> ChainReport:
    """Recompute an organization's chain from its first event to its head and return the first break, if any.

    Noticed are changed, removed, inserted and reordered events, and a tail cut without the head. Constant memory.
    """
    head = AuditHead.objects.filter(pk=organization_id).first() or AuditHead(organization_id=organization_id)
    count, mac = 0, ""
    # Up to the head only: events written while this runs are the next run's.
    rows = AuditEvent.objects.filter(organization_id=organization_id, org_seq__lte=head.org_seq).order_by("org_seq")
    for event in rows.iterator(chunk_size=500):
        problem = _problem(event, expected_seq=count + 1, previous_mac=mac)
        if problem:
            return ChainReport(organization_id, count, min(event.org_seq, count + 1), problem)
        count, mac = event.org_seq, event.mac
    if count != head.org_seq:
        return ChainReport(organization_id, count, count + 1, f"events are missing up to the head at {head.org_seq}")
    if mac != head.mac:
        return ChainReport(organization_id, count, count, "the head does not match the last event")
    if not count and AuditEvent.objects.filter(organization_id=organization_id).exists():
        return ChainReport(organization_id, count, 1, "there are events and no head")
    return ChainReport(organization_id, count)


def audited_organizations() -> Iterator[UUID]:
    """Yield the organizations that have a chain, deleted ones included."""
    heads = set(AuditHead.objects.values_list("organization_id", flat=True))
    yield from sorted(heads | set(AuditEvent.objects.order_by().values_list("organization_id", flat=True).distinct()))


def _problem(event: AuditEvent, *, expected_seq: int, previous_mac: str) -> str:
    if event.org_seq != expected_seq:
        return f"event {expected_seq} is missing"
    if event.prev_mac != (previous_mac or GENESIS):
        return "the event does not follow its predecessor"
    if event.key_version not in settings.AUDIT_KEYS:
        return f"AUDIT_KEYS has no key {event.key_version}"
    return "" if event_mac(event) == event.mac else "the event has been changed"

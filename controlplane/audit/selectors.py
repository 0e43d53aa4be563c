"""Reading and verifying the audit log."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q, QuerySet

from controlplane.audit.directory import directory
from controlplane.audit.models import AuditEvent, AuditHead, AuditVerification, SecurityEvent
from controlplane.audit.verification import verification_of
from controlplane.audit.verifying import ChainReport, audit_verify
from controlplane.core.actor import Actor

__all__ = [
    "ChainReport",
    "ChainState",
    "audit_events",
    "audit_verify",
    "audited_organizations",
    "chain_state",
    "security_events",
]


def audit_events(
    actor: Actor,
    organization_slug: str,
    *,
    action: str | None = None,
    object_kind: str | None = None,
    object_id: str | None = None,
    by: str | None = None,
    address: str | None = None,
    node: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    text: str = "",
) -> QuerySet[AuditEvent]:
    """Return the events ``actor`` may read, newest first: all for one allowed on the root, else those of its nodes.

    Args:
        action: exact, or a prefix ending in ``.`` (``config.``).
        by: who did it: a principal (``user:<uuid>``), the public id of a token, or part of a name.
        address: exact, or a prefix ending in ``.`` or ``:`` (``10.1.``).
        node: slug of a node: events of it and of what is below it.
        since, until: ``since`` is included, ``until`` is not.
        text: part of the actor's name, of the object's id or of the address.

    Raises:
        NotFound: another organization than the actor's, or a node that it does not see.
        PermissionDenied: the actor may read audit events nowhere, or not those of the node.
    """
    scope = directory().audit_scope(actor, organization_slug)
    events = AuditEvent.objects.filter(organization_id=scope.organization_id).order_by("-org_seq")
    if scope.node_ids is not None:
        events = events.filter(node_id__in=scope.node_ids)
    if node:
        events = events.filter(node_id__in=directory().subtree_ids(actor, organization_slug, node))
    if _holds_nul(action, object_kind, object_id, by, address, text):
        return events.none()
    if action:
        events = events.filter(_exact_or_prefix("action", action, "."))
    if by:
        events = events.filter(_done_by(by))
    if address:
        events = events.filter(_exact_or_prefix("address", address, ".:"))
    if text:
        events = events.filter(
            Q(actor_label__icontains=text) | Q(object_id__icontains=text) | Q(address__icontains=text)
        )
    wanted = {"object_kind": object_kind, "object_id": object_id, "at__gte": since, "at__lt": until}
    return events.filter(**{name: value for name, value in wanted.items() if value is not None})


def security_events(
    actor: Actor,
    organization_slug: str,
    *,
    kind: str | None = None,
    code: str | None = None,
    by: str | None = None,
    address: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    text: str = "",
) -> QuerySet[SecurityEvent]:
    """Return the rows of the security stream that ``actor`` may read, newest first; as :func:`audit_events`.

    Args:
        kind: one of :class:`SecurityKind`; another one finds nothing.
        code: of the refusal, exact.
        by, address: as in :func:`audit_events`.
        since, until: rows that have a part in this time.
        text: part of the actor's name, of what was tried or of the address.
    """
    scope = directory().audit_scope(actor, organization_slug)
    rows = SecurityEvent.objects.filter(organization_id=scope.organization_id).order_by("-id")
    if scope.node_ids is not None:
        rows = rows.filter(node_id__in=scope.node_ids)
    if _holds_nul(kind, code, by, address, text):
        return rows.none()
    if by:
        rows = rows.filter(_done_by(by))
    if address:
        rows = rows.filter(_exact_or_prefix("address", address, ".:"))
    if text:
        rows = rows.filter(Q(actor_label__icontains=text) | Q(action__icontains=text) | Q(address__icontains=text))
    wanted = {"kind": kind, "code": code, "last_at__gte": since, "first_at__lt": until}
    return rows.filter(**{name: value for name, value in wanted.items() if value})


@dataclass(frozen=True, slots=True)
class ChainState:
    """How a chain was when it was last verified (``found``; ``None``: not yet), and where it ends now.

    ``is_whole`` says whether the reader may read every event, and so which event is broken.
    """

    found: AuditVerification | None
    head: AuditHead | None
    is_whole: bool


def chain_state(actor: Actor, organization_slug: str) -> ChainState:
    """Return the state of the organization's chain. Two queries beside those of the scope.

    Raises:
        NotFound, PermissionDenied: as :func:`audit_events`.
    """
    scope = directory().audit_scope(actor, organization_slug)
    head = AuditHead.objects.filter(pk=scope.organization_id).first()
    return ChainState(verification_of(scope.organization_id), head, scope.node_ids is None)


def audited_organizations() -> Iterator[UUID]:
    """Yield the organizations that have a chain, deleted ones included."""
    heads = set(AuditHead.objects.values_list("organization_id", flat=True))
    yield from sorted(heads | set(AuditEvent.objects.order_by().values_list("organization_id", flat=True).distinct()))


def _done_by(text: str) -> Q:
    if ":" in text:
        return Q(actor=text) | Q(impersonator=text)
    return Q(credential_id=text) | Q(actor_label__icontains=text)


def _exact_or_prefix(column: str, text: str, ends: str) -> Q:
    return Q(**{f"{column}__startswith" if text.endswith(tuple(ends)) else column: text})


def _holds_nul(*texts: str | None) -> bool:
    """PostgreSQL takes no NUL, and no row has one."""
    return any("\x00" in text for text in texts if text)

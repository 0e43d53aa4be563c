"""What can be wrong with a chain, and finding out which of it a row that does not hold is."""

from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, islice
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from controlplane.audit.chain import GENESIS, event_mac, same
from controlplane.audit.models import AuditEvent

#: How far around its place an event is looked for when it is not where it belongs.
_SEARCHED: Final = 2_000


class BreakKind(StrEnum):
    CHANGED = "changed"
    DELETED = "deleted"
    REORDERED = "reordered"
    INSERTED = "inserted"
    TAIL_CUT = "tail_cut"
    HEAD_FORGED = "head_forged"
    CHECKPOINT_MISMATCH = "checkpoint_mismatch"
    SECURITY_CHANGED = "security_changed"
    UNKNOWN_KEY = "unknown_key"


@dataclass(frozen=True, slots=True)
class Break:
    """The first link that does not hold: its position, and the event there if there is one."""

    kind: BreakKind
    seq: int
    problem: str
    event_id: str = ""
    action: str = ""


def break_at(event: AuditEvent, kind: BreakKind, problem: str, *, seq: int | None = None) -> Break:
    """Return the break at an event."""
    return Break(kind, event.org_seq if seq is None else seq, problem, str(event.id), event.action)


def link_break(event: AuditEvent, *, seq: int, previous_mac: str) -> Break | None:
    """Return what is wrong with the event that is next in the table, which should be the one at ``seq``.

    Args:
        previous_mac: of the event before; empty for the first.
    """
    if event.org_seq > seq:
        return Break(BreakKind.DELETED, seq, f"event {seq} is missing")
    if event.key_version not in settings.AUDIT_KEYS:
        return break_at(event, BreakKind.UNKNOWN_KEY, f"AUDIT_KEYS has no key {event.key_version}")
    if not same(event_mac(event), event.mac):
        return _misplaced(event, seq) or _changed_or_inserted(event, previous_mac)
    if event.prev_mac != (previous_mac or GENESIS):
        return break_at(event, BreakKind.INSERTED, "the event does not follow the one before it")
    return None


def _misplaced(event: AuditEvent, seq: int) -> Break | None:
    """An event that is genuine at another position: moved there, or moved up because one before it is gone."""
    place = _genuine_place(event, seq)
    if place is None:
        return None
    others = _rows(event.organization_id).filter(org_seq__gt=seq)
    for other in islice(others.iterator(chunk_size=500), _SEARCHED):
        if _is_genuine_at(other, seq):
            return break_at(
                event, BreakKind.REORDERED, f"the event belongs at {place}, and event {seq} at {other.org_seq}"
            )
    if place > seq:
        return break_at(event, BreakKind.DELETED, f"event {seq} is missing, and those after it have been renumbered")
    return break_at(event, BreakKind.INSERTED, f"the event is a copy of event {place}")


def _changed_or_inserted(event: AuditEvent, previous_mac: str) -> Break:
    successor = _rows(event.organization_id).filter(org_seq__gt=event.org_seq).first()
    follows_previous = event.prev_mac == (previous_mac or GENESIS)
    followed = successor is None or same(successor.prev_mac, event.mac) or same(successor.prev_mac, event_mac(event))
    if successor is not None and not followed:
        # Nobody follows this row: it was pushed in when the next one, renumbered or not, follows the one before.
        renumbered = _is_genuine_at(successor, successor.org_seq - 1)
        if renumbered or successor.prev_mac == (previous_mac or GENESIS):
            return break_at(event, BreakKind.INSERTED, "the event was not written by this installation")
    problem = "the event has been changed" if follows_previous else "the event and what it follows have been changed"
    return break_at(event, BreakKind.CHANGED, problem)


def _genuine_place(event: AuditEvent, seq: int) -> int | None:
    nearby = chain.from_iterable((seq + step, seq - step) for step in range(1, _SEARCHED + 1))
    return next((place for place in nearby if place > 0 and _is_genuine_at(event, place)), None)


def _is_genuine_at(event: AuditEvent, seq: int) -> bool:
    return event.key_version in settings.AUDIT_KEYS and same(event_mac(event, org_seq=seq), event.mac)


def _rows(organization_id: UUID) -> QuerySet[AuditEvent]:
    return AuditEvent.objects.filter(organization_id=organization_id).order_by("org_seq")

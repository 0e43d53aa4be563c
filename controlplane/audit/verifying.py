"""Verifying a chain: every link from where it begins to its head, and whatever vouches for where that is.

What vouches that the chain had come so far: the head's seal, signed checkpoints, checkpoints kept elsewhere, and what
this process remembers. None of the first three can be made without a key of ``AUDIT_KEYS``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from controlplane.audit import heads
from controlplane.audit.breaks import Break, BreakKind, break_at, link_break
from controlplane.audit.chain import GENESIS, checkpoint_signature, same
from controlplane.audit.checkpoints import Pin
from controlplane.audit.models import AuditCheckpoint, AuditEvent, AuditHead, CheckpointKind
from controlplane.audit.sealing import SEAL, seal_problem

SECURITY_RETENTION: Final = "security.retention"


@dataclass(frozen=True, slots=True)
class ChainReport:
    """The outcome of verifying one organization's chain; ``found`` is the first link that does not hold."""

    organization_id: UUID
    events: int
    first_seq: int
    last_seq: int
    last_mac: str = ""
    checkpoints: int = 0
    found: Break | None = None

    @property
    def intact(self) -> bool:
        return self.found is None

    @property
    def broken_seq(self) -> int | None:
        """The position of the first break."""
        return self.found.seq if self.found else None

    @property
    def problem(self) -> str:
        """What is wrong there, in words; empty for an intact chain."""
        return self.found.problem if self.found else ""


@dataclass(frozen=True, slots=True)
class Voucher:
    """That the event at ``seq`` has ``mac``; ``said_by`` in words."""

    seq: int
    mac: str
    said_by: str


@dataclass(slots=True)
class Vouched:
    """What is known of a chain without its events."""

    head: AuditHead | None
    anchor: Voucher
    vouchers: list[Voucher]
    checkpoints: int
    problem: Break | None = None
    by_seq: dict[int, list[Voucher]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for voucher in self.vouchers:
            self.by_seq.setdefault(voucher.seq, []).append(voucher)


@dataclass(slots=True)
class Walk:
    """A part of a chain that was gone through: its last event, how many, and the first break."""

    last_seq: int
    last_mac: str
    events: int = 0
    found: Break | None = None


def audit_verify(organization_id: UUID, *, pins: Sequence[Pin] = ()) -> ChainReport:
    """Recompute an organization's chain from its beginning to its head. Constant memory; one query per 500 events.

    Args:
        pins: checkpoints of this organization that were kept elsewhere.

    Returns:
        The first event that does not hold; where all do, what is missing behind them, or forged beside them.
    """
    known = vouched(organization_id, pins)
    walk = walked(organization_id, known, after=known.anchor)
    found = walk.found or end_break(organization_id, known, walk)
    if found and anchor_moved(organization_id, known):
        return audit_verify(organization_id, pins=pins)
    return ChainReport(
        organization_id, walk.events, known.anchor.seq + 1, walk.last_seq, walk.last_mac, known.checkpoints, found
    )


def vouched(organization_id: UUID, pins: Sequence[Pin] = ()) -> Vouched:
    """Return what vouches for a chain: read before its events, so that none that is written meanwhile is missed."""
    memory = heads.remembered(organization_id)
    head = AuditHead.objects.filter(pk=organization_id).first()
    told = [pin for pin in pins if pin.organization == str(organization_id)]
    vouchers = [Voucher(pin.seq, pin.mac, f"the checkpoint {pin.number} kept elsewhere") for pin in told]
    anchor, previous, number, problem = Voucher(0, "", "the beginning"), GENESIS, 0, None
    for checkpoint in AuditCheckpoint.objects.filter(organization_id=organization_id).order_by("number"):
        number += 1
        problem = _checkpoint_break(checkpoint, number, previous)
        if problem:
            break
        previous = checkpoint.signature
        voucher = Voucher(checkpoint.org_seq, checkpoint.mac, f"checkpoint {checkpoint.number}")
        vouchers.append(voucher)
        if checkpoint.kind == CheckpointKind.RETENTION:
            anchor = voucher
    if problem is None and head is not None and number < head.checkpoints:
        problem = Break(
            BreakKind.CHECKPOINT_MISMATCH,
            head.checkpoint_seq,
            f"checkpoint {number + 1} of {head.checkpoints} is missing",
        )
    if memory is not None:
        vouchers.append(Voucher(*memory, "the memory of this process"))
    return Vouched(head, anchor, vouchers, number, problem)


def anchor_moved(organization_id: UUID, known: Vouched) -> bool:
    """Return whether the retention has removed events since ``known`` was read: what then seems broken may not be."""
    return vouched(organization_id).anchor.seq != known.anchor.seq


def walked(organization_id: UUID, known: Vouched, *, after: Voucher, most: int | None = None) -> Walk:
    """Go through the events behind ``after``, at most so many, until the head or the first break."""
    walk = Walk(after.seq, after.mac)
    end = known.head.org_seq if known.head else 0
    rows = events_of(organization_id).filter(org_seq__gt=after.seq, org_seq__lte=end)
    sealed_after = _sealed_rows_kept_after(organization_id)
    for event in islice(rows.iterator(chunk_size=500), most):
        walk.found = (
            link_break(event, seq=walk.last_seq + 1, previous_mac=walk.last_mac)
            or _voucher_break(event, known.by_seq.get(event.org_seq, ()))
            or _seal_break(event, sealed_after)
        )
        if walk.found:
            break
        walk.last_seq, walk.last_mac = event.org_seq, event.mac
        walk.events += 1
    return walk


def end_break(organization_id: UUID, known: Vouched, walk: Walk) -> Break | None:
    """Return what is wrong behind the last event: a tail that was cut, a head or a checkpoint that was forged."""
    head, last = known.head, walk.last_seq
    if head is None and events_of(organization_id).exists():
        return Break(BreakKind.HEAD_FORGED, last + 1, "there are events and no head")
    beyond = [voucher for voucher in known.vouchers if voucher.seq > last]
    if head is not None and head.org_seq > last:
        beyond.insert(0, Voucher(head.org_seq, head.mac, "the head"))
    if beyond:
        said = f"{beyond[0].said_by} says that there were events up to {beyond[0].seq}"
        return Break(BreakKind.TAIL_CUT, last + 1, f"the events after {last} are missing: {said}")
    if head is None:
        return known.problem
    if not heads.is_genuine(head):
        return Break(BreakKind.HEAD_FORGED, last, "the head was not written by this installation, or it was put back")
    if head.mac != walk.last_mac:
        return Break(BreakKind.HEAD_FORGED, last, "the head does not match the last event")
    return known.problem or _break_beyond(organization_id)


def events_of(organization_id: UUID) -> QuerySet[AuditEvent]:
    """Return an organization's events in the order of its chain."""
    return AuditEvent.objects.filter(organization_id=organization_id).order_by("org_seq")


def _checkpoint_break(checkpoint: AuditCheckpoint, number: int, previous: str) -> Break | None:
    seq = checkpoint.org_seq
    if checkpoint.number != number:
        return Break(BreakKind.CHECKPOINT_MISMATCH, seq, f"checkpoint {number} is missing")
    if checkpoint.key_version not in settings.AUDIT_KEYS:
        return Break(BreakKind.UNKNOWN_KEY, seq, f"AUDIT_KEYS has no key {checkpoint.key_version}")
    if checkpoint.previous != previous or not same(checkpoint_signature(checkpoint), checkpoint.signature):
        return Break(BreakKind.CHECKPOINT_MISMATCH, seq, f"checkpoint {number} was not signed by this installation")
    return None


def _voucher_break(event: AuditEvent, vouchers: Sequence[Voucher]) -> Break | None:
    for voucher in vouchers:
        if not same(voucher.mac, event.mac):
            return break_at(event, BreakKind.CHECKPOINT_MISMATCH, f"{voucher.said_by} says that another event was here")
    return None


def _seal_break(event: AuditEvent, kept_after: int) -> Break | None:
    if event.action != SEAL or event.org_seq <= kept_after:
        return None
    problem = seal_problem(event)
    if problem and event.org_seq <= _sealed_rows_kept_after(event.organization_id):
        return None  # removed meanwhile
    return break_at(event, BreakKind.SECURITY_CHANGED, problem) if problem else None


def _sealed_rows_kept_after(organization_id: UUID) -> int:
    """Return the last batch whose rows the retention has removed."""
    latest = events_of(organization_id).filter(action=SECURITY_RETENTION).last()
    return int((latest.after or {}).get("through", 0)) if latest else 0


def _break_beyond(organization_id: UUID) -> Break | None:
    """An event behind the head, which no transaction has written."""
    last = events_of(organization_id).last()
    head = AuditHead.objects.filter(pk=organization_id).first()  # read after: the head of that event, or a later one
    if last is not None and head is not None and last.org_seq > head.org_seq:
        return break_at(
            last, BreakKind.INSERTED, f"the event is behind the head at {head.org_seq}", seq=head.org_seq + 1
        )
    return None

"""The kept outcome of verifying: what health, metrics and pages ask, and the cheap way of keeping it up to date.

A run goes through what is new, and through a part of what is old, round and round: so a large log costs little each
time, and an old event that was changed is found in time. ``manage.py audit verify`` goes through everything at once.
"""

from datetime import timedelta
from typing import Final
from uuid import UUID

from django.db.models import Min

from controlplane.audit.breaks import Break, BreakKind
from controlplane.audit.chain import current_key, same, verification_seal
from controlplane.audit.models import AuditVerification
from controlplane.audit.verifying import ChainReport, Voucher, Walk, anchor_moved, end_break, events_of, vouched, walked
from controlplane.core import clock

#: New and old events of one run.
NEW_EVENTS: Final = 20_000
OLD_EVENTS: Final = 5_000
#: A run of any process within this time serves all.
EVERY: Final = timedelta(seconds=30)


def verification_of(organization_id: UUID) -> AuditVerification | None:
    """Return the latest verification of an organization's chain; a forged one says that it is."""
    found = AuditVerification.objects.filter(pk=organization_id).first()
    return found and _believed(found)


def verifications() -> list[AuditVerification]:
    """Return the latest verification of every chain. One query; for operators and the metrics only."""
    return [_believed(found) for found in AuditVerification.objects.order_by("organization_id")]


def broken_chains() -> int:
    """Return how many organizations' chains are broken. One query."""
    return sum(not found.intact for found in verifications())


def oldest_verification_s() -> float:
    """Return the seconds since the verification that is oldest; 0 when there is none."""
    oldest = AuditVerification.objects.aggregate(oldest=Min("at"))["oldest"]
    return 0.0 if oldest is None else max((clock.now() - oldest).total_seconds(), 0.0)


def verification_keep(report: ChainReport) -> AuditVerification:
    """Keep the outcome of a verification of the whole chain; an intact one clears a break that was kept."""
    now = clock.now()
    found = AuditVerification(
        organization_id=report.organization_id,
        at=now,
        full_at=now,
        verified_seq=report.last_seq,
        verified_mac=report.last_mac,
        again_seq=report.first_seq - 1,
    )
    return _kept(found, report.found)


def verification_run(organization_id: UUID) -> AuditVerification:
    """Verify what is new in an organization's chain and a part of what is old, and keep the outcome.

    A break that was found stays, until :func:`verification_keep` is given an intact report.
    """
    found = verification_of(organization_id) or AuditVerification(organization_id=organization_id)
    if not found.intact:
        return found
    known = vouched(organization_id)
    begun = max(Voucher(found.verified_seq, found.verified_mac, "the last verification"), known.anchor, key=_seq)
    walk = walked(organization_id, known, after=begun, most=NEW_EVENTS)
    problem = walk.found or _lost(organization_id, begun, known.anchor)
    if problem is None and (known.head is None or walk.last_seq >= known.head.org_seq or not walk.events):
        problem = end_break(organization_id, known, walk)
    again = Walk(0, "")
    if problem is None:
        again = _walked_again(organization_id, found.again_seq, known.anchor, begun.seq)
        problem = again.found
    if problem and anchor_moved(organization_id, known):
        return verification_run(organization_id)
    found.at = clock.now()
    found.verified_seq, found.verified_mac, found.again_seq = walk.last_seq, walk.last_mac, again.last_seq
    return _kept(found, problem)


def verification_due(organization_id: UUID) -> bool:
    """Return whether no process has verified this chain just now."""
    since = clock.now() - EVERY
    return not AuditVerification.objects.filter(pk=organization_id, at__gt=since).exists()


def _walked_again(organization_id: UUID, again_seq: int, anchor: Voucher, end: int) -> Walk:
    """Go on with the round through the old events; behind the last of them it begins anew."""
    if again_seq >= end or again_seq < anchor.seq:
        again_seq = anchor.seq
    begin = anchor
    if again_seq > anchor.seq:
        event = events_of(organization_id).filter(org_seq=again_seq).first()
        begin = Voucher(event.org_seq, event.mac, "") if event else anchor
    return walked(organization_id, vouched(organization_id), after=begin, most=OLD_EVENTS)


def _lost(organization_id: UUID, begun: Voucher, anchor: Voucher) -> Break | None:
    """What was verified last time must still be there."""
    if begun.seq <= anchor.seq:
        return None
    mac = events_of(organization_id).filter(org_seq=begun.seq).values_list("mac", flat=True).first()
    if mac is None:
        return Break(BreakKind.TAIL_CUT, begun.seq, f"event {begun.seq}, which had been verified, is missing")
    if not same(mac, begun.mac):
        return Break(BreakKind.CHANGED, begun.seq, f"event {begun.seq} is another one than when it was verified")
    return None


def _seq(voucher: Voucher) -> int:
    return voucher.seq


def _kept(found: AuditVerification, problem: Break | None) -> AuditVerification:
    found.intact = problem is None
    found.kind = problem.kind.value if problem else ""
    found.broken_seq = problem.seq if problem else None
    found.broken_id = problem.event_id if problem else ""
    found.broken_action = problem.action if problem else ""
    found.problem = problem.problem[:300] if problem else ""
    found.key_version = current_key()
    found.seal = verification_seal(found)
    found.save()
    return found


def _believed(found: AuditVerification) -> AuditVerification:
    try:
        genuine = same(found.seal, verification_seal(found))
    except KeyError:
        genuine = False
    if not genuine:
        found.intact, found.kind = False, "verification_forged"
        found.problem = "the kept verification was not written by this installation"
    return found

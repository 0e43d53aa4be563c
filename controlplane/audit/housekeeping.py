"""What the audit log does by itself, again and again, in every process that sweeps."""

from collections.abc import Callable, Iterable
from uuid import UUID

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection
from django.db.models import Q

from controlplane.audit.checkpoints import checkpoint_write, checkpoints_due
from controlplane.audit.models import AuditHead, AuditVerification, CheckpointKind, SecurityEvent
from controlplane.audit.retention import retention_apply
from controlplane.audit.sealing import security_seal
from controlplane.audit.security_stream import stream
from controlplane.audit.verification import verification_due, verification_run
from controlplane.core.errors import Conflict

log = structlog.get_logger(__name__)


def security_housekeeping() -> None:
    """Write counts that have grown since, and seal the rows whose minute is over."""
    stream.write()
    waiting = SecurityEvent.objects.filter(batch__isnull=True).order_by().values_list("organization_id", flat=True)
    _each(waiting.distinct(), security_seal, job="security")


def chain_housekeeping() -> None:
    """Verify what is new in every chain and a part of what is old, then sign where those that hold have come to."""
    _each(_organizations(), _verify, job="chains")
    broken = set(AuditVerification.objects.filter(~Q(intact=True)).values_list("organization_id", flat=True))
    _each([pk for pk in checkpoints_due() if pk not in broken], _checkpoint, job="checkpoints")


def retention_housekeeping() -> None:
    """Remove what is older than the installation keeps."""
    days, security_days = settings.AUDIT_RETENTION_DAYS, settings.SECURITY_RETENTION_DAYS
    if not days and not security_days:
        return

    def retain(organization_id: UUID) -> None:
        try:
            retention_apply(organization_id=organization_id, days=days, security_days=security_days)
        except Conflict as error:
            log.warning("audit.retention_refused", organization=str(organization_id), reason=error.detail)

    _each(_organizations(), retain, job="retention")


def _verify(organization_id: UUID) -> None:
    if not verification_due(organization_id):
        return
    found = verification_run(organization_id)
    if not found.intact:
        log.error("audit.chain_broken", organization=str(organization_id), kind=found.kind, seq=found.broken_seq)


def _checkpoint(organization_id: UUID) -> None:
    checkpoint_write(organization_id=organization_id, kind=CheckpointKind.PERIODIC)


def _organizations() -> Iterable[UUID]:
    return AuditHead.objects.order_by().values_list("organization_id", flat=True)


def _each(organizations: Iterable[UUID], work: Callable[[UUID], object], *, job: str) -> None:
    """Do the work for every organization; one whose work fails is logged and keeps no other from its turn."""
    for organization_id in list(organizations):
        try:
            work(organization_id)
        except Exception as error:  # the next time tries again
            log.exception("audit.housekeeping_failed", job=job, organization=str(organization_id))
            if isinstance(error, OperationalError | InterfaceError) and not connection.in_atomic_block:
                connection.close()  # the others get one that works

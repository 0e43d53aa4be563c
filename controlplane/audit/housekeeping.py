"""What the audit log does by itself, again and again, in every process that sweeps."""

import structlog
from django.conf import settings
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
    for organization_id in waiting.distinct():
        security_seal(organization_id)


def chain_housekeeping() -> None:
    """Verify what is new in every chain and a part of what is old, then sign where those that hold have come to."""
    for organization_id in AuditHead.objects.order_by().values_list("organization_id", flat=True):
        if not verification_due(organization_id):
            continue
        found = verification_run(organization_id)
        if not found.intact:
            log.error("audit.chain_broken", organization=str(organization_id), kind=found.kind, seq=found.broken_seq)
    broken = set(AuditVerification.objects.filter(~Q(intact=True)).values_list("organization_id", flat=True))
    for organization_id in checkpoints_due():
        if organization_id not in broken:
            checkpoint_write(organization_id=organization_id, kind=CheckpointKind.PERIODIC)


def retention_housekeeping() -> None:
    """Remove what is older than the installation keeps."""
    days, security_days = settings.AUDIT_RETENTION_DAYS, settings.SECURITY_RETENTION_DAYS
    if not days and not security_days:
        return
    for organization_id in AuditHead.objects.order_by().values_list("organization_id", flat=True):
        try:
            retention_apply(organization_id=organization_id, days=days, security_days=security_days)
        except Conflict as error:
            log.warning("audit.retention_refused", organization=str(organization_id), reason=error.detail)

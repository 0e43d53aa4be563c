"""Rows of the audit log: the chain, its signed checkpoints, and the security stream beside it."""

from controlplane.audit.models.checkpoints import AuditCheckpoint, AuditVerification, CheckpointKind
from controlplane.audit.models.events import INSTALLATION, AuditEvent, AuditHead
from controlplane.audit.models.security import SecurityEvent, SecurityKind

__all__ = [
    "INSTALLATION",
    "AuditCheckpoint",
    "AuditEvent",
    "AuditHead",
    "AuditVerification",
    "CheckpointKind",
    "SecurityEvent",
    "SecurityKind",
]

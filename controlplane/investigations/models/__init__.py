"""Rows of investigations: threads, runs and their log, what is said, decided, kept and sent."""

from controlplane.investigations.models.approvals import ActionApproval, Execution
from controlplane.investigations.models.calls import IdempotentCall
from controlplane.investigations.models.feedback import Feedback, Miss, Verdict
from controlplane.investigations.models.files import StoredFile
from controlplane.investigations.models.reported import ReportedRun
from controlplane.investigations.models.retention import LegalHold, RetentionPolicy, ThreadTombstone
from controlplane.investigations.models.runs import (
    ACTIVE_STATUSES,
    END_STATUSES,
    Artifact,
    Audience,
    Event,
    Priority,
    Run,
    RunStatus,
    Thread,
    Visibility,
)
from controlplane.investigations.models.talking import AguiThread, ClientThread, Message
from controlplane.investigations.models.webhooks import DeliveryState, WebhookDelivery
from controlplane.investigations.models.workers import WorkerProcess

__all__ = [
    "ACTIVE_STATUSES",
    "END_STATUSES",
    "ActionApproval",
    "AguiThread",
    "Artifact",
    "Audience",
    "ClientThread",
    "DeliveryState",
    "Event",
    "Execution",
    "Feedback",
    "IdempotentCall",
    "LegalHold",
    "Message",
    "Miss",
    "Priority",
    "ReportedRun",
    "RetentionPolicy",
    "Run",
    "RunStatus",
    "StoredFile",
    "Thread",
    "ThreadTombstone",
    "Verdict",
    "Visibility",
    "WebhookDelivery",
    "WorkerProcess",
]

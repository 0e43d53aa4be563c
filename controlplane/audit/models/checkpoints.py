"""What vouches for the chain: signed checkpoints, and the outcome of the latest verification."""

from django.db import models
from typing_extensions import override


class CheckpointKind(models.TextChoices):
    PERIODIC = "periodic"
    COMMAND = "command"
    RETENTION = "retention"


class AuditCheckpoint(models.Model):
    """That the chain of an organization was at ``org_seq`` with ``mac``: signed, and chained to the one before.

    One of kind ``retention`` stands at the last event that was removed: the chain begins behind it. Triggers refuse
    changing or deleting a checkpoint, and refuse deleting an event that no ``retention`` checkpoint covers.
    """

    organization_id = models.UUIDField()
    number = models.PositiveIntegerField(help_text="Gapless per organization, from 1.")
    kind = models.CharField(max_length=16, choices=CheckpointKind.choices)
    org_seq = models.PositiveBigIntegerField()
    mac = models.CharField(max_length=64, help_text="Of the event at org_seq.")
    count = models.PositiveBigIntegerField(help_text="Events in the database up to there.")
    at = models.DateTimeField()
    previous = models.CharField(max_length=64, help_text="Signature of the checkpoint before.")
    signature = models.CharField(max_length=64)
    key_version = models.PositiveSmallIntegerField()

    class Meta:
        ordering = ["organization_id", "number"]
        constraints = [models.UniqueConstraint(fields=["organization_id", "number"], name="audit_checkpoint_number")]
        indexes = [models.Index(fields=["organization_id", "kind", "org_seq"], name="audit_checkpoint_kind")]

    @override
    def __str__(self) -> str:
        return f"checkpoint {self.number} @ {self.org_seq}"


class AuditVerification(models.Model):
    """How far an organization's chain has been verified, and the first break that was found.

    A break stays until a full verification finds the chain intact. ``seal`` is an HMAC of the other columns: who writes
    to the database and has no key cannot make a break go away.
    """

    organization_id = models.UUIDField(primary_key=True)
    at = models.DateTimeField()
    full_at = models.DateTimeField(null=True, help_text="When the whole chain was verified last.")
    verified_seq = models.PositiveBigIntegerField(default=0)
    verified_mac = models.CharField(max_length=64, blank=True)
    again_seq = models.PositiveBigIntegerField(default=0, help_text="How far old events have been verified again.")
    intact = models.BooleanField(default=True)
    kind = models.CharField(max_length=24, blank=True)
    broken_seq = models.PositiveBigIntegerField(null=True)
    broken_id = models.CharField(max_length=64, blank=True)
    broken_action = models.CharField(max_length=64, blank=True)
    problem = models.CharField(max_length=300, blank=True)
    key_version = models.PositiveSmallIntegerField(default=0)
    seal = models.CharField(max_length=64, blank=True)

    class Meta:
        indexes = [models.Index(fields=["intact"], name="audit_verification_intact")]

    @override
    def __str__(self) -> str:
        return f"{self.organization_id}: {'intact' if self.intact else self.kind}"

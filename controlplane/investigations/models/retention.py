"""How long investigations are kept, what is held, and what is left of those removed."""

from django.db import models
from typing_extensions import override

from controlplane.core.ids import new_id
from controlplane.investigations.models.runs import Visibility
from controlplane.orgs.models import Node, Organization


class RetentionPolicy(models.Model):
    """How long an organization keeps what it found; ``None`` keeps it for ever. A hold keeps everything meanwhile."""

    organization = models.OneToOneField(
        Organization, primary_key=True, on_delete=models.PROTECT, related_name="retention_policy"
    )
    investigation_days = models.PositiveIntegerField(null=True, blank=True)
    alert_days = models.PositiveIntegerField(null=True, blank=True)
    hold = models.BooleanField(default=False)
    changed_at = models.DateTimeField(auto_now=True)

    @override
    def __str__(self) -> str:
        return f"{self.organization_id}"


class LegalHold(models.Model):
    """An investigation that no retention removes, named by its id alone: who holds it need not see it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="legal_holds")
    thread_id = models.UUIDField()
    reason = models.CharField(max_length=500, blank=True)
    by_label = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [models.UniqueConstraint(fields=["organization", "thread_id"], name="legal_hold_once")]

    @override
    def __str__(self) -> str:
        return f"{self.thread_id}"


class ThreadTombstone(models.Model):
    """That there was an investigation, without a word of it, so that its links say what became of it."""

    id = models.UUIDField(primary_key=True, editable=False, help_text="The thread's.")
    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="thread_tombstones")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="thread_tombstones")
    starter_id = models.UUIDField(null=True)
    visibility = models.CharField(max_length=8, choices=Visibility)
    started_at = models.DateTimeField()
    runs = models.PositiveIntegerField()
    events = models.PositiveBigIntegerField()
    removed_at = models.DateTimeField()
    days = models.PositiveIntegerField(help_text="What the policy was.")

    @override
    def __str__(self) -> str:
        return f"{self.id}"

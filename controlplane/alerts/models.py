"""Alert groups: what alert sources said, and the thread on which it is investigated."""

from django.db import models
from typing_extensions import override

from controlplane.core.ids import new_id
from controlplane.investigations.models import Thread
from controlplane.orgs.models import Node, Organization


class Source(models.TextChoices):
    ALERTMANAGER = "alertmanager"


class GroupStatus(models.TextChoices):
    FIRING = "firing"
    RESOLVED = "resolved"


class AlertGroup(models.Model):
    """One group of alerts of one team, as its source groups them. Every text in it is redacted and bounded.

    The row is the lock under which deliveries of the group are taken in, one after the other.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="alert_groups")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="alert_groups")
    source = models.CharField(max_length=16, choices=Source)
    group_key = models.CharField(max_length=64, help_text="SHA-256 of the source's key of the group.")
    group_text = models.CharField(max_length=500, help_text="The source's key of the group, to read.")
    status = models.CharField(max_length=8, choices=GroupStatus)
    severity = models.CharField(max_length=40, blank=True)
    title = models.CharField(max_length=200)
    labels = models.JSONField(default=dict, help_text="Labels that all alerts of the group share.")
    firing_count = models.PositiveIntegerField(default=0)
    starts_at = models.DateTimeField(null=True, blank=True, help_text="Start of the earliest firing alert.")
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    deliveries = models.PositiveBigIntegerField(default=0)
    thread = models.ForeignKey(Thread, null=True, blank=True, on_delete=models.SET_NULL, related_name="alert_groups")
    fingerprints = models.JSONField(default=list, help_text="Digests of the alerts that the thread has been told of.")
    told_status = models.CharField(
        max_length=8, choices=GroupStatus, blank=True, help_text="The status that the thread has been told of."
    )
    pending_message = models.UUIDField(null=True, blank=True, help_text="The last message to the thread.")

    class Meta:
        ordering = ["-last_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["node", "source", "group_key"], name="alert_group_once"),
        ]
        indexes = [models.Index(fields=["organization", "-last_at", "-id"], name="alert_group_newest")]

    @override
    def __str__(self) -> str:
        return f"{self.title} {self.status}"

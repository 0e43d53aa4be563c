"""The outbox of what receivers elsewhere are told."""

from django.db import models
from django.db.models import Q
from typing_extensions import override

from controlplane.core.ids import new_id
from controlplane.investigations.models.runs import Run, Thread
from controlplane.orgs.models import Node, Organization


class DeliveryState(models.TextChoices):
    """``pending`` until ``delivered``, ``dead`` (tried often enough) or ``cancelled`` (nobody to send it to)."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"
    CANCELLED = "cancelled"


class WebhookDelivery(models.Model):
    """One thing one receiver is told: the outbox, written in the transaction that ends the run.

    The receiver's address and secret are read from the configuration when it is sent: no row holds either. ``position``
    orders the deliveries of a thread; a claim is ``lease_until`` and ``claim``, by the database's clock.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="webhook_deliveries")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="webhook_deliveries")
    hook = models.CharField(max_length=63, help_text="Name in the section webhooks.")
    event = models.CharField(max_length=24)
    thread = models.ForeignKey(Thread, null=True, blank=True, on_delete=models.CASCADE, related_name="deliveries")
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.CASCADE, related_name="deliveries")
    position = models.PositiveIntegerField(default=0)
    payload = models.TextField()
    state = models.CharField(max_length=9, choices=DeliveryState, default=DeliveryState.PENDING)
    attempts = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField(null=True, blank=True)
    last_status = models.PositiveIntegerField(null=True, blank=True, help_text="HTTP status of the last answer.")
    last_error = models.CharField(max_length=40, blank=True, help_text="A stable code.")
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    claim = models.UUIDField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["run", "hook", "event"], name="webhook_delivery_once"),
        ]
        indexes = [
            models.Index(fields=["next_at"], name="webhook_due", condition=Q(state="pending")),
            models.Index(fields=["thread", "hook", "position"], name="webhook_order", condition=Q(state="pending")),
            models.Index(fields=["node", "-created_at"], name="webhook_by_node"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.hook} {self.event} {self.state}"

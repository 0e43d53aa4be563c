"""One queue for every kind of approval."""

from django.db import models
from django.db.models import Q
from typing_extensions import override

from controlplane.core.ids import new_id
from controlplane.orgs.models import Node, Organization


class ReviewState(models.TextChoices):
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    NEEDS_REBASE = "needs_rebase"


class ReviewRequest(models.Model):
    """Something that happens only if a person other than its author approves it.

    ``state`` lives here and nowhere else; it leaves ``pending`` once, by one conditional UPDATE of this row.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(Organization, on_delete=models.CASCADE, related_name="reviews")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="reviews")
    kind = models.CharField(max_length=32)
    state = models.CharField(max_length=16, choices=ReviewState, default=ReviewState.PENDING)
    title = models.CharField(max_length=200)
    requested_by = models.CharField(max_length=128, help_text="Principal of the author.")
    requested_label = models.CharField(max_length=200, help_text="Display name of the author.")
    channel = models.CharField(max_length=16, help_text="Where the author came in.")
    reason = models.CharField(max_length=500, blank=True)
    snapshot = models.JSONField(default=dict, help_text="What would happen.")
    diff = models.JSONField(default=list, help_text="The operations, by JSON Pointer.")
    evidence = models.JSONField(default=list, help_text="What speaks for it.")
    base = models.JSONField(default=dict, help_text="What it was made against: version and digests.")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    decided_by = models.CharField(max_length=128, blank=True, help_text="Principal of who ended it.")
    decided_label = models.CharField(max_length=200, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)
    decision_reason = models.CharField(max_length=500, blank=True)
    result = models.JSONField(default=dict, help_text="What became of it.")

    class Meta:
        ordering = ["-created_at", "-id"]
        indexes = [
            models.Index(fields=["organization", "state", "created_at"], name="review_queue"),
            models.Index(fields=["organization", "created_at"], name="review_list"),
            models.Index(fields=["expires_at"], condition=Q(state="pending"), name="review_due"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(state=ReviewState.PENDING, decided_at__isnull=True)
                | (~Q(state=ReviewState.PENDING) & Q(decided_at__isnull=False)),
                name="review_ended_has_time",
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.state} on {self.node_id}"

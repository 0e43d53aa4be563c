"""Calls that a person approves before they are made."""

from django.db import models
from typing_extensions import override

from controlplane.core.ids import new_id
from controlplane.investigations.models.runs import Run
from controlplane.reviews.models import ReviewRequest


class Execution(models.TextChoices):
    """Whether an approved call was made. ``STARTED`` for ever: its worker was lost, and nobody knows what it did."""

    NONE = "none"
    STARTED = "started"
    FINISHED = "finished"


class ActionApproval(models.Model):
    """A call that a run asks a person for: exactly this tool with exactly these arguments, once.

    Whether it is approved is the review's state and nothing else. ``arguments`` are what is shown and what is done.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False, help_text="The request's id in the log.")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="approvals")
    review = models.OneToOneField(ReviewRequest, on_delete=models.PROTECT, related_name="agent_action")
    tool = models.CharField(max_length=200)
    arguments = models.JSONField(default=dict)
    digest = models.CharField(max_length=64, help_text="SHA-256 of tool and arguments.")
    expires_at = models.DateTimeField()
    execution = models.CharField(max_length=8, choices=Execution, default=Execution.NONE)
    epoch = models.PositiveBigIntegerField(null=True, blank=True, help_text="Of the claim that made the call.")
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    outcome = models.TextField(blank=True, help_text="How the call ended, as its event has it.")

    class Meta:
        ordering = ["-expires_at", "-id"]

    @override
    def __str__(self) -> str:
        return f"{self.tool} of {self.run_id} {self.execution}"

"""What readers say of answers."""

from django.db import models
from typing_extensions import override

from controlplane.core.ids import new_id
from controlplane.investigations.models.runs import Run


class Verdict(models.TextChoices):
    """What a reader says of a run's answer."""

    CORRECT = "correct"
    PARTIAL = "partial"
    WRONG = "wrong"


class Miss(models.TextChoices):
    """Why an answer was not right, as its rater sees it."""

    RETRIEVAL_GAP = "retrieval_gap"
    REASONING_GAP = "reasoning_gap"
    TOOL_FAILURE = "tool_failure"
    ROUTING_FAILURE = "routing_failure"
    UNKNOWN = "unknown"


class Feedback(models.Model):
    """One rating of a run: one row for each principal, and for each person a machine speaks for."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="feedback")
    verdict = models.CharField(max_length=8, choices=Verdict)
    reason = models.TextField(blank=True)
    miss = models.CharField(
        max_length=16, choices=Miss, blank=True, default="", db_default="", help_text="Shown to the rater alone."
    )
    by = models.CharField(max_length=128, help_text="Principal.")
    on_behalf_of = models.CharField(max_length=128, blank=True, help_text="Whom a machine's credential speaks for.")
    by_label = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField()

    class Meta:
        ordering = ["created_at", "id"]
        constraints = [models.UniqueConstraint(fields=["run", "by", "on_behalf_of"], name="feedback_once")]

    @override
    def __str__(self) -> str:
        return f"{self.run_id} {self.verdict}"

"""What is kept of runtimes themselves: how they did when they were measured."""

from django.db import models
from typing_extensions import override

from controlplane.core.ids import new_id


class Evaluation(models.Model):
    """The result of one suite; the newest of each suite and runtime is the one that counts."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    suite = models.CharField(max_length=32)
    runtime = models.CharField(max_length=32)
    score = models.FloatField(help_text="The suite's figure of merit, 0 to 1.")
    result = models.JSONField(help_text="As the command prints it with --json.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at", "-id"]
        indexes = [models.Index(fields=["suite", "runtime", "-created_at"], name="evaluation_latest")]

    @override
    def __str__(self) -> str:
        return f"{self.suite} {self.runtime} {self.score:.0%}"

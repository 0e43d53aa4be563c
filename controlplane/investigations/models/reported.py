"""Runs of agents that work elsewhere and report here, as OpenSRE's agents do to their configuration service."""

from django.db import models
from typing_extensions import override

from controlplane.core.ids import new_id
from controlplane.orgs.models import Node, Organization


class ReportedRun(models.Model):
    """What an agent says of a run of its own. Every text is redacted and bounded; nothing here is verified."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="reported_runs")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="reported_runs")
    name = models.CharField(max_length=128, help_text="The agent's id of the run.")
    by = models.CharField(max_length=128, help_text="Principal.")
    correlation_id = models.CharField(max_length=240, blank=True)
    agent_name = models.CharField(max_length=128, blank=True)
    trigger_source = models.CharField(max_length=64, blank=True)
    trigger_actor = models.CharField(max_length=128, blank=True)
    trigger_message = models.TextField(blank=True)
    trigger_channel_id = models.CharField(max_length=240, blank=True)
    metadata = models.JSONField(default=dict)
    status = models.CharField(max_length=12, default="running")
    output_summary = models.TextField(blank=True)
    output_json = models.JSONField(null=True, blank=True)
    error_message = models.TextField(blank=True)
    confidence = models.FloatField(null=True, blank=True)
    duration_seconds = models.FloatField(null=True, blank=True)
    tool_calls_count = models.PositiveIntegerField(default=0)
    thoughts = models.JSONField(default=list)
    tool_calls = models.JSONField(default=list)
    sdk_session_id = models.CharField(max_length=128, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [models.UniqueConstraint(fields=["node", "name"], name="reported_run_once")]
        indexes = [models.Index(fields=["organization", "-created_at"], name="reported_run_newest")]

    @override
    def __str__(self) -> str:
        return self.name

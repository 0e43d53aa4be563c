"""Alert groups: what alert sources said, and the thread on which it is investigated."""

from django.db import models
from django.db.models import Q
from typing_extensions import override

from controlplane.core.ids import new_id
from controlplane.investigations.models import Thread
from controlplane.orgs.models import Node, Organization


class Source(models.TextChoices):
    ALERTMANAGER = "alertmanager", "Alertmanager"
    GRAFANA = "grafana", "Grafana"
    PAGERDUTY = "pagerduty", "PagerDuty"
    OPSGENIE = "opsgenie", "Opsgenie"
    DATADOG = "datadog", "Datadog"
    SENTRY = "sentry", "Sentry"
    CLOUDWATCH = "cloudwatch", "CloudWatch"
    AZURE = "azure", "Azure Monitor"
    INCIDENTIO = "incidentio", "incident.io"
    GENERIC = "generic", "Webhook"


class GroupStatus(models.TextChoices):
    FIRING = "firing"
    RESOLVED = "resolved"


class Fate(models.TextChoices):
    """What became of an alert."""

    INVESTIGATED = "investigated", "Investigated"
    JOINED = "joined", "Joined a run"
    WAITING = "waiting", "Waiting"
    SKIPPED = "skipped", "Skipped"


class Reason(models.TextChoices):
    """Why an alert waits or was skipped."""

    DEBOUNCE = "debounce", "It may resolve by itself: it must keep firing first."
    NO_ROOM = "no_room", "The run's messages are full; the next delivery tells it."
    SELF_RESOLVED = "self_resolved", "It resolved by itself before a run was started."
    RESOLVED_ONLY = "resolved_only", "It was over when it was first heard of."
    BUDGET = "budget", "The team's runs for alerts were used up for this hour."
    REPEAT_WINDOW = "repeat_window", "The same alert was looked at a short while ago."
    TEAM_ARCHIVED = "team_archived", "The team was archived before a run was started."
    NOT_STARTED = "not_started", "A run could not be started; see the log."


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

    fate = models.CharField(max_length=12, choices=Fate, blank=True)
    fate_reason = models.CharField(max_length=16, choices=Reason, blank=True)
    run_id = models.UUIDField(null=True, blank=True, help_text="The run that the fate is about.")
    held_until = models.DateTimeField(null=True, blank=True, help_text="When a run starts if it still fires.")
    held = models.JSONField(null=True, blank=True, help_text="What that run is to be started with.")

    class Meta:
        ordering = ["-last_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["node", "source", "group_key"], name="alert_group_once"),
        ]
        indexes = [
            models.Index(fields=["organization", "-last_at", "-id"], name="alert_group_newest"),
            models.Index(fields=["held_until"], name="alert_group_held", condition=Q(held_until__isnull=False)),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.title} {self.status}"


class Alert(models.Model):
    """One alert of a group, and what became of it. Every text in it is redacted and bounded."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    group = models.ForeignKey(AlertGroup, on_delete=models.CASCADE, related_name="alerts")
    digest = models.CharField(max_length=16, help_text="Of what tells it from the others of its group.")
    status = models.CharField(max_length=8, choices=GroupStatus)
    name = models.CharField(max_length=200)
    severity = models.CharField(max_length=40, blank=True)
    service = models.CharField(max_length=200, blank=True)
    host = models.CharField(max_length=200, blank=True)
    workload = models.CharField(max_length=200, blank=True)
    summary = models.CharField(max_length=500, blank=True)
    url = models.CharField(max_length=1_000, blank=True)
    starts_at = models.DateTimeField(null=True, blank=True)
    details = models.JSONField(default=dict, help_text="Labels and annotations.")
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    times = models.PositiveBigIntegerField(default=1, help_text="How often it was delivered.")
    fate = models.CharField(max_length=12, choices=Fate, blank=True)
    fate_reason = models.CharField(max_length=16, choices=Reason, blank=True)
    run_id = models.UUIDField(null=True, blank=True, help_text="The run that looks or looked at it.")

    class Meta:
        ordering = ["-last_at", "-id"]
        constraints = [models.UniqueConstraint(fields=["group", "digest"], name="alert_once_in_group")]
        indexes = [models.Index(fields=["group", "-last_at", "-id"], name="alert_newest_of_group")]

    @override
    def __str__(self) -> str:
        return f"{self.name} {self.status} {self.fate}"


class AlertDelivery(models.Model):
    """What must be remembered of a delivery: that it was taken in, and that it started a run.

    The first refuses the same delivery sent again, the second is what a team's budget is counted by.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    group = models.ForeignKey(AlertGroup, on_delete=models.CASCADE, related_name="alert_deliveries")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="alert_deliveries")
    key = models.CharField(max_length=64, blank=True, help_text="Digest of the sender's id of the delivery.")
    action = models.CharField(max_length=12)
    at = models.DateTimeField()

    class Meta:
        ordering = ["-at"]
        constraints = [
            models.UniqueConstraint(fields=["group", "key"], name="alert_delivery_once", condition=~Q(key="")),
        ]
        indexes = [
            models.Index(fields=["node", "at"], name="alert_delivery_started", condition=Q(action="started")),
            models.Index(fields=["at"], name="alert_delivery_age"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.action} {self.at}"

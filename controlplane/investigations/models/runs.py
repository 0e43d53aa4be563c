"""Threads, their runs, and the event log that is the only truth about both."""

from django.db import models
from django.db.models import Q
from typing_extensions import override

from controlplane.access.models import User
from controlplane.core.ids import new_id
from controlplane.orgs.models import Node, Organization


class Visibility(models.TextChoices):
    PRIVATE = "private"
    TEAM = "team"


class RunStatus(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    TIMEOUT = "timeout"


class Priority(models.IntegerChoices):
    """What a run is claimed before: somebody waits for an interactive one, an alert's can wait a moment."""

    INTERACTIVE = 0
    ALERT = 10


ACTIVE_STATUSES = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING)
END_STATUSES = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.INTERRUPTED, RunStatus.TIMEOUT)


class Audience(models.TextChoices):
    """Who sees an event's data: everybody who may read the thread, or its starter alone."""

    THREAD = "thread"
    STARTER = "starter"


class Artifact(models.Model):
    """Evidence as it came in, redacted and immutable: zlib-compressed JSON with the digest of the plain bytes."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="artifacts")
    format = models.CharField(max_length=32)
    sha256 = models.CharField(max_length=64)
    size_bytes = models.PositiveIntegerField()
    content = models.BinaryField()
    created_at = models.DateTimeField(auto_now_add=True)

    @override
    def __str__(self) -> str:
        return f"{self.format} {self.sha256[:12]}"


class Thread(models.Model):
    """A conversation. Its row carries the log's counter and the lease of its one active run, fenced by ``epoch``.

    Fence and counter share a row on purpose: a conditional UPDATE is re-checked after waiting for the row's lock, so a
    writer that lost its lease can never slip in an event.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="threads")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="threads")
    title = models.CharField(max_length=200)
    visibility = models.CharField(max_length=8, choices=Visibility)
    starter = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="threads")
    started_by = models.CharField(max_length=128, help_text="Principal.")
    started_by_label = models.CharField(max_length=200)
    channel = models.CharField(max_length=16)
    sample = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    last_seq = models.PositiveBigIntegerField(default=0)
    epoch = models.PositiveBigIntegerField(default=0)
    active_run = models.UUIDField(null=True, blank=True)
    lease_owner = models.CharField(max_length=100, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["lease_until"], name="thread_lease", condition=Q(lease_until__isnull=False)),
            models.Index(fields=["node", "-created_at"], name="thread_by_node"),
        ]

    @override
    def __str__(self) -> str:
        return self.title


class Run(models.Model):
    """One turn of a thread: a prompt, the work of an agent, an end."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="runs")
    number = models.PositiveIntegerField(help_text="Position in the thread, from 1.")
    status = models.CharField(max_length=12, choices=RunStatus, default=RunStatus.QUEUED)
    reason = models.CharField(max_length=200, blank=True)
    priority = models.PositiveSmallIntegerField(
        choices=Priority, default=Priority.INTERACTIVE, db_default=Priority.INTERACTIVE
    )
    prompt = models.TextField()
    alert = models.JSONField(null=True, blank=True)
    artifact = models.ForeignKey(Artifact, null=True, blank=True, on_delete=models.PROTECT, related_name="runs")
    runtime = models.CharField(max_length=32)
    requested_by = models.CharField(max_length=128, help_text="Principal.")
    requested_by_label = models.CharField(max_length=200)
    config_chain = models.JSONField(
        default=list, help_text="[[node id, version], …], root first, pinned at acceptance."
    )
    attempt = models.PositiveIntegerField(default=0)
    headline = models.CharField(max_length=300, blank=True, help_text="First line of the answer, for lists.")
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    worked_seconds = models.FloatField(default=0, help_text="Spent in earlier claims; counts against the wall clock.")
    interrupt_requested_at = models.DateTimeField(null=True, blank=True)
    interrupt_requested_by = models.CharField(max_length=200, blank=True)
    waiting_for = models.CharField(max_length=64, blank=True, help_text="The request a suspended run waits for.")
    waiting_until = models.DateTimeField(null=True, blank=True)
    resume = models.JSONField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["thread", "number"], name="run_number_unique"),
            models.UniqueConstraint(
                fields=["thread"], condition=Q(status__in=ACTIVE_STATUSES), name="run_one_active_per_thread"
            ),
        ]
        indexes = [
            models.Index(fields=["status", "created_at"], name="run_active", condition=Q(status__in=ACTIVE_STATUSES)),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.thread_id} #{self.number} {self.status}"

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE_STATUSES


class Event(models.Model):
    """One row of the log. ``data`` is the encoded JSON of the type's schema: written once, served as it is."""

    pk = models.CompositePrimaryKey("thread_id", "seq")
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="events", db_index=False)
    seq = models.PositiveBigIntegerField()
    run_id = models.UUIDField(null=True)
    type = models.CharField(max_length=24)
    at = models.DateTimeField()
    audience = models.CharField(max_length=8, choices=Audience, default=Audience.THREAD)
    data = models.TextField()

    class Meta:
        ordering = ["thread", "seq"]
        indexes = [models.Index(fields=["run_id", "type"], name="event_by_run")]

    @override
    def __str__(self) -> str:
        return f"{self.thread_id}/{self.seq} {self.type}"

"""Threads, their runs, and the event log that is the only truth about both."""

from django.db import models
from django.db.models import Q
from typing_extensions import override

from controlplane.access.models import User
from controlplane.core.ids import new_id
from controlplane.orgs.models import Node, Organization
from controlplane.reviews.models import ReviewRequest


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


class Message(models.Model):
    """What was said to a thread after its first prompt; ``run`` is the run that took it up.

    A notice (``starts_run`` false) that the active run does not take up starts no other: it is settled at that run's
    end, with that run as ``run``.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="messages")
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.CASCADE, related_name="messages")
    text = models.TextField()
    by = models.CharField(max_length=128, help_text="Principal.")
    by_label = models.CharField(max_length=200)
    starts_run = models.BooleanField(
        default=True, db_default=True, help_text="Whether the next run starts from it if it still waits."
    )
    alert = models.JSONField(null=True, blank=True, help_text="What the next run is about from here on.")
    created_at = models.DateTimeField(auto_now_add=True)
    delivered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["created_at", "id"]
        indexes = [
            models.Index(fields=["thread"], name="message_pending", condition=Q(delivered_at__isnull=True)),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.thread_id} {self.id}"


class ClientThread(models.Model):
    """What a client of OpenSRE's protocol calls a thread: a name of its own, unique in one team.

    ``origin`` is what it said of where the latest message came from; it vouches for nothing.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="client_threads")
    name = models.CharField(max_length=240)
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="client_names")
    origin = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "name"], name="client_thread_name_unique")]

    @override
    def __str__(self) -> str:
        return self.name


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


class IdempotentCall(models.Model):
    """An answer kept for a client that may ask again. ``asked`` is a digest of the request, ``answer`` JSON text."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    principal = models.CharField(max_length=128)
    key = models.CharField(max_length=255)
    asked = models.CharField(max_length=64)
    answer = models.TextField()
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["principal", "key"], name="idempotent_call_once")]

    @override
    def __str__(self) -> str:
        return f"{self.principal} {self.id}"


class WorkerProcess(models.Model):
    """A worker, as it last showed itself. One that was killed cannot say so: silent for too long, it is lost.

    Nothing is decided by these rows: the leases on the threads decide who works on what.
    """

    name = models.CharField(primary_key=True, max_length=100, help_text="As in the leases of the threads.")
    host = models.CharField(max_length=200)
    pid = models.PositiveIntegerField()
    version = models.CharField(max_length=40)
    concurrency = models.PositiveIntegerField()
    embedded = models.BooleanField(help_text="Part of a web process.")
    draining = models.BooleanField(default=False)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField(help_text="By the database's clock.")
    stopped_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "worker processes"
        ordering = ["-started_at", "name"]

    @override
    def __str__(self) -> str:
        return self.name


class Verdict(models.TextChoices):
    """What a reader says of a run's answer."""

    CORRECT = "correct"
    PARTIAL = "partial"
    WRONG = "wrong"


class Feedback(models.Model):
    """One rating of a run: one row for each principal, and for each person a machine speaks for."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="feedback")
    verdict = models.CharField(max_length=8, choices=Verdict)
    reason = models.TextField(blank=True)
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


class StoredFile(models.Model):
    """A file that came in or out, in Django's storage ``uploads`` under ``key``.

    The row comes before the bytes and goes after them, so that none are ever without a row: ``ready`` once they are
    there, ``removed_at`` when they are to go. It belongs to nobody but its uploader until a thread takes it up.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="files")
    by = models.CharField(max_length=128, help_text="Principal.")
    by_label = models.CharField(max_length=200)
    name = models.CharField(max_length=200)
    media_type = models.CharField(max_length=64, help_text="As its bytes say.")
    size_bytes = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=64)
    key = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    ready = models.BooleanField(default=False)
    removed_at = models.DateTimeField(null=True, blank=True)
    thread = models.ForeignKey(Thread, null=True, blank=True, on_delete=models.SET_NULL, related_name="files")
    run_id = models.UUIDField(null=True, blank=True)
    message_id = models.UUIDField(null=True, blank=True)
    outgoing = models.BooleanField(default=False, help_text="Made by a run.")

    class Meta:
        ordering = ["created_at", "id"]
        indexes = [
            models.Index(fields=["created_at"], name="file_unused", condition=Q(thread__isnull=True)),
        ]

    @override
    def __str__(self) -> str:
        return self.name


class AguiThread(models.Model):
    """What an AG-UI client calls a thread: its own text, which means nothing to anybody else's credential."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    principal = models.CharField(max_length=128)
    name = models.CharField(max_length=200)
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="agui_names")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["principal", "name"], name="agui_thread_once")]

    @override
    def __str__(self) -> str:
        return f"{self.principal} {self.name}"


from controlplane.investigations.reported_models import ReportedRun  # noqa: E402, F401 (found by Django here)

"""What is said to a thread, and what clients of other protocols call it."""

from django.db import models
from django.db.models import Q
from typing_extensions import override

from controlplane.core.ids import new_id
from controlplane.investigations.models.runs import Run, Thread
from controlplane.orgs.models import Node


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

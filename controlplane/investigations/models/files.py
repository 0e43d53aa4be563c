"""Files that came in or out."""

from django.db import models
from django.db.models import Q
from typing_extensions import override

from controlplane.core.ids import new_id
from controlplane.investigations.models.runs import Thread
from controlplane.orgs.models import Organization


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

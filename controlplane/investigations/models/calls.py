"""Answers kept for clients that may ask again."""

from django.db import models
from typing_extensions import override

from controlplane.core.ids import new_id


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

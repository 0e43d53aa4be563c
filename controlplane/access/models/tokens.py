"""Access tokens."""

from django.db import models
from django.db.models import Q
from typing_extensions import override

from controlplane.access.models.people import User
from controlplane.core.ids import new_id
from controlplane.orgs.models import Node


class TokenKind(models.TextChoices):
    TEAM = "team"
    ADMIN = "admin"
    USER = "user"


class AccessToken(models.Model):
    """A bearer credential. Stored: its public id and an HMAC of the secret under a numbered pepper."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    kind = models.CharField(max_length=8, choices=TokenKind)
    public_id = models.CharField(max_length=32, unique=True)
    digest = models.CharField(max_length=64, help_text="HMAC-SHA256 of the secret, hexadecimal.")
    pepper_version = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=200)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="tokens")
    user = models.ForeignKey(User, null=True, blank=True, on_delete=models.CASCADE, related_name="tokens")
    scopes = models.JSONField(default=list)
    created_by = models.CharField(max_length=128, help_text="Principal of the creator.")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.CheckConstraint(
                condition=Q(kind=TokenKind.USER, user__isnull=False) | (~Q(kind=TokenKind.USER) & Q(user__isnull=True)),
                name="token_personal_has_user",
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"osre_{self.kind}_{self.public_id}"

"""Access tokens, and what an organization asks of them."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from typing_extensions import override

from controlplane.access.models.people import User
from controlplane.core.ids import new_id
from controlplane.orgs.models import Node, Organization


class TokenKind(models.TextChoices):
    TEAM = "team"
    ADMIN = "admin"
    USER = "user"
    VIEW = "view", "view as team"


class AccessToken(models.Model):
    """A bearer credential. Stored: its public id and an HMAC of the secret under a numbered pepper.

    ``user`` is the person of a personal token, and of one that views as a team the person who does so.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    kind = models.CharField(max_length=8, choices=TokenKind)
    public_id = models.CharField(max_length=32, unique=True)
    digest = models.CharField(max_length=64, help_text="HMAC-SHA256 of the secret, hexadecimal.")
    pepper_version = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=200)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="tokens")
    user = models.ForeignKey(User, null=True, blank=True, on_delete=models.CASCADE, related_name="tokens")
    scopes = models.JSONField(default=list)
    allowed_addresses = models.JSONField(
        default=list, blank=True, help_text="Networks (CIDR) it may be used from. Empty: from anywhere."
    )
    created_by = models.CharField(max_length=128, help_text="Principal of the creator.")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    last_used_address = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=[TokenKind.USER, TokenKind.VIEW], user__isnull=False)
                | (~Q(kind__in=[TokenKind.USER, TokenKind.VIEW]) & Q(user__isnull=True)),
                name="token_personal_has_user",
            ),
            models.CheckConstraint(
                condition=~Q(kind=TokenKind.VIEW) | Q(expires_at__isnull=False), name="token_view_expires"
            ),
        ]
        indexes = [models.Index(fields=["created_by"], name="token_created_by")]

    @override
    def __str__(self) -> str:
        return f"osre_{self.kind}_{self.public_id}"


class TokenPolicy(models.Model):
    """What an organization asks of the tokens of one kind. A kind without a row is free: any lifetime, endless too.

    It binds tokens as they are made. Older ones go on as they are, and the report lists them.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(Organization, on_delete=models.CASCADE, related_name="token_policies")
    kind = models.CharField(max_length=8, choices=TokenKind)
    max_days = models.PositiveIntegerField(null=True, blank=True)
    default_days = models.PositiveIntegerField(null=True, blank=True)
    endless_allowed = models.BooleanField(default=True)
    revoke_unused_days = models.PositiveIntegerField(null=True, blank=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["organization_id", "kind"]
        constraints = [
            models.UniqueConstraint(fields=["organization", "kind"], name="token_policy_once"),
            models.CheckConstraint(
                condition=Q(max_days__isnull=True) | Q(endless_allowed=False), name="token_policy_maximum_is_no_endless"
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.kind} tokens of {self.organization_id}"

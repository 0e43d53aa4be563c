"""The security stream: what was refused, who signed in, who was given secrets. Coalesced, and sealed into the chain."""

from django.db import models
from typing_extensions import override

from controlplane.core.ids import new_id


class SecurityKind(models.TextChoices):
    DENIED = "denied", "Not allowed"
    NOT_VISIBLE = "not_visible", "Not visible"
    NOT_AUTHENTICATED = "not_authenticated", "Credential refused"
    LIMITED = "limited", "Too often"
    SIGN_IN = "sign_in", "Signed in"
    SIGN_IN_FAILED = "sign_in_failed", "Sign-in refused"
    SECRET = "secret", "Secrets given out"
    IMPERSONATION = "impersonation", "Viewed as a team"
    OVERFLOW = "overflow", "More than is kept"


class SecurityEvent(models.Model):
    """One kind of thing, by one actor from one address, within a minute: ``count`` times.

    ``batch`` is the position in the organization's chain of the ``security.seal`` event that holds the digest of this
    row; ``None`` while it is too young. Triggers refuse changing a sealed row.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization_id = models.UUIDField()
    kind = models.CharField(max_length=24, choices=SecurityKind.choices)
    code = models.CharField(max_length=64, blank=True, help_text="The error's code, or how somebody signed in.")
    actor = models.CharField(max_length=128)
    actor_label = models.CharField(max_length=200)
    credential_id = models.CharField(max_length=64, blank=True)
    impersonator = models.CharField(max_length=128, blank=True)
    channel = models.CharField(max_length=16)
    address = models.CharField(max_length=64, blank=True)
    action = models.CharField(max_length=128, help_text="What was tried: the name of a route or of an action.")
    object_kind = models.CharField(max_length=32, blank=True)
    object_id = models.CharField(max_length=200, blank=True)
    node_id = models.UUIDField(null=True, blank=True)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    count = models.PositiveBigIntegerField(default=1)
    batch = models.PositiveBigIntegerField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["organization_id", "-id"], name="security_newest"),
            models.Index(fields=["organization_id", "batch"], name="security_batch"),
            models.Index(fields=["first_at"], name="security_first_at"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.action} × {self.count}"

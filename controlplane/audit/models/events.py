"""The audit log: append-only, and per organization a chain of HMACs."""

import json
from typing import Any, Final
from uuid import UUID

from django.db import models
from typing_extensions import override

from controlplane.core.ids import new_id

#: The organization of what belongs to none: sign-ins of unknown names, acts of the installation itself.
INSTALLATION: Final = UUID(int=0)


class AuditEvent(models.Model):
    """Who did what to which object. Refers to organizations by UUID, so that the log outlives and imports nothing.

    ``before_json`` and ``after_json`` hold canonical JSON *text*: a JSON column would rewrite numbers and key order,
    and the chain could not be recomputed. Triggers in the database refuse changing or deleting a row.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization_id = models.UUIDField()
    org_seq = models.PositiveBigIntegerField(help_text="Gapless position in the organization's chain, from 1.")
    at = models.DateTimeField()
    action = models.CharField(max_length=64, help_text="For example config.patch or token.create.")
    actor = models.CharField(max_length=128, help_text="The principal, for example user:<uuid>.")
    actor_label = models.CharField(max_length=200)
    credential_id = models.CharField(max_length=64, blank=True)
    impersonator = models.CharField(
        max_length=128, blank=True, default="", help_text="Who viewed as a team, while it acted."
    )
    channel = models.CharField(max_length=16)
    address = models.CharField(max_length=64, blank=True)
    object_kind = models.CharField(max_length=32)
    object_id = models.CharField(max_length=200)
    node_id = models.UUIDField(null=True, blank=True)
    before_json = models.TextField(default="null", help_text="Canonical JSON text, redacted.")
    after_json = models.TextField(default="null", help_text="Canonical JSON text, redacted.")
    reason = models.CharField(max_length=500, blank=True)
    prev_mac = models.CharField(max_length=64)
    mac = models.CharField(max_length=64)
    key_version = models.PositiveSmallIntegerField()

    class Meta:
        ordering = ["organization_id", "org_seq"]
        constraints = [models.UniqueConstraint(fields=["organization_id", "org_seq"], name="audit_seq_unique")]
        indexes = [
            models.Index(fields=["organization_id", "object_kind", "object_id"], name="audit_object"),
            models.Index(fields=["organization_id", "at"], name="audit_at"),
            models.Index(fields=["organization_id", "actor", "org_seq"], name="audit_actor"),
            models.Index(fields=["organization_id", "action", "org_seq"], name="audit_action"),
            models.Index(fields=["node_id", "org_seq"], name="audit_node"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.org_seq} {self.action}"

    @property
    def before(self) -> Any:
        """What the object was, as a JSON value."""
        return json.loads(self.before_json)

    @property
    def after(self) -> Any:
        """What the object became, as a JSON value."""
        return json.loads(self.after_json)


class AuditHead(models.Model):
    """The end of an organization's chain; locked last in every transaction that writes an audit row.

    ``seal`` is an HMAC of the other columns, so that who writes to the database and has no key cannot move the head
    back to where a cut tail ends. ``checkpoints`` counts the chain's checkpoints, so that none is taken from their end.
    """

    organization_id = models.UUIDField(primary_key=True)
    org_seq = models.PositiveBigIntegerField(default=0)
    mac = models.CharField(max_length=64, blank=True)
    checkpoints = models.PositiveIntegerField(default=0)
    checkpoint_seq = models.PositiveBigIntegerField(default=0, help_text="Where the latest checkpoint stands.")
    checkpoint_at = models.DateTimeField(null=True)
    key_version = models.PositiveSmallIntegerField(default=0)
    seal = models.CharField(max_length=64, blank=True)

    @override
    def __str__(self) -> str:
        return f"{self.organization_id} @ {self.org_seq}"

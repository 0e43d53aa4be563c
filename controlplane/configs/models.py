"""Configuration documents and their history."""

from django.db import models
from typing_extensions import override

from controlplane.core.ids import new_id
from controlplane.orgs.models import Node, Organization


class ConfigDocument(models.Model):
    """The overrides of one node. A node without a row, or with version 0, has the empty document.

    The row is also what writers lock: their own for update, those of their ancestors for share.
    """

    node = models.OneToOneField(Node, primary_key=True, on_delete=models.CASCADE, related_name="config")
    document = models.JSONField(default=dict)
    version = models.PositiveBigIntegerField(default=0, help_text="Gapless, from 1 at the first write.")
    revision = models.UUIDField(
        null=True,
        help_text="Id of the version's history row. Unlike the number, a rolled-back transaction never shared it.",
    )
    leaf_versions = models.JSONField(
        default=dict, help_text="JSON Pointer of each leaf → the version that last changed it."
    )
    authors = models.JSONField(default=dict, help_text="Each version that leaf_versions names → its author and time.")
    updated_at = models.DateTimeField(null=True)
    updated_by = models.CharField(max_length=200, blank=True)

    class Meta:
        verbose_name = "document"

    @override
    def __str__(self) -> str:
        return f"{self.node_id} v{self.version}"


class ConfigVersion(models.Model):
    """One version of a node's document, kept for ever."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="config_versions")
    version = models.PositiveBigIntegerField()
    document = models.JSONField()
    at = models.DateTimeField()
    by = models.CharField(max_length=200, help_text="Display name of the author.")
    principal = models.CharField(max_length=128)
    approved_by = models.CharField(max_length=200, blank=True, help_text="Display name of who approved it in a review.")
    approver = models.CharField(max_length=128, blank=True, help_text="Principal of who approved it.")
    review_id = models.UUIDField(null=True, blank=True, help_text="The review it came from.")
    reason = models.CharField(max_length=500, blank=True)

    class Meta:
        verbose_name = "version"
        ordering = ["node", "-version"]
        constraints = [models.UniqueConstraint(fields=["node", "version"], name="config_version_unique")]

    @override
    def __str__(self) -> str:
        return f"{self.node_id} v{self.version}"


class RouteClaim(models.Model):
    """What a node owns by its own document's ``routing``; kept by the configuration services alone."""

    organization = models.ForeignKey(Organization, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=32, help_text="service, teams_channel_id, github_repo, …")
    key = models.CharField(max_length=600, help_text="In lower case where the platform ignores the case.")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="route_claims")

    class Meta:
        verbose_name = "route"
        ordering = ["organization", "kind", "key"]
        constraints = [models.UniqueConstraint(fields=["organization", "kind", "key"], name="route_claim_unique")]

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class PolicyKind(models.TextChoices):
    LOCKED = "locked"
    REQUIRES_APPROVAL = "requires_approval"
    REQUIRED = "required"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    ALLOWED_VALUES = "allowed_values"
    SECRET = "secret"  # noqa: S105 (a kind, not a secret)


class ConfigPolicy(models.Model):
    """A rule that a node sets for the configuration of everything below it, never for its own."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="policies")
    pointer = models.CharField(max_length=1000, help_text="JSON Pointer; the segment * stands for any one segment.")
    kind = models.CharField(max_length=20, choices=PolicyKind)
    value = models.JSONField(null=True, help_text="The bound, or the list of allowed values.")
    reason = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=128, help_text="Principal of the author.")
    created_label = models.CharField(max_length=200, help_text="Display name of the author.")

    class Meta:
        verbose_name = "policy"
        verbose_name_plural = "policies"
        ordering = ["node", "pointer", "kind"]
        constraints = [
            models.UniqueConstraint(fields=["node", "pointer", "kind"], name="config_policy_once"),
            models.CheckConstraint(condition=models.Q(kind__in=PolicyKind.values), name="config_policy_kind"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.pointer}"

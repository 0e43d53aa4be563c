"""Configuration documents and their history."""

from django.db import models
from typing_extensions import override

from controlplane.core.ids import new_id
from controlplane.orgs.models import Node


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
    reason = models.CharField(max_length=500, blank=True)

    class Meta:
        verbose_name = "version"
        ordering = ["node", "-version"]
        constraints = [models.UniqueConstraint(fields=["node", "version"], name="config_version_unique")]

    @override
    def __str__(self) -> str:
        return f"{self.node_id} v{self.version}"

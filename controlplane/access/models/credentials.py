"""Which node may use which credential."""

from django.db import models
from django.db.models import Q
from typing_extensions import override

from controlplane.core.ids import new_id
from controlplane.orgs.models import Node, Organization


class CredentialGrant(models.Model):
    """That a node may use a credential by its name, ``${name}``. Grants add up; none takes anything away.

    ``node`` is ``None`` for what the operator has given to the organization: its root holds that. Any other grant was
    given from ``given_from``, a node above (or the same) that held the name, and counts only while that one does.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(Organization, on_delete=models.CASCADE, related_name="credential_grants")
    node = models.ForeignKey(Node, null=True, blank=True, on_delete=models.CASCADE, related_name="credential_grants")
    given_from = models.ForeignKey(Node, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=128)
    hosts = models.JSONField(default=list, help_text="Hosts it may be sent to: host, *.domain or *. Empty: none.")
    inherited = models.BooleanField(default=True, help_text="Whether the nodes below hold it too.")
    granted_by = models.CharField(max_length=128, help_text="Principal of the giver.")
    granted_by_label = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name", "created_at", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(node__isnull=True, given_from__isnull=True)
                | Q(node__isnull=False, given_from__isnull=False),
                name="credential_grant_given_from_a_node",
            ),
        ]
        indexes = [
            models.Index(
                fields=["organization", "name"], condition=Q(revoked_at__isnull=True), name="credential_grant_live"
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.name} to {self.node_id or self.organization_id}"

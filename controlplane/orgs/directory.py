"""What the audit log asks of organizations, see :mod:`controlplane.audit.directory`."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from typing_extensions import override

from controlplane.audit.directory import AuditScope, OrganizationDirectory
from controlplane.core.actor import Actor
from controlplane.core.errors import PermissionDenied
from controlplane.core.permissions import Action, nodes_that_allow
from controlplane.orgs.models import Node, Organization
from controlplane.orgs.selectors import node_descendants, node_get, nodes_visible, organization_get


class NodeDirectory(OrganizationDirectory):
    """Organizations and nodes as they are in the database."""

    @override
    def audit_scope(self, actor: Actor, organization_slug: str) -> AuditScope:
        organization = organization_get(actor, organization_slug)
        allowed = nodes_that_allow(actor, Action.AUDIT_READ)
        if not allowed:
            raise PermissionDenied("You may not read the audit log.")
        if Node.objects.filter(pk__in=allowed, organization=organization, parent__isnull=True).exists():
            return AuditScope(organization.pk, None)
        return AuditScope(organization.pk, nodes_visible(actor, Action.AUDIT_READ).order_by().values("pk"))

    @override
    def subtree_ids(self, actor: Actor, organization_slug: str, node_slug: str) -> QuerySet[Any]:
        node = node_get(actor=actor, organization_slug=organization_slug, node_slug=node_slug, action=Action.AUDIT_READ)
        return node_descendants(node.pk).order_by().values("pk")

    @override
    def organization_ids(self) -> Mapping[str, UUID]:
        return dict(Organization.objects.values_list("slug", "pk"))

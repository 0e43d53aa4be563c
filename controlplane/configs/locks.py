"""The locks of a configuration write.

Order: the organization for share (moving a node takes it for update, so a chain cannot change under a writer), the
documents of the ancestors for share, root first, then the node's own for update. So a rule above and a change below
cannot pass each other, and no two writers wait for each other. On SQLite ``BEGIN IMMEDIATE`` already admits one writer
at a time.
"""

from typing import Final
from uuid import UUID

from django.db import connection

from controlplane.configs.models import ConfigDocument
from controlplane.core.errors import NotFound
from controlplane.orgs.models import Node
from controlplane.orgs.selectors import node_lineage

# Django's select_for_update knows no FOR SHARE.
_ORGANIZATION: Final = "SELECT id FROM orgs_organization WHERE id = %s FOR SHARE"
_ANCESTORS: Final = (
    "SELECT document.node_id FROM configs_configdocument document"
    " JOIN orgs_nodeancestor link ON link.ancestor_id = document.node_id"
    " WHERE link.descendant_id = %s AND link.depth > 0 ORDER BY link.depth DESC FOR SHARE OF document"
)


def lock_organization(node: Node) -> None:
    """Keep the node's tree as it is until the transaction ends; other configuration writers may go on."""
    lock_tree(node.organization_id)


def lock_tree(organization_id: UUID) -> None:
    """Keep an organization's tree as it is until the transaction ends; configuration writers may go on."""
    _for_share(_ORGANIZATION, organization_id)


def lock_document(node: Node) -> ConfigDocument:
    """Return the node's document, locked for update, after locking those of its ancestors for share.

    Raises:
        NotFound: the node has been deleted.
    """
    lineage = node_lineage(node.pk)
    if not lineage:
        raise NotFound
    if ConfigDocument.objects.filter(pk__in=lineage).count() < len(lineage):
        # A row at version 0 says the same as no row and gives writers something to lock.
        rows = [ConfigDocument(node_id=node_id) for node_id in lineage]
        ConfigDocument.objects.bulk_create(rows, ignore_conflicts=True)
    _for_share(_ANCESTORS, node.pk)
    return ConfigDocument.objects.select_for_update().get(pk=node.pk)


def _for_share(statement: str, pk: UUID) -> None:
    if connection.features.has_select_for_update:
        with connection.cursor() as cursor:
            cursor.execute(statement, [pk])
            cursor.fetchall()

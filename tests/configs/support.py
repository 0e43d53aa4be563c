"""Short ways to write and read configuration in tests."""

from typing import Any

from controlplane.configs.models import ConfigDocument, ConfigVersion
from controlplane.configs.selectors import config_effective
from controlplane.configs.services import WriteResult, config_patch, config_replace
from controlplane.core.actor import Actor
from controlplane.orgs.models import Node
from tests.factories import system_of


def put(node: Node, document: dict[str, Any], *, actor: Actor | None = None, reason: str = "") -> WriteResult:
    """Replace the node's document as the system."""
    return config_replace(actor=actor or system_of(node), node=node, document=document, reason=reason)


def patch(node: Node, change: dict[str, Any], *, actor: Actor | None = None) -> WriteResult:
    """Patch the node's document as the system."""
    return config_patch(actor=actor or system_of(node), node=node, patch=change)


def stored(node: Node) -> dict[str, Any]:
    """Return the node's document as the database holds it."""
    row = ConfigDocument.objects.filter(pk=node.pk).first()
    return row.document if row else {}


def effective(node: Node) -> dict[str, Any]:
    """Return the node's effective configuration."""
    return config_effective(node_id=node.pk).document


def versions(node: Node) -> list[int]:
    """Return the numbers of the history rows, the oldest first."""
    return list(ConfigVersion.objects.filter(node=node).order_by("version").values_list("version", flat=True))

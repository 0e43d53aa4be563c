"""The port to what lies above: organizations by slug, and which part of an organization's log an actor may read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from django.db.models import QuerySet

from controlplane.core.actor import Actor


@dataclass(frozen=True, slots=True)
class AuditScope:
    """What an actor may read: all of the organization (``node_ids`` is ``None``) or the events of these nodes."""

    organization_id: UUID
    node_ids: QuerySet[Any] | None


class OrganizationDirectory(Protocol):
    """Filled in by the app that owns organizations."""

    def audit_scope(self, actor: Actor, organization_slug: str) -> AuditScope:
        """Return what ``actor`` may read; ``NotFound`` for another organization, ``PermissionDenied`` for nothing."""

    def subtree_ids(self, actor: Actor, organization_slug: str, node_slug: str) -> QuerySet[Any]:
        """Return the ids of a node and those below it; ``NotFound``, ``PermissionDenied`` where ``actor`` may not."""

    def organization_ids(self) -> Mapping[str, UUID]:
        """Return every organization of the installation: slug → id. For the operator's command only."""


_directory: OrganizationDirectory | None = None


def register_directory(directory: OrganizationDirectory) -> None:
    """Set the directory. Called once, in ``AppConfig.ready()``."""
    global _directory  # noqa: PLW0603 (one process-wide port is the point)
    _directory = directory


def directory() -> OrganizationDirectory:
    """Return the registered directory.

    Raises:
        RuntimeError: when no app registered one: an error of the installation, not of a request.
    """
    if _directory is None:
        raise RuntimeError("no app has registered an organization directory")
    return _directory

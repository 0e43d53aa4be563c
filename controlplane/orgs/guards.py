"""The port through which apps above refuse the deletion of a node they still need."""

from collections.abc import Callable
from uuid import UUID

#: Takes a node's id; returns why the node must stay (words for a person, for example "it has 3 runs"), or ``None``.
DeletionGuard = Callable[[UUID], str | None]

_guards: list[DeletionGuard] = []


def register_deletion_guard(guard: DeletionGuard) -> None:
    """Have ``guard`` asked before any node is deleted. Called once per app, in ``AppConfig.ready()``."""
    if guard not in _guards:
        _guards.append(guard)


def deletion_obstacle(node_id: UUID) -> str | None:
    """Return the first reason why the node may not be deleted, or ``None``."""
    return next((reason for guard in _guards if (reason := guard(node_id)) is not None), None)

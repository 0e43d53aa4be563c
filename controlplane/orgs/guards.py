"""The port through which apps above refuse the deletion of a node they still need, or a move that breaks a rule."""

from collections.abc import Callable, Collection
from uuid import UUID

from controlplane.core.actor import Actor
from controlplane.orgs.models import Node

#: Takes a node's id; returns why the node must stay (words for a person, for example "it has 3 runs"), or ``None``.
DeletionGuard = Callable[[UUID], str | None]
#: Takes who moves, the node where it is now, and the ids that were above it before; refuses by an ``AppError``.
MoveGuard = Callable[[Actor, Node, Collection[UUID]], None]

_guards: list[DeletionGuard] = []
_move_guards: list[MoveGuard] = []


def register_deletion_guard(guard: DeletionGuard) -> None:
    """Have ``guard`` asked before any node is deleted. Called once per app, in ``AppConfig.ready()``."""
    if guard not in _guards:
        _guards.append(guard)


def deletion_obstacle(node_id: UUID) -> str | None:
    """Return the first reason why the node may not be deleted, or ``None``."""
    return next((reason for guard in _guards if (reason := guard(node_id)) is not None), None)


def register_move_guard(guard: MoveGuard) -> None:
    """Have ``guard`` asked in the transaction of any move, once the tree is as it will be. Called as the other one."""
    if guard not in _move_guards:
        _move_guards.append(guard)


def check_move(actor: Actor, node: Node, above_before: Collection[UUID]) -> None:
    """Have every guard look at a node that was just moved.

    Raises:
        AppError: one of them refuses.
    """
    for guard in _move_guards:
        guard(actor, node, above_before)

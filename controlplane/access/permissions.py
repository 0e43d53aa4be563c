"""Delegation: which scopes and roles an actor may hand on. Never more than it holds."""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from controlplane.core.actor import Actor, Role
from controlplane.core.permissions import INCLUDES, RULES, SCOPES, Action, allows

TEAM_TOKEN_SCOPES: Final = frozenset(
    {
        "config:read", "config:resolve", "runs:create", "runs:read", "runs:control", "knowledge:read", "memory:read",
        "memory:propose", "alerts:ingest",
    }
)  # fmt: skip

#: The role whose holders may delegate a scope that the rules alone do not place: no role suffices to *use*
#: ``config:resolve``, yet admins issue the tokens of runtimes; the others belong to apps whose actions are their own.
_DELEGATED_BY: Final[dict[str, Role]] = {
    "config:resolve": Role.ADMIN,
    "memory:read": Role.RESPONDER,
    "memory:propose": Role.RESPONDER,
    "knowledge:read": Role.VIEWER,
    "knowledge:write": Role.ADMIN,
    "alerts:ingest": Role.ADMIN,
    # Among the rest it opens the deciding of reviews, which takes the role besides and is nothing to hand on.
    "admin:*": Role.ADMIN,
}


def roles_held(actor: Actor, lineage: Collection[UUID]) -> frozenset[Role]:
    """Return every role, included ones too, that a person or the system holds on a node; other tokens hold none."""
    if actor.token_node_id is not None:
        return frozenset()
    held = [INCLUDES[grant.role] for grant in actor.grants if grant.node_id in lineage]
    return frozenset().union(*held)


def scopes_held(actor: Actor, lineage: Collection[UUID]) -> frozenset[str]:
    """Return the scopes that ``actor`` may put into a token for a node.

    A team or admin token holds its own on its node's subtree. A role holds a scope when it allows every action the
    scope opens (:data:`RULES`); a personal token holds what its role and its scopes both do.
    """
    own = SCOPES if actor.scopes is None else actor.scopes & SCOPES
    if actor.token_node_id is not None:
        return own if actor.token_node_id in lineage else frozenset()
    roles = roles_held(actor, lineage)
    return frozenset(scope for scope in own if _role_holds(roles, scope))


def roles_grantable(actor: Actor, lineage: Collection[UUID]) -> frozenset[Role]:
    """Return the roles that ``actor`` may grant and revoke on a node.

    A person grants what it holds, so only an owner grants ``owner`` and ``reviewer``; an admin token acts as ``admin``.
    """
    if not allows(actor, Action.MEMBER_WRITE, lineage):
        return frozenset()
    return INCLUDES[Role.ADMIN] if actor.token_node_id is not None else roles_held(actor, lineage)


def _role_holds(roles: frozenset[Role], scope: str) -> bool:
    if scope in _DELEGATED_BY:
        return _DELEGATED_BY[scope] in roles
    return all(rule.role in roles for rule in RULES.values() if scope in rule.scopes)

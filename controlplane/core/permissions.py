"""What an actor may do: one table and one pure function. Reading the table answers every "who may …?"."""

from collections.abc import Collection
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from controlplane.core.actor import Actor, Role

#: What each role includes. ``reviewer`` is given beside the others; only ``owner`` includes it.
INCLUDES: Final[dict[Role, frozenset[Role]]] = {
    Role.VIEWER: frozenset({Role.VIEWER}),
    Role.RESPONDER: frozenset({Role.RESPONDER, Role.VIEWER}),
    Role.REVIEWER: frozenset({Role.REVIEWER, Role.VIEWER}),
    Role.ADMIN: frozenset({Role.ADMIN, Role.RESPONDER, Role.VIEWER}),
    Role.OWNER: frozenset(Role),
}

SCOPES: Final[frozenset[str]] = frozenset(
    {
        "config:read", "config:resolve", "config:write", "runs:create", "runs:read", "runs:control", "memory:read",
        "memory:propose", "knowledge:read", "knowledge:write", "alerts:ingest", "reviews:decide", "admin:*",
    }
)  # fmt: skip

#: Scopes of personal tokens alone: what they open is done by people, never by machines.
PERSONAL_SCOPES: Final[frozenset[str]] = frozenset({"reviews:decide"})


class Action(StrEnum):
    """Everything a permission is asked for."""

    NODE_READ = "node.read"
    NODE_WRITE = "node.write"
    CONFIG_READ = "config.read"
    CONFIG_WRITE = "config.write"
    CONFIG_RESOLVE = "config.resolve"
    RUN_READ = "run.read"
    RUN_CREATE = "run.create"
    RUN_CONTROL = "run.control"
    MEMBER_READ = "member.read"
    MEMBER_WRITE = "member.write"
    TOKEN_READ = "token.read"  # noqa: S105 (an action, not a secret)
    TOKEN_WRITE = "token.write"  # noqa: S105
    IMPERSONATE = "team.impersonate"
    CREDENTIAL_GRANT = "credential.grant"
    AUDIT_READ = "audit.read"
    IDENTITY_PROVIDER_READ = "identity_provider.read"
    IDENTITY_PROVIDER_WRITE = "identity_provider.write"
    ALERT_INGEST = "alert.ingest"
    REVIEW_DECIDE = "review.decide"


#: Done by people alone. A team or admin token, or a process, may not, whatever its scopes and grants are.
PERSONAL: Final[frozenset[Action]] = frozenset(
    {Action.REVIEW_DECIDE, Action.IDENTITY_PROVIDER_WRITE, Action.IMPERSONATE}
)

#: All that somebody may do who views as a team. An action that is not named here is refused, new ones too.
READING: Final[frozenset[Action]] = frozenset({Action.NODE_READ, Action.CONFIG_READ, Action.RUN_READ})
#: The scopes of such a credential. None of them opens an action that writes, resolves a secret or decides.
VIEW_SCOPES: Final[frozenset[str]] = frozenset({"config:read", "runs:read", "memory:read", "knowledge:read"})


class Rule(NamedTuple):
    """``role``: what a person needs (``None``: none suffices). ``scopes``: of which a token needs any one."""

    role: Role | None
    scopes: frozenset[str]


def _rule(role: Role | None, *scopes: str) -> Rule:
    return Rule(role, frozenset(scopes))


RULES: Final[dict[Action, Rule]] = {
    Action.NODE_READ: _rule(Role.VIEWER, "config:read", "runs:read", "runs:create", "admin:*"),
    Action.NODE_WRITE: _rule(Role.ADMIN, "admin:*"),
    Action.CONFIG_READ: _rule(Role.VIEWER, "config:read", "config:write", "config:resolve", "admin:*"),
    Action.CONFIG_WRITE: _rule(Role.ADMIN, "config:write", "admin:*"),
    Action.CONFIG_RESOLVE: _rule(None, "config:resolve"),
    Action.RUN_READ: _rule(Role.VIEWER, "runs:read"),
    Action.RUN_CREATE: _rule(Role.RESPONDER, "runs:create"),
    Action.RUN_CONTROL: _rule(Role.RESPONDER, "runs:control"),
    Action.MEMBER_READ: _rule(Role.ADMIN, "admin:*"),
    Action.MEMBER_WRITE: _rule(Role.ADMIN, "admin:*"),
    Action.TOKEN_READ: _rule(Role.ADMIN, "admin:*"),
    Action.TOKEN_WRITE: _rule(Role.ADMIN, "admin:*"),
    Action.IMPERSONATE: _rule(Role.ADMIN, "admin:*"),
    Action.CREDENTIAL_GRANT: _rule(Role.ADMIN, "admin:*"),
    Action.AUDIT_READ: _rule(Role.ADMIN, "admin:*"),
    Action.IDENTITY_PROVIDER_READ: _rule(Role.ADMIN, "admin:*"),
    # Whoever names the provider decides who is let in, and as what: owners alone.
    Action.IDENTITY_PROVIDER_WRITE: _rule(Role.OWNER, "admin:*"),
    Action.ALERT_INGEST: _rule(Role.RESPONDER, "alerts:ingest"),
    Action.REVIEW_DECIDE: _rule(Role.REVIEWER, "reviews:decide", "admin:*"),
}


def roles_that_allow(action: Action) -> frozenset[Role]:
    """Return the roles that include the one ``action`` needs."""
    needed = RULES[action].role
    return frozenset(role for role, included in INCLUDES.items() if needed in included)


def scope_allows(actor: Actor, action: Action) -> bool:
    """Return whether the actor's credential covers ``action`` anywhere at all; a session has no scopes to lack."""
    if action in PERSONAL and (not actor.is_person or actor.token_node_id is not None):
        return False
    if actor.impersonator is not None and action not in READING:
        return False
    return actor.scopes is None or not actor.scopes.isdisjoint(RULES[action].scopes)


def allows(actor: Actor, action: Action, lineage: Collection[UUID]) -> bool:
    """Return whether ``actor`` may do ``action`` on a node.

    ``lineage`` holds the node's id and those of its ancestors. A team or admin token acts by its scopes on its node's
    subtree; a personal token by role ∩ scopes; a session by role.
    """
    if not scope_allows(actor, action):
        return False
    if actor.token_node_id is not None:
        return actor.token_node_id in lineage
    roles = roles_that_allow(action)
    return any(grant.node_id in lineage and grant.role in roles for grant in actor.grants)


def nodes_that_allow(actor: Actor, action: Action) -> frozenset[UUID]:
    """Return the nodes at whose subtree ``actor`` may do ``action``: what a queryset restricts itself to."""
    if not scope_allows(actor, action):
        return frozenset()
    if actor.token_node_id is not None:
        return frozenset({actor.token_node_id})
    roles = roles_that_allow(action)
    return frozenset(grant.node_id for grant in actor.grants if grant.role in roles)

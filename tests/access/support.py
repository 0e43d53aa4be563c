"""Giving credentials in tests, and asking who holds them."""

from typing import Any

from controlplane.access.grants import sends_to
from controlplane.access.models import CredentialGrant
from controlplane.access.selectors import grants_held
from controlplane.access.services import credential_grant
from controlplane.core.actor import Actor, Role
from controlplane.orgs.models import Node
from tests.factories import (
    Tree,
    actor_for_user,
    make_user,
)

NAME = "OPENSRE_CRED_DB"


def holds(node: Node, name: str = NAME, host: str | None = None) -> bool:
    """Return whether the node holds a credential, and may send it to a host."""
    held = grants_held(node.pk)
    return held.holds(name) if host is None else held.holds(name, sends_to(host))


def holders(tree: Tree, host: str | None = None) -> set[str]:
    """Return the slugs of the nodes that hold it."""
    nodes = (tree.root, tree.engineering, tree.payments, tree.platform)
    return {node.slug for node in nodes if holds(node, host=host)}


def give(actor: Actor, node: Node, hosts: list[str] | None = None, **fields: Any) -> CredentialGrant:
    """Grant it."""
    return credential_grant(actor=actor, node=node, name=NAME, hosts=hosts or [], **fields)


def admin_of(node: Node) -> Actor:
    """A new admin of the node."""
    return actor_for_user(make_user(node, Role.ADMIN))

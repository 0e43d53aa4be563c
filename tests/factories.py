"""What tests start from: a tree, people, tokens, clients. Built with the services where their work matters."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from django.contrib.auth.hashers import make_password
from rest_framework.test import APIClient

from controlplane.access.actors import actor_for_bearer
from controlplane.access.actors import actor_for_user as _actor_for_user
from controlplane.access.models import CredentialGrant, Membership, User
from controlplane.access.services import IssuedToken, credential_entrust, credential_grant, token_create
from controlplane.core.actor import Actor, ActorKind, Channel, Role, system_actor
from controlplane.orgs.models import Node, NodeAncestor, NodeKind, Organization
from controlplane.orgs.services import node_create, organization_create

PASSWORD = "correct-horse-battery-staple"
_number = count(1)


@dataclass(frozen=True)
class Tree:
    """``<slug>`` → ``engineering`` → ``payments`` and ``platform``, and the system actor that owns it."""

    organization: Organization
    root: Node
    engineering: Node
    payments: Node
    platform: Node
    system: Actor


def make_tree(slug: str = "demo") -> Tree:
    """Return a new organization of four nodes, written straight to the tables: every test starts here."""
    organization = Organization.objects.create(slug=slug, name=slug.title())
    root = Node(organization=organization, kind=NodeKind.ORG, slug=slug, name=slug.title())
    engineering = _below(root, "engineering", NodeKind.GROUP)
    payments, platform = (_below(engineering, team, NodeKind.TEAM) for team in ("payments", "platform"))
    lineages = [[root], [root, engineering], [root, engineering, payments], [root, engineering, platform]]
    Node.objects.bulk_create([lineage[-1] for lineage in lineages])
    NodeAncestor.objects.bulk_create(
        NodeAncestor(ancestor=ancestor, descendant=lineage[-1], depth=len(lineage) - 1 - index)
        for lineage in lineages
        for index, ancestor in enumerate(lineage)
    )
    system = system_actor(name="test", organization_id=organization.pk, root_id=root.pk)
    return Tree(organization, root, engineering, payments, platform, system)


def make_audited_tree(slug: str = "demo") -> Tree:
    """Return the same as :func:`make_tree`, made by the services, each step with its audit row."""
    installation = Actor(ActorKind.SYSTEM, "system:test", "test", channel=Channel.CLI)
    organization = organization_create(actor=installation, slug=slug, name=slug.title())
    root = organization.nodes.get(parent__isnull=True)
    system = system_of(root)
    engineering = make_node(root, "engineering", NodeKind.GROUP, system)
    payments, platform = (make_node(engineering, team, NodeKind.TEAM, system) for team in ("payments", "platform"))
    return Tree(organization, root, engineering, payments, platform, system)


def _below(parent: Node, slug: str, kind: str) -> Node:
    return Node(organization=parent.organization, parent=parent, kind=kind, slug=slug, name=slug.title())


def make_node(parent: Node, slug: str, kind: str = NodeKind.TEAM, actor: Actor | None = None) -> Node:
    """Return a new node below ``parent``."""
    return node_create(
        actor=actor or system_of(parent),
        organization=parent.organization,
        parent=parent,
        slug=slug,
        name=slug.title(),
        kind=kind,
    )


def system_of(node: Node) -> Actor:
    """Return the system actor that owns the node's organization."""
    root = Node.objects.get(organization_id=node.organization_id, parent__isnull=True)
    return system_actor(name="test", organization_id=node.organization_id, root_id=root.pk)


def make_user(node: Node, role: Role | str | None = Role.RESPONDER, *, username: str | None = None) -> User:
    """Return a new member with ``role`` on ``node`` (``None``: no role) and :data:`PASSWORD`."""
    username = username or f"{role or 'nobody'}-{next(_number)}"
    user = User.objects.create(organization=node.organization, username=username, password=make_password(PASSWORD))
    if role is not None:
        Membership.objects.create(user=user, node=node, role=Role(role).value)
    return user


def make_operator(username: str = "operator") -> User:
    """Return a superuser: of no organization."""
    return User.objects.create_superuser(username, PASSWORD)


def make_token(node: Node, kind: str = "team", scopes: list[str] | None = None, **fields: Any) -> IssuedToken:
    """Return a new token of ``kind`` on ``node``; ``None`` takes the kind's default scopes."""
    return token_create(
        actor=fields.pop("actor", None) or system_of(node),
        kind=kind,
        node=node,
        name=fields.pop("name", f"{kind} of {node.slug}"),
        scopes=scopes,
        **fields,
    )


def make_team_token(node: Node, scopes: list[str] | None = None) -> str:
    """Return the plaintext of a new team token."""
    return make_token(node, "team", scopes).plaintext


def make_admin_token(node: Node, scopes: list[str] | None = None) -> str:
    """Return the plaintext of a new admin token."""
    return make_token(node, "admin", scopes).plaintext


def make_personal_token(user: User, node: Node, scopes: list[str] | None = None) -> str:
    """Return the plaintext of a new personal token, listed at ``node``."""
    return make_token(node, "user", scopes, user=user).plaintext


def entrust(node: Node, name: str, hosts: Sequence[str] = (), *, inherited: bool = True) -> CredentialGrant:
    """Return the operator's grant of a credential to the node's organization."""
    return credential_entrust(
        actor=system_of(node), organization=node.organization, name=name, hosts=hosts, inherited=inherited
    )


def make_grant(node: Node, name: str, hosts: Sequence[str] = (), *, inherited: bool = True) -> CredentialGrant:
    """Return a grant of a credential on a node, given from the root, to which the operator gives it first."""
    entrust(node, name, hosts, inherited=False)
    return credential_grant(actor=system_of(node), node=node, name=name, hosts=hosts, inherited=inherited)


def actor_for_user(user: User, channel: Channel = Channel.WEB) -> Actor:
    """Return the actor of a signed-in person."""
    return _actor_for_user(user, channel=channel, address="192.0.2.1")


def actor_for_token(plaintext: str, channel: Channel = Channel.API) -> Actor:
    """Return the actor of a token."""
    return actor_for_bearer(plaintext, channel=channel, address="192.0.2.1")


def api_client(*, token: str | None = None, user: User | None = None, enforce_csrf_checks: bool = False) -> APIClient:
    """Return a REST client with a bearer ``token``, with the session of ``user``, or with no credential."""
    client = APIClient(enforce_csrf_checks=enforce_csrf_checks)
    if token is not None:
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    if user is not None:
        client.force_login(user)
    return client

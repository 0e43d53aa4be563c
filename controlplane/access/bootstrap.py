"""From nothing to an organization one can sign in to: what ``manage.py bootstrap`` and ``make dev`` run."""

import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from django.db import transaction

from controlplane.access.models import User
from controlplane.access.services import membership_grant, token_create, user_create, user_reset_password
from controlplane.access.services.people import operator_set_password
from controlplane.core.actor import Actor, ActorKind, Channel, Role, system_actor
from controlplane.core.errors import Conflict
from controlplane.core.permissions import SCOPES, Action
from controlplane.orgs.models import Node, NodeKind, Organization, is_slug
from controlplane.orgs.selectors import teams_for
from controlplane.orgs.services import node_create, organization_create

DEFAULT_ORGANIZATION: Final = "demo"
OPERATOR: Final = "operator"
_GROUP: Final = ("engineering", "Engineering")
_TEAMS: Final = (("payments", "Payments"), ("platform", "Platform"))


@dataclass(frozen=True, slots=True)
class Account:
    """A name to sign in with and its new password."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Bootstrapped:
    """Everything one needs to begin. The secrets exist only here; nothing of them is stored."""

    organization: str
    root: str
    teams: tuple[str, ...]
    team: str
    owner: Account
    operator: Account
    owner_token: str = field(repr=False)
    admin_token: str = field(repr=False)
    team_token: str = field(repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON of ``manage.py bootstrap --json``."""
        return {
            "organization": self.organization,
            "root": self.root,
            "teams": list(self.teams),
            "owner": {
                "username": self.owner.username,
                "password": self.owner.password,
                "token": self.owner_token,
            },
            "operator": {"username": self.operator.username, "password": self.operator.password},
            "admin_token": self.admin_token,
            "team": self.team,
            "team_token": self.team_token,
        }


def bootstrap(*, organization_slug: str = DEFAULT_ORGANIZATION) -> Bootstrapped:
    """Make what is missing of an organization, its owner and the operator; issue tokens; reset both passwords.

    An organization that has a team keeps its tree as it is. Tokens issued earlier stay valid.

    Raises:
        InvalidInput: ``slug_format``.
        Conflict: ``username_taken``: the owner's or operator's name belongs to somebody else.
    """
    organization = _organization(organization_slug)
    root = Node.objects.get(organization=organization, parent__isnull=True)
    actor = _system(root)
    if not teams_for(actor, Action.RUN_CREATE).exists():
        _grow(actor, root)
    teams = list(teams_for(actor, Action.RUN_CREATE))
    owner, owner_account = _owner(actor, organization, root)
    operator_account = _operator(actor)
    personal = token_create(actor=actor, kind="user", node=root, name="Bootstrap", scopes=SCOPES, user=owner)
    admin = token_create(actor=actor, kind="admin", node=root, name="Bootstrap")
    team = token_create(actor=actor, kind="team", node=teams[0], name="Bootstrap")
    return Bootstrapped(
        organization=organization.slug,
        root=root.slug,
        teams=tuple(node.slug for node in teams),
        team=teams[0].slug,
        owner=owner_account,
        operator=operator_account,
        owner_token=personal.plaintext,
        admin_token=admin.plaintext,
        team_token=team.plaintext,
    )


def installation_is_empty() -> bool:
    """Return whether there is no organization yet."""
    return not Organization.objects.exists()


def first_owner() -> User | None:
    """Return the owner whom a local installation signs in: the longest-standing one, ``None`` when none is active."""
    owners = User.objects.filter(is_active=True, memberships__role=Role.OWNER.value, organization__isnull=False)
    return owners.order_by("memberships__pk").first()


def _organization(slug: str) -> Organization:
    existing = Organization.objects.filter(slug=slug).first() if is_slug(slug) else None
    if existing is not None:
        return existing
    with suppress(Conflict):  # another process made it at the same moment
        return _new_organization(slug)
    return Organization.objects.get(slug=slug)


@transaction.atomic
def _new_organization(slug: str) -> Organization:
    """Make the organization and its tree in one transaction: there is never half of one."""
    installation = Actor(ActorKind.SYSTEM, "system:bootstrap", "bootstrap", channel=Channel.CLI)
    organization = organization_create(actor=installation, slug=slug, name=slug.replace("-", " ").title())
    root = Node.objects.get(organization=organization)
    _grow(_system(root), root)
    return organization


@transaction.atomic
def _grow(actor: Actor, root: Node) -> None:
    group = _node(actor, root, *_GROUP, NodeKind.GROUP)
    for slug, name in _TEAMS:
        _node(actor, group, slug, name, NodeKind.TEAM)


def _node(actor: Actor, parent: Node, slug: str, name: str, kind: NodeKind) -> Node:
    """Return the child of ``parent`` of this slug, or a new one, with a number where the slug is used elsewhere."""
    existing = parent.children.filter(slug=slug, kind=kind, archived_at__isnull=True).first()
    if existing is not None:
        return existing
    taken = set(Node.objects.filter(organization=parent.organization).values_list("slug", flat=True))
    free = next(text for number in count(1) if (text := slug if number == 1 else f"{slug}-{number}") not in taken)
    return node_create(actor=actor, organization=parent.organization, parent=parent, slug=free, name=name, kind=kind)


def _system(root: Node) -> Actor:
    return system_actor(name="bootstrap", organization_id=root.organization_id, root_id=root.pk, channel=Channel.CLI)


def _owner(actor: Actor, organization: Organization, root: Node) -> tuple[User, Account]:
    demo = organization.slug == DEFAULT_ORGANIZATION
    account = Account("owner" if demo else f"owner@{organization.slug}", secrets.token_urlsafe(18))
    if not User.objects.filter(username=account.username).exists():
        with suppress(Conflict):  # another process made it at the same moment
            user_create(actor=actor, organization=organization, username=account.username, name="Owner")
    user = User.objects.get(username=account.username)
    if user.organization_id != organization.pk or not user.is_active:
        raise Conflict(f"The username {account.username} belongs to somebody else.", code="username_taken")
    membership_grant(actor=actor, user=user, node=root, role=Role.OWNER)
    user_reset_password(actor=actor, user=user, password=account.password)
    return user, account


def _operator(actor: Actor) -> Account:
    account = Account(OPERATOR, secrets.token_urlsafe(18))
    operator_set_password(actor=actor, username=account.username, password=account.password)
    return account

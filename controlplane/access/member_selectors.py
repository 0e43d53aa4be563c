"""Reading people and what they may do, restricted to what the actor may see.

Who reads members of the whole organization sees everybody in it; who reads those of a part sees the people with a role
in that part, and of their roles those that count there. Everybody sees oneself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from controlplane.access.models import ExternalIdentity, IdentityProvider, Membership, User
from controlplane.core.actor import Actor, ActorKind, Grant, Role
from controlplane.core.errors import FieldError, MalformedRequest, NotFound, PermissionDenied
from controlplane.core.permissions import Action, allows, nodes_that_allow
from controlplane.orgs.models import Node, NodeAncestor, Organization
from controlplane.orgs.selectors import nodes_visible, nodes_with_lineage, organization_get

#: Actions that are about the whole organization: a role further down comes to nothing there.
_ON_ROOT: Final = frozenset({Action.IDENTITY_PROVIDER_READ, Action.IDENTITY_PROVIDER_WRITE})


@dataclass(frozen=True, slots=True)
class RoleHeld:
    """A role that counts on a node, and the node it was granted on: the same or one above.

    ``node`` is ``None`` where the actor may not see that one.
    """

    role: str
    node: str | None
    source: str
    inherited: bool


@dataclass(frozen=True, slots=True)
class Rights:
    """What a person may do on a node, by which roles. ``actions`` is empty for a deactivated person."""

    node: Node
    roles: tuple[RoleHeld, ...]
    actions: tuple[Action, ...]


def people_of(*, actor: Actor, organization_slug: str, query: str = "", active: bool | None = None) -> QuerySet[User]:
    """Return the people of an organization whom ``actor`` may see.

    Args:
        query: part of a username, name or e-mail address.
        active: ``True`` or ``False`` for those alone.

    Raises:
        NotFound: it is not the actor's organization.
        PermissionDenied: the actor reads members nowhere.
        MalformedRequest: ``bad_query``: it has a NUL, which no name has.
    """
    organization = organization_get(actor, organization_slug)
    if not nodes_that_allow(actor, Action.MEMBER_READ):
        raise PermissionDenied(f"You may not do this here (it needs {Action.MEMBER_READ.value}).")
    if "\x00" in query:
        detail = "A search must not contain NUL."
        raise MalformedRequest(detail, code="bad_query", errors=[FieldError("", "bad_query", detail)])
    people = _visible(actor, organization)
    if active is not None:
        people = people.filter(is_active=active)
    if query := query.strip():
        people = people.filter(Q(username__icontains=query) | Q(name__icontains=query) | Q(email__icontains=query))
    return people


def person_get(*, actor: Actor, organization_slug: str, user_id: UUID) -> User:
    """Return one person whom ``actor`` may see; oneself always.

    Raises:
        NotFound: any other, existing or not, for an actor that reads members somewhere.
        PermissionDenied: any other, existing or not, for an actor that reads members nowhere.
    """
    organization = organization_get(actor, organization_slug)
    if user_id == actor.user_id:
        return User.objects.select_related("organization").get(pk=user_id)
    if not nodes_that_allow(actor, Action.MEMBER_READ):
        raise PermissionDenied(f"You may not do this here (it needs {Action.MEMBER_READ.value}).")
    person = _visible(actor, organization).filter(pk=user_id).first()
    if person is None:
        raise NotFound
    return person


def roles_of_person(*, actor: Actor, user: User) -> list[Membership]:
    """Return the roles of a person on nodes that ``actor`` sees: all that it may take back, and those above them."""
    return list(_memberships_seen(actor, user).order_by("node__slug", "role", "source"))


def nodes_of_person(*, actor: Actor, user: User) -> QuerySet[Node]:
    """Return the nodes on which a person has any role, among those whose members ``actor`` may read."""
    own = user.pk == actor.user_id
    nodes = nodes_visible(actor, Action.NODE_READ if own else Action.MEMBER_READ)
    held = Membership.objects.filter(user=user, node__below__descendant_id=OuterRef("pk"))
    return nodes.filter(Exists(held))


def rights_of(*, actor: Actor, user: User, nodes: Sequence[Node]) -> list[Rights]:
    """Return what a person may do on nodes out of :func:`nodes_of_person`, by roles alone. Three queries.

    A session of the person may do just this; a personal token what its scopes cover of it.
    """
    memberships = list(Membership.objects.filter(user=user).select_related("node").order_by("role", "source"))
    shown = set(nodes_visible(actor).filter(pk__in=[row.node_id for row in memberships]).values_list("pk", flat=True))
    return [_rights(user, node, lineage, memberships, shown) for node, lineage in nodes_with_lineage(nodes)]


def is_pending(user: User) -> bool:
    """Return whether a person was invited and has not signed in yet."""
    return user.last_login is None and not user.has_usable_password()


def ways_in(user: User) -> list[str]:
    """Return how a person may sign in, as words of the API: ``password``, ``provider``. One query."""
    ways = ["password"] if user.has_usable_password() else []
    if ExternalIdentity.objects.filter(user=user).exists():
        ways.append("provider")
    return ways


def provider_name(actor: Actor) -> str:
    """Return what the identity provider that signs the actor's organization in is called, ``""`` for none. One query.

    Everybody reads it on the sign-in page.
    """
    if actor.organization_id is None:
        return ""
    providers = IdentityProvider.objects.filter(organization_id=actor.organization_id, enabled=True)
    return providers.values_list("name", flat=True).first() or ""


def _rights(
    user: User, node: Node, lineage: Sequence[UUID], memberships: Iterable[Membership], shown: set[UUID]
) -> Rights:
    counting = [row for row in memberships if row.node_id in lineage]
    person = Actor(
        ActorKind.USER,
        f"user:{user.pk}",
        user.display_name,
        user.organization_id,
        user.pk,
        grants=tuple(Grant(row.node_id, Role(row.role)) for row in counting),
    )
    roles = tuple(
        RoleHeld(
            role=row.role,
            node=row.node.slug if row.node_id in shown else None,
            source=str(row.source),
            inherited=row.node_id != node.pk,
        )
        for row in sorted(counting, key=lambda row: -lineage.index(row.node_id))
    )
    here = frozenset(Action) if node.parent_id is None else frozenset(Action) - _ON_ROOT
    actions = tuple(
        action for action in Action if action in here and user.is_active and allows(person, action, lineage)
    )
    return Rights(node, roles, actions)


def _visible(actor: Actor, organization: Organization) -> QuerySet[User]:
    readable = nodes_that_allow(actor, Action.MEMBER_READ)
    people = User.objects.filter(organization=organization).select_related("organization")
    if Node.objects.filter(pk__in=readable, organization=organization, parent__isnull=True).exists():
        return people
    inside = Membership.objects.filter(user=OuterRef("pk"), node__above__ancestor_id__in=readable)
    return people.filter(Exists(inside))


def _memberships_seen(actor: Actor, user: User) -> QuerySet[Membership]:
    rows = Membership.objects.filter(user=user).select_related("node", "user")
    if user.pk == actor.user_id:
        return rows
    readable = nodes_that_allow(actor, Action.MEMBER_READ)
    inside = NodeAncestor.objects.filter(descendant_id=OuterRef("node_id"), ancestor_id__in=readable)
    return rows.filter(Exists(inside))  # a person's roles are all in its own organization

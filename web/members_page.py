"""What the pages of people show: places and roles to choose from, and what somebody's roles come to."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from controlplane.access.member_selectors import (
    Rights,
    is_pending,
    nodes_of_person,
    provider_name,
    rights_of,
    roles_of_person,
    ways_in,
)
from controlplane.access.permissions import roles_grantable
from controlplane.core.actor import Actor, Role
from controlplane.core.errors import AppError, NotFound
from controlplane.core.pagination import page_of
from controlplane.core.permission_words import ACTION_WORDS, ROLE_WORDS
from controlplane.core.permissions import Action
from controlplane.orgs.selectors import nodes_visible, nodes_with_lineage, organization_of

#: Nodes of the table of rights on one page.
PER_PAGE: Final = 50
#: Roles of a person that the list of people names.
_NAMED: Final = 3
_WAYS: Final = {"password": "Password", "provider": "Identity provider"}


def own_organization(actor: Actor) -> str:
    """Return the slug of the actor's organization.

    Raises:
        NotFound: it belongs to none.
    """
    organization = organization_of(actor)
    if organization is None:
        raise NotFound
    return organization.slug


@dataclass(frozen=True, slots=True)
class Place:
    """A node on which the actor may give roles; ``depth`` below the highest such."""

    slug: str
    name: str
    kind: str
    label: str


class Places:
    """Where the actor may do something about people. Two queries, made when asked."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    @cached_property
    def _nodes(self) -> list[tuple[Any, tuple[Any, ...]]]:
        pairs = nodes_with_lineage(nodes_visible(self._actor, Action.MEMBER_WRITE))
        slugs = {node.pk: node.slug for node, _ in pairs}
        return sorted(pairs, key=lambda pair: [slugs.get(pk, "") for pk in pair[1]])

    @cached_property
    def choices(self) -> list[Place]:
        """The nodes, parents before children."""
        shown = {node.pk for node, _ in self._nodes}
        return [
            Place(node.slug, node.name, node.kind, "\u2003" * (sum(pk in shown for pk in lineage) - 1) + node.name)
            for node, lineage in self._nodes
        ]

    @cached_property
    def may_invite(self) -> bool:
        """Whether the actor may make accounts: who writes members of the root."""
        return bool(self._nodes) and self._nodes[0][0].parent_id is None

    @cached_property
    def root_slug(self) -> str:
        return self._nodes[0][0].slug if self.may_invite else ""

    @cached_property
    def roles_grantable(self) -> list[tuple[str, str]]:
        """The roles that the actor may give on any of the nodes, with what each means."""
        found = frozenset[Role]().union(*(roles_grantable(self._actor, lineage) for _, lineage in self._nodes))
        return [(role.value, ROLE_WORDS[role]) for role in Role if role in found]

    @cached_property
    def ways_in(self) -> list[tuple[str, str]]:
        """How somebody new may be let in; through the provider where there is one that is on."""
        provider = provider_name(self._actor)
        return [("link", "One-time link"), *([("provider", provider)] if provider else [])]

    def row(self, person: Any) -> dict[str, Any]:
        """Return what the list of people shows of one; of the roles only those on nodes the actor administers."""
        readable = {node.pk for node, _ in self._nodes}
        roles = [(row.role, row.node.name) for row in person.memberships.all() if row.node_id in readable]
        return {
            "person": person,
            "pending": is_pending(person),
            "roles": roles[:_NAMED],
            "more": max(len(roles) - _NAMED, 0),
        }


def person_context(actor: Actor, person: Any, *, cursor: str) -> dict[str, Any]:
    """Return what the page of one person shows.

    Args:
        cursor: of the table of rights; a bad one begins again.
    """
    places = Places(actor)
    writable = {place.slug for place in places.choices}
    roles = roles_of_person(actor=actor, user=person)
    rights, older = _rights_page(actor, person, cursor)
    own, ways = person.pk == actor.user_id, ways_in(person)
    return {
        "person": person,
        "own": own,
        "pending": is_pending(person),
        "renewable": is_pending(person) and person.is_active and "provider" not in ways,
        "ways_in": [_WAYS[way] for way in ways],
        "roles": [{"row": row, "removable": row.node.slug in writable} for row in roles],
        "rights": [_in_words(one) for one in rights],
        "older": older,
        "first": bool(cursor),
        "places": places.choices,
        "grantable": places.roles_grantable,
        "may_change": places.may_invite and not own,
    }


def field_errors(error: AppError | None, *, fallback: str) -> dict[str, str]:
    """Return the refusal by the field it is about; one that names none is shown at ``fallback``."""
    if error is None:
        return {}
    errors: dict[str, str] = {}
    for item in error.errors:
        errors.setdefault(item.pointer.removeprefix("/"), item.detail)
    if not errors:
        errors["node" if error.status == 404 else fallback] = error.detail
    return errors


def _rights_page(actor: Actor, person: Any, cursor: str) -> tuple[Sequence[Rights], str | None]:
    nodes = nodes_of_person(actor=actor, user=person)
    try:
        page = page_of(nodes, ordering=["slug"], params={"cursor": cursor, "limit": PER_PAGE})
    except AppError:
        page = page_of(nodes, ordering=["slug"], params={"limit": PER_PAGE})
    return rights_of(actor=actor, user=person, nodes=page.results), page.next


def _in_words(rights: Rights) -> dict[str, Any]:
    return {
        "node": rights.node,
        "roles": rights.roles,
        "actions": [ACTION_WORDS[action] for action in rights.actions],
    }

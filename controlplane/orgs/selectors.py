"""Reading organizations and trees, restricted to what the actor may see.

What an actor may not see does not exist for it: unknown, foreign and unseen nodes are the same :class:`NotFound`. What
it may see but not use is :class:`PermissionDenied`.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.expressions import NegatedExpression

from controlplane.core.actor import Actor
from controlplane.core.errors import InvalidInput, NotFound, PermissionDenied, invalid
from controlplane.core.permissions import Action, allows, nodes_that_allow
from controlplane.orgs.models import Node, NodeAncestor, NodeKind, Organization, is_slug

#: How many teams a ``team_required`` error lists.
LISTED_TEAMS = 100


def organization_get(actor: Actor, slug: str) -> Organization:
    """Return the actor's own organization when ``slug`` names it.

    Raises:
        NotFound: for any other organization, existing or not.
    """
    if actor.organization_id is not None and is_slug(slug):
        organization = Organization.objects.filter(pk=actor.organization_id, slug=slug).first()
        if organization is not None:
            return organization
    raise NotFound


def organization_of(actor: Actor) -> Organization | None:
    """Return the actor's organization, ``None`` for an operator and the anonymous."""
    if actor.organization_id is None:
        return None
    return Organization.objects.filter(pk=actor.organization_id).first()


def nodes_visible(actor: Actor, action: Action = Action.NODE_READ) -> QuerySet[Node]:
    """Return the nodes on which ``actor`` may do ``action``."""
    if actor.organization_id is None:
        return Node.objects.none()
    return Node.objects.filter(_permitted(actor, action), organization_id=actor.organization_id)


def node_get(*, actor: Actor, organization_slug: str, node_slug: str, action: Action = Action.NODE_READ) -> Node:
    """Return a node, with its organization, on which ``actor`` may do ``action``. One query.

    Raises:
        NotFound: the actor does not see the node.
        PermissionDenied: it sees the node and may not do ``action`` there.
    """
    if not (is_slug(node_slug) and is_slug(organization_slug)):
        raise NotFound
    nodes = Node.objects.filter(slug=node_slug, organization__slug=organization_slug)
    return _one_permitted(actor, action, nodes) or _not_found()


def node_get_by_id(*, actor: Actor, node_id: UUID, action: Action = Action.NODE_READ) -> Node:
    """Return a node by id under the rules of :func:`node_get`. One query."""
    return _one_permitted(actor, action, Node.objects.filter(pk=node_id)) or _not_found()


def node_lineage(node_id: UUID) -> tuple[UUID, ...]:
    """Return the ids of a node's ancestors and itself, root first; empty for an unknown node. One query."""
    rows = NodeAncestor.objects.filter(descendant_id=node_id).order_by("-depth").values_list("ancestor_id", flat=True)
    return tuple(rows)


def node_chain(node_id: UUID) -> tuple[Node, ...]:
    """Return a node's ancestors and itself, root first. One query."""
    links = NodeAncestor.objects.filter(descendant_id=node_id).order_by("-depth").select_related("ancestor")
    return tuple(link.ancestor for link in links)


def nodes_with_lineage(nodes: Iterable[Node]) -> list[tuple[Node, tuple[UUID, ...]]]:
    """Return each node with its :func:`node_lineage`, in the order given. One query beside that of ``nodes``."""
    listed = list(nodes)
    lineages: dict[UUID, list[UUID]] = {node.pk: [] for node in listed}
    links = NodeAncestor.objects.filter(descendant_id__in=lineages).order_by("-depth")
    for descendant_id, ancestor_id in links.values_list("descendant_id", "ancestor_id"):
        lineages[descendant_id].append(ancestor_id)
    return [(node, tuple(lineages[node.pk])) for node in listed]


def node_descendants(node_id: UUID) -> QuerySet[Node]:
    """Return the nodes of a node's subtree, itself included, for code that has already been permitted to act on it."""
    return Node.objects.filter(above__ancestor_id=node_id)


def node_is_archived(node_id: UUID) -> bool:
    """Return whether the node or any of its ancestors is archived. One query."""
    return NodeAncestor.objects.filter(descendant_id=node_id, ancestor__archived_at__isnull=False).exists()


def node_require(*, actor: Actor, action: Action, node: Node) -> None:
    """Check that ``actor`` may do ``action`` on ``node``: what every service calls first. One query.

    Raises:
        NotFound: the actor does not even see the node.
        PermissionDenied: it sees it and may not.
    """
    if actor.organization_id != node.organization_id:
        raise NotFound
    lineage = node_lineage(node.pk)
    if allows(actor, action, lineage):
        return
    if allows(actor, Action.NODE_READ, lineage):
        raise _denied(action)
    raise NotFound


def teams_for(actor: Actor, action: Action) -> QuerySet[Node]:
    """Return the teams, not archived themselves nor below something archived, on which ``actor`` may do ``action``."""
    return (
        nodes_visible(actor, action)
        .filter(_active(), kind=NodeKind.TEAM)
        .select_related("organization")
        .order_by("slug")
    )


def team_for(actor: Actor, reference: str | None, action: Action) -> Node:
    """Return the team a request is about.

    Args:
        reference: ``ORG/TEAM`` or ``TEAM`` (slugs), or ``None`` when the caller left it out.
        action: what is to be done there.

    Raises:
        InvalidInput: ``team_required`` (left out and there are several; ``teams`` lists them), ``unknown_team``
            (unknown, foreign or unseen alike) or ``team_archived``.
        PermissionDenied: the actor sees the team, or no team was named, and it may not do ``action``.
    """
    if reference is None:
        return _only_team(actor, action)
    node = team_named(actor, reference, action)
    if not node.active:  # type: ignore[attr-defined]  # the annotation of team_named
        raise invalid("/team", "team_archived", "This team is archived.")
    return node


def team_named(actor: Actor, reference: str, action: Action) -> Node:
    """Return the team that ``ORG/TEAM`` or ``TEAM`` (slugs) names, archived or not. One query.

    Raises:
        InvalidInput: ``unknown_team`` (unknown, foreign or unseen alike).
        PermissionDenied: the actor sees the team and may not do ``action``.
    """
    organization_slug, slash, slug = reference.rpartition("/")
    nodes = Node.objects.filter(slug=slug, kind=NodeKind.TEAM).annotate(active=_active())
    if slash:
        nodes = nodes.filter(organization__slug=organization_slug)
    well_formed = is_slug(slug) and (not slash or is_slug(organization_slug))
    node = _one_permitted(actor, action, nodes) if well_formed else None
    if node is None:
        raise invalid("/team", "unknown_team", "There is no such team that you may see.")
    return node


def _only_team(actor: Actor, action: Action) -> Node:
    teams = list(teams_for(actor, action)[: LISTED_TEAMS + 1])
    if actor.token_node_id is not None:
        own = [team for team in teams if team.pk == actor.token_node_id]
        teams = own or teams
    if len(teams) == 1:
        return teams[0]
    if not teams:
        raise PermissionDenied("You may not do this on any team.", code="no_team")
    names = [f"{team.organization.slug}/{team.slug}" for team in teams[:LISTED_TEAMS]]
    error = invalid("/team", "team_required", "Name the team: you may do this on several.")
    raise InvalidInput(error.detail, code=error.code, errors=error.errors, extra={"teams": names})


def _one_permitted(actor: Actor, action: Action, nodes: QuerySet[Node]) -> Node | None:
    if actor.organization_id is None:
        return None
    found = nodes.filter(
        _permitted(actor, Action.NODE_READ) | _permitted(actor, action), organization_id=actor.organization_id
    )
    node = found.annotate(permitted=_permitted(actor, action)).select_related("organization").first()
    if node is not None and not node.permitted:  # the annotation above
        raise _denied(action)
    return node


def _permitted(actor: Actor, action: Action) -> Exists:
    return Exists(
        NodeAncestor.objects.filter(descendant_id=OuterRef("pk"), ancestor_id__in=nodes_that_allow(actor, action))
    )


def _active() -> NegatedExpression[Any]:
    return ~Exists(NodeAncestor.objects.filter(descendant_id=OuterRef("pk"), ancestor__archived_at__isnull=False))


def _denied(action: Action) -> PermissionDenied:
    return PermissionDenied(f"You may not do this here (it needs {action.value}).")


def _not_found() -> Node:
    raise NotFound

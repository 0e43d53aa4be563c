"""Writing organizations and trees. Each service locks the organization first and its audit chain last."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from controlplane.audit.services import audit_record
from controlplane.core import clock
from controlplane.core.actor import Actor, ActorKind
from controlplane.core.errors import Conflict, FieldError, PermissionDenied, invalid
from controlplane.core.permissions import Action
from controlplane.core.text import name_line
from controlplane.orgs.guards import check_move, deletion_obstacle
from controlplane.orgs.models import MAX_DEPTH, Node, NodeAncestor, NodeKind, Organization, slug_validator
from controlplane.orgs.selectors import node_is_archived, node_require


@transaction.atomic
def organization_create(*, actor: Actor, slug: str, name: str) -> Organization:
    """Create an organization and its root node of the same slug and name.

    Raises:
        PermissionDenied: the actor is not the installation itself.
        InvalidInput: ``slug_format`` or a rule of the name.
        Conflict: ``slug_taken``.
    """
    if actor.kind != ActorKind.SYSTEM:
        raise PermissionDenied("Only the installation's operator makes organizations.")
    slug, name = _clean_slug(slug), name_line(name, pointer="/name")
    try:
        with transaction.atomic():
            organization = Organization.objects.create(slug=slug, name=name)
    except IntegrityError:
        raise _slug_taken("organization") from None
    root = Node.objects.create(organization=organization, parent=None, kind=NodeKind.ORG, slug=slug, name=name)
    NodeAncestor.objects.create(ancestor=root, descendant=root, depth=0)
    _audit(
        actor,
        "organization.create",
        root,
        after=_describe(root),
        object_kind="organization",
        object_id=str(organization.pk),
    )
    return organization


@transaction.atomic
def node_create(*, actor: Actor, organization: Organization, parent: Node, slug: str, name: str, kind: str) -> Node:
    """Create a group or team below ``parent``.

    Raises:
        NotFound, PermissionDenied: the actor may not write the parent's subtree.
        InvalidInput: ``slug_format``, ``kind``, a rule of the name, ``too_deep``, ``other_organization``.
        Conflict: ``slug_taken`` or ``node_archived`` (the parent is).
    """
    _lock(organization)
    node_require(actor=actor, action=Action.NODE_WRITE, node=parent)
    if parent.organization_id != organization.pk:
        raise invalid("/parent", "other_organization", "The parent is not in this organization.")
    if kind not in {NodeKind.GROUP, NodeKind.TEAM}:
        raise invalid("/kind", "kind", "This must be group or team.")
    node = Node(organization=organization, parent=parent, kind=kind)
    node.slug, node.name = _clean_slug(slug), name_line(name, pointer="/name")
    _require_free_slug(node)
    _require_active(parent)
    above = _depths_above(parent.pk)
    _require_depth(len(above) + 1)
    node.save(force_insert=True)
    links = [NodeAncestor(ancestor_id=ancestor, descendant=node, depth=depth + 1) for ancestor, depth in above.items()]
    NodeAncestor.objects.bulk_create([*links, NodeAncestor(ancestor=node, descendant=node, depth=0)])
    _audit(actor, "node.create", node, after=_describe(node))
    return node


@transaction.atomic
def node_update(*, actor: Actor, node: Node, slug: str | None = None, name: str | None = None) -> Node:
    """Change a node's slug or name; ``None`` keeps it. Changing nothing writes nothing.

    Raises:
        NotFound, PermissionDenied: the actor may not write the node.
        InvalidInput: ``slug_format``, a rule of the name, or ``root_slug`` (a root is named like its organization).
        Conflict: ``slug_taken``.
    """
    node = _locked(actor, node)
    before = _describe(node)
    if slug is not None and slug != node.slug:
        if node.kind == NodeKind.ORG:
            raise invalid("/slug", "root_slug", "The root node keeps the slug of its organization.")
        node.slug = _clean_slug(slug)
        _require_free_slug(node)
    if name is not None:
        node.name = name_line(name, pointer="/name")
    if _describe(node) != before:
        node.save(update_fields=["slug", "name"])
        _audit(actor, "node.update", node, before=before, after=_describe(node))
    return node


@transaction.atomic
def node_move(*, actor: Actor, node: Node, parent: Node) -> Node:
    """Move a node and its subtree below ``parent``; in effect at once. Moving it to where it is writes nothing.

    Whoever moves a node changes what binds it, so the right to write is needed on the old parent and on the new one.

    Raises:
        NotFound, PermissionDenied: the actor may not write the node, its present parent or the new one.
        InvalidInput: ``root_moved``, ``cycle`` or ``too_deep``.
        Conflict: ``node_archived`` (the new parent is).
        AppError: a guard refuses, see :mod:`controlplane.configs.moving`.
    """
    node = _locked(actor, node)
    if node.parent is None:
        raise invalid("/parent", "root_moved", "The root node cannot be moved.")
    node_require(actor=actor, action=Action.NODE_WRITE, node=node.parent)
    node_require(actor=actor, action=Action.NODE_WRITE, node=parent)
    if parent.pk == node.parent_id:
        return node
    below = _depths_below(node.pk)
    if parent.pk in below:
        raise invalid("/parent", "cycle", "A node cannot be moved below itself.")
    _require_active(parent)
    above = _depths_above(parent.pk)
    _require_depth(len(above) + max(below.values()) + 1)
    before, above_before = _describe(node), _depths_above(node.pk).keys()
    NodeAncestor.objects.filter(descendant_id__in=below).exclude(ancestor_id__in=below).delete()
    NodeAncestor.objects.bulk_create(
        NodeAncestor(ancestor_id=ancestor, descendant_id=descendant, depth=up + 1 + down)
        for ancestor, up in above.items()
        for descendant, down in below.items()
    )
    node.parent = parent
    node.save(update_fields=["parent"])
    check_move(actor, node, above_before)
    _audit(actor, "node.move", node, before=before, after=_describe(node))
    return node


@transaction.atomic
def node_archive(*, actor: Actor, node: Node) -> Node:
    """Archive a node: it and all below keep what they have and accept no new runs. Idempotent.

    Raises:
        NotFound, PermissionDenied: the actor may not write the node.
        InvalidInput: ``root_archived``.
    """
    node = _locked(actor, node)
    if node.kind == NodeKind.ORG:
        raise invalid("/archived", "root_archived", "The root node cannot be archived.")
    if node.archived_at is None:
        node.archived_at = clock.now()
        node.save(update_fields=["archived_at"])
        _audit(actor, "node.archive", node, after=_describe(node))
    return node


@transaction.atomic
def node_restore(*, actor: Actor, node: Node) -> Node:
    """Take a node out of the archive. Idempotent.

    Raises:
        NotFound, PermissionDenied: the actor may not write the node.
    """
    node = _locked(actor, node)
    if node.archived_at is not None:
        node.archived_at = None
        node.save(update_fields=["archived_at"])
        _audit(actor, "node.restore", node, after=_describe(node))
    return node


@transaction.atomic
def node_delete(*, actor: Actor, node: Node) -> None:
    """Delete a node with its configuration, roles and tokens.

    Raises:
        NotFound, PermissionDenied: the actor may not write the node.
        Conflict: ``root_deleted``, ``node_has_children``, or ``node_in_use`` when another app still needs it; archiving
            is the alternative.
    """
    node = _locked(actor, node)
    if node.kind == NodeKind.ORG:
        raise Conflict("The root node cannot be deleted.", code="root_deleted")
    if node.children.exists():
        raise Conflict(
            "The node has children; move or delete them first, or archive the node.", code="node_has_children"
        )
    Node.objects.select_for_update().get(pk=node.pk)  # waits for whoever is about to refer to the node
    obstacle = deletion_obstacle(node.pk)
    if obstacle is not None:
        raise Conflict(f"The node is in use: {obstacle}. Archive it instead.", code="node_in_use")
    before, node_id = _describe(node), node.pk
    node.delete()
    node.pk = node_id
    _audit(actor, "node.delete", node, before=before)


def _lock(organization: Organization | UUID) -> None:
    pk = organization.pk if isinstance(organization, Organization) else organization
    # Not a key lock: rows that merely refer to the organization are still inserted meanwhile.
    Organization.objects.select_for_update(no_key=True).get(pk=pk)


def _locked(actor: Actor, node: Node) -> Node:
    """Lock the organization, read the node anew and check that the actor may write it."""
    _lock(node.organization_id)
    fresh = Node.objects.select_related("organization", "parent").filter(pk=node.pk).first()
    node_require(actor=actor, action=Action.NODE_WRITE, node=fresh or node)
    return fresh or node


def _clean_slug(slug: str) -> str:
    try:
        slug_validator(slug)
    except ValidationError:
        raise invalid("/slug", "slug_format", f"This must be {slug_validator.message}.") from None
    return slug


def _require_free_slug(node: Node) -> None:
    if Node.objects.filter(organization_id=node.organization_id, slug=node.slug).exclude(pk=node.pk).exists():
        raise _slug_taken("node")


def _slug_taken(what: str) -> Conflict:
    detail = f"There is already a {what} of this slug."
    return Conflict(
        detail.replace("a organ", "an organ"), code="slug_taken", errors=[FieldError("/slug", "slug_taken", detail)]
    )


def _require_active(parent: Node) -> None:
    if node_is_archived(parent.pk):
        raise Conflict(
            "The parent is archived.",
            code="node_archived",
            errors=[FieldError("/parent", "node_archived", "Archived.")],
        )


def _require_depth(levels: int) -> None:
    if levels > MAX_DEPTH:
        raise invalid("/parent", "too_deep", f"The tree would have {levels} levels; at most {MAX_DEPTH} are accepted.")


def _depths_above(node_id: UUID) -> dict[UUID, int]:
    return dict(NodeAncestor.objects.filter(descendant_id=node_id).values_list("ancestor_id", "depth"))


def _depths_below(node_id: UUID) -> dict[UUID, int]:
    return dict(NodeAncestor.objects.filter(ancestor_id=node_id).values_list("descendant_id", "depth"))


def _describe(node: Node) -> dict[str, Any]:
    return {
        "slug": node.slug,
        "name": node.name,
        "kind": str(node.kind),
        "parent": node.parent.slug if node.parent else None,
        "archived": node.archived_at is not None,
    }


def _audit(
    actor: Actor,
    action: str,
    node: Node,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    object_kind: str = "node",
    object_id: str | None = None,
) -> None:
    audit_record(
        actor=actor,
        organization_id=node.organization_id,
        action=action,
        object_kind=object_kind,
        object_id=object_id or str(node.pk),
        node_id=node.pk,
        before=before,
        after=after,
    )

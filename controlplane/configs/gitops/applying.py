"""Making an organization what its files say: every node in one transaction, each through the service of any write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.db import transaction

from controlplane.audit.services import audit_record
from controlplane.configs.gitops.files import FileNode, FileTree
from controlplane.configs.gitops.plans import NodeChange, Plan, plan_of
from controlplane.configs.locks import lock_tree
from controlplane.configs.routes import claims_release, claims_renew, touches_routing
from controlplane.configs.services import config_replace
from controlplane.configs.validation import ConfigWarning
from controlplane.core.actor import Actor
from controlplane.core.errors import AppError, Conflict, FieldError
from controlplane.core.permissions import Action
from controlplane.orgs.models import Node, Organization
from controlplane.orgs.selectors import node_require
from controlplane.orgs.services import (
    node_archive,
    node_create,
    node_delete,
    node_move,
    node_restore,
    node_update,
)

LISTED: Final = 50


@dataclass(frozen=True, slots=True)
class Applied:
    """What an apply did: its plan, and what the writes warned of, by the path of the node's file."""

    plan: Plan
    warnings: tuple[tuple[str, ConfigWarning], ...]


@transaction.atomic
def config_apply(
    *,
    actor: Actor,
    organization: Organization,
    tree: FileTree,
    prune: bool = False,
    reason: str = "",
    expected: Mapping[str, str] | None = None,
) -> Applied:
    """Make the nodes and documents of an organization what ``tree`` says, or change nothing.

    Args:
        actor: who applies; needs to write nodes and configuration from the root.
        organization: of the tree.
        tree: as it should be.
        prune: delete nodes that the tree does not have.
        reason: one line for the history of each document.
        expected: slug → digest of a plan that was looked at before; nothing else is applied.

    Raises:
        Conflict: ``plan_stale``: what would change is not what ``expected`` says. ``approval_required``: a policy wants
            somebody's approval, which files cannot ask for.
        AppError: a rule forbids the change of one node; the detail begins with its file, ``node`` names it.
    """
    # For update, as whoever moves nodes takes it: no other writer is between the plan and its application.
    organization = Organization.objects.select_for_update(no_key=True).get(pk=organization.pk)
    root = _require_root(actor, organization)
    plan = plan_of(organization, tree, prune=prune)
    if expected is not None:
        _require_expected(plan, expected)
    if not plan.changes:
        return Applied(plan, ())
    files = {node.slug: node for node in tree.nodes}
    changes = [change for change in plan.changes if change.action != "delete"]
    nodes = _place(actor, organization, [(change, files[change.slug]) for change in changes])
    doomed = list(Node.objects.filter(organization=organization, slug__in=_slugs(plan, "delete")))
    claims_release([*doomed, *(nodes[one.slug] for one in changes if touches_routing(one.operations))])
    warnings = _write_documents(actor, [one for one in changes if one.operations], nodes, files, reason)
    _archive(actor, changes, nodes)
    _delete(actor, plan, {node.slug: node for node in doomed})
    audit_record(
        actor=actor,
        organization_id=organization.pk,
        action="config.apply",
        object_kind="organization",
        object_id=str(organization.pk),
        node_id=root.pk,
        after={
            "created": _slugs(plan, "create")[:LISTED],
            "updated": _slugs(plan, "update")[:LISTED],
            "deleted": _slugs(plan, "delete")[:LISTED],
            "nodes": len(plan.changes),
        },
        reason=reason,
    )
    return Applied(plan, tuple(warnings))


def config_rehearse(*, actor: Actor, organization: Organization, tree: FileTree, prune: bool = False) -> Applied:
    """Return what :func:`config_apply` would do, having found out by doing it and taking everything back.

    So a plan names every refusal that the apply would meet. Without a change only the tree is kept, and for reading
    alone. Errors as there.
    """
    _require_root(actor, organization)
    with transaction.atomic():
        lock_tree(organization.pk)
        plan = plan_of(organization, tree, prune=prune)
    if not plan.changes:
        return Applied(plan, ())
    with transaction.atomic():
        applied = config_apply(actor=actor, organization=organization, tree=tree, prune=prune)
        transaction.set_rollback(True)
    return applied


def _require_root(actor: Actor, organization: Organization) -> Node:
    """Return the organization's root, if the actor may write its configuration."""
    root = Node.objects.get(organization=organization, parent__isnull=True)
    node_require(actor=actor, action=Action.CONFIG_WRITE, node=root)
    return root


def _require_expected(plan: Plan, expected: Mapping[str, str]) -> None:
    now = {change.slug: change.digest for change in plan.changes}
    moved = sorted(slug for slug in now.keys() | expected.keys() if now.get(slug) != expected.get(slug))
    if moved:
        errors = [
            FieldError("", "changed_since_plan", f"{slug} has changed since the plan.") for slug in moved[:LISTED]
        ]
        detail = f"The plan is stale: {len(moved)} nodes would change otherwise than it says. Plan again."
        raise Conflict(detail, code="plan_stale", errors=errors)


def _place(actor: Actor, organization: Organization, changes: Sequence[tuple[NodeChange, FileNode]]) -> dict[str, Node]:
    """Make, move, rename and restore nodes, from the root down, and return every node that changes."""
    nodes = {node.slug: node for node in Node.objects.filter(organization=organization).select_related("parent")}
    for change, file in changes:
        with _Naming(change):
            if change.action == "create":
                nodes[file.slug] = node_create(
                    actor=actor,
                    organization=organization,
                    parent=nodes[file.parent or ""],
                    slug=file.slug,
                    name=file.name,
                    kind=file.kind,
                )
                continue
            node = nodes[file.slug]
            if "archived" in change.meta and not file.archived:
                node = node_restore(actor=actor, node=node)
            if "parent" in change.meta:
                node = node_move(actor=actor, node=node, parent=nodes[file.parent or ""])
            if "name" in change.meta:
                node = node_update(actor=actor, node=node, name=file.name)
            nodes[file.slug] = node
    return nodes


def _write_documents(
    actor: Actor,
    changes: Sequence[NodeChange],
    nodes: Mapping[str, Node],
    files: Mapping[str, FileNode],
    reason: str,
) -> list[tuple[str, ConfigWarning]]:
    """Write the documents, root first; what is refused is tried again once the others are written.

    A check of one node looks at those above or below, so between two writes something may not fit that does in the end.
    """
    warnings: list[tuple[str, ConfigWarning]] = []
    waiting = list(changes)
    while waiting:
        refused: list[tuple[NodeChange, AppError]] = []
        for change in waiting:
            try:
                with transaction.atomic():
                    found = _replace(actor, nodes[change.slug], files[change.slug], reason, change)
            except AppError as error:
                refused.append((change, error))
            else:
                warnings += [(change.path, warning) for warning in found]
        if len(refused) == len(waiting):
            with _Naming(refused[0][0]):
                raise refused[0][1]
        waiting = [change for change, _ in refused]
    return warnings


def _replace(actor: Actor, node: Node, file: FileNode, reason: str, change: NodeChange) -> list[ConfigWarning]:
    result = config_replace(actor=actor, node=node, document=file.document, reason=reason)
    if result.review is not None:
        detail = "A policy wants somebody's approval for this change; make it on the page or over REST."
        raise Conflict(detail, code="approval_required")
    if touches_routing(change.operations) and not touches_routing(result.operations):
        # What the file says there only repeats what is locked above, so the write left it, and the claims, alone.
        claims_renew(actor=actor, node=node, document=result.stored.document)
    return result.warnings


def _archive(actor: Actor, changes: Sequence[NodeChange], nodes: Mapping[str, Node]) -> None:
    for change in changes:
        if change.meta.get("archived") == (False, True):
            with _Naming(change):
                node_archive(actor=actor, node=nodes[change.slug])


def _delete(actor: Actor, plan: Plan, doomed: Mapping[str, Node]) -> None:
    for change in plan.changes:
        if change.action == "delete":
            with _Naming(change):
                node_delete(actor=actor, node=doomed[change.slug])


def _slugs(plan: Plan, action: str) -> list[str]:
    return [change.slug for change in plan.changes if change.action == action]


class _Naming:
    """Has the file of a node named in an error about it."""

    def __init__(self, change: NodeChange) -> None:
        self._change = change

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, AppError):
            detail = f"{self._change.path}: {error.detail}"
            extra = {**error.extra, "node": self._change.slug}
            raise type(error)(detail, code=error.code, errors=error.errors, extra=extra) from None

"""What would change so that an organization is as its files say: per node, leaf by leaf."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from controlplane.configs.gitops.files import FileNode, FileTree
from controlplane.configs.models import ConfigDocument
from controlplane.configs.pointers import Document, Operation, diff
from controlplane.core.errors import FieldError, InvalidInput
from controlplane.core.redaction import redact_json, redact_text
from controlplane.orgs.models import Node, NodeAncestor, NodeKind, Organization

PLAN_FORMAT: Final = "opensre-plan/1"
Action = Literal["create", "update", "delete"]


@dataclass(frozen=True, slots=True)
class NodeChange:
    """What happens to one node.

    ``meta``: name, parent or archived → before and after. ``operations``: the difference of its document. ``version``:
    of the document it is compared with, 0 for a new node. ``path``: of its file, or its slug where it has none.
    """

    action: Action
    slug: str
    kind: str
    path: str
    version: int
    meta: Mapping[str, tuple[Any, Any]]
    operations: tuple[Operation, ...]

    @property
    def digest(self) -> str:
        """Return a digest of exactly this change from exactly this state."""
        said = [self.action, self.slug, self.kind, self.version, dict(self.meta), list(self.operations)]
        return hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """Return the change as JSON, redacted: what an earlier release stored may hold what no write accepts today."""
        return {
            "action": self.action,
            "slug": self.slug,
            "kind": self.kind,
            "path": self.path,
            "version": self.version,
            "meta": {name: {"before": before, "after": after} for name, (before, after) in self.meta.items()},
            "diff": [shown(operation) for operation in self.operations],
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes, each node after the one above it, deletions last; ``kept``: nodes without a file that stay."""

    organization: str
    prune: bool
    changes: tuple[NodeChange, ...]
    kept: tuple[str, ...]

    def count(self, action: Action) -> int:
        return sum(change.action == action for change in self.changes)

    def as_dict(self) -> dict[str, Any]:
        return {
            "organization": self.organization,
            "changed": bool(self.changes),
            "create": self.count("create"),
            "update": self.count("update"),
            "delete": self.count("delete"),
            "changes": [change.as_dict() for change in self.changes],
            "kept": list(self.kept),
        }

    def as_file(self) -> dict[str, Any]:
        """Return what ``--out`` keeps: digests alone, so the file shows nothing of the configuration."""
        return {
            "format": PLAN_FORMAT,
            "organization": self.organization,
            "prune": self.prune,
            "changes": {change.slug: change.digest for change in self.changes},
        }


def shown(operation: Operation) -> dict[str, Any]:
    """Return one difference fit to be shown."""
    name = operation["pointer"].rpartition("/")[2]
    said: dict[str, Any] = {"pointer": redact_text(operation["pointer"])}
    for side in ("before", "after"):
        if side in operation:
            # With the name beside it: that tells what a value is. A name that is itself a secret is replaced too.
            redacted: Any = redact_json({name: operation[side]})
            said[side] = next(iter(redacted.values()))
    return said


def plan_of(organization: Organization, tree: FileTree, *, prune: bool = False) -> Plan:
    """Return what would change. Four queries.

    Args:
        organization: as it is now.
        tree: as it should be.
        prune: whether nodes without a file are deleted; else they are kept as they are.

    Raises:
        InvalidInput: ``invalid_tree``: a root of another name, or another kind than the node has.
    """
    wanted = {node.slug: node for node in tree.nodes}
    nodes = {node.slug: node for node in Node.objects.filter(organization=organization).select_related("parent")}
    _require_possible(tree, nodes)
    updates: dict[str, NodeChange] = {}
    for node, document, version in _stored(organization):
        if node in wanted:
            change = _update(wanted[node], nodes[node], document, version)
            if change is not None:
                updates[node] = change
    changes = [
        updates.get(node.slug) or _create(node) for node in tree.nodes if node.slug in updates or node.slug not in nodes
    ]
    gone = [slug for slug in _deepest_first(organization) if slug not in wanted]
    if prune:
        changes += [_delete(nodes[slug]) for slug in gone]
    return Plan(tree.organization, prune, tuple(changes), () if prune else tuple(sorted(gone)))


def tree_of(organization: Organization) -> FileTree:
    """Return an organization as a tree of files: what an export writes. Three queries."""
    nodes = {node.slug: node for node in Node.objects.filter(organization=organization).select_related("parent")}
    documents = {slug: document for slug, document, _ in _stored(organization)}
    listed = [
        FileNode(
            path="",
            slug=slug,
            name=nodes[slug].name,
            kind=str(nodes[slug].kind),
            parent=_parent(nodes[slug]),
            document=documents[slug],
            archived=nodes[slug].archived_at is not None,
        )
        for slug in reversed(_deepest_first(organization))
    ]
    return FileTree(organization.slug, tuple(listed))


def _stored(organization: Organization) -> Iterator[tuple[str, Document, int]]:
    rows = Node.objects.filter(organization=organization).order_by("slug")
    documents = {
        pk: (document, version)
        for pk, document, version in ConfigDocument.objects.filter(node__organization=organization)
        .values_list("node_id", "document", "version")
        .iterator(chunk_size=200)
    }
    for pk, slug in rows.values_list("pk", "slug"):
        document, version = documents.get(pk, ({}, 0))
        yield slug, document, version


def _deepest_first(organization: Organization) -> list[str]:
    root = NodeAncestor.objects.filter(ancestor__organization=organization, ancestor__parent__isnull=True)
    return list(root.order_by("-depth", "-descendant__slug").values_list("descendant__slug", flat=True))


def _require_possible(tree: FileTree, nodes: Mapping[str, Node]) -> None:
    root = tree.nodes[0]
    own = next(slug for slug, node in nodes.items() if node.kind == NodeKind.ORG)
    faults = []
    if root.slug != own:
        faults.append(FieldError(root.path, "root", f"The organization's root is called {own}."))
    for node in tree.nodes:
        there = nodes.get(node.slug)
        if there is not None and there.kind != node.kind:
            faults.append(FieldError(node.path, "kind_fixed", f"The node is a {there.kind}; a node's kind is fixed."))
    if faults:
        raise InvalidInput(f"{faults[0].pointer}: {faults[0].detail}", code="invalid_tree", errors=faults[:50])


def _create(node: FileNode) -> NodeChange:
    meta: dict[str, tuple[Any, Any]] = {"name": (None, node.name), "parent": (None, node.parent)}
    if node.archived:
        meta["archived"] = (False, True)
    return NodeChange("create", node.slug, node.kind, node.path, 0, meta, tuple(diff({}, node.document)))


def _update(wanted: FileNode, node: Node, document: Document, version: int) -> NodeChange | None:
    pairs = {
        "name": (node.name, wanted.name),
        "parent": (_parent(node), wanted.parent),
        "archived": (node.archived_at is not None, wanted.archived),
    }
    meta = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    operations = tuple(diff(document, wanted.document))
    if not meta and not operations:
        return None
    return NodeChange("update", node.slug, str(node.kind), wanted.path, version, meta, operations)


def _delete(node: Node) -> NodeChange:
    return NodeChange("delete", node.slug, str(node.kind), node.slug, 0, {"name": (node.name, None)}, ())


def _parent(node: Node) -> str | None:
    return node.parent.slug if node.parent else None

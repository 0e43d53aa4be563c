"""Reading what OpenSRE's configuration service answers, as a tree of nodes.

Two forms: ``{"lineage": [ids, root first], "configs": {id: document}}``, its ``/config/me/raw``; and ``{"nodes":
[{"node_id", "parent_id", "node_type", "name"}], "configs": {id: document}}``. Its interface wrote the text
``__INHERIT__`` where it meant "no override"; such members of objects are left out, the text is never stored.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from controlplane.configs.gitops.files import MAX_NODES, FileNode, FileTree
from controlplane.core.errors import FieldError, InvalidInput
from controlplane.core.text import pointer_token
from controlplane.orgs.models import MAX_DEPTH, Node, NodeKind, Organization, is_slug

INHERIT: Final = "__INHERIT__"
_ROOT_TYPES: Final = frozenset({"org", "organization", "root"})


def tree_from_dump(dump: Any, organization: Organization) -> FileTree:
    """Return the tree of a dump; its root becomes the organization's own.

    Raises:
        InvalidInput: ``invalid_dump``, with a pointer into the dump for everything that is wrong.
    """
    if not isinstance(dump, Mapping) or not isinstance(dump.get("configs"), Mapping):
        raise _invalid([FieldError("/configs", "configs", "The dump has an object configs: node id → document.")])
    rows = _rows(dump)
    configs: Mapping[str, Any] = dump["configs"]
    faults = [
        FieldError(f"/configs/{pointer_token(str(key)[:80])}", "unknown_node", "No node of the dump has this id.")
        for key in configs
        if key not in {row["node_id"] for row in rows}
    ]
    faults += [
        FieldError(f"/configs/{pointer_token(str(key)[:80])}", "not_an_object", "A document is an object.")
        for key, document in configs.items()
        if not isinstance(document, Mapping | None)
    ]
    if faults:
        raise _invalid(faults)
    root = Node.objects.get(organization=organization, parent__isnull=True)
    return FileTree(organization.slug, tuple(_nodes(rows, configs, root)))


def _rows(dump: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the nodes in one form."""
    lineage, nodes = dump.get("lineage"), dump.get("nodes")
    if isinstance(lineage, list) and lineage and all(isinstance(one, str) for one in lineage):
        last = len(lineage) - 1
        kinds = ["org", *("group" for _ in lineage[1:-1]), *(["team"] if last else [])]
        above = [None, *lineage[:-1]]
        return [
            {"node_id": one, "parent_id": parent, "node_type": kind, "name": ""}
            for one, parent, kind in zip(lineage, above, kinds, strict=True)
        ]
    if not isinstance(nodes, list) or not 1 <= len(nodes) <= MAX_NODES:
        raise _invalid([FieldError("", "nodes", "The dump has a list lineage of ids, or a list of nodes.")])
    faults = [
        FieldError(f"/nodes/{index}", "node", "A node has the texts node_id, node_type, name and parent_id or null.")
        for index, row in enumerate(nodes)
        if not _is_row(row)
    ]
    if faults:
        raise _invalid(faults)
    return [dict(row) for row in nodes]


def _is_row(row: Any) -> bool:
    if not isinstance(row, Mapping) or not isinstance(row.get("node_id"), str):
        return False
    texts = isinstance(row.get("node_type", ""), str) and isinstance(row.get("name") or "", str)
    return texts and isinstance(row.get("parent_id"), str | None)


def _nodes(rows: Sequence[Mapping[str, Any]], configs: Mapping[str, Any], root: Node) -> list[FileNode]:
    below: dict[str | None, list[tuple[int, Mapping[str, Any]]]] = {}
    for index, row in enumerate(rows):
        below.setdefault(row.get("parent_id"), []).append((index, row))
    tops = below.get(None, [])
    if len(tops) != 1:
        raise _invalid([FieldError("/nodes", "root", "Exactly one node has no parent.")])
    found: list[FileNode] = []
    faults: list[FieldError] = []
    slugs: dict[str, int] = {}
    waiting: list[tuple[int, Mapping[str, Any], str | None, int]] = [(*tops[0], None, 1)]
    seen: set[str] = set()
    while waiting:
        index, row, parent, depth = waiting.pop(0)
        node_id, place = row["node_id"], f"/nodes/{index}"
        slug = root.slug if parent is None else _slug(node_id)
        if not is_slug(slug) or slugs.setdefault(slug, index) != index or node_id in seen or depth > MAX_DEPTH:
            faults.append(
                FieldError(place, "node_id", "The id makes no slug of its own, appears twice or is too deep.")
            )
            continue
        seen.add(node_id)
        found.append(
            FileNode(
                path=f"{place} ({slug})",
                slug=slug,
                name=root.name if parent is None else (row.get("name") or "").strip() or node_id,
                kind=_kind(row, parent),
                parent=parent,
                document=without_inherit(configs.get(node_id) or {}),
            )
        )
        waiting += [(*one, slug, depth + 1) for one in below.get(node_id, [])]
    if len(found) + len(faults) < len(rows):
        faults.append(FieldError("/nodes", "unreachable", "Some nodes have no way to the root."))
    if faults:
        raise _invalid(faults)
    return found


def _kind(row: Mapping[str, Any], parent: str | None) -> str:
    if parent is None:
        return NodeKind.ORG.value
    return NodeKind.TEAM.value if str(row.get("node_type", "")).lower() == "team" else NodeKind.GROUP.value


def _slug(node_id: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", node_id.lower()).strip("-")[:63].strip("-")


def without_inherit(value: Any) -> Any:
    """Return a copy of a document without the members that say ``__INHERIT__``, and without what they leave empty."""
    if isinstance(value, Mapping):
        kept: dict[str, Any] = {}
        for key, item in value.items():
            if item == INHERIT:
                continue
            copied = without_inherit(item)
            if copied == {} and item != {}:
                continue
            kept[key] = copied
        return kept
    return [without_inherit(item) for item in value] if isinstance(value, list) else value


def _invalid(faults: Sequence[FieldError]) -> InvalidInput:
    return InvalidInput(f"{faults[0].pointer or '/'}: {faults[0].detail}", code="invalid_dump", errors=faults[:50])

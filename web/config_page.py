"""The configuration page: the tree to pick from, and an effective configuration leaf by leaf with who set it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import UUID

from controlplane.configs.merge import Shadowed, Source
from controlplane.configs.pointers import decode, get
from controlplane.configs.selectors import Effective
from controlplane.core.actor import Actor
from controlplane.core.permissions import Action
from controlplane.orgs.selectors import nodes_visible, nodes_with_lineage


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node of the picker; ``depth`` counts from the highest node the actor sees."""

    id: UUID
    slug: str
    name: str
    kind: str
    depth: int
    archived: bool


@dataclass(frozen=True, slots=True)
class HiddenValue:
    """A value that a node further down overrides."""

    value: str
    source: Shadowed


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf of the effective configuration. ``own``: the node set it. ``kind``: text, number, flag, null, list."""

    pointer: str
    path: tuple[str, ...]
    value: str
    kind: str
    own: bool
    source: Source
    hidden: tuple[HiddenValue, ...]


def config_tree(actor: Actor) -> list[TreeNode]:
    """Return the nodes whose configuration ``actor`` may read, parents before children. Two queries."""
    pairs = nodes_with_lineage(nodes_visible(actor, Action.CONFIG_READ))
    slugs = {node.pk: node.slug for node, _ in pairs}
    # Sorting by the visible slugs along the way down puts every node right below its parent.
    ways = [([slugs[pk] for pk in lineage if pk in slugs], node) for node, lineage in pairs]
    return [
        TreeNode(node.pk, node.slug, node.name, node.kind, len(way) - 1, node.archived_at is not None)
        for way, node in sorted(ways, key=lambda pair: pair[0])
    ]


def config_sections(effective: Effective) -> list[tuple[str, list[Leaf]]]:
    """Return the leaves of an effective configuration by top-level section, both in order."""
    leaves = [_leaf(effective, pointer, source) for pointer, source in effective.sources.items()]
    leaves.sort(key=lambda leaf: (leaf.path[0], len(leaf.path) > 1, leaf.path))
    return [(section, list(items)) for section, items in groupby(leaves, key=lambda leaf: leaf.path[0])]


def pretty_json(value: Any) -> str:
    """Return ``value`` as JSON a person reads."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def _leaf(effective: Effective, pointer: str, source: Source) -> Leaf:
    tokens = decode(pointer)
    value = get(effective.document, tokens)
    return Leaf(
        pointer=pointer,
        path=tokens,
        value=_words(value),
        kind=_kind(value),
        own=source.node_id == effective.node_id,
        source=source,
        hidden=_hidden(source.shadowed),
    )


def _hidden(shadowed: Sequence[Shadowed]) -> tuple[HiddenValue, ...]:
    return tuple(HiddenValue(_words(item.value), item) for item in shadowed)


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value) if value else "[] (empty list)"
    return json.dumps(value, ensure_ascii=False)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int | float):
        return "number"
    return "list" if isinstance(value, list) else "text"

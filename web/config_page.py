"""The pages of a node's configuration: the tree to pick from, the node, and an effective configuration leaf by leaf."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from controlplane.configs.credentials import CredentialReport
from controlplane.configs.merge import Shadowed, Source
from controlplane.configs.patterns import matches
from controlplane.configs.pointers import decode, get
from controlplane.configs.policies import Policy
from controlplane.configs.selectors import Effective
from controlplane.core.actor import Actor
from controlplane.core.errors import NotFound
from controlplane.core.permissions import Action, allows
from controlplane.orgs.selectors import node_get_by_id, nodes_visible, nodes_with_lineage

#: Words, icon and meaning of each kind of policy, as the pages show them.
POLICY_WORDS: Final = {
    "locked": ("Locked", "lock", "Nobody below changes this value."),
    "requires_approval": ("Needs approval", "eye", "A change waits until a reviewer approves it."),
    "required": ("Required", "check", "Every team below needs a value here."),
    "minimum": ("At least", "info", "The value is a number, at least this."),
    "maximum": ("At most", "info", "The value is a number, at most this."),
    "allowed_values": ("One of", "info", "The value is one of a list."),
    "secret": ("Secret", "key", "The value is a reference to a credential, never the secret itself."),
}
#: The states of credential references: words, tone, what to do.
CREDENTIAL_WORDS: Final = {
    "set": ("Set", "tone-good", "There is a value."),
    "unset": ("Unset", "tone-warn", "It may be used here, but the installation has no value for it."),
    "not_granted": ("Not granted", "tone-bad", "No grant gives it to this node. An admin above can."),
    "not_allowed": ("Not allowed", "tone-bad", "The installation does not allow this name."),
    "host_not_granted": ("Host not granted", "tone-bad", "It may not be sent to this host."),
    "malformed": ("Malformed", "tone-bad", "This is no reference that can be read."),
}


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node of the picker; ``depth`` counts from the highest node the actor sees. ``lineage``: ids, root first."""

    id: UUID
    slug: str
    name: str
    kind: str
    depth: int
    archived: bool
    lineage: tuple[UUID, ...]


class Place:
    """A node whose configuration the actor reads, in the tree around it, with what the actor may do there.

    Raises:
        NotFound: there is no such node that the actor may read. Three queries.
    """

    def __init__(self, actor: Actor, slug: str) -> None:
        self.tree = config_tree(actor)
        found = next((one for one in self.tree if one.slug == slug), None)
        if found is None:
            raise NotFound
        self.node = node_get_by_id(actor=actor, node_id=found.id, action=Action.CONFIG_READ)
        self.lineage = found.lineage
        self.may_write = allows(actor, Action.CONFIG_WRITE, found.lineage)
        self.may_grant = allows(actor, Action.CREDENTIAL_GRANT, found.lineage)

    def context(self, tab: str) -> dict[str, Any]:
        """Return what every page of the node shows."""
        return {"tree": self.tree, "node": self.node, "place": self, "tab": tab}


@dataclass(frozen=True, slots=True)
class HiddenValue:
    """A value that a node further down overrides."""

    value: str
    source: Shadowed


@dataclass(frozen=True, slots=True)
class LeafBadge:
    """A rule from above that holds for a leaf."""

    kind: str
    words: str
    icon: str
    title: str


@dataclass(frozen=True, slots=True)
class CredentialState:
    """A credential that a leaf refers to, and whether it has a value."""

    name: str
    state: str
    words: str
    tone: str
    title: str


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
    badges: tuple[LeafBadge, ...] = ()
    credentials: tuple[CredentialState, ...] = ()

    @property
    def locked(self) -> bool:
        """Whether a level above keeps the node from changing it."""
        return any(badge.kind == "locked" for badge in self.badges)


def config_tree(actor: Actor) -> list[TreeNode]:
    """Return the nodes whose configuration ``actor`` may read, parents before children. Two queries."""
    pairs = nodes_with_lineage(nodes_visible(actor, Action.CONFIG_READ))
    slugs = {node.pk: node.slug for node, _ in pairs}
    # Sorting by the visible slugs along the way down puts every node right below its parent.
    ways = [([slugs[pk] for pk in lineage if pk in slugs], node, lineage) for node, lineage in pairs]
    return [
        TreeNode(node.pk, node.slug, node.name, node.kind, len(way) - 1, node.archived_at is not None, lineage)
        for way, node, lineage in sorted(ways, key=lambda found: found[0])
    ]


def config_sections(
    effective: Effective, policies: Sequence[Policy] = (), report: CredentialReport | None = None
) -> list[tuple[str, list[Leaf]]]:
    """Return the leaves of an effective configuration by top-level section, both in order.

    Args:
        effective: the configuration.
        policies: those that bind the node, for the badges.
        report: the states of its credential references.
    """
    states = credential_states(report) if report else []
    leaves = [_leaf(effective, pointer, source, policies, states) for pointer, source in effective.sources.items()]
    leaves.sort(key=lambda leaf: (leaf.path[0], len(leaf.path) > 1, leaf.path))
    return [(section, list(items)) for section, items in groupby(leaves, key=lambda leaf: leaf.path[0])]


def credential_states(report: CredentialReport) -> list[tuple[tuple[str, ...], CredentialState]]:
    """Return each reference of a configuration: the path of its text, and its state in words."""
    return [
        (one.path, CredentialState(one.name, state.value, *CREDENTIAL_WORDS[state.value]))
        for one, state in report.states
    ]


def policy_words(kind: str, value: Any, node: str) -> LeafBadge:
    """Return a policy as a badge: its words, with the bound where it has one, and who sets it."""
    words, icon, meaning = POLICY_WORDS.get(kind, (kind, "info", ""))
    if value is not None:
        listed = ", ".join(map(_words, value)) if isinstance(value, list) else _words(value)
        words = f"{words} {listed}"
    return LeafBadge(kind, words, icon, f"Set by {node}. {meaning}")


def pretty_json(value: Any) -> str:
    """Return ``value`` as JSON a person reads."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def _leaf(
    effective: Effective,
    pointer: str,
    source: Source,
    policies: Sequence[Policy],
    states: Sequence[tuple[tuple[str, ...], CredentialState]],
) -> Leaf:
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
        badges=tuple(
            policy_words(policy.kind, policy.value, policy.node)
            for policy in policies
            if matches(policy.pattern, tokens)
        ),
        credentials=tuple(state for path, state in states if path[: len(tokens)] == tokens),
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

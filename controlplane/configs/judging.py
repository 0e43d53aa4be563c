"""Judging a write by what it makes of effective configurations: policies, approvals, cross-references."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from controlplane.configs.dependencies import check_dependencies, reference_warnings
from controlplane.configs.merge import merge, merge_all
from controlplane.configs.patterns import changed_at, places
from controlplane.configs.pointers import Document, Tokens
from controlplane.configs.policies import (
    Policy,
    bounds_from,
    broken_bounds,
    check_policies,
    policies_of,
    shown_pointer,
    touched_approvals,
    without_echoes,
)
from controlplane.configs.selectors import chain_documents
from controlplane.configs.validation import ConfigWarning
from controlplane.core.actor import Actor
from controlplane.core.permissions import Action, allows
from controlplane.orgs.models import Node

#: Levels below whose bounds a write from above may break are looked at up to this many.
LEVELS_BELOW: Final = 50


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a write that no rule forbids would do.

    ``document`` is what is to be stored: what was sent, without overrides that only repeat locked values. ``before``
    and ``after`` are the node's effective configurations, ``lineage`` the ids of its chain, root first, ``approvals``
    the policies by which somebody has to approve, each with a place that is touched.
    """

    document: Document
    before: Document
    after: Document
    lineage: tuple[UUID, ...]
    approvals: tuple[tuple[Policy, Tokens], ...]
    warnings: tuple[ConfigWarning, ...]

    def awaits(self, actor: Actor) -> list[tuple[Policy, Tokens]]:
        """Return the approvals that ``actor`` cannot give: it decides no reviews at the level that asks for them."""
        return [
            (policy, path)
            for policy, path in self.approvals
            if not allows(actor, Action.REVIEW_DECIDE, self.lineage[: self.lineage.index(policy.node_id) + 1])
        ]


def judge(*, node: Node, before: Document, after: Document) -> Judgement:
    """Judge replacing the node's document ``before`` by ``after``. Two queries, and more where it reaches below.

    Raises:
        PermissionDenied, InvalidInput: see :func:`check_policies` and :func:`check_dependencies`.
    """
    chain = chain_documents(node.pk)
    lineage = tuple(link.node_id for link, _ in chain)
    levels = [(link.node, document) for link, document in chain[:-1]]
    above = merge_all(document for _, document in levels)
    policies = policies_of(lineage[:-1]) if levels else []
    after = without_echoes(policies, above, before, after)
    was, becomes = merge(above, before), merge(above, after)
    check_policies(policies, was, becomes)
    check_dependencies(node=node, levels=[*levels, (node.slug, after)], before=was, after=becomes)
    warnings = [*_bounds_below(node, above, before, after), *reference_warnings(was, becomes)]
    approvals = tuple(touched_approvals(policies, was, becomes))
    return Judgement(after, was, becomes, lineage, approvals, tuple(warnings))


def effective_pair(node: Node, before: Document, after: Document) -> tuple[Document, Document]:
    """Return the node's effective configuration with the document ``before`` and with ``after``. One query."""
    above = merge_all(document for _, document in chain_documents(node.pk)[:-1])
    return merge(above, before), merge(above, after)


def approval_warnings(approvals: Sequence[tuple[Policy, Tokens]]) -> list[ConfigWarning]:
    """Return what a dry run says of approvals that the write would wait for."""
    return [
        ConfigWarning(
            shown_pointer(path), "requires_approval", f"{policy.node} has this approved: the change becomes a review."
        )
        for policy, path in approvals
    ]


def _bounds_below(node: Node, above: Document, before: Document, after: Document) -> list[ConfigWarning]:
    """Say which bounds, of the node itself or of levels below, the values break that flow down to who is bound."""
    was, becomes = merge(above, before), merge(above, after)
    by_level: dict[UUID, list[Policy]] = {}
    for policy in bounds_from(node.pk):
        # What does not change at the node does not change below it either.
        if any(changed_at(was, becomes, path) for path in places(policy.pattern, was, becomes)):
            by_level.setdefault(policy.node_id, []).append(policy)
    warnings: list[ConfigWarning] = []
    for level, policies in list(by_level.items())[:LEVELS_BELOW]:
        between = _between(node, level)
        was, becomes = (merge_all([above, document, *between]) for document in (before, after))
        for policy, path in broken_bounds(policies, was, becomes):
            detail = f"{policy.node} bounds this for those below it, and what they inherit breaks the bound."
            warnings.append(ConfigWarning(shown_pointer(path), f"below_{policy.kind}", detail))
    return warnings


def _between(node: Node, level: UUID) -> list[Document]:
    """Return the documents below ``node`` down to ``level``."""
    if level == node.pk:
        return []
    chain = chain_documents(level)
    lineage = [link.node_id for link, _ in chain]
    # A dry run locks nothing: the level may have been moved away a moment ago.
    return [document for _, document in chain[lineage.index(node.pk) + 1 :]] if node.pk in lineage else []

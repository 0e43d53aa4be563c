"""Which nodes below a change would see another effective configuration."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from controlplane.configs.merge import merge, merge_all
from controlplane.configs.models import ConfigDocument
from controlplane.configs.pointers import Document, Tokens, decode, diff, same
from controlplane.configs.reach import documents_below, touching
from controlplane.configs.selectors import chain_documents
from controlplane.orgs.models import Node, NodeAncestor

LISTED_SLUGS: Final = 50
STEP_NODES: Final = 250

_Pair = tuple[Document, Document]
_Places = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Impact:
    """The affected descendants: how many, and the slugs of the first fifty, level by level."""

    count: int
    slugs: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {"count": self.count, "slugs": list(self.slugs)}


class ImpactSearch:
    """The search for the affected descendants, in steps, so that whoever waits can be told how far it is.

    A node is affected unless its own document, or one between, hides every change. Documents that hold nothing at a
    changed place are not read, and nothing below a node that hides everything is looked at. ``done`` of ``total`` nodes
    have been seen; ``found`` is what is known so far.
    """

    def __init__(self, node: Node, before: Document, after: Document) -> None:
        self.done = 0
        self.total = 0
        self.finished = False
        self._count = 0
        self._slugs: list[str] = []
        self._steps = self._search(node.pk, before, after)

    @property
    def found(self) -> Impact:
        return Impact(self._count, tuple(self._slugs))

    def step(self) -> bool:
        """Look at some more nodes; return whether there are any left."""
        self.finished = self.finished or next(self._steps, True)
        return not self.finished

    def run(self, seconds: float | None = None) -> Impact:
        """Look at the nodes that are left, for some seconds or to the end; return what is known then."""
        until = None if seconds is None else time.monotonic() + seconds
        while self.step():
            if until is not None and time.monotonic() >= until:
                break
        return self.found

    def _search(self, root: UUID, before: Document, after: Document) -> Iterator[bool]:
        """Yield ``False`` after each step."""
        sections = {decode(operation["pointer"])[0] for operation in diff(before, after)}
        if not sections:
            return
        above = [_sections(document, sections) for _, document in chain_documents(root)[:-1]]
        old, new = (merge_all([*above, _sections(document, sections)]) for document in (before, after))
        paths = [decode(operation["pointer"]) for operation in diff(old, new)]
        if not paths:
            return
        own = set(documents_below(root).filter(touching(paths)).values_list("node_id", flat=True))
        below = (
            NodeAncestor.objects.filter(ancestor_id=root, depth__gt=0)
            .order_by("depth", "descendant__slug")
            .values_list("descendant_id", "descendant__parent_id", "descendant__slug")
        )
        if not own:
            self._slugs = [slug for _, _, slug in below[:LISTED_SLUGS]]
            self.done = self.total = self._count = below.count()
            return
        rows = list(below)
        self.total = len(rows)
        places = _places(paths)
        affected: dict[UUID, _Pair] = {root: (_at(old, places), _at(new, places))}
        for start in range(0, len(rows), STEP_NODES):
            some = rows[start : start + STEP_NODES]
            self._look_at(some, own, affected, places)
            self.done += len(some)
            yield False

    def _look_at(
        self,
        rows: Sequence[tuple[UUID, UUID | None, str]],
        own: set[UUID],
        affected: dict[UUID, _Pair],
        places: _Places,
    ) -> None:
        """Add those of ``rows`` that are affected to ``affected``, each with its configurations before and after."""
        may = affected.keys() | {node_id for node_id, _, _ in rows}
        wanted = [node_id for node_id, parent_id, _ in rows if node_id in own and parent_id in may]
        documents = _documents(wanted)
        for node_id, parent_id, slug in rows:  # parents come before their children
            pair = affected.get(parent_id) if parent_id else None
            if pair is None:
                continue
            document = documents.get(node_id)
            if document is not None:
                document = _at(document, places)
                pair = merge(pair[0], document), merge(pair[1], document)
                if same(*pair):
                    continue
            affected[node_id] = pair
            self._count += 1
            if len(self._slugs) < LISTED_SLUGS:
                self._slugs.append(slug)


def impact_of(node: Node, before: Document, after: Document) -> Impact:
    """Return the nodes below that see another effective configuration with the document ``after`` than with ``before``.

    Four queries, and one more for every 250 nodes among which there are documents that touch what changes.
    """
    return ImpactSearch(node, before, after).run()


def _documents(node_ids: Sequence[UUID]) -> dict[UUID, Document]:
    if not node_ids:
        return {}
    return dict(ConfigDocument.objects.filter(pk__in=node_ids).values_list("node_id", "document"))


def _places(paths: Iterable[Tokens]) -> _Places:
    """Return paths as a tree of their tokens; an empty one ends a path."""
    tree: _Places = {}
    for path in sorted(paths, key=len, reverse=True):  # a shorter path covers those that go on from it
        branch = tree
        for token in path[:-1]:
            branch = branch.setdefault(token, {})
        branch[path[-1]] = {}
    return tree


def _at(document: Mapping[str, Any], places: _Places) -> Document:
    """Return what a document holds at some places, or has in the way to them."""
    held: Document = {}
    for token, further in places.items():
        if token in document:
            value = document[token]
            held[token] = _at(value, further) if further and isinstance(value, Mapping) else value
    return held


def _sections(document: Mapping[str, Any], sections: set[str]) -> Document:
    return {key: value for key, value in document.items() if key in sections}

"""Which nodes below a change would see another effective configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from controlplane.configs.merge import merge, merge_all
from controlplane.configs.models import ConfigDocument
from controlplane.configs.pointers import Document, decode, diff, same
from controlplane.configs.selectors import chain_documents
from controlplane.orgs.models import Node, NodeAncestor

LISTED_SLUGS: Final = 50


@dataclass(frozen=True, slots=True)
class Impact:
    """The affected descendants: how many, and the slugs of the first fifty, level by level."""

    count: int
    slugs: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {"count": self.count, "slugs": list(self.slugs)}


def impact_of(node: Node, before: Document, after: Document) -> Impact:
    """Return the nodes below that see another effective configuration with the document ``after`` than with ``before``.

    A node is affected unless its own document, or one between, hides every change. At most three queries; merges only
    what nodes with documents of their own hold in the sections that change.
    """
    sections = {decode(operation["pointer"])[0] for operation in diff(before, after)}
    if not sections:
        return Impact(0, ())
    above = [_only(document, sections) for _, document in chain_documents(node.pk)[:-1]]
    old, new = (merge_all([*above, _only(document, sections)]) for document in (before, after))
    if same(old, new):
        return Impact(0, ())
    return _descend(node.pk, old, new, sections)


def _descend(root: UUID, old: Document, new: Document, sections: set[str]) -> Impact:
    below = (
        NodeAncestor.objects.filter(ancestor_id=root, depth__gt=0)
        .order_by("depth", "descendant__slug")
        .values_list("descendant_id", "descendant__parent_id", "descendant__slug")
    )
    own = _documents_below(root, sections)
    effective: dict[UUID, tuple[Document, Document]] = {root: (old, new)}  # of affected nodes only
    slugs: list[str] = []
    for node_id, parent_id, slug in below:  # parents come before their children
        pair = effective.get(parent_id) if parent_id else None
        if pair is None:
            continue
        document = own.get(node_id)
        if document:
            pair = merge(pair[0], document), merge(pair[1], document)
            if same(*pair):
                continue
        effective[node_id] = pair
        slugs.append(slug)
    return Impact(len(slugs), tuple(slugs[:LISTED_SLUGS]))


def _documents_below(root: UUID, sections: set[str]) -> dict[UUID, Document]:
    rows = ConfigDocument.objects.filter(node__above__ancestor_id=root, version__gt=0).values_list(
        "node_id", "document"
    )
    return {node_id: _only(document, sections) for node_id, document in rows.iterator(chunk_size=200)}


def _only(document: Mapping[str, Any], sections: set[str]) -> Document:
    return {key: value for key, value in document.items() if key in sections}

"""Reading configuration: documents, effective configurations, history."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.db.models import QuerySet

from controlplane.configs.cache import Computed, effective_cache
from controlplane.configs.merge import Author, Layer, Source, merge_with_provenance
from controlplane.configs.models import ConfigDocument, ConfigVersion
from controlplane.configs.pointers import Document, Operation, diff
from controlplane.configs.references import Occurrence, occurrences
from controlplane.core.actor import Actor
from controlplane.core.errors import NotFound, PermissionDenied
from controlplane.core.permissions import Action, allows
from controlplane.orgs.models import Node, NodeAncestor
from controlplane.orgs.selectors import node_require

#: Raised with every change of what an effective answer looks like, so that no client keeps an old one by its ETag.
ETAG_FORMAT = "1"
MAX_VERSION = 2**63 - 1


class Link(NamedTuple):
    """One node of a chain with its document's version; ``revision`` names the content exactly."""

    node_id: UUID
    node: str
    level: str
    version: int
    revision: UUID | None


@dataclass(frozen=True, slots=True)
class Effective:
    """A node's effective configuration.

    ``version`` is the version of the node's own document, ``chain`` the ``(node id, version)`` of every document that
    was merged, root first. ``document`` is the reader's own copy; ``sources`` is shared and read-only.
    """

    node_id: UUID
    document: Document
    version: int
    chain: tuple[tuple[UUID, int], ...]
    sources: Mapping[str, Source]
    lineage: tuple[Link, ...] = field(repr=False)
    references: tuple[Occurrence, ...] = field(default=(), repr=False)

    @property
    def etag(self) -> str:
        """An entity tag (RFC 9110, section 8.8.3): it changes with the chain and with any document in it."""
        return chain_etag(self.lineage)


def chain_etag(lineage: tuple[Link, ...]) -> str:
    """Return the entity tag of what a chain merges to."""
    parts = [f"{link.node_id} {link.node} {link.version} {link.revision}" for link in lineage]
    digest = hashlib.sha256("\n".join([ETAG_FORMAT, *parts]).encode())
    return f'"{digest.hexdigest()[:32]}"'


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A node's own document. At version 0 nothing was ever written: empty, without author and time."""

    node: Node
    document: Document
    version: int
    leaf_versions: dict[str, int]
    updated_at: datetime | None
    updated_by: str

    @property
    def etag(self) -> str:
        """The entity tag that ``If-Match`` compares: the version."""
        return f'"{self.version}"'


def document_of(node: Node) -> StoredDocument:
    """Return the node's own document, for code that has already been permitted to read it. One query."""
    row = ConfigDocument.objects.filter(pk=node.pk).first()
    if row is None:
        return StoredDocument(node, {}, 0, {}, None, "")
    return StoredDocument(node, row.document, row.version, row.leaf_versions, row.updated_at, row.updated_by)


def config_document(*, actor: Actor, node: Node) -> StoredDocument:
    """Return the node's own document.

    Raises:
        NotFound, PermissionDenied: the actor may not read the node's configuration.
    """
    node_require(actor=actor, action=Action.CONFIG_READ, node=node)
    return document_of(node)


def config_effective(*, node_id: UUID) -> Effective:
    """Return a node's effective configuration, for processes of the installation itself (runtimes, the worker).

    One query when this process has merged the same versions before, else two, however deep the tree.

    Raises:
        NotFound: there is no such node.
    """
    return effective_of(node_id, chain_of(node_id))


def config_effective_for(*, actor: Actor, node_id: UUID) -> Effective:
    """Return what :func:`config_effective` does, if ``actor`` may read the node's configuration.

    Raises:
        NotFound, PermissionDenied: it may not.
    """
    return effective_of(node_id, chain_for(actor=actor, node_id=node_id))


def chain_for(*, actor: Actor, node_id: UUID) -> tuple[Link, ...]:
    """Return the node's chain, root first, if ``actor`` may read the node's configuration. One query.

    Raises:
        NotFound, PermissionDenied: it may not.
    """
    links = chain_of(node_id)
    lineage = [link.node_id for link in links]
    if not allows(actor, Action.CONFIG_READ, lineage):
        if allows(actor, Action.NODE_READ, lineage):
            raise PermissionDenied(f"You may not do this here (it needs {Action.CONFIG_READ.value}).")
        raise NotFound
    return links


def chain_of(node_id: UUID) -> tuple[Link, ...]:
    """Return a node's ancestors and itself, root first, each with its document's version. One query.

    Raises:
        NotFound: there is no such node.
    """
    rows = (
        NodeAncestor.objects.filter(descendant_id=node_id)
        .order_by("-depth")
        .values_list(
            "ancestor_id", "ancestor__slug", "ancestor__kind", "ancestor__config__version", "ancestor__config__revision"
        )
    )
    links = tuple(Link(pk, slug, kind, version or 0, revision) for pk, slug, kind, version, revision in rows)
    if not links:
        raise NotFound
    return links


def effective_of(node_id: UUID, lineage: tuple[Link, ...]) -> Effective:
    """Return the effective configuration of a chain that was just read. One query unless this process has it."""
    computed = effective_cache.get(node_id, lineage)
    if computed is None:
        # The versions that count are those read together with the documents, not those of the chain read before.
        layers, lineage = _layers(node_id)
        document, sources = merge_with_provenance(layers)
        body = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
        named = occurrences(document)
        computed = Computed(chain=lineage, body=body, sources=MappingProxyType(sources), references=named)
        effective_cache.put(node_id, computed)
    return Effective(
        node_id=node_id,
        document=orjson.loads(computed.body),
        version=lineage[-1].version,
        chain=tuple((link.node_id, link.version) for link in lineage),
        sources=computed.sources,
        lineage=lineage,
        references=computed.references,
    )


def chain_documents(node_id: UUID) -> list[tuple[Link, Document]]:
    """Return each node of a chain with its own document, root first. One query."""
    layers, lineage = _layers(node_id)
    return [(link, dict(layer.document)) for link, layer in zip(lineage, layers, strict=True)]


def _layers(node_id: UUID) -> tuple[list[Layer], tuple[Link, ...]]:
    rows = NodeAncestor.objects.filter(descendant_id=node_id).order_by("-depth").select_related("ancestor__config")
    layers: list[Layer] = []
    links: list[Link] = []
    for row in rows:
        node = row.ancestor
        config = node.config if hasattr(node, "config") else ConfigDocument(node=node)
        links.append(Link(node.pk, node.slug, node.kind, config.version, config.revision))
        authors = {
            int(version): Author(author["by"], datetime.fromisoformat(author["at"]))
            for version, author in config.authors.items()
        }
        layers.append(
            Layer(node.pk, node.slug, node.kind, config.version, config.document, config.leaf_versions, authors)
        )
    if not layers:
        raise NotFound
    return layers, tuple(links)


@dataclass(frozen=True, slots=True)
class VersionDetail:
    """One version of a node's document and what it changed against the version before."""

    version: int
    document: Document
    at: datetime
    by: str
    approved_by: str
    review_id: UUID | None
    reason: str
    operations: list[Operation]


def config_history(*, actor: Actor, node: Node) -> QuerySet[ConfigVersion]:
    """Return the versions of the node's document, the newest first, without the documents themselves.

    Raises:
        NotFound, PermissionDenied: the actor may not read the node's configuration.
    """
    node_require(actor=actor, action=Action.CONFIG_READ, node=node)
    return ConfigVersion.objects.filter(node=node).order_by("-version").defer("document")


def config_version(*, actor: Actor, node: Node, version: int) -> VersionDetail:
    """Return one version of the node's document.

    Raises:
        NotFound: there is no such version, or the actor does not see the node.
        PermissionDenied: the actor may not read the node's configuration.
    """
    node_require(actor=actor, action=Action.CONFIG_READ, node=node)
    rows = {row.version: row for row in ConfigVersion.objects.filter(node=node, version__in=_with_previous(version))}
    row = rows.get(version)
    if row is None:
        raise NotFound("There is no such version.", code="unknown_version")
    before: Mapping[str, Any] = rows[version - 1].document if version > 1 else {}
    return VersionDetail(
        version=row.version,
        document=row.document,
        at=row.at,
        by=row.by,
        approved_by=row.approved_by,
        review_id=row.review_id,
        reason=row.reason,
        operations=diff(before, row.document),
    )


def _with_previous(version: int) -> tuple[int, ...]:
    return (version, version - 1) if 1 <= version <= MAX_VERSION else ()

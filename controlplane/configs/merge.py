"""Merging configuration documents. Pure functions on validated documents (nesting ≤ 64, so recursion is bounded).

Objects merge by key; lists and scalars replace; an explicit ``null`` is a value and wins; a type change replaces whole;
an empty object adds nothing, whatever it meets. Inputs are never changed and share no container with a result.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from controlplane.configs.pointers import Document, leaves


@dataclass(frozen=True, slots=True)
class Author:
    """Who wrote a version, and when."""

    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Layer:
    """One node's document with what provenance needs: the version that set each leaf and the author of each version."""

    node_id: UUID
    node: str
    level: str
    version: int
    document: Mapping[str, Any]
    leaf_versions: Mapping[str, int]
    authors: Mapping[int, Author]


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A value that a layer further down hides, with its own origin."""

    node_id: UUID
    node: str
    level: str
    version: int
    by: str
    at: datetime
    value: Any


@dataclass(frozen=True, slots=True)
class Source:
    """Which node, version, author and time set a leaf, and the values it hides at the same pointer, nearest first."""

    node_id: UUID
    node: str
    level: str
    version: int
    by: str
    at: datetime
    shadowed: tuple[Shadowed, ...] = ()


def merge(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> Document:
    """Return ``overlay`` merged over ``base``, without empty objects."""
    return merge_all((base, overlay))


def merge_all(documents: Iterable[Mapping[str, Any]]) -> Document:
    """Return the merge of ``documents``, root first; ``{}`` for none."""
    result: Document = {}
    for document in documents:
        _lay(result, document)
    return result


def merge_with_provenance(layers: Sequence[Layer]) -> tuple[Document, dict[str, Source]]:
    """Return the effective document of ``layers``, root first, and the source of each of its leaves by JSON Pointer.

    A layer that has a leaf at a pointer wins there over everything above it, and nothing above ever shows again. So the
    source of an effective leaf is the last layer with a leaf at exactly its pointer.
    """
    effective = merge_all(layer.document for layer in layers)
    setters: dict[str, list[tuple[Layer, Any]]] = {}
    for layer in layers:
        for pointer, value in leaves(layer.document):
            setters.setdefault(pointer, []).append((layer, value))
    return effective, {pointer: _source(pointer, setters[pointer]) for pointer, _ in leaves(effective)}


def _source(pointer: str, setters: list[tuple[Layer, Any]]) -> Source:
    winner, _ = setters[-1]
    version = winner.leaf_versions[pointer]
    author = winner.authors[version]
    shadowed = tuple(_shadowed(pointer, layer, value) for layer, value in reversed(setters[:-1]))
    return Source(winner.node_id, winner.node, winner.level, version, author.by, author.at, shadowed)


def _shadowed(pointer: str, layer: Layer, value: Any) -> Shadowed:
    version = layer.leaf_versions[pointer]
    author = layer.authors[version]
    return Shadowed(layer.node_id, layer.node, layer.level, version, author.by, author.at, value)


def patch_deep(document: Mapping[str, Any], patch: Mapping[str, Any]) -> Document:
    """Return ``document`` with ``patch`` merged over it by the same rules; empty objects already stored are kept."""
    result: Document = _copied(document)
    _lay(result, patch)
    return result


def patch_rfc7396(target: Any, patch: Any) -> Any:
    """Return ``target`` after a JSON Merge Patch: ``null`` removes a member, so its value is inherited again.

    Source: RFC 7396, section 2. As there, an object may be left empty, and a patch that is no object is the result.
    """
    return _patched(_copied(target), patch)


def _patched(target: Any, patch: Any) -> Any:
    """Apply a JSON Merge Patch to ``target``, which the caller owns."""
    if not isinstance(patch, Mapping):
        return _copied(patch)
    result: Document = target if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _patched(result.get(key), value)
    return result


def _lay(target: Document, overlay: Mapping[str, Any]) -> None:
    """Merge ``overlay`` into ``target``, which the caller owns."""
    for key, value in overlay.items():
        if not isinstance(value, Mapping):
            target[key] = _copied(value)
            continue
        present = target.get(key)
        if isinstance(present, dict):
            _lay(present, value)
            continue
        fresh: Document = {}
        _lay(fresh, value)
        if fresh:
            target[key] = fresh


def _copied(value: Any) -> Any:
    """Return a copy of a JSON value that shares no container with it."""
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value

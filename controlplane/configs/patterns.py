"""Places in documents: what is seen at one, which ones a pattern means, and replaying operations by place.

A pattern is a JSON Pointer (RFC 6901) in which the segment ``*`` stands for any one segment.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from controlplane.configs.pointers import MISSING, Document, Operation, Tokens, decode, same, unset

ANY: Final = "*"


def seen(document: Any, path: Tokens) -> tuple[int, Any]:
    """Return what stands at ``path``: ``(its length, value)``, or ``(-1, MISSING)``.

    Where a scalar, ``null`` or a list stands in the way, that is what is seen, with the length of the way to it: it
    hides whatever a level above sets below it, so it is not the same as nothing. Lists are not entered.
    """
    value = document
    for depth, token in enumerate(path):
        if not isinstance(value, Mapping):
            return depth, value
        if token not in value:
            return -1, MISSING
        value = value[token]
    return len(path), value


def same_seen(left: tuple[int, Any], right: tuple[int, Any]) -> bool:
    """Return whether two results of :func:`seen` at the same path are equal."""
    return left[0] == right[0] and same(left[1], right[1])


def changed_at(before: Any, after: Any, path: Tokens) -> bool:
    """Return whether what is seen at ``path``, with everything below it, differs between two documents."""
    return not same_seen(seen(before, path), seen(after, path))


def places(pattern: Tokens, *documents: Any) -> Iterator[Tokens]:
    """Yield the paths that ``pattern`` means in any of ``documents``, each once.

    A segment that is written out counts also where it leads to nothing. Where something that is no object stands in
    place of a ``*``, the rest of the pattern is yielded as it is: :func:`seen` finds there what is in the way.
    """
    yield from _places((), pattern, documents)


def _places(way: Tokens, rest: Tokens, values: Sequence[Any]) -> Iterator[Tokens]:
    if not rest:
        yield way
        return
    token, below = rest[0], rest[1:]
    objects = [value for value in values if isinstance(value, Mapping)]
    if token != ANY:
        yield from _places((*way, token), below, [value[token] for value in objects if token in value])
        return
    for key in dict.fromkeys(key for value in objects for key in value):
        yield from _places((*way, key), below, [value[key] for value in objects if key in value])
    if len(objects) < len(values):
        yield (*way, *rest)


def matches(pattern: Tokens, path: Tokens) -> bool:
    """Return whether ``path`` is at or below a place that ``pattern`` means."""
    return len(path) >= len(pattern) and all(part in (ANY, token) for part, token in zip(pattern, path, strict=False))


def replayed(document: Mapping[str, Any], operations: Sequence[Operation]) -> Document:
    """Return ``document`` after ``operations`` (see :func:`controlplane.configs.pointers.diff`), by their pointers.

    Removals come first, so that an object may take the place of a leaf. The input is not changed.
    """
    gone = [decode(operation["pointer"]) for operation in operations if "after" not in operation]
    result = unset(document, gone)
    for operation in operations:
        if "after" in operation:
            result = _with(result, decode(operation["pointer"]), operation["after"])
    return result


def _with(document: Mapping[str, Any], path: Tokens, value: Any) -> Document:
    result = dict(document)
    if len(path) == 1:
        result[path[0]] = value
        return result
    below = result.get(path[0])
    result[path[0]] = _with(below if isinstance(below, Mapping) else {}, path[1:], value)
    return result

"""JSON Pointers (RFC 6901) into configuration documents: reading, removing, enumerating leaves, comparing.

A *leaf* is every value that is no object: a scalar, an explicit ``null`` or a whole list. Objects inside lists belong
to the list, because lists are replaced whole.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypedDict

from controlplane.core.text import pointer_token

Tokens = tuple[str, ...]
Document = dict[str, Any]


class Missing:
    """The type of :data:`MISSING`, which tells "nothing there" from an explicit ``null``."""

    __slots__ = ()


MISSING: Final = Missing()


class Operation(TypedDict, total=False):
    """One difference. ``before`` is left out where there was nothing, ``after`` where nothing is left."""

    pointer: str
    before: Any
    after: Any


class PointerSyntaxError(ValueError):
    """The text is no JSON Pointer; the message names the rule that is broken."""


def encode_token(token: str) -> str:
    """Return one reference token, escaped."""
    return pointer_token(token) if "~" in token or "/" in token else token


def encode(tokens: Iterable[str]) -> str:
    """Return the pointer of a path of unescaped tokens; the empty path is the whole document, ``""``."""
    return "".join(f"/{encode_token(token)}" for token in tokens)


def decode(pointer: str) -> Tokens:
    """Return the unescaped tokens of ``pointer``.

    Raises:
        PointerSyntaxError: when it does not begin with ``/`` or has a ``~`` that neither ``0`` nor ``1`` follows
            (RFC 6901, section 3).
    """
    if not pointer:
        return ()
    if not pointer.startswith("/"):
        raise PointerSyntaxError("a JSON Pointer is empty or begins with '/'")
    tokens = pointer[1:].split("/")
    if "~" not in pointer:
        return tuple(tokens)
    return tuple(_unescape(token) for token in tokens)


def _unescape(token: str) -> str:
    head, *rest = token.split("~")
    for part in rest:
        if not part.startswith(("0", "1")):
            raise PointerSyntaxError("in a JSON Pointer '~' is followed by '0' or '1'")
        head += ("~" if part[0] == "0" else "/") + part[1:]
    return head


def get(document: Any, tokens: Iterable[str]) -> Any:
    """Return the value at a path, or :data:`MISSING`. Lists are entered by index (RFC 6901, section 4)."""
    value = document
    for token in tokens:
        if isinstance(value, Mapping) and token in value:
            value = value[token]
        elif isinstance(value, list) and _is_index(token) and int(token) < len(value):
            value = value[int(token)]
        else:
            return MISSING
    return value


def _is_index(token: str) -> bool:
    return token.isascii() and token.isdigit() and len(token) <= 9 and (len(token) == 1 or token[0] != "0")


def unset(document: Mapping[str, Any], paths: Iterable[Tokens]) -> Document:
    """Return ``document`` without the values at ``paths`` and without the parents that became empty by their removal.

    An object that was empty before stays, a path with nothing at it changes nothing, and lists are not entered. The
    input is not changed; parts that did not change are shared with it.
    """
    result = dict(document)
    for path in paths:
        if path:
            _remove(result, path)
    return result


def _remove(root: Document, path: Tokens) -> None:
    found: Any = root
    for token in path:
        if not isinstance(found, dict) or token not in found:
            return
        found = found[token]
    parents = [root]
    for token in path[:-1]:  # copied on the way down, so the caller's document is not touched
        child = dict(parents[-1][token])
        parents[-1][token] = child
        parents.append(child)
    for parent, token in zip(reversed(parents), reversed(path), strict=True):
        del parent[token]
        if parent:
            return


def leaves(document: Mapping[str, Any], *, empty_objects: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield ``(pointer, value)`` of every leaf in document order; on demand also of empty objects below the root."""
    stack: list[tuple[str, Iterator[tuple[str, Any]]]] = [("", iter(document.items()))]
    while stack:
        prefix, items = stack[-1]
        for key, value in items:
            pointer = f"{prefix}/{encode_token(key)}"
            if not isinstance(value, Mapping):
                yield pointer, value
            elif value:
                stack.append((pointer, iter(value.items())))
                break
            elif empty_objects:
                yield pointer, value
        else:
            stack.pop()


def diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Operation]:
    """Return what turns ``before`` into ``after``, leaf by leaf, removals and changes first, each in document order.

    Empty objects count as leaves here, so the comparison is exact. Where an object takes the place of a leaf, both the
    leaf that goes and the leaves that come are listed.
    """
    old, new = dict(leaves(before, empty_objects=True)), dict(leaves(after, empty_objects=True))
    operations: list[Operation] = []
    for pointer, value in old.items():
        now = new.get(pointer, MISSING)
        if now is MISSING:
            operations.append({"pointer": pointer, "before": value})
        elif not same(value, now):
            operations.append({"pointer": pointer, "before": value, "after": now})
    operations.extend({"pointer": pointer, "after": value} for pointer, value in new.items() if pointer not in old)
    return operations


def same(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal: numbers by value (1 equals 1.0), but never a boolean and a number."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)

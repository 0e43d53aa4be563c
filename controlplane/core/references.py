"""References to credentials in texts: ``${NAME}`` and ``${NAME:-default}``; ``$${…}`` stands for a literal ``${…}``.

A text is read once, from left to right; what a reference resolves to is never read again. ``$NAME``, ``$(…)``, a ``$$``
before anything but ``{`` and a ``${`` that nothing closes are plain text.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
MAX_NAME: Final = 128

_NAME: Final = re.compile(rf"{NAME}\Z")
_BODY: Final = re.compile(rf"({NAME})(?::-([^{{}}]*))?\Z")
_TOKEN: Final = re.compile(r"(\$?)\$\{([^}]*)\}")


class MalformedReference(ValueError):
    """A closed ``${…}`` that is no reference. The message tells the rule and quotes nothing of the text."""

    def __init__(self) -> None:
        super().__init__("a reference is ${NAME} or ${NAME:-default}; $${ stands for a literal ${")


@dataclass(frozen=True, slots=True)
class Reference:
    """``${name}``, or ``${name:-default}`` where ``default`` is not ``None``; a default has no brace in it."""

    name: str
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Escaped:
    """``$${body}``, which stands for the literal ``${body}``."""

    body: str


Part: TypeAlias = str | Reference | Escaped


def is_name(text: str) -> bool:
    """Return whether ``text`` can be the name of a credential: a letter or ``_`` first, 128 characters at most."""
    return len(text) <= MAX_NAME and _NAME.match(text) is not None


def parse(text: str) -> tuple[Part, ...]:
    """Return the parts of ``text``: plain pieces (never empty, never two in a row), references and escapes.

    Time is linear in the length of the text.

    Raises:
        MalformedReference: something that begins with ``${`` and ends with ``}`` is no reference: another name, a name
            of more than 128 characters, or a reference inside a default.
    """
    parts: list[Part] = []
    done = 0
    # Every ``${`` before the last ``}`` is closed by one, so that no search runs to the end in vain.
    for match in _TOKEN.finditer(text, 0, text.rfind("}") + 1):
        if match.start() > done:
            parts.append(text[done : match.start()])
        parts.append(Escaped(match[2]) if match[1] else _reference(match[2]))
        done = match.end()
    if done < len(text):
        parts.append(text[done:])
    return tuple(parts)


def render(parts: Iterable[Part]) -> str:
    """Return the text that :func:`parse` reads as ``parts``."""
    return "".join(part if isinstance(part, str) else _source(part) for part in parts)


def references_of(text: str) -> tuple[Reference, ...]:
    """Return the references of a text, in order.

    Raises:
        MalformedReference: as :func:`parse`.
    """
    if "${" not in text:
        return ()
    return tuple(part for part in parse(text) if isinstance(part, Reference))


def resolve(text: str, value_of: Callable[[Reference], str | None]) -> str | None:
    """Return ``text`` with its references replaced and its escapes undone.

    Args:
        text: of a value, never of a key.
        value_of: returns what stands for a reference, its default included, or ``None`` where nothing does. It is asked
            for every reference, also after one without a value.

    Returns:
        ``None`` when any reference has no value: never a part of the text, never the reference itself.

    Raises:
        MalformedReference: as :func:`parse`.
    """
    if "${" not in text:
        return text
    pieces = [_resolved(part, value_of) for part in parse(text)]
    known = [piece for piece in pieces if piece is not None]
    return "".join(known) if len(known) == len(pieces) else None


def _resolved(part: Part, value_of: Callable[[Reference], str | None]) -> str | None:
    match part:
        case Reference():
            return value_of(part)
        case Escaped():
            return f"${{{part.body}}}"
        case _:
            return part


def _source(part: Reference | Escaped) -> str:
    if isinstance(part, Escaped):
        return f"$${{{part.body}}}"
    default = "" if part.default is None else f":-{part.default}"
    return f"${{{part.name}{default}}}"


def _reference(body: str) -> Reference:
    match = _BODY.match(body)
    if match is None or len(match[1]) > MAX_NAME:
        raise MalformedReference
    return Reference(match[1], match[2])

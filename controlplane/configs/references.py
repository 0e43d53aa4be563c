"""Where a document refers to credentials. Values alone hold references; a key is never read for them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.configs.pointers import Operation, Tokens, decode, encode
from controlplane.core.errors import FieldError, InvalidInput
from controlplane.core.redaction import redact_text
from controlplane.core.references import MalformedReference, references_of

LISTED = 20


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A name in the text at a path. ``name`` is empty for a text whose references cannot be read."""

    path: Tokens
    name: str


def occurrences(document: Mapping[str, Any]) -> tuple[Occurrence, ...]:
    """Return every reference of a document, in document order; a name that a text holds twice counts once."""
    return tuple(Occurrence(path, name) for path, text in _texts(document, ()) for name in _names(text))


def check_references(operations: Sequence[Operation]) -> None:
    """Refuse texts with malformed references among the values that ``operations`` bring.

    Raises:
        InvalidInput: ``malformed_reference``, with the pointer of each text; nothing of it is quoted.
    """
    errors: list[FieldError] = []
    for operation in operations:
        for path, text in _texts(operation.get("after"), decode(operation["pointer"])):
            if "" in _names(text):
                detail = f"A reference here is malformed: {MalformedReference()}."
                errors.append(FieldError(redact_text(encode(path)), "malformed_reference", detail))
    if errors:
        raise InvalidInput(errors[0].detail, code="malformed_reference", errors=errors[:LISTED])


def replace_texts(value: Any, change: Callable[[str], str | None]) -> Any:
    """Return a copy of a JSON value in which every text with ``${`` is what ``change`` makes of it; keys stay."""
    match value:
        case str():
            return change(value) if "${" in value else value
        case Mapping():
            return {key: replace_texts(item, change) for key, item in value.items()}
        case list():
            return [replace_texts(item, change) for item in value]
        case _:
            return value


def _names(text: str) -> tuple[str, ...]:
    try:
        return tuple(dict.fromkeys(reference.name for reference in references_of(text)))
    except MalformedReference:
        return ("",)


def _texts(value: Any, path: Tokens) -> Iterator[tuple[Tokens, str]]:
    match value:
        case str():
            if "${" in value:
                yield path, value
        case Mapping():
            for key, item in value.items():
                yield from _texts(item, (*path, key))
        case list():
            for index, item in enumerate(value):
                yield from _texts(item, (*path, str(index)))

"""JSON that people type: parsing it with words about the place, and finding the line of a JSON Pointer in it."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from controlplane.configs.pointers import encode
from controlplane.configs.validation import MAX_DOCUMENT_BYTES
from controlplane.core.errors import AppError, invalid
from controlplane.core.strict_json import parse_json

_PART: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_AT_LINE: Final = re.compile(r"at line (\d+), column \d+")
#: A text is typed by a person and sent by a form: more than a document holds, indented, is refused before it is read.
MAX_TEXT_BYTES: Final = 4 * MAX_DOCUMENT_BYTES


def parse_typed(text: str, *, field: str) -> Any:
    """Return the value of a typed JSON text.

    Args:
        text: as it came with the form.
        field: name of the form's field, for the error's pointer.

    Raises:
        InvalidInput: no JSON, or too large; the words name line and column, never the content.
    """
    try:
        return parse_json(text.encode("utf-8", "surrogatepass"), max_bytes=MAX_TEXT_BYTES)
    except AppError as error:
        raise invalid(f"/{field}", error.code, error.detail.replace("The body", "The text")) from None


def line_named(detail: str) -> int | None:
    """Return the line that the words of :func:`parse_typed` name."""
    found = _AT_LINE.search(detail)
    return int(found.group(1)) if found else None


def line_of(text: str, pointer: str) -> int | None:
    """Return the line, from 1, on which the value at ``pointer`` begins, or its nearest parent's; ``None`` for none.

    Args:
        text: valid JSON; in anything else no line is promised.
        pointer: a JSON Pointer (RFC 6901) into it.
    """
    lines = dict(_lines(text))
    while pointer:
        if pointer in lines:
            return lines[pointer]
        pointer = pointer.rpartition("/")[0]
    return None


def _lines(text: str) -> Iterator[tuple[str, int]]:
    """Yield the pointer of every member and item with the line of its key or value."""
    way: list[str | int] = []  # a number is the index of a list, a text the current key of an object
    line, position, key_expected = 1, 0, False
    for match in _PART.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        part = match.group()
        if part in "}]":
            if way:
                way.pop()
            key_expected = False
        elif part == ",":
            if way and isinstance(way[-1], int):
                way[-1] += 1
            else:
                key_expected = True
        elif part == ":":
            key_expected = False
        elif key_expected and part.startswith('"') and way:
            way[-1] = _key(part)
            yield encode(map(str, way)), line
        else:
            if way and isinstance(way[-1], int):
                yield encode(map(str, way)), line
            if part == "{":
                way.append("")
                key_expected = True
            elif part == "[":
                way.append(0)


def _key(part: str) -> str:
    try:
        return str(json.loads(part, strict=False))
    except ValueError:
        return part[1:-1]

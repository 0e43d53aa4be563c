"""Values of a configuration as texts of form fields, and back."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from controlplane.configs.pointers import MISSING
from controlplane.core.errors import AppError
from web.config_page import pretty_json
from web.json_text import parse_typed

_EMPTY: Final = "[]"


class Unreadable(Exception):
    """A field's text is no value of its kind; ``code`` and the words say why, without quoting it."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def text_of(kind: str, value: Any) -> tuple[str, str]:
    """Return the kind of field that shows ``value`` and its text there.

    ``kind`` is what the setting asks for; a value that does not fit into such a field is shown as JSON, and a text of
    several lines in an area. Nothing and ``null`` are the empty text.
    """
    if value is MISSING or value is None:
        return kind, ""
    shown = _shown(kind, value)
    if shown is None:
        return "json", pretty_json(value)
    return ("long" if kind == "text" and "\n" in shown else kind), shown


def value_of(kind: str, text: str) -> Any:
    """Return the value that the text of a field means; the text is not blank.

    Raises:
        Unreadable: it means none.
    """
    read = _READERS.get(kind)
    if read is not None:
        return read(text)
    try:
        return parse_typed(text, field="value")
    except AppError as error:
        raise Unreadable(error.code, error.detail) from None


def same_text(left: str, right: str) -> bool:
    """Return whether two texts of a field are the same but for what browsers change on the way."""
    return left.replace("\r\n", "\n").strip() == right.replace("\r\n", "\n").strip()


def _shown(kind: str, value: Any) -> str | None:
    match kind:
        case "text" | "long" | "choice":
            return value if isinstance(value, str) else None
        case "switch":
            return json.dumps(value) if isinstance(value, bool) else None
        case "whole" | "number":
            return json.dumps(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        case "lines":
            fits = isinstance(value, list) and all(isinstance(one, str) and _one_line(one) for one in value)
            return ("\n".join(value) if value else _EMPTY) if fits else None
        case "pairs":
            return _pairs(value)
    return None


def _pairs(value: Any) -> str | None:
    if not isinstance(value, Mapping) or not value:
        return None
    if all(
        isinstance(item, str) and _one_line(item) and _one_line(key) and ":" not in key for key, item in value.items()
    ):
        return "\n".join(f"{key}: {item}" for key, item in value.items())
    return None


def _one_line(text: str) -> bool:
    return bool(text) and text == text.strip() and text != _EMPTY and len(text.splitlines()) == 1


def _flag(text: str) -> bool:
    if text not in {"true", "false"}:
        raise Unreadable("not_a_switch", "This is on or off.")
    return text == "true"


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Unreadable("not_an_integer", "This must be a whole number.") from None


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise Unreadable("not_a_number", "This must be a number.") from None


def _lines(text: str) -> list[str]:
    return [] if text.strip() == _EMPTY else [line.strip() for line in text.split("\n") if line.strip()]


def _pairs_of(text: str) -> dict[str, str]:
    pairs = [_pair(line) for line in text.split("\n") if line.strip()]
    if len(dict(pairs)) < len(pairs):
        raise Unreadable("duplicate_key", "A name stands on two lines; one of them would be lost.")
    return dict(pairs)


def _pair(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name.strip():
        raise Unreadable("not_a_pair", "Each line is a name, a colon and a value.")
    return name.strip(), value.strip()


_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "text": str.strip,
    "choice": str.strip,
    "long": str,
    "switch": _flag,
    "whole": _whole,
    "number": _number,
    "lines": _lines,
    "pairs": _pairs_of,
}

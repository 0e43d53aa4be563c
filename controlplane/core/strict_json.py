"""Parsing JSON from outside: standard JSON only, bounded, duplicate keys refused."""

import json
import math
from typing import Any, NoReturn

from controlplane.core.errors import MalformedRequest, PayloadTooLarge
from controlplane.core.redaction import redact_text

MAX_NESTING = 64


def parse_json(raw: bytes, *, max_bytes: int, max_nesting: int = MAX_NESTING) -> Any:
    """Return the value of a JSON text (RFC 8259) in UTF-8.

    Args:
        raw: the text.
        max_bytes: the largest accepted size in bytes.
        max_nesting: the deepest accepted nesting of objects and arrays.

    Raises:
        PayloadTooLarge: ``payload_too_large``.
        MalformedRequest: ``malformed_json`` (syntax, encoding, NaN or Infinity, lone surrogates), ``duplicate_key`` or
            ``nesting_too_deep``; the message says where or what, and quotes nothing of the values.
    """
    if len(raw) > max_bytes:
        raise PayloadTooLarge(f"The body has {len(raw)} bytes; at most {max_bytes} are accepted.")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedRequest(f"The body is not UTF-8 at byte {error.start}.", code="malformed_json") from None
    try:
        value = json.loads(text, object_pairs_hook=_unique_object, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        detail = f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        raise MalformedRequest(detail, code="malformed_json") from None
    except RecursionError:
        raise _too_deep(max_nesting) from None
    except ValueError:  # an integer of thousands of digits
        raise MalformedRequest("The body has a number that is too long.", code="malformed_json") from None
    _check(value, max_nesting)
    return value


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                name = redact_text(key)[:80]
                raise MalformedRequest(f"The key {name!r} appears twice in one object.", code="duplicate_key")
            seen.add(key)
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise MalformedRequest(f"{name} is not JSON.", code="malformed_json")


def _too_deep(limit: int) -> MalformedRequest:
    return MalformedRequest(f"The body is nested deeper than {limit} levels.", code="nesting_too_deep")


def _check(value: Any, max_nesting: int) -> None:
    level = [value]
    for enclosing in range(max_nesting + 1):
        children: list[Any] = []
        for item in level:
            if isinstance(item, str):
                _check_text(item)
            elif isinstance(item, int | float) and not _is_storable(item):
                raise MalformedRequest("The body has a number out of range.", code="number_out_of_range")
            elif isinstance(item, dict | list):
                if enclosing == max_nesting:
                    raise _too_deep(max_nesting)
                children.extend(_children(item))
        level = children


def _is_storable(number: Any) -> bool:
    """Return whether every part of the system can write the number: a finite double, or an integer of 64 bits."""
    return math.isfinite(number) if isinstance(number, float) else -(2**63) <= number < 2**64


def _children(container: dict[str, Any] | list[Any]) -> list[Any]:
    if isinstance(container, list):
        return container
    for key in container:
        _check_text(key)
    return list(container.values())


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise MalformedRequest("The body has an unpaired surrogate in a string.", code="malformed_json") from None

"""Cursor pagination of lists: ``{"results", "next"}``.

A cursor is the position after which a page begins: the values of the ordering columns of the last row, as base64url of
JSON. It is opaque, not secret: what it could point at is restricted by the queryset as always.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar, cast
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db.models import Field, Model, Q, QuerySet

from controlplane.core.errors import FieldError, MalformedRequest

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 200
_MAX_CURSOR: Final = 2048

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class Page(Generic[M]):
    """Rows of one page and the cursor of the next one, ``None`` at the end."""

    results: list[M]
    next: str | None

    def as_dict(self, results: Sequence[Any]) -> dict[str, Any]:
        """Return the JSON form of the page, ``results`` being its rows' representations."""
        return {"results": list(results), "next": self.next}


def page_of(
    queryset: QuerySet[M],
    *,
    ordering: Sequence[str],
    params: Mapping[str, Any],
    default: int = DEFAULT_LIMIT,
    maximum: int = MAX_LIMIT,
) -> Page[M]:
    """Return one page of ``queryset``. One query.

    Args:
        queryset: already restricted to the actor.
        ordering: names of columns of the model, none nullable, ``-`` for descending; the last makes it unique.
        params: the query parameters; ``cursor`` and ``limit`` (1 to ``maximum``) are read.

    Raises:
        MalformedRequest: ``bad_cursor`` or ``bad_limit``.
    """
    limit = limit_of(params, default=default, maximum=maximum)
    cursor = params.get("cursor")
    rows = queryset.order_by(*ordering)
    if cursor:
        rows = rows.filter(_after(queryset.model, ordering, cursor))
    results = list(rows[: limit + 1])
    if len(results) <= limit:
        return Page(results, None)
    results = results[:limit]
    last = [_encodable(getattr(results[-1], name.lstrip("-"))) for name in ordering]
    return Page(results, cursor_encode(last))


def limit_of(params: Mapping[str, Any], *, default: int = DEFAULT_LIMIT, maximum: int = MAX_LIMIT) -> int:
    """Return the query parameter ``limit``.

    Raises:
        MalformedRequest: ``bad_limit`` for anything but a whole number from 1 to ``maximum``.
    """
    text = str(params.get("limit", default))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= maximum):
        raise _bad("limit", f"limit must be a whole number from 1 to {maximum}.")
    return int(text)


def cursor_encode(position: Sequence[str | int]) -> str:
    """Return the opaque text of a position."""
    return base64.urlsafe_b64encode(json.dumps(position, separators=(",", ":")).encode()).decode().rstrip("=")


def cursor_decode(cursor: str, *, length: int) -> list[str | int]:
    """Return the position of an opaque text made by :func:`cursor_encode`.

    Raises:
        MalformedRequest: ``bad_cursor``.
    """
    try:
        text = cursor[:_MAX_CURSOR].encode("ascii")
        raw = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        position = json.loads(raw)
    except (ValueError, binascii.Error, RecursionError):  # UnicodeError and JSONDecodeError are ValueErrors
        raise _bad_cursor() from None
    if not isinstance(position, list) or len(position) != length or not all(map(_is_scalar, position)):
        raise _bad_cursor()
    return position


def _after(model: type[Model], ordering: Sequence[str], cursor: str) -> Q:
    """Return the condition of the rows behind the cursor: lexicographic order, spelt out column by column."""
    condition, equal = Q(), Q()
    for name, raw in zip(ordering, cursor_decode(cursor, length=len(ordering)), strict=True):
        column = name.lstrip("-")
        value = _value(model, column, raw)
        condition |= equal & Q(**{f"{column}__{'lt' if name.startswith('-') else 'gt'}": value})
        equal &= Q(**{column: value})
    return condition


def _value(model: type[Model], column: str, raw: str | int) -> Any:
    try:
        value = cast("Field[Any, Any]", model._meta.get_field(column)).to_python(raw)  # noqa: SLF001 (Django's public API)
    except (ValidationError, TypeError, ValueError, OverflowError):
        raise _bad_cursor() from None
    # A naive time would be read in local time; a number would be stored as text.
    if (
        value is None
        or (isinstance(value, datetime) and value.tzinfo is None)
        or (isinstance(raw, int) != isinstance(value, int))
    ):
        raise _bad_cursor()
    return value


def _encodable(value: Any) -> str | int:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


def _is_scalar(value: Any) -> bool:
    if isinstance(value, str):
        return "\x00" not in value and value.isprintable()
    return isinstance(value, int) and not isinstance(value, bool)


def _bad_cursor() -> MalformedRequest:
    return _bad("cursor", "This cursor is not one that a list has given out.")


def _bad(parameter: str, detail: str) -> MalformedRequest:
    return MalformedRequest(detail, code=f"bad_{parameter}", errors=[FieldError("", f"bad_{parameter}", detail)])

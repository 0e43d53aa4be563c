"""Taking values of a wished type out of JSON that may hold anything."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from controlplane.runtimes.evidence import TimeRange

_EPOCH_MS_FROM = 100_000_000_000  # a number above this is milliseconds: in seconds it would be the year 5138


def mapping(value: Any) -> Mapping[str, Any]:
    """Return ``value`` if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: Any) -> Sequence[Any]:
    """Return ``value`` if it is an array, else an empty one."""
    return value if isinstance(value, list | tuple) else ()


def objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the members of an array that are objects."""
    for item in items(value):
        if isinstance(item, Mapping):
            yield item


def text(value: Any, default: str = "") -> str:
    """Return a string, or a number as one; anything else gives the default."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return default


def number(value: Any) -> float | None:
    """Return a finite number, also when written as a string; ``None`` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        result = float(value)
    except (ValueError, OverflowError):
        return None
    return result if math.isfinite(result) else None


def whole(value: Any, default: int = 0) -> int:
    """Return a number without its fraction."""
    result = number(value)
    return default if result is None else int(result)


def flag(value: Any) -> bool | None:
    """Return a boolean, also from Kubernetes' ``"True"``; ``None`` for what says neither (``"Unknown"`` too)."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None


def moment(value: Any) -> datetime | None:
    """Return an aware time in UTC from ISO 8601 or from Unix seconds or milliseconds; ``None`` for anything else."""
    try:
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value.strip())
            return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if value > _EPOCH_MS_FROM else value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def between(start: Any, end: Any = None) -> TimeRange | None:
    """Return the range of two times of any readable form; one of them is enough."""
    first, last = moment(start), moment(end)
    if first is None and last is None:
        return None
    first, last = first or last, last or first
    if first is None or last is None:
        return None
    return TimeRange(start=min(first, last), end=max(first, last))


_LEADING_TIME = re.compile(r"^\s*\[?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)\]?\s*")


def leading_time(line: str) -> tuple[datetime | None, str]:
    """Return the time a log line begins with, and the rest of the line."""
    match = _LEADING_TIME.match(line)
    if match is None:
        return None, line
    return moment(match.group(1).replace(",", ".")), line[match.end() :]

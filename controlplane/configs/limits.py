"""The limits of a run, read from the effective configuration's ``limits`` section."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use. Times in seconds, sizes in bytes, cost in US dollars; ``None`` means no limit."""

    wall_clock_s: int = 900
    max_turns: int = 50
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    tool_output_bytes: int = 65_536
    concurrent_runs: int = 5


def limits_for(effective: Mapping[str, Any]) -> Limits:
    """Return the limits of an effective document; what it leaves out, or holds as null, has its default.

    A value of the wrong type (the document was written before its schema) counts as left out.
    """
    section = effective.get("limits")
    given = section if isinstance(section, Mapping) else {}
    values = {
        field.name: given[field.name]
        for field in fields(Limits)
        if isinstance(given.get(field.name), int | float) and not isinstance(given.get(field.name), bool)
    }
    return Limits(**values)

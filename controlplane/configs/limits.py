"""What the runtimes read from an effective configuration, with the built-in defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from pydantic import ValidationError

from controlplane.configs.sections import LimitsSection


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use. Times in seconds, sizes in bytes, cost in US dollars; ``None`` means no limit."""

    wall_clock_s: int = 900
    max_turns: int = 50
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    tool_output_bytes: int = 65_536
    concurrent_runs: int = 5


def limits_for(document: Mapping[str, Any]) -> Limits:
    """Return the limits of an effective document.

    What ``limits`` does not set, sets to ``null``, or sets to something no write accepts today (stored by an earlier
    release) is the default: a run is never without bounds because of a stored value.
    """
    section = document.get("limits")
    if not isinstance(section, Mapping):
        return Limits()
    valid = {name: value for name in Limits.__slots__ if (value := _valid(name, section.get(name))) is not None}
    return Limits(**valid)


def runtime_kind(document: Mapping[str, Any]) -> str:
    """Return the name of the runtime that an effective document chooses, else the installation's default."""
    section = document.get("runtime")
    kind = section.get("kind") if isinstance(section, Mapping) else None
    return kind if isinstance(kind, str) else settings.DEFAULT_RUNTIME


def _valid(name: str, value: Any) -> Any:
    try:
        return getattr(LimitsSection.model_validate({name: value}), name)
    except ValidationError:
        return None

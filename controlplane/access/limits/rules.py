"""The rules: what is limited, for whom, and how much by default. ``RATE_LIMITS`` of the environment changes amounts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from django.conf import settings

_PERIODS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_FORM: Final = re.compile(rf"([1-9][0-9]{{0,8}})/({'|'.join(_PERIODS)})")


@dataclass(frozen=True, slots=True)
class Rule:
    """At most ``permits`` in each window of ``period_s`` seconds, counted by caller or address."""

    name: str
    permits: int
    period_s: int
    what: str

    @property
    def rate(self) -> str:
        """The amount as a person reads it."""
        unit = next((name for name, seconds in _PERIODS.items() if seconds == self.period_s), f"{self.period_s} s")
        return f"{self.permits} per {unit}"


#: Rule → (amount, what is counted and for whom).
DEFAULTS: Final[Mapping[str, tuple[str, str]]] = {
    "sign_in": ("30/minute", "sign-in attempts from one address"),
    "second_factor": ("10/hour", "codes tried for one account from one address"),
    "second_factor_account": ("100/day", "codes tried for one account"),
    "failed_tokens": ("60/minute", "refused tokens from one address"),
    "requests": ("6000/minute", "requests of one token or person"),
    "resolve": ("600/minute", "configurations with credentials of one token"),
    "exports": ("30/minute", "exports of one token or person"),
    "previews": ("120/minute", "previews of one token or person"),
    "investigations": ("60/minute", "investigations started by one token or person"),
    "uploads": ("120/minute", "files uploaded by one token or person"),
    "connection_tests": ("30/minute", "connection tests of one token or person"),
    "alerts": ("600/minute", "alerts of one token"),
}


def parse_amount(text: str) -> tuple[int, int] | None:
    """Return ``30/minute`` as permits and seconds; ``None`` for ``off``.

    Raises:
        ValueError: it is neither.
    """
    if text == "off":
        return None
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError("neither off nor <number>/<second|minute|hour|day>")
    return int(match[1]), _PERIODS[match[2]]


def find_rule(name: str) -> Rule | None:
    """Return the rule called ``name`` with the amount in force; ``None`` when it is off.

    Raises:
        KeyError: there is no such rule.
    """
    return _rule(name, settings.RATE_LIMITS.get(name) or DEFAULTS[name][0])


@lru_cache(maxsize=256)
def _rule(name: str, amount: str) -> Rule | None:
    parsed = parse_amount(amount)
    return None if parsed is None else Rule(name, *parsed, what=DEFAULTS[name][1])


def faults(amounts: Mapping[str, str]) -> list[str]:
    """Return what is wrong with the setting ``RATE_LIMITS``, one sentence each."""
    found = []
    for name, amount in amounts.items():
        if name not in DEFAULTS:
            found.append(f"RATE_LIMITS names no rule {name!r}. The rules are: {', '.join(DEFAULTS)}.")
            continue
        try:
            parse_amount(amount)
        except ValueError as error:
            found.append(f"RATE_LIMITS: the amount of {name} is {error}.")
    return found

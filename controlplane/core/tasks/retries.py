"""How often a task is tried again. By default never: a task that failed may have done half of its work."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE: Final = "opensre_retries"


@dataclass(frozen=True, slots=True)
class Retries:
    """At most ``attempts`` tries in all, the first pause ``wait_s`` seconds, each later one twice as long."""

    attempts: int
    wait_s: float

    def pause_after(self, attempts: int) -> float | None:
        """Return the seconds to wait after so many failed attempts, or ``None`` when it was the last one."""
        return self.wait_s * 2 ** (attempts - 1) if attempts < self.attempts else None


NEVER: Final = Retries(attempts=1, wait_s=0)


def retried(*, attempts: int, wait_s: float) -> Callable[[F], F]:
    """Say that a task's function may be run again after it failed; stands below ``@task``.

    Only the scaled backend tries again; the embedded one runs each task once.

    Args:
        attempts: tries in all, at least 2.
        wait_s: seconds before the second try; each later pause is twice as long.
    """

    def mark(function: F) -> F:
        setattr(function, _ATTRIBUTE, Retries(attempts, wait_s))
        return function

    return mark


def retries_of(function: Callable[..., Any]) -> Retries:
    """Return how often the function of a task is tried."""
    found: Retries = getattr(function, _ATTRIBUTE, NEVER)
    return found

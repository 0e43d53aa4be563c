"""The limits of this process: shares in memory, the common count behind them."""

import math
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import structlog
from django.db import Error as DatabaseFailure

from controlplane.access.limits.rules import Rule, find_rule
from controlplane.access.limits.store import WindowStore
from controlplane.access.limits.windows import Answer, Share

log = structlog.get_logger(__name__)

#: Callers remembered at once. Beyond that the one whose window began first is forgotten, and may get a chunk anew.
MOST_SHARES: Final = 50_000
_TRIES: Final = 8


class Verdict(NamedTuple):
    """Whether one request may go on; else the broken rule, and after how many whole seconds it may."""

    allowed: bool
    rule: Rule | None = None
    retry_after_s: int = 0


ALLOWED: Final = Verdict(allowed=True)


class Counts(Protocol):
    """Where the common counts are kept."""

    def add(self, rule: Rule, subject: str, window: int, amount: int) -> int:
        """Add to the count of a window and return it."""


class Limiter:
    """One per process; safe to use from many threads.

    Args:
        counts: the common counts; the database's by default.
        clock: seconds since the epoch.
    """

    def __init__(
        self, counts: Counts | None = None, *, clock: Callable[[], float] | None = None, most: int = MOST_SHARES
    ) -> None:
        self._counts = counts or WindowStore()
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        self._shares: dict[tuple[str, str], tuple[int, int, Share]] = {}

    def spend(self, name: str, subject: str) -> Verdict:
        """Count one request of ``subject`` under the rule ``name``. At most one query per chunk, usually none."""
        rule = find_rule(name)
        if rule is None:
            return ALLOWED
        for _ in range(_TRIES):
            window, share, answer = self._take(rule, subject)
            if answer is Answer.TAKEN:
                return ALLOWED
            if answer is Answer.REFUSED:
                break
            self._ask(rule, subject, window, share)
        return self._refused(rule)

    def spend_held(self, name: str, subject: str) -> Verdict | None:
        """Do as :meth:`spend` from what the process holds; ``None`` when that takes a query. Never blocks."""
        rule = find_rule(name)
        if rule is None:
            return ALLOWED
        _, _, answer = self._take(rule, subject)
        if answer is Answer.ASK:
            return None
        return ALLOWED if answer is Answer.TAKEN else self._refused(rule)

    def is_used_up(self, name: str, subject: str) -> Verdict:
        """Return what this process knows already, without counting and without a query."""
        rule = find_rule(name)
        if rule is None:
            return ALLOWED
        with self._lock:
            held = self._shares.get((name, subject))
            if held is None or held[:2] != (rule.period_s, self._window(rule)):
                return ALLOWED
            return self._refused(rule) if held[2].is_used_up else ALLOWED

    def forget(self) -> None:
        """Forget every share. Only tests call this."""
        with self._lock:
            self._shares.clear()

    def _take(self, rule: Rule, subject: str) -> tuple[int, Share, Answer]:
        window = self._window(rule)
        key = (rule.name, subject)
        with self._lock:
            held = self._shares.get(key)
            if held is not None and held[:2] == (rule.period_s, window) and held[2].limit == rule.permits:
                share = held[2]
            else:
                share = Share(rule.permits)
                self._shares.pop(key, None)  # and in again at the end: the dictionary is in the order of beginning
                self._shares[key] = (rule.period_s, window, share)
                if len(self._shares) > self._most:
                    del self._shares[next(iter(self._shares))]
            return window, share, share.take()

    def _ask(self, rule: Rule, subject: str, window: int, share: Share) -> None:
        with self._lock:
            amount = share.asking()
        try:
            total = self._counts.add(rule, subject, window, amount)
        except DatabaseFailure as error:
            log.warning("limits.count_not_reached", rule=rule.name, error=type(error).__name__)
            with self._lock:
                share.grant_unasked()
        else:
            with self._lock:
                share.told(total)

    def _window(self, rule: Rule) -> int:
        return int(self._now() // rule.period_s)

    def _refused(self, rule: Rule) -> Verdict:
        now = self._now()
        rest = (int(now // rule.period_s) + 1) * rule.period_s - now
        return Verdict(False, rule, max(1, math.ceil(rest)))

    def _now(self) -> float:
        # Looked up at each call: tests that travel in time replace ``time.time``.
        return time.time() if self._clock is None else self._clock()


limiter: Final = Limiter()

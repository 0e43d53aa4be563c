"""The common count of each window: one row, one statement."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import connection

from controlplane.access.limits.rules import Rule
from controlplane.access.models import RateWindow
from controlplane.core.db import impatient

#: How long a writer waits for SQLite's lock before the process goes on by itself.
WAIT_MS: Final = 1000
SWEEP_EVERY_S: Final = 600.0

_ADD: Final = (
    "INSERT INTO {table} (key, taken, expires_at) VALUES (%s, %s, %s) "
    "ON CONFLICT (key) DO UPDATE SET taken = {table}.taken + excluded.taken RETURNING taken"
)


class WindowStore:
    """Counts in the database, shared by every process of the installation."""

    def add(self, rule: Rule, subject: str, window: int, amount: int) -> int:
        """Add to the count of a window and return it. One statement, so no two processes read the same count.

        Raises:
            django.db.Error: the database does not answer, or is locked.
        """
        expires_at = datetime.fromtimestamp((window + 1) * rule.period_s, UTC)
        with impatient(WAIT_MS), connection.cursor() as cursor:
            # The ORM has no upsert that adds; both databases have.
            table = connection.ops.quote_name(RateWindow._meta.db_table)  # noqa: SLF001 (Django documents it)
            cursor.execute(_ADD.format(table=table), [_row_key(rule, subject, window), amount, expires_at])
            (taken,) = cursor.fetchone()
        return int(taken)


def windows_sweep(*, now: datetime | None = None) -> int:
    """Delete the windows that ended more than a minute ago (clocks differ); return how many."""
    ended = (now or datetime.now(UTC)) - timedelta(minutes=1)
    deleted, _ = RateWindow.objects.filter(expires_at__lt=ended).delete()
    return deleted


def _row_key(rule: Rule, subject: str, window: int) -> str:
    # Hashed: a subject may hold an address or a name, and of any length.
    digest = hashlib.blake2b(f"{rule.period_s}:{subject}".encode("utf-8", "surrogatepass"), digest_size=16)
    return f"{rule.name}:{digest.hexdigest()}:{window}"

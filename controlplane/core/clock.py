"""Time: the application's clock for records, the database's clock for leases."""

from datetime import UTC, datetime, timedelta

from django.db.models import DateTimeField, ExpressionWrapper, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Now
from django.utils import timezone

_lease_offset = timedelta()


def now() -> datetime:
    """Return the current time, aware, in UTC."""
    return timezone.now()


def lease_now(*, plus: timedelta = timedelta()) -> Combinable:
    """Return an SQL expression of the database's time plus ``plus``.

    Leases of several workers are compared by one clock only: the database's. The offset set with
    :func:`set_lease_offset` is added, so that tests can let a lease run out without waiting for it.
    """
    shift = plus + _lease_offset
    if not shift:
        return Now()
    return ExpressionWrapper(Now() + Value(shift), output_field=DateTimeField())


def set_lease_offset(offset: timedelta) -> None:
    """Shift the lease clock of this process by ``offset``. Only tests call this."""
    global _lease_offset  # noqa: PLW0603 (one process-wide clock is the point)
    _lease_offset = offset


def rfc3339(moment: datetime) -> str:
    """Return ``moment`` as RFC 3339 in UTC with milliseconds and ``Z``, the one form of every answer."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

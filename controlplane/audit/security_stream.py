"""What a process has seen of refusals and sign-ins: coalesced in memory, written at once when new, always bounded.

The same thing (kind, actor, address, what was tried) within a minute is one row with a count. The first time is written
at once, repetitions every few seconds; a killed process loses the repetitions of those seconds, never the first. Beyond
so many rows a minute, one row per organization counts the rest: a flood costs the database nothing more, and the chain,
which takes only digests of batches (:mod:`controlplane.audit.sealing`), nothing at all.
"""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from django.db import DatabaseError, InterfaceError, connection, transaction

from controlplane.audit import metrics
from controlplane.audit.models import SecurityEvent, SecurityKind
from controlplane.core import clock
from controlplane.core.db import impatient
from controlplane.core.ids import new_id

log = structlog.get_logger(__name__)

#: What is the same within this time is one row.
WINDOW: Final = timedelta(seconds=60)
#: A row's count is written at most this often.
WRITE_EVERY: Final = timedelta(seconds=5)
#: New rows a minute of one process: for one organization, and altogether. The rest is counted in one row.
MOST_ROWS_OF_ONE: Final = 120
MOST_ROWS: Final = 600


@dataclass(frozen=True, slots=True)
class Sighting:
    """One thing that happened; equal ones are coalesced."""

    organization_id: UUID
    kind: str
    code: str
    actor: str
    actor_label: str = field(compare=False)
    credential_id: str
    impersonator: str
    channel: str
    address: str
    action: str
    object_kind: str
    object_id: str
    node_id: UUID | None


@dataclass(slots=True)
class _Entry:
    sighting: Sighting
    first_at: datetime
    last_at: datetime
    count: int = 1
    pk: UUID = field(default_factory=new_id)
    written: int = 0
    written_at: datetime | None = None

    def is_due(self, now: datetime) -> bool:
        if self.written == self.count:
            return False
        return self.written_at is None or now - self.written_at >= WRITE_EVERY or self.is_over(now)

    def is_over(self, now: datetime) -> bool:
        return not self.first_at <= now < self.first_at + WINDOW


class SecurityStream:
    """The stream of one process. Any thread may note and write."""

    def __init__(self, now: Callable[[], datetime] = clock.now) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._entries: dict[Sighting, _Entry] = {}
        self._over: list[_Entry] = []

    def note(self, sighting: Sighting) -> bool:
        """Count a sighting, in memory only, and return whether :meth:`write` has something to write now."""
        metrics.security_events_total.labels(sighting.kind).inc()
        now = self._now()
        with self._lock:
            self._drop_over(now)
            entry = self._entries.get(sighting)
            if entry is None:
                kept = sighting if self._has_room(sighting) else _overflow(sighting)
                if kept is not sighting:
                    metrics.security_overflow_total.inc()
                entry = self._entries.get(kept)
                if entry is None:
                    self._entries[kept] = _Entry(kept, now, now)
                    return True
            entry.count += 1
            entry.last_at = now
            return entry.is_due(now)

    def write(self, *, everything: bool = False) -> None:
        """Write what is new, and counts that have grown for a while. Never raises: what fails is tried again later.

        Args:
            everything: also counts that would wait, for the end of a process.
        """
        with self._writing:
            now = self._now()
            with self._lock:
                self._drop_over(now)
                listed = [*self._over, *self._entries.values()]
                due = [(entry, entry.count) for entry in listed if entry.is_due(now) or everything]
                due = [(entry, count) for entry, count in due if entry.written != count]
            if not due or connection.needs_rollback:
                return
            try:
                with impatient(), transaction.atomic():
                    self._store(due)
            except (DatabaseError, InterfaceError) as error:
                log.warning("security.not_written", rows=len(due), error=type(error).__name__)
                return
            with self._lock:
                for entry, count in due:
                    entry.written, entry.written_at = count, now
                self._over = [entry for entry in self._over if entry.written != entry.count]

    def forget(self) -> None:
        """Forget everything that is not written. Only tests call this."""
        with self._lock:
            self._entries.clear()
            self._over.clear()

    def _drop_over(self, now: datetime) -> None:
        """Let go of minutes that are over; what of them is not written yet waits for the next writing."""
        for sighting, entry in list(self._entries.items()):
            if not entry.is_over(now):
                break  # entries stand in the order of their beginning
            del self._entries[sighting]
            if entry.written != entry.count:
                self._over.append(entry)
        del self._over[:-MOST_ROWS]  # a database that is gone for long must not fill the memory

    def _has_room(self, sighting: Sighting) -> bool:
        if len(self._entries) >= MOST_ROWS:
            return False
        of_one = Counter(each.organization_id for each in self._entries)
        return of_one[sighting.organization_id] < MOST_ROWS_OF_ONE

    @staticmethod
    def _store(due: list[tuple[_Entry, int]]) -> None:
        """Write rows: one statement for those that are new, one for those that have grown."""
        grown = [(entry, count) for entry, count in due if entry.written]
        unsealed = SecurityEvent.objects.filter(batch__isnull=True)
        rows = [_row(entry, count) for entry, count in grown]
        if rows and unsealed.bulk_update(rows, ["count", "last_at"]) < len(rows):
            # Gone when the transaction of its first writing was rolled back, or sealed meanwhile: a new row then.
            there = set(unsealed.filter(pk__in=[row.pk for row in rows]).values_list("pk", flat=True))
            for entry, _ in grown:
                if entry.pk not in there:
                    entry.pk, entry.written = new_id(), 0
        SecurityEvent.objects.bulk_create([_row(entry, count) for entry, count in due if not entry.written])


def _overflow(sighting: Sighting) -> Sighting:
    return replace(
        sighting,
        kind=SecurityKind.OVERFLOW.value,
        code="too_many",
        actor="system:security",
        actor_label="more than is kept in a minute",
        credential_id="",
        impersonator="",
        channel="system",
        address="",
        action="overflow",
        object_kind="",
        object_id="",
        node_id=None,
    )


def _row(entry: _Entry, count: int) -> SecurityEvent:
    seen = entry.sighting
    return SecurityEvent(
        id=entry.pk,
        organization_id=seen.organization_id,
        kind=seen.kind,
        code=seen.code,
        actor=seen.actor,
        actor_label=seen.actor_label,
        credential_id=seen.credential_id,
        impersonator=seen.impersonator,
        channel=seen.channel,
        address=seen.address,
        action=seen.action,
        object_kind=seen.object_kind,
        object_id=seen.object_id,
        node_id=seen.node_id,
        first_at=entry.first_at,
        last_at=entry.last_at,
        count=count,
    )


stream: Final = SecurityStream()

"""What this process has yet to tell the others: gathered on the threads that commit, sent in batches by the relay."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from controlplane.investigations import metrics
from controlplane.investigations.buses.messages import (
    ENVELOPE_BYTES,
    WORK_ITEM,
    event_item,
    head_item,
    rights_item,
)
from controlplane.investigations.envelope import LoggedEvent

#: About how much waits at most when more is committed than the bus takes; beyond that only heads are kept.
MOST_BYTES: Final = 4 * 1024 * 1024


@dataclass(slots=True)
class Batch:
    """What was told since the last batch; any number of commits make one."""

    events: list[LoggedEvent] = field(default_factory=list)
    heads: dict[UUID, int] = field(default_factory=dict)
    rights: set[UUID] = field(default_factory=set)
    work: bool = False
    size: int = 0

    def items(self, limit: int) -> list[bytes]:
        """Return the batch as items for messages of at most ``limit`` bytes."""
        most = limit - ENVELOPE_BYTES - 1
        items = [event_item(event, most) for event in self.events]
        items += [head_item(thread_id, seq) for thread_id, seq in self.heads.items()]
        items += [rights_item(organization_id) for organization_id in self.rights]
        if self.work:
            items.append(WORK_ITEM)
        return items


class Outbox:
    """The batch under way. Adding is a few instructions under a lock: it happens on the path of a write.

    Args:
        wake: called, on the adding thread, when the first thing is added to an empty batch.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._batch = Batch()
        self._empty = True
        #: Whether events are kept whole; without a connection nobody could get them in time, so heads do.
        self.carrying = False

    def add_events(self, events: Sequence[LoggedEvent]) -> None:
        with self._lock:
            batch = self._batch
            if self.carrying and batch.size < MOST_BYTES:
                batch.events.extend(events)
                batch.size += sum(len(event.data) for event in events)
            else:
                last = events[-1]
                batch.heads[last.thread_id] = max(last.seq, batch.heads.get(last.thread_id, 0))
                metrics.bus_events_dropped_total.inc(len(events))
            first = self._note()
        if first:
            self._wake()

    def add_work(self) -> None:
        with self._lock:
            self._batch.work = True
            first = self._note()
        if first:
            self._wake()

    def add_rights(self, organization_id: UUID) -> None:
        with self._lock:
            self._batch.rights.add(organization_id)
            first = self._note()
        if first:
            self._wake()

    def take(self) -> Batch:
        """Return the batch, and begin a new one."""
        with self._lock:
            batch, self._batch, self._empty = self._batch, Batch(), True
        return batch

    def _note(self) -> bool:
        first, self._empty = self._empty, False
        return first

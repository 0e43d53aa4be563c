"""One watched thread: a bounded ring of its newest events, encoded once for all who watch."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from controlplane.core.db import DatabaseThreads
from controlplane.investigations import metrics
from controlplane.investigations.frames import Frame, read_frames
from controlplane.investigations.waiting import Signal

RING_FRAMES: Final = 4096
RING_BYTES: Final = 4 * 1024 * 1024
#: About how much one look into the ring or the log gives: what a viewer that does not read holds at most.
SLICE_BYTES: Final = 128 * 1024
PAGE_EVENTS: Final = 500


def first_part(frames: Sequence[Frame], begin: int) -> list[Frame]:
    """Return about ``SLICE_BYTES`` of the frames from index ``begin`` on, at least one if there is one."""
    size = 0
    for end in range(begin, len(frames)):
        size += len(frames[end].full)
        if size >= SLICE_BYTES:
            return list(frames[begin : end + 1])
    return list(frames[begin:])


class WatchedThread:
    """One watched thread: the newest frames, contiguous up to ``head``, and who waits for more.

    A viewer holds a cursor (a ``seq``) and goes round: clear its signal, take :meth:`after` its cursor (or
    ``Hub.read``, where that is ``None``), send, and wait for the signal when there was nothing.
    """

    def __init__(self, thread_id: UUID) -> None:
        self.thread_id = thread_id
        self.head = 0
        self.viewers = 0
        self.opened: asyncio.Task[None] | None = None
        self._frames: list[Frame] = []
        self._gone = 0  # frames at the beginning of the list that are no longer in the ring
        self._ring_bytes = 0
        self._same: tuple[int, int, list[Frame]] = (-1, -1, [])
        self._reading: asyncio.Task[None] | None = None
        self._read_again = False
        self._waiters: set[Signal] = set()

    def push(self, frames: Sequence[Frame]) -> bool:
        """Add the frames that continue the ring; ``False`` when one is missing before them."""
        for frame in frames:
            if frame.seq == self.head + 1:
                self._keep(frame)
            elif frame.seq > self.head:
                self.wake()
                return False
        self.wake()
        return True

    def _keep(self, frame: Frame) -> None:
        self._frames.append(frame)
        self._ring_bytes += len(frame.full)
        self.head = frame.seq
        while len(self._frames) - self._gone > RING_FRAMES or (
            self._ring_bytes > RING_BYTES and len(self._frames) - self._gone > 1
        ):
            self._ring_bytes -= len(self._frames[self._gone].full)
            self._gone += 1
        if self._gone > max(64, len(self._frames) // 4):  # now and then, so that a frame costs the same at any time
            del self._frames[: self._gone]
            self._gone = 0

    def start_at(self, seq: int) -> None:
        """Begin an empty ring after ``seq``."""
        self._frames.clear()
        self._gone = self._ring_bytes = 0
        self.head = seq

    def after(self, cursor: int) -> list[Frame] | None:
        """Return frames after ``cursor``, about 128 KiB of them; ``None`` when the ring does not reach back that far.

        Most viewers stand at the same place: they get the same list, which nobody changes.
        """
        if cursor >= self.head:
            return []
        at, head, frames = self._same
        if at == cursor and head == self.head:
            return frames
        index = len(self._frames) - (self.head - cursor)
        if index < self._gone:
            return None
        frames = first_part(self._frames, index)
        self._same = (cursor, self.head, frames)
        return frames

    def wake(self) -> None:
        for waiter in self._waiters:
            waiter.set()

    @contextlib.contextmanager
    def waiter(self) -> Iterator[Signal]:
        """Yield a signal that is set whenever the ring grows; the waiter clears it before it looks."""
        signal = Signal()
        self._waiters.add(signal)
        try:
            yield signal
        finally:
            self._waiters.discard(signal)
            signal.close()

    @property
    def is_open(self) -> bool:
        return self.opened is not None and self.opened.done()

    def note_gap(self, database: DatabaseThreads) -> None:
        """Have the log read for frames that could not be pushed; a channel still opening reads it anyway."""
        if self.is_open:
            _ = self.catch_up(database)
        else:
            self._read_again = True

    def catch_up(self, database: DatabaseThreads) -> asyncio.Task[None]:
        """Read the log from the head on, once however many ask, and return the task that does."""
        self._read_again = True  # a read under way may have looked before the newest commit: it looks once more
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_on(database), name=f"hub-read-{self.thread_id}")
        return self._reading

    async def _read_on(self, database: DatabaseThreads) -> None:
        while self._read_again:
            self._read_again = False
            frames, more = await database.call(read_frames, self.thread_id, after=self.head, limit=PAGE_EVENTS)
            metrics.hub_log_reads_total.labels(why="catch_up").inc()
            self.push(frames)
            self._read_again = self._read_again or more

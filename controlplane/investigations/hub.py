"""The hub: one per process, it carries the log to any number of viewers.

For each thread being watched it keeps a bounded ring of frames that are encoded once; a viewer is a cursor into it. The
bus and a light poll only say that there is more; a hole, a late joiner or a lost message reads the log. Nothing here is
a source of truth, so nothing here can lose an event.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self
from uuid import UUID

import structlog

from controlplane.core.db import DatabaseThreads
from controlplane.investigations import bus, metrics
from controlplane.investigations.envelope import LoggedEvent
from controlplane.investigations.log import read_heads, read_page
from controlplane.investigations.rights_watch import RightsWatch

log = structlog.get_logger(__name__)

RING_FRAMES: Final = 4096
RING_BYTES: Final = 4 * 1024 * 1024
PRELOADED_FRAMES: Final = 512
PAGE_EVENTS: Final = 500
POLL_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True)
class Frame:
    """One event, encoded as a server-sent event; ``withheld`` is what readers outside its audience get."""

    seq: int
    full: bytes
    withheld: bytes | None

    @classmethod
    def of(cls, event: LoggedEvent) -> Self:
        withheld = None if event.is_for(starter=False) else _sse(event, event.envelope(starter=False))
        return cls(event.seq, _sse(event, event.envelope()), withheld)

    def bytes_for(self, *, starter: bool) -> bytes:
        return self.full if starter or self.withheld is None else self.withheld


def _sse(event: LoggedEvent, envelope: bytes) -> bytes:
    """Return the frame of WHATWG HTML, section 9.2.6: ``id`` moves the client's cursor, ``data`` is one line."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.type.encode(), envelope)


class WatchedThread:
    """One watched thread: the newest frames, contiguous up to ``head``, and who waits for more."""

    def __init__(self, thread_id: UUID) -> None:
        self.thread_id = thread_id
        self.head = 0
        self.viewers = 0
        self.opened: asyncio.Task[None] | None = None
        self._ring: deque[Frame] = deque()
        self._ring_bytes = 0
        self._reading: asyncio.Task[None] | None = None
        self._read_again = False
        self._waiters: set[asyncio.Event] = set()

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
        self._ring.append(frame)
        self._ring_bytes += len(frame.full)
        self.head = frame.seq
        while len(self._ring) > RING_FRAMES or (self._ring_bytes > RING_BYTES and len(self._ring) > 1):
            self._ring_bytes -= len(self._ring.popleft().full)

    def start_at(self, seq: int) -> None:
        """Begin an empty ring after ``seq``."""
        self._ring.clear()
        self._ring_bytes = 0
        self.head = seq

    def after(self, cursor: int) -> list[Frame] | None:
        """Return the frames after ``cursor``, or ``None`` when the ring does not reach back that far."""
        if cursor >= self.head:
            return []
        first = self.head - len(self._ring) + 1
        if cursor + 1 < first:
            return None
        return [self._ring[index] for index in range(cursor + 1 - first, len(self._ring))]

    def wake(self) -> None:
        for waiter in self._waiters:
            waiter.set()

    @contextlib.contextmanager
    def waiter(self) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever the ring grows; the waiter clears it before it looks."""
        event = asyncio.Event()
        self._waiters.add(event)
        try:
            yield event
        finally:
            self._waiters.discard(event)

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
            page = await database.call(read_page, self.thread_id, after=self.head, limit=PAGE_EVENTS)
            metrics.hub_log_reads_total.labels(why="catch_up").inc()
            self.push([Frame.of(event) for event in page.events])
            self._read_again = self._read_again or page.more


def _nothing() -> None:
    return None


class Hub:
    """All channels of one event loop. ``start`` and ``stop`` are called by the ASGI lifespan."""

    def __init__(self) -> None:
        self.database = DatabaseThreads(threads=2, name="hub-db")
        self.rights = RightsWatch(self.database)
        self.draining = asyncio.Event()
        self._channels: dict[UUID, WatchedThread] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._poller: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = _nothing

    def start(self) -> None:
        """Begin to listen; must be called on the loop that will serve the viewers."""
        self._loop = asyncio.get_running_loop()
        self._unsubscribe = bus.events.add(self._from_any_thread)
        self._poller = asyncio.create_task(self._poll(), name="hub-poll")
        self.rights.start()

    async def stop(self) -> None:
        """Let every viewer go, stop listening, close the database threads."""
        self.drain()
        self._unsubscribe()
        await self.rights.stop()
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.gather(self._poller, return_exceptions=True)
        await asyncio.to_thread(self.database.close)

    def drain(self) -> None:
        """Ask every stream to end; clients resume elsewhere, or here once this process is back."""
        self.draining.set()
        for channel in self._channels.values():
            channel.wake()

    @property
    def is_alive(self) -> bool:
        return self._poller is not None and not self._poller.done()

    @contextlib.asynccontextmanager
    async def watch(self, thread_id: UUID) -> AsyncIterator[WatchedThread]:
        """Yield the thread's live channel: registered first, then read, so nothing falls between."""
        channel = self._channels.setdefault(thread_id, WatchedThread(thread_id))
        channel.viewers += 1
        try:
            if channel.opened is None:
                channel.opened = asyncio.create_task(self._open(channel))
            await asyncio.shield(channel.opened)
            yield channel
        finally:
            channel.viewers -= 1
            if not channel.viewers and self._channels.get(thread_id) is channel:
                del self._channels[thread_id]

    async def read(self, thread_id: UUID, *, after: int) -> list[Frame]:
        """Return a page of frames from the log, for a viewer behind the ring."""
        page = await self.database.call(read_page, thread_id, after=after, limit=PAGE_EVENTS)
        metrics.hub_log_reads_total.labels(why="viewer").inc()
        return [Frame.of(event) for event in page.events]

    async def _open(self, channel: WatchedThread) -> None:
        """Fill a new channel with the newest part of the log; the bus is already feeding it meanwhile."""
        heads = await self.database.call(read_heads, [channel.thread_id])
        channel.start_at(max(heads.get(channel.thread_id, 0) - PRELOADED_FRAMES, 0))
        await channel.catch_up(self.database)

    def _from_any_thread(self, events: Sequence[LoggedEvent]) -> None:
        if events[0].thread_id in self._channels and self._loop is not None:
            frames = [Frame.of(event) for event in events]
            with contextlib.suppress(RuntimeError):  # the loop has just been closed: its viewers are gone too
                self._loop.call_soon_threadsafe(self._deliver, events[0].thread_id, frames)

    def _deliver(self, thread_id: UUID, frames: Sequence[Frame]) -> None:
        channel = self._channels.get(thread_id)
        if channel is not None and (not channel.is_open or not channel.push(frames)):
            channel.note_gap(self.database)

    async def _poll(self) -> None:
        """Find what other processes wrote (and what the bus missed): one small query while anything is watched."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if not self._channels:
                continue
            try:
                heads = await self.database.call(read_heads, list(self._channels))
            except Exception:
                log.exception("hub.poll_failed")
                continue
            for thread_id, head in heads.items():
                channel = self._channels.get(thread_id)
                if channel is not None and channel.is_open and head > channel.head:
                    _ = channel.catch_up(self.database)

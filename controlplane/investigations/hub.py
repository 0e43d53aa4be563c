"""The hub: one per process, it carries the log to any number of viewers.

For each thread being watched it keeps a bounded ring of frames that are encoded once; a viewer is a cursor into it. The
bus and a light poll only say that there is more; a hole, a late joiner or a lost message reads the log. Nothing here is
a source of truth, so nothing here can lose an event.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Final
from uuid import UUID

import structlog

from controlplane.core.db import DatabaseThreads
from controlplane.investigations import bus, buses, metrics
from controlplane.investigations.admission import Places
from controlplane.investigations.envelope import LoggedEvent
from controlplane.investigations.frames import Frame
from controlplane.investigations.log import read_heads
from controlplane.investigations.pages import LogPages
from controlplane.investigations.rights_watch import RightsWatch
from controlplane.investigations.ring import WatchedThread

__all__ = ["Frame", "Hub", "WatchedThread"]

log = structlog.get_logger(__name__)

PRELOADED_FRAMES: Final = 512
#: How often the heads of what is watched are read: without a bus between processes, and beside one that carries.
POLL_SECONDS: Final = 0.25
POLL_SECONDS_WITH_BUS: Final = 1.0


class Hub:
    """All channels of one event loop. ``start`` and ``stop`` are called by the ASGI lifespan."""

    def __init__(self) -> None:
        self.database = DatabaseThreads(threads=2, name="hub-db")
        self.rights = RightsWatch(self.database)
        self.places = Places()
        self.draining = asyncio.Event()
        self._pages = LogPages(self.database)
        self._on_drain: set[Callable[[], object]] = set()
        self._look = asyncio.Event()
        self._channels: dict[UUID, WatchedThread] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._poller: asyncio.Task[None] | None = None
        self._unsubscribe: Sequence[Callable[[], None]] = ()

    def start(self) -> None:
        """Begin to listen; must be called on the loop that will serve the viewers."""
        self._loop = asyncio.get_running_loop()
        self._unsubscribe = (
            bus.events.add(self._from_any_thread),
            bus.heads.add(lambda thread_id, seq: self._call(self._note_head, thread_id, seq)),
            bus.missed.add(lambda: self._call(self._look.set)),
        )
        self._poller = asyncio.create_task(self._poll(), name="hub-poll")
        self.rights.start()

    async def stop(self) -> None:
        """Let every viewer go, stop listening, close the database threads."""
        self.drain()
        for unsubscribe in self._unsubscribe:
            unsubscribe()
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
        for call in tuple(self._on_drain):
            call()

    @contextlib.contextmanager
    def on_drain(self, call: Callable[[], object]) -> Iterator[None]:
        """Have ``call`` called, on the loop, when the streams are asked to end within the block."""
        self._on_drain.add(call)
        try:
            yield
        finally:
            self._on_drain.discard(call)

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
        """Return frames from the log, for a viewer behind the ring: about 128 KiB, read once for all who ask.

        A first frame whose ``seq`` is not ``after + 1`` says that the events between are no longer in the log.
        """
        return await self._pages.after(thread_id, after)

    async def _open(self, channel: WatchedThread) -> None:
        """Fill a new channel with the newest part of the log; the bus is already feeding it meanwhile."""
        heads = await self.database.call(read_heads, [channel.thread_id])
        channel.start_at(max(heads.get(channel.thread_id, 0) - PRELOADED_FRAMES, 0))
        await channel.catch_up(self.database)

    def _from_any_thread(self, events: Sequence[LoggedEvent]) -> None:
        if events[0].thread_id in self._channels:
            self._call(self._deliver, events[0].thread_id, [Frame.of(event) for event in events])

    def _call(self, what: Callable[..., object], *args: object) -> None:
        """Have ``what`` called on the loop, from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just been closed: its viewers are gone too
                self._loop.call_soon_threadsafe(what, *args)

    def _deliver(self, thread_id: UUID, frames: Sequence[Frame]) -> None:
        channel = self._channels.get(thread_id)
        if channel is not None and (not channel.is_open or not channel.push(frames)):
            channel.note_gap(self.database)

    def _note_head(self, thread_id: UUID, head: int) -> None:
        channel = self._channels.get(thread_id)
        if channel is not None and (not channel.is_open or head > channel.head):
            channel.note_gap(self.database)

    async def _poll(self) -> None:
        """Find what other processes wrote (and what the bus missed): one small query while anything is watched."""
        while True:
            await self._pause()
            if not self._channels:
                continue
            try:
                heads = await self.database.call(read_heads, list(self._channels))
            except Exception:
                log.exception("hub.poll_failed")
                continue
            metrics.hub_polls_total.inc()
            for thread_id, head in heads.items():
                self._note_head(thread_id, head)

    async def _pause(self) -> None:
        """Wait for the next poll; a bus that has come back brings it forward."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS_WITH_BUS if buses.is_connected() else POLL_SECONDS):
                await self._look.wait()
        self._look.clear()

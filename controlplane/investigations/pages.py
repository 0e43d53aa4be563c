"""The older part of logs, for viewers behind the ring: read once however many want it at about the same time.

Events never change, so a page that was read is right for ever; the newest pages are kept. Viewers with different
cursors share them, because a page begins at a round number.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from controlplane.core.db import DatabaseThreads
from controlplane.investigations import metrics
from controlplane.investigations.frames import Frame, read_frames
from controlplane.investigations.ring import first_part

#: Events of one page, and about how many bytes of pages are kept for those who come a moment later.
PAGE_EVENTS: Final = 200
KEPT_BYTES: Final = 8 * 1024 * 1024

_Key = tuple[UUID, int]


@dataclass(frozen=True, slots=True)
class Page:
    """Events in order, of ``size`` bytes together."""

    frames: list[Frame]
    size: int

    def after(self, cursor: int) -> list[Frame] | None:
        """Return frames after ``cursor``, ``None`` when the page has none or begins later."""
        if not self.frames or not self.frames[0].seq <= cursor + 1 <= self.frames[-1].seq:
            return None
        return first_part(self.frames, cursor + 1 - self.frames[0].seq)


class LogPages:
    """Reads and keeps pages, on one event loop."""

    def __init__(self, database: DatabaseThreads) -> None:
        self._database = database
        self._pages: OrderedDict[_Key, Page] = OrderedDict()
        self._reading: dict[_Key, asyncio.Task[Page]] = {}
        self._size = 0

    async def after(self, thread_id: UUID, cursor: int) -> list[Frame]:
        """Return frames after ``cursor``, about 128 KiB of them; none when the log has none.

        Where events are missing after the cursor (they were removed), the first frame's ``seq`` is not the next one.
        """
        # A page is as long as its bytes allow: what a round page does not reach is in one that begins where it ends.
        page = await self._page((thread_id, cursor - cursor % PAGE_EVENTS))
        found = page.after(cursor)
        if found is None and cursor % PAGE_EVENTS:
            page = await self._page((thread_id, cursor))
            found = page.after(cursor)
        return first_part(page.frames, 0) if found is None else found

    async def _page(self, key: _Key) -> Page:
        page = self._pages.get(key)
        if page is not None:
            self._pages.move_to_end(key)
            return page
        reading = self._reading.get(key)
        if reading is None:
            reading = self._reading[key] = asyncio.create_task(self._read(key), name=f"hub-page-{key[0]}")
            reading.add_done_callback(lambda _task: self._reading.pop(key, None))
        return await asyncio.shield(reading)

    async def _read(self, key: _Key) -> Page:
        thread_id, begin = key
        frames, _ = await self._database.call(read_frames, thread_id, after=begin, limit=PAGE_EVENTS)
        metrics.hub_log_reads_total.labels(why="viewer").inc()
        page = Page(frames, sum(len(frame.full) for frame in frames))
        if frames:
            self._pages[key] = page
            self._size += page.size
        while self._size > KEPT_BYTES and len(self._pages) > 1:
            self._size -= self._pages.popitem(last=False)[1].size
        return page

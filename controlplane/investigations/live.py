"""Following a thread live for one viewer, whatever it is sent as: catch-up from the log, then what happens.

The viewer is a cursor into the ring of the hub. Its permission is checked again each minute and when rights were taken;
it is let go after a while, and when the server stops: it comes back with its last ``seq``.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from django.conf import settings

from controlplane.core.errors import AppError
from controlplane.investigations.hub import Frame, Hub, WatchedThread
from controlplane.investigations.rights_watch import Stamps
from controlplane.investigations.viewing import Credentials, Viewer, viewer_again

RECHECK_SECONDS: Final = 60.0
#: How long a client may take to accept one write; one that reads nothing is let go, and resumes when it comes back.
WRITE_SECONDS: Final = 30.0


class Sink(Protocol):
    """Where the events go. A method that raises ends the following."""

    async def frames(self, frames: Sequence[Frame]) -> bool:
        """Send events, in order; return whether more are wanted."""

    async def beat(self, head: int) -> None:
        """Say that nothing happens; ``head`` is the number of the last event there is."""

    async def reset(self, head: int, reason: str) -> None:
        """Say that what the client has is not what there is: all there is follows, from its beginning.

        ``reason`` is ``cursor_ahead``: the cursor is from another history; or ``events_removed``: what came after it is
        no longer kept.
        """


class Why(StrEnum):
    """Why a following is over."""

    ENOUGH = "enough"
    STOPPING = "stopping"
    LIFETIME = "lifetime"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class End:
    """``error`` says why the viewer may not read on, where it was refused."""

    why: Why
    error: AppError | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Who follows and from where. ``known`` are the stamps of rights from before the viewer was checked."""

    viewer: Viewer
    credentials: Credentials
    known: Stamps
    cursor: int


async def follow(hub: Hub, place: Place, sink: Sink, *, lifetime_s: float | None = None) -> End:
    """Send everything after the place's cursor to ``sink`` until it has enough or must go.

    Args:
        hub: of this process.
        place: who follows and from where.
        sink: where it goes.
        lifetime_s: how long at most, in seconds; ``None``: about ``STREAM_LIFETIME_SECONDS``, so that not all clients
            come back at once.
    """
    loop = asyncio.get_running_loop()
    lifetime = settings.STREAM_LIFETIME_SECONDS * random.uniform(0.8, 1.15) if lifetime_s is None else lifetime_s  # noqa: S311 (jitter)
    closes_at = loop.time() + lifetime
    recheck_at = loop.time() + RECHECK_SECONDS
    viewer, rights = place.viewer, hub.rights
    async with hub.watch(viewer.thread_id) as watched:
        cursor = await _valid_cursor(hub, watched, place.cursor, sink)
        with watched.waiter() as changed, rights.watch(viewer.organization_id, changed, place.known) as mine:
            while not hub.draining.is_set() and (now := loop.time()) < closes_at:
                if mine.due or now >= recheck_at:
                    mine.checking(rights.known)
                    try:
                        await hub.database.call(viewer_again, place.credentials, viewer.thread_id)
                    except AppError as error:
                        return End(Why.REFUSED, error)
                    recheck_at = loop.time() + RECHECK_SECONDS
                changed.clear()
                if mine.due:
                    continue  # told between the check and the clearing
                frames = watched.after(cursor)
                if frames is None:
                    frames = await _older(hub, viewer, cursor, sink)
                if frames:
                    if not await sink.frames(frames):
                        return End(Why.ENOUGH)
                    cursor = frames[-1].seq
                elif not await changed.wait(min(settings.STREAM_HEARTBEAT_SECONDS, recheck_at - now)):
                    await sink.beat(watched.head)
    return End(Why.STOPPING if hub.draining.is_set() else Why.LIFETIME)


async def _older(hub: Hub, viewer: Viewer, cursor: int, sink: Sink) -> list[Frame]:
    """Return events from the log; where those after the cursor are gone, the client is told to begin anew first."""
    frames = await hub.read(viewer.thread_id, after=cursor)
    if frames and frames[0].seq != cursor + 1:
        await sink.reset(frames[-1].seq, "events_removed")
    return frames


async def _valid_cursor(hub: Hub, watched: WatchedThread, cursor: int, sink: Sink) -> int:
    """Return the cursor to go on from: 0 for one from another history, after the sink was told."""
    if cursor > watched.head:  # ahead of us only if another process told it more than ours has read yet
        await watched.catch_up(hub.database)
    if cursor <= watched.head:
        return cursor
    await sink.reset(watched.head, "cursor_ahead")
    return 0

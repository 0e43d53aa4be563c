"""Tells the open streams of one event loop that rights of their organization were taken, so that they ask again.

The word of this process comes when the transaction commits; that of others is read every two seconds, while any stream
is open. A watcher begins with the stamp that was known *before* its caller was checked: what is taken in between makes
another stamp, and is found.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from uuid import UUID

import structlog

from controlplane.access.revocations import on_rights_taken, rights_stamps
from controlplane.core.db import DatabaseThreads
from controlplane.investigations.waiting import Signal

log = structlog.get_logger(__name__)

POLL_SECONDS: Final = 2.0

#: Stamps by organization; ``None`` where nothing was ever taken. An organization that is missing is not known yet.
Stamps = Mapping[UUID, UUID | None]


class Watcher:
    """One stream's view: ``due`` once its caller has to be checked again; ``wake`` is set with it."""

    def __init__(self, organization_id: UUID, wake: Signal, known: Stamps) -> None:
        self.organization_id = organization_id
        self.due = False
        self._wake = wake
        self._known = known

    def checking(self, known: Stamps) -> None:
        """Note that the caller is about to be checked, with what is known at this moment."""
        self.due, self._known = False, known

    def compare(self, stamps: Stamps) -> None:
        """Become due if the organization's stamp is another one than was known."""
        organization = self.organization_id
        if organization not in self._known and stamps[organization] is None:
            self._known = stamps  # nothing was ever taken, so nothing was missed
        elif organization not in self._known or self._known[organization] != stamps[organization]:
            self.call()

    def call(self) -> None:
        self.due = True
        self._wake.set()


def _nothing() -> None:
    return None


class RightsWatch:
    """All watchers of one event loop."""

    def __init__(self, database: DatabaseThreads) -> None:
        self.known: Stamps = {}
        self._database = database
        self._watchers: set[Watcher] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._poller: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = _nothing

    def start(self) -> None:
        """Begin to listen; must be called on the loop that serves the streams."""
        self._loop = asyncio.get_running_loop()
        self._unsubscribe = on_rights_taken(self._from_any_thread)
        self._poller = asyncio.create_task(self._poll(), name="rights-poll")

    async def stop(self) -> None:
        """Stop listening."""
        self._unsubscribe()
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.gather(self._poller, return_exceptions=True)

    @contextlib.contextmanager
    def watch(self, organization_id: UUID, wake: Signal, known: Stamps) -> Iterator[Watcher]:
        """Yield a watcher. ``known`` is :attr:`known` as it was before the caller was checked."""
        watcher = Watcher(organization_id, wake, known)
        self._watchers.add(watcher)
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)

    def _from_any_thread(self, organization_id: UUID) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just been closed: its streams are gone too
                self._loop.call_soon_threadsafe(self._call, organization_id)

    def _call(self, organization_id: UUID) -> None:
        for watcher in self._watchers:
            if watcher.organization_id == organization_id:
                watcher.call()

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            wanted = {watcher.organization_id for watcher in self._watchers}
            if not wanted:
                self.known = {}  # what is not watched is not read, so nothing of it is known
                continue
            try:
                found = await self._database.call(rights_stamps, wanted)
            except Exception:  # each stream still looks again by itself once a minute
                log.exception("rights_watch.poll_failed")
                continue
            stamps = {organization_id: found.get(organization_id) for organization_id in wanted}
            self.known = stamps
            for watcher in self._watchers:
                if watcher.organization_id in stamps:
                    watcher.compare(stamps)

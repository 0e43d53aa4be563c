"""The relay: one thread with a loop of its own that ties this process to the bus.

It sends what was committed here, batched, off the path of every write, and tells the subscribers here what others sent.
A bus that is lost, restarted, full or mute costs time, never an event: while it is not known to carry, the hub polls
more often, and after every new connection everybody is told to read what may have been missed.
"""

import asyncio
import contextlib
import random
import secrets
import threading
from collections.abc import Callable
from typing import Final

import structlog
from typing_extensions import override

from controlplane.access import revocations
from controlplane.core import health
from controlplane.investigations import bus, metrics
from controlplane.investigations.buses.messages import PING_ITEM, Message, decode, encode
from controlplane.investigations.buses.outbox import Outbox
from controlplane.investigations.buses.transport import Link, Transport

log = structlog.get_logger(__name__)

#: Pause between two batches: what is committed meanwhile goes with the next, so the bus sees at most 200 a second.
PAUSE_SECONDS: Final = 0.005
#: Silence after which the process sends itself a word. Its return shows that the whole way works, which neither an open
#: connection nor a ``SELECT 1`` does: behind PgBouncer, for one, both do and notifications never arrive.
PING_SECONDS: Final = 5.0
#: How long a word to itself may take.
ECHO_SECONDS: Final = 10.0
BACK_OFF_SECONDS: Final = (0.1, 10.0)


class MuteBus(Exception):
    """The connection stands and what this process sends does not come back."""


class Relay(threading.Thread):
    """Carries ``bus.events``, ``bus.work`` and the taking of rights from and to other processes.

    Args:
        transport: the way.
        key: signs the messages, see :func:`controlplane.investigations.buses.messages.bus_key`.
    """

    def __init__(self, transport: Transport, key: bytes) -> None:
        super().__init__(name="bus", daemon=True)
        self._transport = transport
        self._key = key
        self._origin = secrets.token_hex(16)
        self._outbox = Outbox(self._wake)
        self._removers: tuple[Callable[[], None], ...] = ()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._something = asyncio.Event()
        self._ending = asyncio.Event()
        self._ended = False
        self._unheard_since: float | None = None
        self._attempts = 0
        #: Whether the bus is known to carry what this process sends.
        self.is_connected = False

    @override
    def start(self) -> None:
        self._removers = (
            bus.events.elsewhere.add(self._outbox.add_events),
            bus.work.elsewhere.add(self._outbox.add_work),
            revocations.taken.elsewhere.add(self._outbox.add_rights),
        )
        health.register_warning("bus", lambda: self.is_connected)
        super().start()

    def end(self) -> None:
        """Send what waits, let go of the bus and wait for the thread."""
        for remove in self._removers:
            remove()
        health.unregister("bus")
        self._ended = True
        self._call(self._ending.set)
        self.join(timeout=10)

    @override
    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not self._ended:
            failure = await self._until_it_breaks()
            was_connected = self.is_connected
            self._note(connected=False)
            if self._ended:
                break
            self._attempts = 1 if was_connected else self._attempts + 1
            metrics.bus_failures_total.inc()
            log.warning("bus.lost", error=type(failure).__name__, attempts=self._attempts)
            least, most = BACK_OFF_SECONDS
            wait_s = min(least * 2**self._attempts, most) * random.uniform(0.5, 1.0)  # noqa: S311 (jitter)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._ending.wait()
        self._loop = None

    async def _until_it_breaks(self) -> BaseException | None:
        """Serve one connection and return what ended it; ``None`` when this process ends."""
        try:
            async with self._transport.connect() as link:
                self._unheard_since = None
                # Subscribed: from here on everything arrives, so what came before is what may have been missed.
                bus.missed.tell()
                bus.work.hear()
                parts = {
                    asyncio.create_task(self._send_on(link)),
                    asyncio.create_task(self._receive_on(link)),
                    asyncio.create_task(self._ending.wait()),
                }
                try:
                    done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
                    if self._ending.is_set():
                        await self._send_batch(link)
                        return None
                    return next((part.exception() for part in done if part.exception()), None)
                finally:
                    for part in parts:
                        part.cancel()
                    await asyncio.gather(*parts, return_exceptions=True)
        except Exception as error:  # noqa: BLE001 (drivers raise what they like; any of it means: connect again)
            return error

    async def _send_on(self, link: Link) -> None:
        await self._send(link, [PING_ITEM])
        while True:
            self._something.clear()
            if not await self._send_batch(link):
                try:
                    async with asyncio.timeout(PING_SECONDS):
                        await self._something.wait()
                except TimeoutError:
                    await self._send(link, [PING_ITEM])
                continue
            await asyncio.sleep(PAUSE_SECONDS)

    async def _send_batch(self, link: Link) -> bool:
        items = self._outbox.take().items(self._transport.limit)
        if items:
            await self._send(link, items)
        return bool(items)

    async def _send(self, link: Link, items: list[bytes]) -> None:
        payloads = list(encode(items, origin=self._origin, key=self._key, limit=self._transport.limit))
        if self._unheard_since is None:
            self._unheard_since = asyncio.get_running_loop().time()
        await link.send(payloads)
        metrics.bus_messages_total.labels(direction="sent").inc(len(payloads))

    async def _receive_on(self, link: Link) -> None:
        loop = asyncio.get_running_loop()
        while True:
            for payload in await link.receive(1.0):
                self._hear(payload)
            if self._unheard_since is not None and loop.time() - self._unheard_since > ECHO_SECONDS:
                raise MuteBus
            # A link that always has something ready must not keep the sender waiting.
            await asyncio.sleep(0)

    def _hear(self, payload: bytes) -> None:
        try:
            message = decode(payload, key=self._key)
        except (ValueError, StopIteration):
            message = None
        if message is None:
            metrics.bus_messages_total.labels(direction="refused").inc()
        elif message.origin == self._origin:
            self._unheard_since = None
            self._note(connected=True)
        else:
            metrics.bus_messages_total.labels(direction="received").inc()
            _tell(message)

    def _note(self, *, connected: bool) -> None:
        if connected and not self.is_connected:
            log.info("bus.connected")
        self.is_connected = connected
        self._outbox.carrying = connected
        metrics.bus_connected.set(connected)

    def _wake(self) -> None:
        self._call(self._something.set)

    def _call(self, what: Callable[[], None]) -> None:
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just been closed
                loop.call_soon_threadsafe(what)


def _tell(message: Message) -> None:
    """Tell the subscribers of this process what another one sent."""
    first = 0
    for index, event in enumerate(message.events, start=1):
        if index == len(message.events) or message.events[index].thread_id != event.thread_id:
            bus.events.hear(message.events[first:index])
            first = index
    for thread_id, seq in message.heads:
        bus.heads.tell(thread_id, seq)
    for organization_id in message.rights:
        revocations.taken.hear(organization_id)
    if message.work:
        bus.work.hear()

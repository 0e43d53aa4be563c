"""What lives as long as a server process: the hub, the sweeper, and the embedded worker where it is enabled."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from types import FrameType
from typing import Any, Protocol

import structlog
from django.conf import settings

from controlplane.core import health
from controlplane.core.tasks import is_scaled
from controlplane.investigations import buses
from controlplane.investigations.hub import Hub
from controlplane.investigations.sweeper import Sweeper
from controlplane.investigations.worker import WorkerThread

log = structlog.get_logger(__name__)


class Closing(Protocol):
    """Something beside the hub that holds connections until the server stops."""

    async def close(self) -> None:
        """Let go of them."""


class EndingThread(Protocol):
    """A thread that ends when told to."""

    def end(self) -> None:
        """Tell it and wait for it."""


def start_task_worker() -> EndingThread | None:
    """Start the part that does stored tasks and periodic jobs, where the installation is scaled; beside each worker."""
    if not is_scaled():
        return None
    from controlplane.core.tasks.task_worker import TaskWorker  # needs PostgreSQL's driver and schema

    thread = TaskWorker()
    thread.start()
    return thread


class Lifespan:
    """The ASGI ``lifespan`` application (https://asgi.readthedocs.io/en/latest/specs/lifespan.html)."""

    def __init__(self, hub: Hub, *, also: Sequence[Closing] = ()) -> None:
        self._hub = hub
        self._also = also
        self._sweeper: Sweeper | None = None
        self._worker: WorkerThread | None = None
        self._leave_bus: Callable[[], None] | None = None
        self._tasks: EndingThread | None = None

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.start()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    def start(self) -> None:
        self._hub.start()
        self._leave_bus = buses.join()
        self._sweeper = Sweeper()
        self._sweeper.start()
        health.register("hub", lambda: self._hub.is_alive)
        if settings.EMBEDDED_WORKER:
            self._worker = worker = WorkerThread(concurrency=settings.WORKER_CONCURRENCY)
            worker.start()
            health.register("worker", lambda: worker.worker.is_alive)
            self._tasks = start_task_worker()
        _end_streams_on_signals(self._hub)

    async def stop(self) -> None:
        await self._hub.stop()
        if self._worker is not None:
            await asyncio.to_thread(self._worker.end)
        if self._tasks is not None:
            await asyncio.to_thread(self._tasks.end)
        if self._sweeper is not None:
            await asyncio.to_thread(self._sweeper.end)
        if self._leave_bus is not None:
            await asyncio.to_thread(self._leave_bus)
        for closing in self._also:
            await closing.close()
        # Only now: until it has stopped, a part that is stopping takes this process out of service.
        health.unregister("worker")
        health.unregister("hub")


def _end_streams_on_signals(hub: Hub) -> None:
    """End open streams as soon as the server is told to stop.

    Servers announce a shutdown to the lifespan only after the connections have closed, and an event stream does not
    close by itself: without this a stop would take the whole grace period.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        previous = signal.getsignal(number)

        def handle(received: int, frame: FrameType | None, then: Any = previous) -> None:
            loop.call_soon_threadsafe(hub.drain)
            if callable(then):
                then(received, frame)

        signal.signal(number, handle)

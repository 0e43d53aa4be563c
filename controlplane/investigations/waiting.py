"""Waiting on an event loop, thousands at a time: a signal for one task, and time limits that cost next to nothing.

``asyncio.timeout`` makes and cancels a timer at every use. A stream waits and writes many times a second and is hardly
ever too late, so here a timer stays where it is and looks, when it fires, whether its time was moved.
"""

import asyncio
import math
from collections.abc import Callable


class Alarm:
    """Calls ``ring`` once the time set last has come.

    Args:
        loop: the loop on which it is used.
        ring: called on the loop; must not raise.
    """

    __slots__ = ("_at", "_handle", "_loop", "_ring")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], object]) -> None:
        self._loop = loop
        self._ring = ring
        self._at = math.inf
        self._handle: asyncio.TimerHandle | None = None

    def set(self, at: float) -> None:
        """Ring at ``at``, in the loop's time; an earlier or later time set before no longer counts."""
        self._at = at
        if self._handle is None:
            self._handle = self._loop.call_at(at, self._look)
        elif at < self._handle.when():
            self._handle.cancel()
            self._handle = self._loop.call_at(at, self._look)

    def unset(self) -> None:
        """Do not ring."""
        self._at = math.inf

    def close(self) -> None:
        """Let go of the timer."""
        self._at = math.inf
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _look(self) -> None:
        self._handle = None
        if self._loop.time() >= self._at:
            self._at = math.inf
            self._ring()
        elif self._at < math.inf:
            self._handle = self._loop.call_at(self._at, self._look)


class Signal:
    """An ``asyncio.Event`` for one waiting task, with a time limit. Made and used on one loop."""

    __slots__ = ("_alarm", "_future", "_is_set", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm(self._loop, self._wake)
        self._future: asyncio.Future[None] | None = None
        self._is_set = False

    def set(self) -> None:
        """Wake the waiting task, or have the next wait return at once."""
        self._is_set = True
        self._wake()

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    async def wait(self, timeout_s: float) -> bool:
        """Wait until set; return whether it is, after ``timeout_s`` seconds at the latest."""
        if self._is_set:
            return True
        self._future = self._loop.create_future()
        self._alarm.set(self._loop.time() + timeout_s)
        try:
            await self._future
        finally:
            self._future = None
            self._alarm.unset()
        return self._is_set

    def close(self) -> None:
        """Let go of the timer."""
        self._alarm.close()

    def _wake(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

"""What a bus between processes has to be able to do."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Link(Protocol):
    """A connection that is subscribed. Every method raises what its driver raises when the connection is lost."""

    async def send(self, payloads: Sequence[bytes]) -> None:
        """Publish payloads, in order, to every process, this one included."""

    async def receive(self, timeout_s: float) -> Sequence[bytes]:
        """Return what has arrived, in order; wait for it up to ``timeout_s`` seconds, then return nothing."""


class Transport(Protocol):
    """A way between processes. Delivery is at most once: nobody relies on it."""

    @property
    def limit(self) -> int:
        """The largest payload, in bytes."""

    def connect(self) -> AbstractAsyncContextManager[Link]:
        """Return what opens a link: once entered, everything that is published from then on arrives."""

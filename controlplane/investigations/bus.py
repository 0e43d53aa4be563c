"""The in-process bus: what was committed here is told to the hub and the worker of this process.

It only wakes: a lost or late message costs a moment, never an event, because everybody reads the log.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Final, Generic, ParamSpec

import structlog

from controlplane.investigations.envelope import LoggedEvent

log = structlog.get_logger(__name__)

P = ParamSpec("P")


class Subscribers(Generic[P]):
    """Callables to tell; one that fails is logged and disturbs neither the caller nor the others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: tuple[Callable[P, None], ...] = ()

    def add(self, call: Callable[P, None]) -> Callable[[], None]:
        """Add ``call`` and return what removes it again."""
        with self._lock:
            self._calls = (*self._calls, call)

        def remove() -> None:
            with self._lock:
                self._calls = tuple(item for item in self._calls if item is not call)

        return remove

    def tell(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call everybody, on this thread."""
        for call in self._calls:
            try:
                call(*args, **kwargs)
            except Exception:
                log.exception("bus.subscriber_failed")


#: Told each batch of events this process commits, on the committing thread.
events: Final[Subscribers[[Sequence[LoggedEvent]]]] = Subscribers()
#: Told when there may be a run to claim or one to look after; workers elsewhere poll each second.
work: Final[Subscribers[[]]] = Subscribers()

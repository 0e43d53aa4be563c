"""The in-process bus: what was committed here is told to the hub and the worker of this process.

It only wakes: a lost or late message costs a moment, never an event, because everybody reads the log.
"""

import threading
from collections.abc import Callable, Sequence

import structlog

from controlplane.investigations.envelope import LoggedEvent

log = structlog.get_logger(__name__)

Listener = Callable[[Sequence[LoggedEvent]], None]
Waker = Callable[[], None]

_lock = threading.Lock()
_listeners: tuple[Listener, ...] = ()
_wakers: tuple[Waker, ...] = ()


def subscribe(listener: Listener) -> Callable[[], None]:
    """Call ``listener`` with each batch this process commits, on the committing thread; return the unsubscribe call."""
    global _listeners  # noqa: PLW0603 (one bus per process)
    with _lock:
        _listeners = (*_listeners, listener)

    def unsubscribe() -> None:
        global _listeners  # noqa: PLW0603
        with _lock:
            _listeners = tuple(item for item in _listeners if item is not listener)

    return unsubscribe


def publish(events: Sequence[LoggedEvent]) -> None:
    """Tell every listener; one that fails is logged and does not disturb the writer or the others."""
    for listener in _listeners:
        try:
            listener(events)
        except Exception:
            log.exception("bus.listener_failed")


def on_work(waker: Waker) -> Callable[[], None]:
    """Call ``waker`` when there may be a run to claim or one to look after; return the unsubscribe call."""
    global _wakers  # noqa: PLW0603
    with _lock:
        _wakers = (*_wakers, waker)

    def unsubscribe() -> None:
        global _wakers  # noqa: PLW0603
        with _lock:
            _wakers = tuple(item for item in _wakers if item is not waker)

    return unsubscribe


def wake_workers() -> None:
    """Wake the workers of this process; those elsewhere poll each second."""
    for waker in _wakers:
        waker()

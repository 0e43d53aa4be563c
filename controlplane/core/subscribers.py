"""Telling others inside one process what has happened, without knowing them."""

import threading
from collections.abc import Callable
from typing import Generic, ParamSpec

import structlog
from typing_extensions import override

log = structlog.get_logger(__name__)

P = ParamSpec("P")


class Subscribers(Generic[P]):
    """Callables to tell; one that fails is logged and disturbs neither the caller nor the others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: tuple[Callable[P, None], ...] = ()

    def add(self, call: Callable[P, None]) -> Callable[[], None]:
        """Add ``call``, which must not block, and return what removes it again."""
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


class Topic(Subscribers[P]):
    """Something that processes tell each other too.

    Subscribers hear what happens here (``tell``) and elsewhere (``hear``); ``elsewhere`` are those that carry to other
    processes what was told here, and they never hear it back.
    """

    def __init__(self) -> None:
        super().__init__()
        self.elsewhere: Subscribers[P] = Subscribers()

    @override
    def tell(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call everybody here, and have it told to the other processes."""
        super().tell(*args, **kwargs)
        self.elsewhere.tell(*args, **kwargs)

    def hear(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call everybody here: this was told by another process."""
        super().tell(*args, **kwargs)

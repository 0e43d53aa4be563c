"""A small pool of daemon threads that runs jobs by priority.

Not ``ThreadPoolExecutor``: the interpreter joins its threads at exit without a limit, so one hung task would keep a
stopped server alive; and it knows no priorities.
"""

import itertools
import queue
import threading
from collections.abc import Callable

Job = Callable[[], None]


class DaemonPool:
    """Runs jobs in at most ``size`` threads, started when first needed, higher ``priority`` first, else in order."""

    def __init__(self, size: int, *, name: str) -> None:
        self._size = size
        self._name = name
        self._queue: queue.PriorityQueue[tuple[int, int, Job]] = queue.PriorityQueue()
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._unfinished = 0
        self._threads: list[threading.Thread] = []

    @property
    def unfinished(self) -> int:
        """How many jobs are waiting or running."""
        return self._unfinished

    def submit(self, job: Job, *, priority: int = 0) -> None:
        """Queue ``job``. It must not raise: there is nobody to tell."""
        with self._changed:
            self._unfinished += 1
            if len(self._threads) < min(self._size, self._unfinished):
                self._start_thread()
        self._queue.put((-priority, next(self._order), job))

    def drain(self, timeout_s: float) -> bool:
        """Wait until no job is waiting or running, at most ``timeout_s`` seconds; return whether that came true."""
        with self._changed:
            return self._changed.wait_for(lambda: self._unfinished == 0, timeout_s)

    def _start_thread(self) -> None:
        name = f"{self._name}-{len(self._threads) + 1}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while True:
            _, _, job = self._queue.get()
            try:
                job()
            finally:
                with self._changed:
                    self._unfinished -= 1
                    self._changed.notify_all()

"""Database access from threads that no request owns (hub, worker, sweeper)."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import InterfaceError, OperationalError, connection, connections

from controlplane.settings.database import SQLITE_BUSY_SECONDS

P = ParamSpec("P")
T = TypeVar("T")


def run_job(job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``job`` on this thread's own connection, and do with the connection what the end of a request would do.

    A pooled one goes back to the pool; one that broke is dropped, so that the next job gets a new one; any other stays.
    """
    try:
        return job(*args, **kwargs)
    except (OperationalError, InterfaceError):
        connections.close_all()
        raise
    finally:
        # Asking a connection that was never opened for its pool would open one: look at the settings instead.
        if connection.settings_dict["OPTIONS"].get("pool"):
            connection.close()


@contextlib.contextmanager
def impatient(milliseconds: int = 50) -> Iterator[None]:
    """Let statements inside wait at most about ``milliseconds`` for SQLite's write lock, for what is not worth a wait.

    On PostgreSQL only writers of the same row wait for each other, so there nothing changes.
    """
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    connection.connection.execute(f"PRAGMA busy_timeout = {milliseconds:d}")
    try:
        yield
    finally:
        if connection.connection is not None:
            connection.connection.execute(f"PRAGMA busy_timeout = {SQLITE_BUSY_SECONDS * 1000:d}")


class DatabaseThreads:
    """A small pool of threads, each with one connection, for database work of an event loop.

    ``call`` awaits a job; the loop is never blocked by a query, and the number of connections is the number of threads.
    """

    def __init__(self, *, threads: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._threads = threads

    async def call(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``job`` in one of the threads and return what it returns."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: run_job(job, *args, **kwargs))

    def close(self) -> None:
        """Wait for running jobs, close every thread's connection, end the threads."""
        everybody = threading.Barrier(self._threads)
        for _ in range(self._threads):
            self._pool.submit(_close_own_connection, everybody)
        self._pool.shutdown(wait=True)


def _close_own_connection(everybody: threading.Barrier) -> None:
    """Close this thread's connection, and take no second job before each thread has closed its own."""
    connections.close_all()
    with contextlib.suppress(threading.BrokenBarrierError):
        everybody.wait(timeout=10)

"""Several threads at once, each with a database connection of its own."""

from collections.abc import Callable
from threading import Barrier, Thread
from typing import TypeVar

from django.db import connection

T = TypeVar("T")


def at_once(*jobs: Callable[[], T]) -> list[T | Exception]:
    """Start every job at the same moment and return, in order, what each returned or raised."""
    barrier = Barrier(len(jobs))
    outcomes: list[T | Exception | None] = [None] * len(jobs)

    def run(position: int, job: Callable[[], T]) -> None:
        try:
            barrier.wait(10)
            outcomes[position] = job()
        except Exception as error:  # noqa: BLE001 (handed to the test)
            outcomes[position] = error
        finally:
            connection.close()

    threads = [Thread(target=run, args=pair) for pair in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return [outcome for outcome in outcomes if outcome is not None]

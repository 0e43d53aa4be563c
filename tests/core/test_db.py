"""Database work in threads that no request owns."""

import asyncio
import threading

import pytest
from django.db import OperationalError, connection, connections

from controlplane.core.db import DatabaseThreads, impatient, run_job

pytestmark = pytest.mark.django_db(transaction=True)


def select(value: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s + 0", [value])
        return int(cursor.fetchone()[0])


async def test_call__many_jobs_at_once__answer_each_in_one_of_the_threads() -> None:
    threads = DatabaseThreads(threads=2, name="db-test")
    names: set[str] = set()

    def job(value: int) -> int:
        names.add(threading.current_thread().name)
        return select(value)

    try:
        assert await asyncio.gather(*(threads.call(job, value) for value in range(20))) == list(range(20))
    finally:
        await asyncio.to_thread(threads.close)
    assert len(names) <= 2
    assert all(name.startswith("db-test") for name in names)


async def test_call__job_that_raises__raises_here_and_leaves_the_thread_working() -> None:
    threads = DatabaseThreads(threads=1, name="db-test")

    def broken() -> None:
        raise OperationalError("server closed the connection unexpectedly")

    try:
        with pytest.raises(OperationalError):
            await threads.call(broken)
        assert await threads.call(select, 7) == 7
    finally:
        await asyncio.to_thread(threads.close)


def test_run_job__broken_connection__is_dropped_so_that_the_next_job_gets_a_new_one() -> None:
    outcome: dict[str, object] = {}

    def work() -> None:
        def broken() -> None:
            select(1)
            raise OperationalError("server closed the connection unexpectedly")

        with pytest.raises(OperationalError):
            run_job(broken)
        outcome["dropped"] = connections["default"].connection is None
        outcome["next"] = run_job(select, 2)
        connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert outcome == {"dropped": True, "next": 2}


@pytest.mark.skipif(connection.vendor != "sqlite", reason="on PostgreSQL writers of different rows do not wait")
def test_impatient__write_lock_taken__gives_up_soon_and_waits_again_afterwards() -> None:
    def patience() -> int:
        with connection.cursor() as cursor:
            return int(cursor.execute("PRAGMA busy_timeout").fetchone()[0])

    usual = patience()
    with impatient(50):
        assert patience() == 50

    assert patience() == usual == 15_000

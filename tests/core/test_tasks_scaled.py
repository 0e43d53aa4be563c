"""Tasks and periodic jobs as rows of PostgreSQL: with their transaction, by priority, once, and again after a crash."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse
from django_tasks import TaskContext, task
from django_tasks import task_backends as task_backends_of_thread

from controlplane.core import clock, periodic
from controlplane.core.tasks import ProcrastinateBackend, retried
from controlplane.core.tasks.retries import Retries, retries_of
from controlplane.settings.background import background_apps, task_backends
from tests.factories import make_operator
from tests.support.processes import ROOT, environment
from tests.support.runs import wait_until

POSTGRES = {"ENGINE": "django.db.backends.postgresql"}
SQLITE = {"ENGINE": "django.db.backends.sqlite3"}
on_postgres = pytest.mark.skipif(
    'not __import__("os").environ.get("TEST_DATABASE_URL")', reason="stored tasks need PostgreSQL"
)

ran: list[Any] = []


@task
def note(value: Any) -> None:
    ran.append(value)


@task(takes_context=True)
def note_attempt(context: TaskContext) -> None:
    ran.append(context.attempt)


@task
async def note_async(value: Any) -> None:
    ran.append(value)


@task
def fail() -> None:
    ran.append("tried")
    raise ValueError("what went wrong")


@task
@retried(attempts=3, wait_s=0.001)
def fail_twice() -> None:
    ran.append("tried")
    if len(ran) < 3:
        raise ValueError("not yet")


@pytest.fixture
def stored(transactional_db: None) -> Iterator[ProcrastinateBackend]:
    """The backend under which tasks are made, with no job stored before and after."""
    ran.clear()
    _empty()
    backend = ProcrastinateBackend("default", {"QUEUES": []})
    usual = task_backends_of_thread["default"]
    task_backends_of_thread["default"] = backend
    yield backend
    task_backends_of_thread["default"] = usual
    _empty()


def _empty() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "TRUNCATE procrastinate_jobs, procrastinate_events, procrastinate_periodic_defers, procrastinate_workers"
        )


def rows(sql: str = "SELECT status FROM procrastinate_jobs ORDER BY id") -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return [row[0] if len(row) == 1 else row for row in cursor.fetchall()]


def work_off(**options: Any) -> None:
    """Have a worker do what is stored and due, and end."""
    from procrastinate.worker import Worker

    from controlplane.core.tasks.task_worker import worker_app

    async def work() -> None:
        app = worker_app(pool_size=4)
        app.periodic_registry.periodic_tasks.clear()
        async with app.open_async():
            worker = Worker(app, wait=False, install_signal_handlers=False, delete_jobs="successful", **options)
            await worker.run()  # type: ignore[no-untyped-call]

    asyncio.run(work())


@on_postgres
class TestStored:
    def test_enqueue__transaction_rolls_back__stores_nothing(self, stored: ProcrastinateBackend) -> None:
        with transaction.atomic():
            stored.enqueue(note, [1], {})
            transaction.set_rollback(True)

        assert rows() == []

    def test_enqueue__transaction_commits__runs_and_leaves_no_row(self, stored: ProcrastinateBackend) -> None:
        with transaction.atomic():
            result = stored.enqueue(note, [{"a": [1]}], {})
            assert result.id.isdigit()
        assert rows() == ["todo"]

        work_off()

        assert ran == [{"a": [1]}]
        assert rows() == []

    def test_worker__several_tasks__higher_priority_first(self, stored: ProcrastinateBackend) -> None:
        stored.enqueue(note.using(priority=-5), ["low"], {})
        stored.enqueue(note, ["plain"], {})
        stored.enqueue(note.using(priority=10), ["urgent"], {})

        work_off()

        assert ran == ["urgent", "plain", "low"]

    def test_worker__async_task_and_context__are_served(self, stored: ProcrastinateBackend) -> None:
        stored.enqueue(note_async, ["async"], {})
        stored.enqueue(note_attempt, [], {})

        work_off()

        assert ran == ["async", 1]

    def test_worker__task_for_later__waits(self, stored: ProcrastinateBackend) -> None:
        stored.enqueue(note.using(run_after=clock.now() + timedelta(hours=1)), [1], {})

        work_off()

        assert ran == []
        assert rows() == ["todo"]

    def test_worker__task_fails__is_tried_once_and_kept_as_failed(self, stored: ProcrastinateBackend) -> None:
        stored.enqueue(fail, [], {})
        stored.enqueue(note, ["after"], {})

        work_off()

        assert ran == ["tried", "after"]
        assert rows() == ["failed"]

    def test_worker__task_says_that_it_may_be_tried_again__is(self, stored: ProcrastinateBackend) -> None:
        stored.enqueue(fail_twice, [], {})

        for _ in range(3):
            work_off()
            time.sleep(0.01)

        assert ran == ["tried"] * 3
        assert rows() == []

    def test_worker__function_is_gone__the_row_fails_and_the_next_runs(self, stored: ProcrastinateBackend) -> None:
        stored.enqueue(note, [1], {})
        with connection.cursor() as cursor:
            cursor.execute("""UPDATE procrastinate_jobs SET args = jsonb_set(args, '{path}', '"nowhere.at_all"')""")
        stored.enqueue(note, [2], {})

        work_off()

        assert ran == [2]
        assert rows() == ["failed"]

    def test_stalled_retry__worker_died__runs_again_and_is_given_up_the_third_time(
        self, stored: ProcrastinateBackend
    ) -> None:
        from controlplane.core.tasks.task_worker import stalled_retry, worker_app

        async def sweep() -> int:
            app = worker_app(pool_size=2)
            async with app.open_async():
                return await stalled_retry(app)

        stored.enqueue(note, [1], {})
        found = []
        for _ in range(3):
            with connection.cursor() as cursor:  # as a killed worker leaves it
                cursor.execute("UPDATE procrastinate_jobs SET status = 'doing', worker_id = NULL")
            found.append((asyncio.run(sweep()), rows()))

        assert found == [(1, ["todo"]), (1, ["todo"]), (1, ["failed"])]
        assert ran == []

    def test_task_worker__its_heartbeat_fails__begins_again_and_goes_on(
        self, stored: ProcrastinateBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from procrastinate.worker import Worker

        from controlplane.core.tasks import task_worker

        made: list[Any] = []

        def make(app: Any, **options: Any) -> Any:
            worker = Worker(app, **options)
            if not made:
                worker.update_heartbeat_interval = 0.01
                app.job_manager.update_heartbeat = _refuse
            made.append(worker)
            return worker

        monkeypatch.setattr(task_worker, "Worker", make)
        worker = task_worker.TaskWorker()
        worker.start()
        try:
            wait_until(lambda: len(made) == 2, what="the worker to begin again")
            stored.enqueue(note, ["after"], {})
            wait_until(lambda: ran == ["after"], what="the task")
        finally:
            worker.end()
        assert worker.restarts == 1
        assert not worker.is_alive()

    def test_periodic__two_processes_at_the_same_time__each_occurrence_once(self, stored: ProcrastinateBackend) -> None:
        deferring = [
            subprocess.Popen([sys.executable, "-c", DEFER], cwd=ROOT, env=environment(), stdin=subprocess.PIPE)
            for _ in range(2)
        ]
        for process in deferring:
            process.communicate(timeout=60)
        assert [process.returncode for process in deferring] == [0, 0]

        names = rows("SELECT task_name FROM procrastinate_jobs")
        assert len(names) == len(set(names))
        assert {f"opensre.periodic.{job.name}" for job in periodic.shared_jobs()} < set(names)

    def test_periodic__occurrence_was_done_already__a_later_process_does_not_do_it_again(
        self, stored: ProcrastinateBackend
    ) -> None:
        for _ in range(2):
            subprocess.run([sys.executable, "-c", DEFER], cwd=ROOT, env=environment(), check=True, timeout=60)
            done = rows("SELECT task_name FROM procrastinate_jobs")
            with connection.cursor() as cursor:
                cursor.execute("DELETE FROM procrastinate_jobs")

        assert done == []


@on_postgres
def test_admin__stored_tasks__are_listed_without_their_arguments(stored: ProcrastinateBackend) -> None:
    stored.enqueue(note, ["not-for-the-page"], {})
    client = Client()
    client.force_login(make_operator())

    page = client.get(reverse("admin:procrastinate_procrastinatejob_changelist")).content.decode()
    (job_id,) = rows("SELECT id FROM procrastinate_jobs")
    assert "tests.core.test_tasks_scaled.note" in page
    assert "not-for-the-page" not in page
    assert client.get(reverse("admin:procrastinate_procrastinatejob_change", args=[job_id])).status_code == 404


#: Defers every periodic job at one fixed moment, as each worker does when that moment has come.
DEFER = """
import asyncio, django
django.setup()
from procrastinate.periodic import PeriodicDeferrer
from controlplane.core.tasks.task_worker import worker_app

async def defer():
    app = worker_app(pool_size=2)
    async with app.open_async():
        deferrer = PeriodicDeferrer(app.periodic_registry, max_delay=10**6)
        await deferrer.defer_jobs(list(deferrer.get_previous_tasks(at=1_893_456_000.0)))

asyncio.run(defer())
"""


async def _refuse(*_: Any) -> None:
    raise ConnectionError


def test_retries_of__plain_function__never() -> None:
    assert retries_of(fail.func) == Retries(attempts=1, wait_s=0)
    assert [retries_of(fail_twice.func).pause_after(tried) for tried in (1, 2, 3)] == [0.001, 0.002, None]


@pytest.mark.parametrize(
    ("choice", "database", "backend"),
    [
        ("auto", SQLITE, "InProcessBackend"),
        ("auto", POSTGRES, "ProcrastinateBackend"),
        ("in_process", POSTGRES, "InProcessBackend"),
        ("procrastinate", POSTGRES, "ProcrastinateBackend"),
    ],
)
def test_task_backends__choice_and_database__decide(choice: str, database: dict[str, str], backend: str) -> None:
    assert task_backends(choice, database)["default"]["BACKEND"].endswith(f".{backend}")


def test_task_backends__procrastinate_on_sqlite__is_refused_naming_the_variable() -> None:
    with pytest.raises(ImproperlyConfigured, match="TASKS=procrastinate needs PostgreSQL"):
        task_backends("procrastinate", SQLITE)


def test_background_apps__only_postgres__has_the_schema() -> None:
    assert background_apps(SQLITE) == []
    assert background_apps(POSTGRES) == ["procrastinate.contrib.django"]


@pytest.mark.parametrize(
    ("every_s", "line"),
    [
        (1, "* * * * * */1"),
        (20, "* * * * * */20"),
        (60, "*/1 * * * * SECOND"),
        (600, "*/10 * * * * SECOND"),
        (3600, "MINUTE */1 * * * SECOND"),
        (6 * 3600, "MINUTE */6 * * * SECOND"),
        (86_400, "MINUTE 0 * * * SECOND"),
    ],
)
def test_cron_of__period__has_a_line_with_a_minute_and_second_of_its_own(every_s: float, line: str) -> None:
    assert periodic.cron_of("audit.chains", every_s) == line.replace("MINUTE", "17").replace("SECOND", "38")


@pytest.mark.parametrize("every_s", [0, 0.5, 7, 90, 7 * 3600, 2 * 86_400])
def test_cron_of__period_that_divides_no_day__is_refused(every_s: float) -> None:
    with pytest.raises(ValueError, match=r"a\.b"):
        periodic.register_periodic("a.b", lambda: None, every_s=every_s)


def test_run_due__own_only__leaves_shared_jobs_to_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic, "_jobs", {})
    periodic.register_periodic("mine", lambda: None, every_s=10, own=True)
    periodic.register_periodic("shared", lambda: None, every_s=10)
    later = time.monotonic() + 10_000

    assert periodic.run_due(later, own_only=True) == ["mine"]
    assert periodic.run_due(later) == ["shared"]
    assert [job.name for job in periodic.shared_jobs()] == ["shared"]

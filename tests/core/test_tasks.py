import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import structlog
from asgiref.sync import sync_to_async
from django.db import connection, connections, transaction
from django_tasks import TaskContext, TaskResult, TaskResultStatus, task
from django_tasks.exceptions import InvalidTaskError
from structlog.testing import capture_logs

from controlplane.core import metrics, tasks
from controlplane.core.tasks import in_process
from controlplane.core.tasks.pool import DaemonPool

WAIT_S = 10.0

ran: list[Any] = []
gate = threading.Event()


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    ran.clear()
    gate.clear()
    yield
    gate.set()
    assert tasks.drain(WAIT_S)


@task
def note(value: Any) -> Any:
    ran.append(value)
    return value


@task(priority=10)
def urgent(value: Any) -> None:
    ran.append(value)


@task
async def note_async(value: Any) -> None:
    ran.append(value)


@task(takes_context=True)
def note_attempt(context: TaskContext) -> None:
    ran.append((context.attempt, context.task_result.status))


@task
def block() -> None:
    gate.wait(WAIT_S)


@task
def fail() -> None:
    raise ValueError("what went wrong")


@task
def leave() -> None:
    raise SystemExit(1)


@task
def query() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    ran.append(connections["default"])


@task
def note_log_context() -> None:
    ran.append(structlog.contextvars.get_contextvars())


def finished(result: TaskResult[Any]) -> TaskResult[Any]:
    assert tasks.drain(WAIT_S)
    return result


@pytest.mark.django_db(transaction=True)
class TestEnqueue:
    def test_enqueue__outside_a_transaction__runs_in_another_thread_and_reports(self) -> None:
        result = finished(note.enqueue({"a": [1]}))
        assert ran == [{"a": [1]}]
        assert result.status == TaskResultStatus.SUCCESSFUL
        assert result.return_value == {"a": [1]}
        times = [result.enqueued_at, result.started_at, result.finished_at]
        assert times == sorted(time for time in times if time is not None)

    def test_enqueue__inside_a_transaction__waits_for_the_commit(self) -> None:
        with transaction.atomic():
            result = note.enqueue(1)
            assert tasks.drain(WAIT_S)
            assert (ran, result.status) == ([], TaskResultStatus.READY)
        finished(result)
        assert ran == [1]

    def test_enqueue__transaction_rolled_back__never_runs(self) -> None:
        with transaction.atomic():
            note.enqueue(1)
            transaction.set_rollback(True)
        finished(note.enqueue(2))
        assert ran == [2]

    async def test_aenqueue__from_an_event_loop__runs_too(self) -> None:
        finished(await note.aenqueue(1))
        await sync_to_async(connections.close_all)()  # asgiref's thread is no request's: nobody else closes its own
        assert ran == [1]

    def test_enqueue__coroutine__is_run_to_its_end(self) -> None:
        assert finished(note_async.enqueue(1)).status == TaskResultStatus.SUCCESSFUL
        assert ran == [1]

    def test_enqueue__task_with_context__gets_its_first_attempt(self) -> None:
        finished(note_attempt.enqueue())
        assert ran == [(1, TaskResultStatus.RUNNING)]

    @pytest.mark.parametrize(("failing", "error"), [(fail, "ValueError"), (leave, "SystemExit")])
    def test_enqueue__task_that_raises__is_logged_and_does_not_stop_the_others(self, failing: Any, error: str) -> None:
        with capture_logs() as lines:
            results = [failing.enqueue() for _ in range(4)]
            finished(note.enqueue("after"))
        assert ran == ["after"]
        assert {result.status for result in results} == {TaskResultStatus.FAILED}
        assert results[0].errors[0].exception_class_path == f"builtins.{error}"
        assert len([line for line in lines if line["event"] == "tasks.failed" and line["log_level"] == "error"]) == 4

    def test_enqueue__task_that_queries__leaves_no_connection_behind(self) -> None:
        finished(query.enqueue())
        assert ran[0].connection is None

    def test_enqueue__in_a_request__carries_the_request_id_and_no_other_context(self) -> None:
        with structlog.contextvars.bound_contextvars(request_id="r-1", actor="a-1"):
            result = note_log_context.enqueue()
        finished(result)
        assert ran == [{"request_id": "r-1", "task": "tests.core.test_tasks.note_log_context", "task_id": result.id}]

    def test_enqueue__task_with_priority__passes_it_to_the_pool(self, monkeypatch: pytest.MonkeyPatch) -> None:
        priorities = []
        monkeypatch.setattr(in_process._pool, "submit", lambda _job, *, priority: priorities.append(priority))
        urgent.enqueue(1)
        note.enqueue(2)
        note.using(priority=-5).enqueue(3)
        assert priorities == [10, 0, -5]

    def test_enqueue__tasks_not_finished__are_counted(self) -> None:
        for _ in range(3):
            block.enqueue()
        assert metrics.registry.get_sample_value("opensre_tasks_pending_count") == 3
        gate.set()
        assert tasks.drain(WAIT_S)
        assert metrics.registry.get_sample_value("opensre_tasks_pending_count") == 0

    def test_drain__task_still_running__says_so_after_the_time(self) -> None:
        block.enqueue()
        assert tasks.drain(0.01) is False
        gate.set()
        assert tasks.drain(WAIT_S) is True

    def test_enqueue__many_callers__share_the_threads_of_one_pool(self) -> None:
        backends = []

        def enqueue_elsewhere() -> None:
            backends.append(note.get_backend())
            note.enqueue(1)
            connections.close_all()

        callers = [threading.Thread(target=enqueue_elsewhere) for _ in range(6)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert tasks.drain(WAIT_S)
        assert ran == [1] * 6
        assert len(set(map(id, backends))) == 6, "Django makes a backend per thread"
        names = {thread.name for thread in threading.enumerate() if thread.name.startswith("opensre-task")}
        assert names <= {f"opensre-task-{number}" for number in range(1, in_process.THREADS + 1)}


def test_enqueue__argument_that_is_no_json__is_refused_at_once() -> None:
    with pytest.raises(TypeError):
        note.enqueue(object())


def test_task__local_function__is_refused() -> None:
    def local() -> None: ...

    with pytest.raises(InvalidTaskError):
        task(local)


def test_backend__flags__say_what_it_does() -> None:
    backend = note.get_backend()
    assert isinstance(backend, tasks.InProcessBackend)
    assert (backend.supports_priority, backend.supports_async_task) == (True, True)
    assert (backend.supports_defer, backend.supports_get_result) == (False, False)


def test_pool__idle__has_started_no_thread() -> None:
    pool = DaemonPool(2, name="idle-pool")
    assert pool.drain(0)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("idle-pool")]


def test_pool__jobs_waiting__run_by_priority_then_in_order() -> None:
    pool = DaemonPool(1, name="one-thread")
    order: list[str] = []
    release = threading.Event()
    pool.submit(lambda: order.append("busy") if release.wait(WAIT_S) else None)
    for name, priority in (("first", 0), ("second", 0), ("urgent", 10), ("later", -10)):
        pool.submit(partial(order.append, name), priority=priority)
    release.set()
    assert pool.drain(WAIT_S)
    assert [name for name in order if name != "busy"] == ["urgent", "first", "second", "later"]


def test_pool__its_threads__do_not_keep_the_process_alive() -> None:
    pool = DaemonPool(1, name="daemon-pool")
    pool.submit(lambda: None)
    assert pool.drain(WAIT_S)
    assert [thread.daemon for thread in threading.enumerate() if thread.name.startswith("daemon-pool")] == [True]

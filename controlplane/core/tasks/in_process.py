"""The backend of an embedded installation: tasks run in threads of the process that enqueues them."""

import atexit
import time
from functools import partial
from typing import Any

import structlog
from django.db import connections, transaction
from django.utils import timezone
from django_tasks import TaskContext, TaskResult, TaskResultStatus
from django_tasks.backends.base import BaseTaskBackend
from django_tasks.base import Task, TaskError
from django_tasks.signals import task_enqueued, task_finished, task_started
from django_tasks.utils import get_exception_traceback, get_module_path, get_random_id, normalize_json
from typing_extensions import override

from controlplane.core import metrics
from controlplane.core.tasks.pool import DaemonPool

log = structlog.get_logger(__name__)

THREADS = 2
EXIT_TIMEOUT_S = 5.0

#: One pool of the process: Django makes a backend object per thread, each of which must not bring threads of its own.
_pool = DaemonPool(THREADS, name="opensre-task")
metrics.tasks_pending_count.set_function(lambda: _pool.unfinished)
atexit.register(_pool.drain, EXIT_TIMEOUT_S)


def drain(timeout_s: float) -> bool:
    """Wait until every task that was started is finished, at most ``timeout_s`` seconds; return whether that came true.

    Tasks enqueued inside a transaction that is still open are not waited for: they have not started.
    """
    return _pool.drain(timeout_s)


class InProcessBackend(BaseTaskBackend):
    """Runs a task in one of two threads, after the transaction in which it was enqueued has committed.

    A rolled-back transaction runs nothing. An error is logged, never raised into the caller. The
    :class:`~django_tasks.TaskResult` that ``enqueue`` returns is kept up to date for as long as the caller holds it; no
    result is stored, and what is queued is lost with the process.
    """

    supports_defer = False
    supports_async_task = True
    supports_get_result = False
    supports_priority = True

    @override
    def enqueue(self, task: Task[Any, Any], args: Any, kwargs: Any) -> TaskResult[Any]:
        """Queue ``task`` and return its result object, ``READY`` until a thread takes it.

        Args:
            task: a module-level function decorated with ``@task``.
            args: positional arguments, JSON values.
            kwargs: named arguments, JSON values.

        Raises:
            django_tasks.exceptions.InvalidTaskError: if the task asks for something this backend does not do.
            TypeError: if an argument is not a JSON value.
        """
        self.validate_task(task)
        result: TaskResult[Any] = TaskResult(
            task=task,
            id=get_random_id(),
            status=TaskResultStatus.READY,
            enqueued_at=timezone.now(),
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        request_id = structlog.contextvars.get_contextvars().get("request_id")
        transaction.on_commit(partial(_submit, result, request_id))
        return result

    def drain(self, timeout_s: float) -> bool:
        """See :func:`drain`."""
        return drain(timeout_s)


def _submit(result: TaskResult[Any], request_id: str | None) -> None:
    task_enqueued.send(InProcessBackend, task_result=result)
    _pool.submit(partial(_run, result, request_id), priority=result.task.priority)


def _run(result: TaskResult[Any], request_id: str | None) -> None:
    """Run one task from beginning to end in the current thread. Never raises."""
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(task=result.task.module_path, task_id=result.id, request_id=request_id)
    started = time.perf_counter()
    try:
        _mark(result, status=TaskResultStatus.RUNNING, started_at=timezone.now(), last_attempted_at=timezone.now())
        result.worker_ids.append(get_random_id())
        task_started.send(InProcessBackend, task_result=result)
        context = (TaskContext(task_result=result),) if result.task.takes_context else ()
        value = normalize_json(result.task.call(*context, *result.args, **result.kwargs))
        _mark(result, _return_value=value, status=TaskResultStatus.SUCCESSFUL)
    except BaseException as error:  # even SystemExit must not end the thread that others wait for
        result.errors.append(
            TaskError(exception_class_path=get_module_path(type(error)), traceback=get_exception_traceback(error))
        )
        _mark(result, status=TaskResultStatus.FAILED)
        log.error("tasks.failed", exc_info=error)  # noqa: TRY400 (the exception is given by hand: not only Exception)
    finally:
        _finish(result, time.perf_counter() - started)


def _finish(result: TaskResult[Any], duration_s: float) -> None:
    _mark(result, finished_at=timezone.now())
    metrics.tasks_run_duration_seconds.labels(result.task.module_path, result.status.lower()).observe(duration_s)
    try:
        task_finished.send(InProcessBackend, task_result=result)
        connections.close_all()
    except Exception:  # a receiver's or driver's error must not end the thread
        log.exception("tasks.cleanup_failed")
    structlog.contextvars.clear_contextvars()


def _mark(result: TaskResult[Any], **values: Any) -> None:
    # The class is frozen for callers; backends write its fields in this way, as the package's own one does.
    for name, value in values.items():
        object.__setattr__(result, name, value)

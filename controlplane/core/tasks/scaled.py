"""The backend of a scaled installation: a task is a row of PostgreSQL, written with the transaction that asks for it.

Procrastinate dispatches (https://procrastinate.readthedocs.io/): it hands the row to one worker process, by priority.
One generic job carries every task: the dotted path of its function and its arguments, which are JSON.
"""

import time
from typing import Any, Final

import structlog
from django.db import connections
from django.utils import timezone
from django.utils.module_loading import import_string
from django_tasks import TaskContext, TaskResult, TaskResultStatus
from django_tasks.backends.base import BaseTaskBackend
from django_tasks.base import Task
from django_tasks.signals import task_enqueued
from django_tasks.utils import normalize_json
from typing_extensions import override

from controlplane.core import metrics

log = structlog.get_logger(__name__)

#: The name of the one job under which every task is stored.
TASK_JOB: Final = "opensre.task"


class ProcrastinateBackend(BaseTaskBackend):
    """Stores a task with the caller's transaction: it commits or rolls back with it, and survives the process.

    A task may run more than once: when its worker died half-way it is run again. Results are not stored.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = False
    supports_priority = True

    @override
    def enqueue(self, task: Task[Any, Any], args: Any, kwargs: Any) -> TaskResult[Any]:
        """Store ``task`` and return its result object, which stays ``READY``: nobody follows it from here.

        Args:
            task: a module-level function decorated with ``@task``; ``run_after`` and ``priority`` hold.
            args: positional arguments, JSON values, ids rather than contents: they are stored as they are.
            kwargs: named arguments, likewise.

        Raises:
            django_tasks.exceptions.InvalidTaskError: if the task asks for something this backend does not do.
            TypeError: if an argument is not a JSON value.
        """
        from procrastinate.contrib.django import app

        self.validate_task(task)
        arguments = normalize_json({"args": list(args), "kwargs": dict(kwargs)})
        request_id = structlog.contextvars.get_contextvars().get("request_id")
        job = app.configure_task(
            TASK_JOB, queue=task.queue_name, priority=task.priority, schedule_at=task.run_after
        )  # through Django's own connection: inside its transaction, if there is one
        job_id = job.defer(path=task.module_path, request_id=request_id, **arguments)
        result: TaskResult[Any] = TaskResult(
            task=task,
            id=str(job_id),
            status=TaskResultStatus.READY,
            enqueued_at=timezone.now(),
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=arguments["args"],
            kwargs=arguments["kwargs"],
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        task_enqueued.send(type(self), task_result=result)
        return result


def run_stored(
    *, job_id: int, attempts: int, path: str, args: list[Any], kwargs: dict[str, Any], request_id: Any
) -> None:
    """Run one stored task in the current thread and close its connections.

    Args:
        job_id: of the row.
        attempts: how often it was tried before.
        path: dotted path of the function.

    Raises:
        Exception: what the task raised, so that the row is marked failed; it is logged here.
    """
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(task=path, task_id=str(job_id), request_id=request_id)
    outcome, started = "failed", time.perf_counter()
    try:
        task: Task[Any, Any] = import_string(path)
        context = (
            (TaskContext(task_result=_running(task, job_id, attempts, args, kwargs)),) if task.takes_context else ()
        )
        task.call(*context, *args, **kwargs)
        outcome = "successful"
    except Exception:
        log.exception("tasks.failed")
        raise
    finally:
        metrics.tasks_run_duration_seconds.labels(path, outcome).observe(time.perf_counter() - started)
        connections.close_all()
        structlog.contextvars.clear_contextvars()


def _running(task: Task[Any, Any], job_id: int, attempts: int, args: Any, kwargs: Any) -> TaskResult[Any]:
    now = timezone.now()
    return TaskResult(
        task=task,
        id=str(job_id),
        status=TaskResultStatus.RUNNING,
        enqueued_at=None,
        started_at=now,
        last_attempted_at=now,
        finished_at=None,
        args=args,
        kwargs=kwargs,
        backend=task.backend,
        errors=[],
        worker_ids=[str(job_id)] * (attempts + 1),  # the context counts attempts by these
    )

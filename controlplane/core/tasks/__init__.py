"""Background tasks (DEP-14, package ``django-tasks``): ``@task`` functions, ``enqueue`` after the commit, our backends.

The correctness of a run never rests on a task being run: tasks wake and tidy, the database decides.
"""

from django.conf import settings

from controlplane.core.tasks.in_process import InProcessBackend, drain
from controlplane.core.tasks.retries import retried
from controlplane.core.tasks.scaled import ProcrastinateBackend

__all__ = ["InProcessBackend", "ProcrastinateBackend", "drain", "is_scaled", "retried"]


def is_scaled() -> bool:
    """Return whether tasks and periodic jobs are rows of PostgreSQL that any worker process takes."""
    backend: str = settings.TASKS["default"]["BACKEND"]
    return backend.endswith(".ProcrastinateBackend")

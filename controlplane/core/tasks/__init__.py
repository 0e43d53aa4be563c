"""Background tasks (DEP-14, package ``django-tasks``): ``@task`` functions, ``enqueue`` after the commit, our backends.

The correctness of a run never rests on a task being run: tasks wake and tidy, the database decides.
"""

from controlplane.core.tasks.in_process import InProcessBackend, drain

__all__ = ["InProcessBackend", "drain"]

"""Runtimes by name, from the ``AGENT_RUNTIMES`` setting."""

from django.conf import settings
from django.utils.module_loading import import_string

from controlplane.core.errors import invalid
from controlplane.runtimes.interface import AgentRuntime


def runtime_names() -> tuple[str, ...]:
    """Return the names of the installed runtimes, sorted."""
    return tuple(sorted(settings.AGENT_RUNTIMES))


def get_runtime(name: str) -> AgentRuntime:
    """Return a runtime by its ``runtime.kind``.

    Raises:
        InvalidInput: ``unknown_runtime``, naming those there are.
    """
    path = settings.AGENT_RUNTIMES.get(name)
    if path is None:
        known = ", ".join(runtime_names())
        raise invalid("/runtime/kind", "unknown_runtime", f"There is no runtime {name[:80]!r}; there are: {known}.")
    runtime: AgentRuntime = import_string(path)()
    return runtime


def runtime_resumes(name: str) -> bool:
    """Return whether a run of this runtime may be cut off anywhere and begun again by another worker.

    Such a runtime says ``resumes = True``: given its own earlier events it uses what finished, and what it does again
    has no side effect.
    """
    return name in settings.AGENT_RUNTIMES and bool(getattr(get_runtime(name), "resumes", False))

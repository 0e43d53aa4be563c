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

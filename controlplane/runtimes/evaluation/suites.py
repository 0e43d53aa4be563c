"""The suites by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from controlplane.runtimes.evaluation.misses import run_misses
from controlplane.runtimes.evaluation.petshop import run_petshop
from controlplane.runtimes.evaluation.results import SuiteResult
from controlplane.runtimes.evaluation.retrieval import run_retrieval
from controlplane.runtimes.evaluation.running import CaseError
from controlplane.runtimes.evaluation.secrets import run_secrets
from controlplane.runtimes.evaluation.tracer import run_tracer
from controlplane.runtimes.interface import AgentRuntime
from controlplane.runtimes.registry import get_runtime

Suite = Callable[[AgentRuntime, Path], SuiteResult]
SUITES: Final[dict[str, Suite]] = {
    "tracer": run_tracer,
    "petshop": run_petshop,
    "retrieval": run_retrieval,
    "secrets": run_secrets,
    "misses": run_misses,
}


def suite_register(name: str, run: Suite) -> None:
    """Add a suite of an app above this one, in ``AppConfig.ready()``.

    Args:
        name: what ``manage.py evaluate`` calls it.
        run: returns the result on a folder of data, and raises :class:`CaseError` where that cannot be read.
    """
    SUITES[name] = run


def run_suite(suite: str, path: Path, *, runtime: str) -> SuiteResult:
    """Return how a runtime does on a suite's data.

    Args:
        suite: one of :data:`SUITES`.
        path: the folder of the data.
        runtime: the name of an installed runtime.

    Raises:
        CaseError: the folder is none, or a case in it cannot be read.
        InvalidInput: there is no such runtime.
    """
    if not path.is_dir():
        raise CaseError(f"{path} is no folder")
    return SUITES[suite](get_runtime(runtime), path)

"""The suites by name."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from controlplane.runtimes.evaluation.petshop import run_petshop
from controlplane.runtimes.evaluation.results import SuiteResult
from controlplane.runtimes.evaluation.running import CaseError
from controlplane.runtimes.evaluation.tracer import run_tracer
from controlplane.runtimes.interface import AgentRuntime
from controlplane.runtimes.registry import get_runtime

SUITES: Final[Mapping[str, Callable[[AgentRuntime, Path], SuiteResult]]] = {
    "tracer": run_tracer,
    "petshop": run_petshop,
}


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

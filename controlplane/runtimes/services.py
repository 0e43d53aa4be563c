"""Writes about runtimes."""

from controlplane.runtimes.evaluation.results import SuiteResult
from controlplane.runtimes.models import Evaluation


def evaluation_record(*, result: SuiteResult) -> Evaluation:
    """Keep the result of an evaluation. It belongs to the installation, not to an organization, so nothing is audited.

    Returns:
        The row, whose ``result`` is the result as JSON.
    """
    return Evaluation.objects.create(
        suite=result.suite, runtime=result.runtime, score=result.score, result=result.as_json()
    )

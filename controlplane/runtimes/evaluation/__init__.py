"""Measuring a runtime on recorded incidents whose cause is known."""

from controlplane.runtimes.evaluation.results import CaseResult, SuiteResult
from controlplane.runtimes.evaluation.suites import SUITES, run_suite

__all__ = ["SUITES", "CaseResult", "SuiteResult", "run_suite"]

"""What an evaluation found: a verdict on each case, and the totals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case. ``seconds`` is the run alone; ``expected`` and ``found`` are what a person compares.

    ``reasons`` say why it failed, in words; ``details`` are figures of the suite beside passing.
    """

    id: str
    passed: bool
    seconds: float
    expected: str
    found: str
    reasons: Sequence[str] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the case as JSON."""
        return {
            "id": self.id,
            "passed": self.passed,
            "seconds": round(self.seconds, 3),
            "expected": self.expected,
            "found": self.found,
            "reasons": list(self.reasons),
            **self.details,
        }


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """All cases of a suite.

    ``score`` is the suite's figure of merit, 0 to 1; ``totals`` are the suite's own figures, by name.
    """

    suite: str
    runtime: str
    cases: Sequence[CaseResult]
    score: float
    totals: Mapping[str, float] = field(default_factory=dict)

    @property
    def median_seconds(self) -> float:
        return median(case.seconds for case in self.cases) if self.cases else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON: ``{"suite", "runtime", "cases", "score", "median_seconds", …totals}``."""
        return {
            "suite": self.suite,
            "runtime": self.runtime,
            "cases": [case.as_json() for case in self.cases],
            "score": round(self.score, 4),
            "passed": sum(case.passed for case in self.cases),
            "median_seconds": round(self.median_seconds, 3),
            **{name: round(value, 4) for name, value in self.totals.items()},
        }

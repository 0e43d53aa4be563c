"""Results of evaluations as the page shows them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

#: What every result has; the rest of it are the suite's own figures.
_COMMON: Final = frozenset({"suite", "runtime", "cases", "score", "passed", "median_seconds"})
#: Up to how many passing cases show at once.
SHOWN_PASSING: Final = 12
_COUNTS: Final = frozenset({"healthy_blamed", "fields", "right_fields", "whole_payloads", "twice_one_incident"})
_LABELS: Final = {
    "right_category": "Right category",
    "healthy_blamed": "Healthy systems blamed",
    "fields": "Fields scored",
    "right_fields": "Fields right",
    "whole_payloads": "Bodies with every field right",
    "twice_one_incident": "Bodies that sent twice are one incident",
    "top1": "Cause named first",
    "top3": "Cause among the first three",
    "specificity": "Quiet windows in which nobody is blamed",
}


class Stored(Protocol):
    """A result as the selector gives it."""

    @property
    def suite(self) -> str: ...
    @property
    def runtime(self) -> str: ...
    @property
    def score(self) -> float: ...
    @property
    def result(self) -> Any: ...
    @property
    def created_at(self) -> datetime: ...


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a suite as it is read: ``96 %`` or ``2``."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class Case:
    """One case; ``width`` is its share of the slowest case's seconds, 0 to 100."""

    id: str
    passed: bool
    milliseconds: float
    width: int
    found: str
    expected: str
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True)
class Shown:
    """The last result of a suite; failing cases first, in both parts by id as a person counts."""

    anchor: str
    suite: str
    runtime: str
    at: datetime
    score: str
    passed: int
    median_milliseconds: float
    figures: Sequence[Figure]
    cases: Sequence[Case]

    @property
    def failed(self) -> int:
        return len(self.cases) - self.passed

    @property
    def open_cases(self) -> Sequence[Case]:
        """Those that show at once."""
        return self.cases[: self.failed] if self.passed > SHOWN_PASSING else self.cases

    @property
    def folded_cases(self) -> Sequence[Case]:
        """Those behind a fold: the passing ones, where they are many."""
        return self.cases[len(self.open_cases) :]


def shown(evaluation: Stored) -> Shown:
    """Return a stored result as the page shows it; members that an older version did not write are left out."""
    result: Mapping[str, Any] = evaluation.result
    raw: Sequence[Mapping[str, Any]] = result.get("cases", ())
    slowest = max((_number(case.get("seconds")) for case in raw), default=0.0)
    cases = [_case(case, slowest) for case in raw]
    return Shown(
        anchor=f"{evaluation.suite}-{evaluation.runtime}",
        suite=evaluation.suite,
        runtime=evaluation.runtime,
        at=evaluation.created_at,
        score=_share(evaluation.score),
        passed=sum(case.passed for case in cases),
        median_milliseconds=1000 * _number(result.get("median_seconds")),
        figures=list(_figures(result)),
        cases=sorted(cases, key=lambda case: (case.passed, _counted(case.id))),
    )


def _case(case: Mapping[str, Any], slowest: float) -> Case:
    seconds = _number(case.get("seconds"))
    return Case(
        id=str(case.get("id", "")),
        passed=bool(case.get("passed")),
        milliseconds=1000 * seconds,
        width=max(round(100 * seconds / slowest), 1) if slowest > 0 else 0,
        found=str(case.get("found", "")),
        expected=str(case.get("expected", "")),
        reasons=[str(reason) for reason in case.get("reasons", ())],
    )


def _counted(id_: str) -> list[tuple[int, str]]:
    """Return what sorts an id as a person counts: ``issue_2`` before ``issue_10``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,18})", id_) if part]


def _figures(result: Mapping[str, Any]) -> Iterator[Figure]:
    for name, value in sorted(result.items(), key=lambda item: _place(item[0])):  # a database keeps no order of members
        if name in _COMMON or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        yield Figure(_label(name), f"{value:g}" if name in _COUNTS else _share(value))


def _place(name: str) -> tuple[int, int, str]:
    """Return where a figure stands: known ones in their order, each before its parts, then the others by name."""
    known = list(_LABELS)
    base = name if name in _LABELS else name.partition("_")[0]
    return (known.index(base) if base in _LABELS else len(known), int(name not in _LABELS), name)


def _label(name: str) -> str:
    known, _, part = name.partition("_")
    if name not in _LABELS and known in _LABELS:
        return f"{_LABELS[known]}, {part.replace('_', ' ')}"
    return _LABELS.get(name, name.replace("_", " ").capitalize())


def _share(value: float) -> str:
    """Return a share as a percentage; only what is whole reads as 100 %, only nothing as 0 %."""
    percent = 100 * value
    rounded = round(percent)
    if (rounded == 100 and percent < 100) or (rounded == 0 and percent > 0):
        return f"{percent:.1f} %"
    return f"{rounded} %"


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0

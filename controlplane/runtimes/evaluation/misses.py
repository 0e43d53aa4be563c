"""The suite ``misses``: answers that people rated partial or wrong, asked again.

A folder of ``*.json`` in the form ``miss/1`` as the API exports them. A case passes when the root cause now stated is
the expected one, in the members of ``expected`` that are filled in; where none is, and the verdict was ``wrong``, when
it is another than the one that was rated. A partial answer without ``expected`` cannot be judged, and fails.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from controlplane.core.errors import AppError
from controlplane.runtimes.evaluation.results import CaseResult, SuiteResult
from controlplane.runtimes.evaluation.running import CaseError, run_case
from controlplane.runtimes.interface import AgentRuntime
from controlplane.runtimes.loose_json import mapping, text
from controlplane.runtimes.sources.snapshot import snapshot_validate

FORMAT: Final = "miss/1"
_MEMBERS: Final = ("category", "object")


def run_misses(runtime: AgentRuntime, path: Path) -> SuiteResult:
    """Return which of the missed answers in ``path`` are right now; ``score`` is their share.

    Totals are ``cases_<miss>``, how many cases each class of miss has.

    Raises:
        CaseError: there is no case, or one cannot be read.
    """
    files = sorted(path.glob("*.json"))
    if not files:
        raise CaseError(f"{path} holds no case: no file in it ends in .json")
    cases = [_case(runtime, file) for file in files]
    classes = Counter(case.details["miss"] for case in cases)
    totals = {f"cases_{miss}": float(count) for miss, count in sorted(classes.items())}
    return SuiteResult("misses", runtime.name, cases, sum(case.passed for case in cases) / len(cases), totals)


def _case(runtime: AgentRuntime, file: Path) -> CaseResult:
    row = _row(file)
    try:
        snapshot = snapshot_validate(row.get("evidence"))
    except AppError as error:
        raise CaseError(f"{file.name}: {error.detail}") from None
    if snapshot.get("alert") is None:
        snapshot["alert"] = row.get("alert")
    run = run_case(runtime, snapshot, prompt=text(row.get("prompt")))
    root = run.report.root_cause if run.report else None
    found = {"category": root.category.value, "object": root.object} if root else {}
    expected = {name: value for name in _MEMBERS if (value := text(mapping(row.get("expected")).get(name)))}
    answered = {name: text(mapping(row.get("answered")).get(name)) for name in _MEMBERS}
    reasons = _reasons(found, expected, answered, wrong=row.get("verdict") == "wrong")
    return CaseResult(
        file.stem,
        passed=not reasons,
        seconds=run.seconds,
        expected=_told(expected) or f"not {_told(answered) or 'nothing'}",
        found=_told(found) or "none",
        reasons=reasons,
        details={"miss": text(row.get("miss")) or "unknown", "calls": run.calls},
    )


def _reasons(
    found: Mapping[str, str], expected: Mapping[str, str], answered: Mapping[str, str], *, wrong: bool
) -> list[str]:
    if not found:
        return ["no root cause is stated"]
    if expected:
        return [f"the {name} is {found[name]}, not {value}" for name, value in expected.items() if found[name] != value]
    if not wrong:
        return ["nobody has said what would have been right: expected is empty"]
    return ["it is the answer that was rated wrong"] if found == answered else []


def _told(cause: Mapping[str, str]) -> str:
    return " ".join(value for value in cause.values() if value)


def _row(file: Path) -> Mapping[str, Any]:
    try:
        row = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise CaseError(f"{file.name} cannot be read ({type(error).__name__})") from None
    if not isinstance(row, dict) or row.get("format") != FORMAT:
        raise CaseError(f"{file.name} is not in the form {FORMAT}")
    return row

"""The suite ``petshop``: metrics of a shop's services, its call graph, and faults injected into one of them.

A case is a folder with ``alert.json``, ``metrics.csv`` and ``answer.json``, which only the scorer reads. The answer is
a list of objects, most likely first; it is right when the injected one leads it (top-1) or is among the first three
(top-3). Specificity: normal operation is cut at five places; the part before is what is normal, the part after is
"investigated" with an alarm at the same object, and the right answer is an empty list.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from controlplane.core.errors import AppError
from controlplane.core.strict_json import parse_json
from controlplane.runtimes.evaluation.results import CaseResult, SuiteResult
from controlplane.runtimes.evaluation.running import CaseError, CaseRun, run_case
from controlplane.runtimes.interface import AgentRuntime
from controlplane.runtimes.loose_json import mapping, text
from controlplane.runtimes.report import Category
from controlplane.runtimes.sources.folders.files import UnreadableError, open_folder, read_bytes
from controlplane.runtimes.sources.folders.metric_tables import GRAPH, NORMAL, MetricTable, parse_graph, parse_table
from controlplane.runtimes.sources.snapshot import FORMAT, snapshot_from_folder

ANSWER: Final = "answer.json"
QUIET_SHARES: Final = (0.5, 0.6, 0.7, 0.8, 0.9)
#: Below this confidence a hypothesis is a mere possibility and names nobody.
LEAST_CONFIDENCE: Final = 0.4
_MOST_BYTES: Final = 8 * 1024 * 1024
_LEVELS: Final = 2  # of folders from the system's own to that of a case


def run_petshop(runtime: AgentRuntime, path: Path) -> SuiteResult:
    """Return the result on every issue and every quiet window below ``path``.

    Raises:
        CaseError: there is no case, or one cannot be read.
    """
    folders = sorted(answer.parent for answer in path.rglob(ANSWER))
    if not folders:
        raise CaseError(f"{path} holds no case: no folder below it has an {ANSWER}")
    shallow = [folder for folder in folders if len(folder.relative_to(path).parts) < _LEVELS]
    if shallow:
        raise CaseError(f"{path} is too deep: name the folder above the one that holds {GRAPH}")
    issues = [_issue(runtime, folder, path) for folder in folders]
    alerts = {folder.parent.parent: _object(folder / "alert.json") for folder in folders}
    quiet = [case for system, alert in alerts.items() for case in _quiet(runtime, system, alert, path)]
    by_metric = {
        f"top{most}_{metric}": _share(issues, most, metric)
        for metric in sorted({str(case.details["metric"]) for case in issues})
        for most in (1, 3)
    }
    return SuiteResult(
        "petshop",
        runtime.name,
        [*issues, *quiet],
        _share(issues, 1),
        {
            "top1": _share(issues, 1),
            "top3": _share(issues, 3),
            **by_metric,
            "specificity": sum(case.passed for case in quiet) / len(quiet) if quiet else 0.0,
        },
    )


def suspects(run: CaseRun) -> list[str]:
    """Return the objects that a report holds responsible, most likely first."""
    blamed = [
        hypothesis.object
        for hypothesis in (run.report.hypotheses if run.report else ())
        if hypothesis.category is not Category.HEALTHY and hypothesis.confidence >= LEAST_CONFIDENCE
    ]
    return list(dict.fromkeys(blamed))


def quiet_windows(normal: MetricTable) -> Iterator[tuple[float, MetricTable, MetricTable]]:
    """Yield where normal operation is cut (a share of its rows), what lies before, and what lies after."""
    for share in QUIET_SHARES:
        yield share, *normal.split(int(len(normal.times) * share))


def _issue(runtime: AgentRuntime, folder: Path, path: Path) -> CaseResult:
    expected = text(mapping(_object(folder / ANSWER).get("root_cause")).get("node"))
    id_ = folder.relative_to(path).as_posix()
    try:
        snapshot = snapshot_from_folder(folder)
    except AppError as error:
        raise CaseError(f"{id_}: {error.detail}") from None
    run = run_case(runtime, snapshot)
    found = suspects(run)
    rank = found.index(expected) + 1 if expected in found else None
    return CaseResult(
        id_,
        passed=rank == 1,
        seconds=run.seconds,
        expected=expected,
        found=", ".join(found[:3]) or "nobody",
        reasons=() if rank == 1 else (f"it is number {rank}" if rank else "it is not named",),
        details={"metric": text(mapping(snapshot["alert"]).get("metric")), "rank": rank, "calls": run.calls},
    )


def _quiet(runtime: AgentRuntime, system: Path, alert: Mapping[str, Any], path: Path) -> Iterator[CaseResult]:
    """Yield a case for each place at which normal operation is cut; an alarm of any kind may have been raised there."""
    try:
        normal = parse_table(_bytes(system.joinpath(*NORMAL)).decode("utf-8"))
        calls = parse_graph(_bytes(system / GRAPH).decode("utf-8"))
    except (UnreadableError, UnicodeDecodeError) as error:
        raise CaseError(f"normal operation in {system} cannot be read: {error}") from None
    for share, before, after in quiet_windows(normal):
        raised = {"node": alert.get("node"), "timestamp": after.times[0]}
        snapshot = {
            "format": FORMAT,
            "alert": raised,
            "sources": {"metrics": after.as_source(before), "topology": {"calls": calls}},
        }
        run = run_case(runtime, snapshot)
        found = suspects(run)
        yield CaseResult(
            f"{system.relative_to(path).as_posix()}/quiet-{share:.0%}".removeprefix("./"),
            passed=not found,
            seconds=run.seconds,
            expected="nobody",
            found=", ".join(found[:3]) or "nobody",
            reasons=("somebody is blamed in normal operation",) if found else (),
            details={"metric": "", "rank": None, "calls": run.calls},
        )


def _share(cases: Sequence[CaseResult], most: int, metric: str | None = None) -> float:
    counted = [case for case in cases if metric is None or case.details["metric"] == metric]
    right = sum(case.details["rank"] is not None and case.details["rank"] <= most for case in counted)
    return right / len(counted) if counted else 0.0


def _object(path: Path) -> Mapping[str, Any]:
    try:
        return mapping(parse_json(_bytes(path), max_bytes=_MOST_BYTES))
    except AppError as error:
        raise CaseError(f"{path.name}: {error.detail}") from None


def _bytes(path: Path) -> bytes:
    """Return a file that is an ordinary one and no link.

    Raises:
        CaseError: it is none, too large, or may not be read.
    """
    try:
        folder = open_folder(path.parent)
    except AppError as error:
        raise CaseError(f"{path.parent}: {error.detail}") from None
    try:
        return read_bytes(folder, path.name, _MOST_BYTES)
    except FileNotFoundError:
        raise CaseError(f"{path} does not exist") from None
    except UnreadableError as error:
        raise CaseError(f"{path} {error}") from None
    finally:
        os.close(folder)

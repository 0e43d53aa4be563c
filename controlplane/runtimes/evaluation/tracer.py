"""The suite ``tracer``: synthetic incidents of databases and clusters, judged by category and by words.

A case is a folder with recorded evidence and ``answer.yml``, which only the scorer reads. It passes when a root cause
is stated, its category is the right one and not a forbidden one, every required word is in the text, no forbidden one
is, and every required source was read. The text is root cause, claims and causal chain, at most 6,000 characters.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from controlplane.core.errors import AppError
from controlplane.runtimes.evaluation.results import CaseResult, SuiteResult
from controlplane.runtimes.evaluation.running import CaseError, CaseRun, run_case
from controlplane.runtimes.interface import AgentRuntime
from controlplane.runtimes.loose_json import items, mapping, text
from controlplane.runtimes.report import Report
from controlplane.runtimes.sources.snapshot import snapshot_from_folder

ANSWER: Final = "answer.yml"
MOST_CHARS: Final = 6_000
_TOKEN: Final = re.compile(r"[a-z0-9]+")


def run_tracer(runtime: AgentRuntime, path: Path) -> SuiteResult:
    """Return the result on every case below ``path``.

    Raises:
        CaseError: there is no case, or one cannot be read.
    """
    folders = sorted(answer.parent for answer in path.glob(f"*/{ANSWER}"))
    if not folders:
        raise CaseError(f"{path} holds no case: no folder in it has an {ANSWER}")
    cases = [_case(runtime, folder) for folder in folders]
    passed = sum(case.passed for case in cases)
    healthy = [case for case in cases if case.expected == "healthy"]
    blamed = sum(case.found not in ("healthy", "unknown") for case in healthy)
    return SuiteResult(
        "tracer",
        runtime.name,
        cases,
        passed / len(cases),
        {
            "right_category": sum(case.expected == case.found for case in cases) / len(cases),
            "healthy_blamed": blamed,
        },
    )


def report_text(report: Report) -> str:
    """Return what a report says as root cause, claims and causal chain."""
    root = report.root_cause
    parts = [report.title, report.summary]
    if root is not None:
        parts += [root.object, root.mechanism]
    return "\n".join([*parts, *report.causal_chain, *(claim.text for claim in report.claims)])


def said(word: str, content: str) -> bool:
    """Return whether a required word is in a text: as a part of it, else each of its tokens among the text's."""
    wanted, folded = _folded(word), _folded(content)
    return wanted in folded or set(_TOKEN.findall(wanted)) <= set(_TOKEN.findall(folded))


def _case(runtime: AgentRuntime, folder: Path) -> CaseResult:
    answer = _answer(folder)
    try:
        run = run_case(runtime, snapshot_from_folder(folder))
    except AppError as error:
        raise CaseError(f"{folder.name}: {error.detail}") from None
    report = run.report
    root = report.root_cause if report else None
    reasons = list(_reasons(answer, run))
    wanted = _words(answer, "ruling_out_keywords")
    content = report_text(report) if report else ""
    ruled_out = report.ruled_out if report else ()
    whole = "\n".join([content, *(f"{item.hypothesis}: {item.reason}" for item in ruled_out)])
    return CaseResult(
        folder.name,
        passed=not reasons,
        seconds=run.seconds,
        expected=text(answer.get("root_cause_category")),
        found=root.category.value if root else "none",
        reasons=reasons,
        details={
            "object": root.object if root else "",
            "characters": len(content),
            "calls": run.calls,
            "ruling_out": sum(said(word, whole) for word in wanted) / len(wanted) if wanted else None,
        },
    )


def _reasons(answer: Mapping[str, Any], run: CaseRun) -> Iterator[str]:
    """Yield why a case fails."""
    root = run.report.root_cause if run.report else None
    if run.report is None or root is None:
        yield "no root cause is stated" if run.report else "the run ended without a report"
        return
    expected, content = text(answer.get("root_cause_category")), report_text(run.report)
    if root.category.value != expected:
        yield f"the category is {root.category.value}, not {expected}"
    if root.category.value in _words(answer, "forbidden_categories"):
        yield f"the category {root.category.value} is forbidden"
    if len(content) > MOST_CHARS:
        yield f"the text has {len(content):,} characters, more than {MOST_CHARS:,}"
    missing = [word for word in _words(answer, "required_keywords") if not said(word, content)]
    if missing:
        yield f"not said: {', '.join(missing)}"
    forbidden = [word for word in _words(answer, "forbidden_keywords") if _folded(word) in _folded(content)]
    if forbidden:
        yield f"said although forbidden: {', '.join(forbidden)}"
    unread = [name for name in _words(answer, "required_evidence_sources") if name not in run.sources_read]
    if unread:
        yield f"not read: {', '.join(unread)}"


def _answer(folder: Path) -> Mapping[str, Any]:
    try:
        # The base loader makes texts of everything: a keyword such as "yes" stays the word it is.
        return mapping(yaml.load((folder / ANSWER).read_text("utf-8"), yaml.BaseLoader))  # noqa: S506 (it makes texts alone)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CaseError(f"{folder.name}/{ANSWER} cannot be read ({type(error).__name__})") from None


def _words(answer: Mapping[str, Any], key: str) -> Sequence[str]:
    return [text(word) for word in items(answer.get(key)) if text(word)]


def _folded(content: str) -> str:
    return " ".join(content.lower().split())

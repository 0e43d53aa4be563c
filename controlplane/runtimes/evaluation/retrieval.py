"""The suite ``retrieval``: questions, and which runbooks answer them.

A folder of one of two shapes: ``pages/**/*.md`` with ``queries.jsonl`` (``{"id", "kind", "query", "expected"}``, the
last a list of pages), or ``runbooks/*.md`` with ``incidents.jsonl`` (``{"id", "title", "summary", "runbook"}``). A
page's id is its file's name in lower case without suffix. No runtime and no model is involved; the retriever is the
installation's.
"""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from controlplane.knowledge.retrieval import Document, Retriever, default_embedder
from controlplane.runtimes.evaluation.results import CaseResult, SuiteResult
from controlplane.runtimes.evaluation.running import CaseError
from controlplane.runtimes.interface import AgentRuntime

_FRONT_MATTER: Final = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_TEMPLATE: Final = re.compile(r"\{\{[<%].*?[>%]\}\}", re.DOTALL)
_TO_RANK: Final = 10


@dataclass(frozen=True, slots=True)
class Question:
    """One query; any of ``expected`` is right."""

    id: str
    kind: str
    query: str
    expected: tuple[str, ...]


def run_retrieval(_runtime: AgentRuntime, path: Path) -> SuiteResult:
    """Return how well the pages below ``path`` are found. ``score`` is the mean reciprocal rank over all questions.

    Totals are ``hit1_<kind>``, ``hit3_<kind>`` and ``mrr_<kind>``, each 0 to 1. A question is passed when a right page
    is among the first three.

    Raises:
        CaseError: the folder has neither shape, or a line cannot be read.
    """
    pages, questions = _read(path)
    retriever = Retriever(default_embedder())
    for page, (title, text) in pages.items():
        retriever.put(Document(page, title, text))
    cases = [_case(retriever, question) for question in questions]
    totals: dict[str, float] = {}
    for kind in sorted({question.kind for question in questions}):
        ranks = [case.details["rank"] for case in cases if case.details["kind"] == kind]
        totals |= {
            f"hit1_{kind}": sum(rank == 1 for rank in ranks) / len(ranks),
            f"hit3_{kind}": sum(0 < rank <= 3 for rank in ranks) / len(ranks),
            f"mrr_{kind}": _reciprocal(ranks),
        }
    score = _reciprocal([case.details["rank"] for case in cases])
    return SuiteResult("retrieval", retriever.search("any").retrieval, cases, score, totals)


def _case(retriever: Retriever, question: Question) -> CaseResult:
    began = time.perf_counter()
    found = retriever.search(question.query, limit=_TO_RANK)
    seconds = time.perf_counter() - began
    keys = [hit.key for hit in found.hits]
    rank = min((keys.index(page) + 1 for page in question.expected if page in keys), default=0)
    passed = 0 < rank <= 3
    return CaseResult(
        question.id,
        passed,
        seconds,
        " or ".join(question.expected),
        keys[0] if keys else "nothing",
        () if passed else (f"right page at rank {rank}" if rank else f"no right page among {_TO_RANK}",),
        {"rank": rank, "kind": question.kind},
    )


def _reciprocal(ranks: Sequence[int]) -> float:
    return sum(1 / rank for rank in ranks if rank) / len(ranks)


def _read(path: Path) -> tuple[dict[str, tuple[str, str]], list[Question]]:
    if (path / "queries.jsonl").is_file():
        pages = _pages(path / "pages")
        questions = [
            Question(_text(row, "id"), _text(row, "kind"), _text(row, "query"), tuple(row["expected"]))
            for row in _rows(path / "queries.jsonl", "expected")
        ]
    elif (path / "incidents.jsonl").is_file():
        pages = _pages(path / "runbooks")
        questions = [
            Question(
                _text(row, "id"),
                "incident",
                f"{_text(row, 'title')}. {_text(row, 'summary')}",
                (_text(row, "runbook"),),
            )
            for row in _rows(path / "incidents.jsonl", "runbook")
        ]
    else:
        raise CaseError(f"{path} holds neither queries.jsonl with pages nor incidents.jsonl with runbooks")
    if not pages or not questions:
        raise CaseError(f"{path} holds no page or no question")
    return pages, questions


def _pages(folder: Path) -> dict[str, tuple[str, str]]:
    """Return the title and text of each page by id; titles are file names, text is without front matter."""
    found = {}
    for page in sorted(folder.rglob("*.md")):
        text = page.read_text(encoding="utf-8", errors="replace")
        found[page.stem.lower()] = (page.stem, _TEMPLATE.sub(" ", _FRONT_MATTER.sub("", text)))
    return found


def _rows(file: Path, needed: str) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            raise CaseError(f"{file.name}, line {number}: this is not JSON") from None
        if not isinstance(row, dict) or not row.get(needed):
            raise CaseError(f"{file.name}, line {number}: {needed} is missing")
        yield row


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise CaseError(f"{name} is missing in one of the questions")
    return value

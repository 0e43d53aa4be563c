"""The report as markdown: what a person reads first comes first."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from controlplane.runtimes.report import Category, Claim, Hypothesis, Report, TimelineEntry
from controlplane.runtimes.sources.figures import clock, clock_dated

_LABELS = {
    Category.HEALTHY: "No failure",
    Category.UNKNOWN: "Cause unknown",
}


def marks(citations: Sequence[str]) -> str:
    """Return citations as they stand behind a statement: `` [t1-2.4, t1-3.1]``."""
    return f" [{', '.join(citations)}]" if citations else ""


@dataclass(frozen=True, slots=True)
class Style:
    """How a report is written: ``words`` for every text it was given, ``cites`` for the ids behind a statement."""

    words: Callable[[str], str] = str
    cites: Callable[[Sequence[str]], str] = marks


_PLAIN: Final = Style()


def render_report(report: Report, *, answers: Sequence[tuple[str, Sequence[Claim]]] = ()) -> str:
    """Return a report as markdown; ``answers`` are questions put in this turn with what the evidence says to them."""
    return "\n".join(_lines(report, answers)).strip() + "\n"


def _lines(report: Report, answers: Sequence[tuple[str, Sequence[Claim]]]) -> Iterator[str]:
    for question, claims in answers:
        yield f"## {one_line(question, 160)}"
        yield ""
        if claims:
            yield from (f"- {claim.text}{marks(claim.citations)}" for claim in claims)
        else:
            yield "The evidence says nothing about that."
        yield ""
    yield f"# {report.title}"
    yield ""
    yield from cause_lines(report)
    yield from finding_lines(report)
    yield from action_lines(report)


def cause_lines(report: Report, style: Style = _PLAIN) -> Iterator[str]:
    """Yield the root cause in one paragraph, and the steps from it to the symptom."""
    root = report.root_cause
    if root is not None:
        label = _LABELS.get(root.category) or f"Root cause: {root.category.value.replace('_', ' ')}"
        summary = style.words(report.summary)
        yield f"**{label}** (confidence {root.confidence:.0%}). {summary}{style.cites(root.supports[:6])}"
        yield ""
    steps = (f"{number}. {style.words(step)}" for number, step in enumerate(report.causal_chain, 1))
    yield from section("How it came about", steps)


def finding_lines(report: Report, style: Style = _PLAIN) -> Iterator[str]:
    """Yield what the report says of the evidence: claims, timeline, other explanations, what was not checked."""
    yield from section("Evidence", (f"- {_claim(claim, style)}" for claim in report.claims))
    yield from section(
        "Timeline (UTC)",
        (
            f"- {clock_dated(_utc(entry.at))} {style.words(moment_text(entry))}{style.cites(entry.citations)}"
            for entry in report.timeline
        ),
    )
    yield from section("Also possible", (f"- {_possible(other, style)}" for other in report.hypotheses[1:]))
    yield from section(
        "Ruled out",
        (
            f"- {style.words(item.hypothesis)}: {style.words(item.reason)}{style.cites(item.citations[:3])}"
            for item in report.ruled_out
        ),
    )
    yield from section(
        "Not checked", (f"- {style.words(item.what)}: {style.words(item.why)}" for item in report.not_checked)
    )


def moment_text(entry: TimelineEntry) -> str:
    """Return what happened, without the clause that says the entry's own time once more."""
    at = _utc(entry.at)
    times = "|".join({re.escape(clock(at)), f"{at:%H:%M:%S}"})
    return re.sub(rf",? (?:from (?:{times}) UTC on|(?:since|at) (?:{times}) UTC)(?=[.,;]|$)", "", entry.text)


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)


def action_lines(report: Report, style: Style = _PLAIN) -> Iterator[str]:
    """Yield what to do."""
    yield from section(
        "Next steps",
        (f"- {style.words(item.action)} ({item.priority.replace('_', ' ')})" for item in report.actions),
    )


def section(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield a section, and nothing where it would be empty."""
    listed = list(lines)
    if listed:
        yield f"## {title}"
        yield ""
        yield from listed
        yield ""


def _possible(other: Hypothesis, style: Style) -> str:
    category = other.category.value.replace("_", " ")
    return f"{category} ({other.confidence:.0%}): {style.words(other.mechanism)}{style.cites(other.supports[:3])}"


def _claim(claim: Claim, style: Style) -> str:
    prefix = "Inferred: " if claim.kind == "inference" else ""
    return f"{prefix}{style.words(claim.text)}{style.cites(claim.citations)}"


def one_line(words: str, most: int) -> str:
    """Return words on one line, cut."""
    line = " ".join(words.split())
    return line if len(line) <= most else line[: most - 1] + "…"

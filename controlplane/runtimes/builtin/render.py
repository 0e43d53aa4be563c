"""The report as markdown: what a person reads first comes first."""

from collections.abc import Iterable, Iterator, Sequence

from controlplane.runtimes.report import Category, Claim, Hypothesis, Report
from controlplane.runtimes.sources.figures import clock_dated

_LABELS = {
    Category.HEALTHY: "No failure",
    Category.UNKNOWN: "Cause unknown",
}


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
    root = report.root_cause
    if root is not None:
        label = _LABELS.get(root.category) or f"Root cause: {root.category.value.replace('_', ' ')}"
        yield f"**{label}** (confidence {root.confidence:.0%}). {report.summary}{marks(root.supports[:6])}"
        yield ""
    yield from _section(
        "How it came about", (f"{number}. {step}" for number, step in enumerate(report.causal_chain, 1))
    )
    yield from _section("Evidence", (f"- {_claim(claim)}" for claim in report.claims))
    yield from _section(
        "Timeline (UTC)",
        (f"- {clock_dated(entry.at)} {entry.text}{marks(entry.citations)}" for entry in report.timeline),
    )
    yield from _section("Also possible", (f"- {_possible(other)}" for other in report.hypotheses[1:]))
    yield from _section(
        "Ruled out",
        (f"- {item.hypothesis}: {item.reason}{marks(item.citations[:3])}" for item in report.ruled_out),
    )
    yield from _section("Not checked", (f"- {item.what}: {item.why}" for item in report.not_checked))
    yield from _section(
        "Next steps", (f"- {item.action} ({item.priority.replace('_', ' ')})" for item in report.actions)
    )


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    listed = list(lines)
    if listed:
        yield f"## {title}"
        yield ""
        yield from listed
        yield ""


def _possible(other: Hypothesis) -> str:
    category = other.category.value.replace("_", " ")
    return f"{category} ({other.confidence:.0%}): {other.mechanism}{marks(other.supports[:3])}"


def _claim(claim: Claim) -> str:
    prefix = "Inferred: " if claim.kind == "inference" else ""
    return f"{prefix}{claim.text}{marks(claim.citations)}"


def marks(citations: Sequence[str]) -> str:
    """Return citations as they stand behind a statement: `` [t1-2.4, t1-3.1]``."""
    return f" [{', '.join(citations)}]" if citations else ""


def one_line(words: str, most: int) -> str:
    """Return words on one line, cut."""
    line = " ".join(words.split())
    return line if len(line) <= most else line[: most - 1] + "…"

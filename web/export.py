"""A finished run's report as a markdown file. Evidence is data: nothing in it can become markup of the file."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from django.utils.text import slugify

from controlplane.investigations.selectors import RunView
from controlplane.runtimes.charts import Chart, chart_rows
from controlplane.runtimes.render import Style, action_lines, cause_lines, finding_lines, one_line, section
from controlplane.runtimes.report import Report
from controlplane.runtimes.sources.drafts import alert_draft
from controlplane.runtimes.sources.figures import clock_dated
from web.reports import Citation, ReportPage

# What could begin or end markup within a line: https://spec.commonmark.org/0.31.2/#backslash-escapes. Angle brackets
# and ampersands become entities, so that even a viewer that takes the file for HTML finds no tag.
_INLINE: Final = re.compile(r"[\\`*_\[\]|~$]")
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
# What could make a line a heading, a list, a rule or a heading's underline.
_OPENING: Final = re.compile(r"^(?:=|#(?=#|\s|$)|\+(?=\s|$)|-(?=-|\s|$)|\d{1,9}(?=[.)](?:\s|$)))")
# What GitHub turns into links of its own accord: https://github.github.com/gfm/#autolinks-extension-.
_AUTOLINK: Final = re.compile(r"(?i)(?<=\bwww)\.|:(?=//)|(?<=\bmailto):|(?<=\bxmpp):|@")
# Control characters, and those that reorder or hide text; line and paragraph separators end a line.
_UNSEEN: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_MOST_QUESTION_LINES: Final = 200


def inert(text: str) -> str:
    """Return ``text`` as one line of markdown that shows it and does nothing else, wherever on a line it stands."""
    line = " ".join(_UNSEEN.sub(" ", text).split())
    opening = _OPENING.match(line)
    escaped = _AUTOLINK.sub(r"\\\g<0>", _INLINE.sub(r"\\\g<0>", line))
    if opening:
        mark = opening.group()
        escaped = f"{mark}\\{escaped[len(mark) :]}" if mark.isdigit() else f"\\{escaped}"
    return re.sub("[&<>]", lambda found: _ENTITIES[found.group()], escaped)


def code_span(text: str) -> str:
    """Return ``text`` as one line of code, whatever backticks it has."""
    line = " ".join(_UNSEEN.sub(" ", text).split())
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    room = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{fence}{room}{line}{room}{fence}"


def report_filename(view: RunView) -> str:
    """Return what the file is called: ASCII letters, digits and hyphens."""
    title = slugify(view.report.title if view.report else "")[:60].strip("-_")
    return f"report-{view.run.created_at:%Y-%m-%d}-{title or view.run.pk}.md"


def report_markdown(view: RunView, report: Report) -> str:
    """Return the whole report of a run as markdown, with its citations numbered and its metrics as tables.

    Args:
        view: the run, with its thread and team.
        report: the run's own.
    """
    page = ReportPage(report, view.observations)
    style = Style(words=inert, cites=_numbers(page))
    return "\n".join(_lines(view, page, style)).strip() + "\n"


def _numbers(page: ReportPage) -> Callable[[Sequence[str]], str]:
    numbers = {cite.id: cite.number for cite in page.evidence}

    def cites(ids: Sequence[str]) -> str:
        # Escaped: with a definition elsewhere in the file a plain [1] would be a link.
        return f" \\[{', '.join(str(numbers[id_]) for id_ in dict.fromkeys(ids))}\\]" if ids else ""

    return cites


def _lines(view: RunView, page: ReportPage, style: Style) -> Iterator[str]:
    report = page.report
    yield f"# {inert(report.title) or 'Report'}"
    yield ""
    yield from _particulars(view, report)
    yield from section("Question", _question(view))
    if report.root_cause is None:
        yield from [f"**No root cause stated.** {inert(report.summary)}", ""]
    yield from cause_lines(report, style)
    yield from section("What failed", _mechanism(report, style))
    yield from section("Impact", _impact(report))
    yield from finding_lines(report, style)
    yield from action_lines(report, style)
    yield from section("Lessons", (f"- {inert(lesson)}" for lesson in report.lessons))
    if page.plots:
        yield from ["## Metrics (UTC)", ""]
        for plot in page.plots:
            yield from _metric(plot.chart, plot.citation)
    yield from section("Cited observations", (_observation(cite) for cite in page.evidence))


def _particulars(view: RunView, report: Report) -> Iterator[str]:
    run = view.run
    yield f"- Team: {inert(run.thread.node.name)}"
    yield f"- Asked by: {inert(run.requested_by_label)}, {run.created_at:%Y-%m-%d %H:%M} UTC"
    if run.ended_at is not None:
        yield f"- Ended: {run.ended_at:%Y-%m-%d %H:%M} UTC, {run.status}"
    yield f"- Status: {report.status.value}, severity {report.severity.value}"
    if run.thread.sample:
        yield "- A shipped sample on recorded evidence"
    yield ""


def _question(view: RunView) -> Iterator[str]:
    lines = [inert(line) for line in view.run.prompt.splitlines()]
    yield from (f"> {line}".rstrip() for line in lines[:_MOST_QUESTION_LINES])
    if len(lines) > _MOST_QUESTION_LINES:
        yield f"> … {len(lines) - _MOST_QUESTION_LINES} more lines"
    alert = view.run.alert
    if isinstance(alert, dict) and alert:
        yield from ["", f"Alert: {inert(one_line(alert_draft(alert).quote, 1_000))}"]


def _mechanism(report: Report, style: Style) -> Iterator[str]:
    """Yield object and mechanism of the cause, where the summary does not say the same already."""
    root = report.root_cause
    if root is not None and root.mechanism not in report.summary:
        yield f"{inert(root.object)}: {inert(root.mechanism)}{style.cites(root.supports)}"


def _impact(report: Report) -> Iterator[str]:
    impact = report.impact
    if impact.summary:
        yield f"- {inert(impact.summary)}"
    if impact.affected:
        yield f"- Affected: {', '.join(inert(name) for name in impact.affected)}"
    if impact.user_facing is not None:
        yield f"- Users {'notice' if impact.user_facing else 'do not notice'}"


def _metric(chart: Chart, cite: Citation) -> Iterator[str]:
    statistic = f" ({inert(chart.statistic.lower())})" if chart.statistic else ""
    yield f"### {inert(chart.name)}{statistic} \\[{cite.number}\\]"
    yield ""
    yield f"{inert(chart.words)}."
    if chart.query:
        yield from ["", code_span(chart.query)]
    yield from ["", "| Time | Value | |", "| --- | ---: | --- |"]
    for at, value, changed in chart_rows(chart):
        yield f"| {clock_dated(at)} | {inert(chart.figure(value))} | {'changed here' if changed else ''} |"
    yield ""


def _observation(cite: Citation) -> str:
    if cite.seen is None:
        return f"{cite.number}. {inert(cite.id)} is not in the log."
    seen = cite.seen
    return f"{cite.number}. {inert(seen.object)} ({inert(seen.source)}): {inert(seen.quote)}"

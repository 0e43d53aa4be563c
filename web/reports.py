"""A report as its page shows it: citations numbered in reading order, observation and inference told apart."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from itertools import groupby
from typing import Final

from controlplane.investigations.feedback import Ratings
from controlplane.investigations.files import StoredFile
from controlplane.investigations.selectors import ObservationRef, RunView
from controlplane.runtimes.charts import Chart, chart_of
from controlplane.runtimes.drawings import Drawing, draw, gutter_of
from controlplane.runtimes.evidence import ObservationKind
from controlplane.runtimes.loose_json import mapping
from controlplane.runtimes.render import moment_text
from controlplane.runtimes.report import Category, Hypothesis, Report
from controlplane.runtimes.signals.alert import read_alert

_PRIORITIES: Final = (("immediate", "Now"), ("short_term", "Soon"), ("long_term", "Later"))
#: How many metrics a report draws: at once, and behind a fold. A report may cite any number.
SHOWN_PLOTS: Final = 8
_FOLDED_PLOTS: Final = 40


@dataclass(frozen=True, slots=True)
class Citation:
    """A numbered reference to an observation; ``seen`` is ``None`` when the log has none of that id."""

    number: int
    id: str
    seen: ObservationRef | None


Citations = tuple[Citation, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """A text with what it rests on."""

    text: str
    citations: Citations
    inferred: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """A hypothesis at its rank; the first is the best."""

    rank: int
    hypothesis: Hypothesis
    supports: Citations
    contradicts: Citations


@dataclass(frozen=True, slots=True)
class Moment:
    at: datetime
    text: str
    citations: Citations


@dataclass(frozen=True, slots=True)
class Plot:
    """A cited metric as a chart. ``asked`` is the first chart's citation, where that one shows the same query."""

    citation: Citation
    chart: Chart
    gutter: float
    alert_at: datetime | None = None
    asked: Citation | None = None

    @property
    def drawing(self) -> Drawing:
        return draw(self.chart, gutter=self.gutter, alert_at=self.alert_at)

    @property
    def words(self) -> str:
        """Everything a person sees in the drawing, as one sentence without its full stop."""
        at = self.alert_at
        seen = at is not None and self.drawing.alert is not None
        return self.chart.words + (f"; the alert began at {self.chart.time(at)} UTC" if at and seen else "")


class ReportPage:
    """The view of one finished run's report. Citation numbers follow the order in which the page shows them.

    ``alert_at`` is when the run's alert began, to be marked on the charts.
    """

    def __init__(
        self, report: Report, observations: Mapping[str, ObservationRef], *, alert_at: datetime | None = None
    ) -> None:
        self.report = report
        self._alert_at = alert_at
        self._observations = observations
        self._numbers: dict[str, Citation] = {}
        self.explanations = [
            Explanation(rank, item, self._cite(item.supports), self._cite(item.contradicts))
            for rank, item in enumerate(report.hypotheses, start=1)
        ]
        self.claims = [
            Statement(claim.text, self._cite(claim.citations), claim.kind == "inference") for claim in report.claims
        ]
        self._moments = [Moment(entry.at, moment_text(entry), self._cite(entry.citations)) for entry in report.timeline]
        self.ruled_out = [(item, self._cite(item.citations)) for item in report.ruled_out]

    @cached_property
    def cause(self) -> Explanation | None:
        """The root cause the report states."""
        return self.explanations[0] if self.report.root_cause is not None else None

    @property
    def is_healthy(self) -> bool:
        return self.cause is not None and self.cause.hypothesis.category == Category.HEALTHY

    @property
    def others(self) -> list[Explanation]:
        """The explanations that are not the root cause."""
        return self.explanations[1:] if self.cause else self.explanations

    @cached_property
    def days(self) -> list[tuple[date, list[Moment]]]:
        """The timeline, oldest first, by day (UTC)."""
        ordered = sorted(self._moments, key=lambda moment: moment.at)
        return [(day, list(moments)) for day, moments in groupby(ordered, key=lambda moment: moment.at.date())]

    @property
    def actions(self) -> list[tuple[str, list[str]]]:
        """What to do, by urgency."""
        grouped = [
            (words, [item.action for item in self.report.actions if item.priority == priority])
            for priority, words in _PRIORITIES
        ]
        return [(words, items) for words, items in grouped if items]

    @property
    def evidence(self) -> Citations:
        """Every observation the page cites, by number."""
        return tuple(self._numbers.values())

    @cached_property
    def plots(self) -> list[Plot]:
        """The metrics among the evidence, in its order, so those of the root cause first; one read twice shows once."""
        found: dict[tuple[str, str, str], tuple[Citation, Chart]] = {}
        for cite in self.evidence:
            seen = cite.seen
            if seen is None or seen.kind != ObservationKind.METRIC or (seen.source, seen.object, seen.quote) in found:
                continue
            chart = chart_of(seen.value, object=seen.object)
            if chart is not None:
                found[seen.source, seen.object, seen.quote] = cite, chart
            if len(found) == SHOWN_PLOTS + _FOLDED_PLOTS:
                break
        gutter = gutter_of(chart for _, chart in found.values())  # one for all: their times stand below each other
        asked: dict[str, Citation] = {}
        for cite, chart in found.values():
            asked.setdefault(chart.query, cite)
        return [
            Plot(cite, chart, gutter, self._alert_at, None if asked[chart.query] is cite else asked[chart.query])
            for cite, chart in found.values()
        ]

    @property
    def first_plots(self) -> list[Plot]:
        """Those that show at once."""
        return self.plots[:SHOWN_PLOTS]

    @property
    def folded_plots(self) -> list[Plot]:
        """Those behind a fold."""
        return self.plots[SHOWN_PLOTS:]

    def _cite(self, ids: Iterable[str]) -> Citations:
        for id_ in ids:
            if id_ not in self._numbers:
                self._numbers[id_] = Citation(len(self._numbers) + 1, id_, self._observations.get(id_))
        return tuple(self._numbers[id_] for id_ in dict.fromkeys(ids))


@dataclass(frozen=True, slots=True)
class Turn:
    """A run on the thread's page, with its report once it has ended."""

    view: RunView
    page: ReportPage | None
    ratings: Ratings = field(default_factory=Ratings)
    may_rate: bool = False
    files: Sequence[StoredFile] = ()

    @property
    def ended(self) -> bool:
        return not self.view.run.is_active

    @property
    def incoming(self) -> list[StoredFile]:
        """The files that came with what was asked or said."""
        return [file for file in self.files if not file.outgoing]

    @property
    def outgoing(self) -> list[StoredFile]:
        """The files that the run made."""
        return [file for file in self.files if file.outgoing]

    @property
    def cut_short(self) -> str:
        """Why an answered run stopped early, in words, or ``""``."""
        limits = {"error_max_turns": "turns", "error_max_tokens": "tokens", "error_max_cost": "cost"}
        limit = limits.get(self.view.subtype)
        return f"This run reached its limit of {limit}. What it had gathered until then is kept." if limit else ""


def turn_of(
    view: RunView, ratings: Ratings | None = None, *, may_rate: bool = False, files: Sequence[StoredFile] = ()
) -> Turn:
    """Return the page's view of a run; ``may_rate``: whether its reader may say what the answer is worth."""
    said = ratings or Ratings()
    mine = [file for file in files if file.run_id == view.run.pk]
    if view.report is None:
        return Turn(view, None, said, may_rate, mine)
    alert = read_alert(mapping(view.run.alert))
    page = ReportPage(view.report, view.observations, alert_at=alert.starts_at if alert else None)
    return Turn(view, page, said, may_rate, mine)

"""Reports as pages show them."""

from datetime import UTC, datetime

from controlplane.investigations.selectors import ObservationRef
from controlplane.runtimes.report import Category, Hypothesis, TimelineEntry
from tests.web.support import report
from web.reports import ReportPage

SEEN = {id_: ObservationRef(2, "t1", "metrics", "payments-prod", "metric", "rose") for id_ in ("t1-1.1", "t1-1.2")}


def test_citations__numbered_in_reading_order__same_number_everywhere() -> None:
    page = ReportPage(report(), SEEN)
    assert [(cite.number, cite.id) for cite in page.evidence] == [(1, "t1-1.2"), (2, "t1-1.1"), (3, "t9-9.9")]
    assert page.cause is not None
    assert [cite.number for cite in page.cause.supports] == [1, 2]
    assert [cite.number for cite in page.others[0].contradicts] == [2]


def test_citation__not_in_the_log__has_nothing_to_show() -> None:
    page = ReportPage(report(), SEEN)
    assert [cite.seen is None for cite in page.evidence] == [False, False, True]


def test_claims__inference_is_told_from_observation() -> None:
    assert [claim.inferred for claim in ReportPage(report(), SEEN).claims] == [False, True]


def test_cause__none_stated__all_hypotheses_are_others() -> None:
    page = ReportPage(report(root_cause=None), SEEN)
    assert page.cause is None
    assert [item.rank for item in page.others] == [1, 2]


def test_cause__healthy__is_a_verdict() -> None:
    healthy = Hypothesis(category=Category.HEALTHY, object="payments-prod", mechanism="All is well.", confidence=0.9)
    page = ReportPage(report(hypotheses=(healthy,), root_cause=healthy), SEEN)
    assert page.is_healthy
    assert page.others == []


def test_timeline__unordered_over_two_days__is_ordered_by_day() -> None:
    def entry(day: int, hour: int) -> TimelineEntry:
        return TimelineEntry(at=datetime(2026, 3, day, hour, tzinfo=UTC), text=f"{day}.{hour}")

    page = ReportPage(report(timeline=(entry(27, 1), entry(26, 23), entry(26, 2))), SEEN)
    assert [(day.day, [item.text for item in items]) for day, items in page.days] == [
        (26, ["26.2", "26.23"]),
        (27, ["27.1"]),
    ]


def test_actions__grouped_by_urgency__empty_groups_left_out() -> None:
    assert ReportPage(report(), SEEN).actions == [("Now", ["Pause the batch."])]


def test_timeline__entry_repeats_its_time__page_leaves_it_out() -> None:
    entry = TimelineEntry(at=datetime(2026, 3, 27, 8, 12, tzinfo=UTC), text="Writes rise, from 08:12 UTC on.")
    ((_, (moment,)),) = ReportPage(report(timeline=(entry,)), SEEN).days
    assert moment.text == "Writes rise."

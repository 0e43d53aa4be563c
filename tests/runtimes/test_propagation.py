"""Following trouble along calls: who is blamed, who is not, and that names, dates and units do not matter."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.runtimes.builtin.analysis.propagation import Blame, assign_blame, propagation_candidates
from controlplane.runtimes.builtin.analysis.volumes import Trouble
from controlplane.runtimes.interface import HistoryTurn
from controlplane.runtimes.report import Category
from tests.support.evidence import run_turn
from tests.support.recordings import BEGIN, Service, alarm, shop_case, shop_snapshot

CALLS = [("front", "cart"), ("front", "search"), ("cart", "store"), ("search", "store")]


def blamed(
    services: Sequence[Service],
    calls: Sequence[tuple[str, str]] = CALLS,
    alert: Mapping[str, Any] | None = None,
    trouble: Trouble = Trouble.SLOW,
    **more: Any,
) -> list[Blame]:
    return assign_blame(shop_case(services, calls, alarm("front") if alert is None else alert, **more), trouble)


def names(blames: Sequence[Blame]) -> list[str]:
    return [blame.object for blame in blames]


QUIET = [Service("front", 0.3), Service("cart"), Service("search"), Service("store", 0.05)]
#: The store takes half a second more; cart calls it and waits, the front waits for cart.
SLOW_STORE = [Service("front", 0.3, 0.8), Service("cart", 0.1, 0.6), Service("search"), Service("store", 0.05, 0.55)]


def test_blame__quiet_system__nobody() -> None:
    assert blamed(QUIET) == []
    assert list(propagation_candidates(shop_case(QUIET, CALLS, alarm("front")))) == []


def test_blame__callee_that_explains_its_callers__is_blamed_and_they_are_not() -> None:
    (blame,) = blamed(SLOW_STORE)
    assert blame.object == "store"
    assert blame.way == ("front", "cart", "store")
    assert [volume.object for volume in blame.seen] == ["store", "cart", "front"]
    assert blame.share == pytest.approx(0.5 / 0.8, rel=0.03)


def test_blame__slow_callee_that_is_called_once__explains_nothing() -> None:
    services = [Service("front", 0.3, 0.8), Service("cart"), Service("search"), Service("store", 0.05, 1.0, requests=1)]
    assert names(blamed(services)) == ["front"]


def test_blame__caller_slower_than_its_callee_explains__is_blamed_for_the_rest() -> None:
    services = [Service("front", 0.3, 1.3), Service("cart", 0.1, 0.4), Service("search"), Service("store", 0.05)]
    first, second = blamed(services)
    assert (first.object, second.object) == ("front", "cart")
    assert first.own == pytest.approx(0.7 * 600, rel=0.03)
    assert second.own == pytest.approx(0.3 * 600, rel=0.03)


def test_blame__object_that_the_alarmed_one_does_not_depend_on__is_no_matter() -> None:
    services = [*QUIET, Service("batch", 0.1, 9.0)]
    assert blamed(services) == []
    assert names(blamed([*SLOW_STORE, Service("batch", 0.1, 9.0)])) == ["store"]


def test_blame__slow_callee_that_the_alarmed_object_hardly_feels__is_left_out() -> None:
    services = [Service("front", 0.3, requests=10_000), Service("cart", 0.1, 0.3, requests=10), *QUIET[2:]]
    assert blamed(services) == []


def test_blame__callee_never_called_before__its_caller_is_blamed_and_the_claim_says_so() -> None:
    services = [Service("front", 0.3, 0.8), Service("cart", 0.1, 0.6), Service("audit", now=0.5, known=False)]
    calls = [("front", "cart"), ("cart", "audit")]
    (blame,) = blamed(services, calls)
    assert blame.object == "cart"
    assert [volume.object for volume in blame.new] == ["audit"]
    (candidate,) = propagation_candidates(shop_case(services, calls, alarm("front")))
    assert "it calls audit, which it never did in normal operation" in candidate.mechanism
    (claim,) = [claim for claim in candidate.claims if "which normal operation does not" in claim.text]
    assert "audit.latency.Average" in claim.citations
    assert "c.1" in claim.citations, "the call itself is cited"


def test_blame__calls_in_a_circle__end_and_what_waits_does_not_explain() -> None:
    services = [Service("front", 0.2, 1.0), Service("cart", 0.1, 0.9)]
    circle = [("front", "cart"), ("cart", "front"), ("front", "front")]
    assert names(blamed(services, circle)) == ["cart"]
    assert names(blamed([Service("front", 0.2, 1.0), Service("cart")], circle)) == ["front"]
    assert blamed([Service("front"), Service("cart")], circle) == []


def test_blame__object_without_traffic__is_not_blamed_however_slow() -> None:
    services = [Service("front", 0.3, 0.8), Service("cart", 0.1, 9.0, requests=0), *QUIET[2:]]
    assert names(blamed(services)) == ["front"]


def test_blame__way_leads_through_an_object_without_metrics__is_followed() -> None:
    services = [Service("front", 0.3), Service("store", 0.05, 0.55)]
    (blame,) = blamed(services, [("front", "proxy"), ("proxy", "store")])
    assert (blame.object, blame.way) == ("store", ("front", "proxy", "store"))
    assert [volume.object for volume in blame.seen] == ["store"]


def test_blame__one_object_alone__there_is_nothing_to_follow() -> None:
    assert blamed([Service("front", 0.3, 0.9)], calls=()) == []


def test_blame__no_topology__the_alarmed_object_itself_and_who_accounts_for_it_cannot_be_told() -> None:
    first, *_ = blamed(SLOW_STORE, calls=())
    assert first.object in {"front", "cart", "store"}
    assert blamed(QUIET, calls=()) == []
    case = shop_case(SLOW_STORE, (), alarm("front"))
    assert all(candidate.score < 0.9 for candidate in propagation_candidates(case))


def test_blame__nobody_named__begins_at_what_nobody_calls() -> None:
    assert names(blamed(SLOW_STORE, alert={"title": "Something is slow"})) == ["store"]


def test_blame__milliseconds__same_as_seconds() -> None:
    scaled = [service.slower(1000) for service in SLOW_STORE]
    plain, other = blamed(SLOW_STORE), blamed(scaled, unit="Milliseconds")
    assert names(other) == names(plain)
    assert other[0].share == pytest.approx(plain[0].share)


FAILING = [
    Service("front", failing_now=0.11),
    Service("cart", failing_now=0.1),
    Service("search"),
    Service("store", failing_now=0.1),
]


def test_blame__failures__lead_to_where_they_begin() -> None:
    (blame,) = blamed(FAILING, alert=alarm("front", "availability"), trouble=Trouble.FAILING)
    assert blame.object == "store"
    assert blame.share == pytest.approx(0.099 / 0.109, rel=0.01)
    assert blame.own == pytest.approx(0.099 * 600, rel=0.03)


@pytest.mark.parametrize(
    ("alert", "expected"),
    [
        (alarm("front", "latency"), "is slow"),
        (alarm("front", "availability"), "is failing"),
        (alarm("front", "http_errors_total"), "is failing"),
        ({"title": "front is slow"}, "is slow"),
        ({"title": "front answers 5xx"}, "is failing"),
    ],
)
def test_candidates__metric_of_the_alert__chooses_what_is_followed(alert: dict[str, Any], expected: str) -> None:
    both = [Service("front", 0.1, 0.9, failing_now=0.2), Service("cart")]
    (candidate,) = propagation_candidates(shop_case(both, (), alert))
    assert expected in candidate.headline


def test_candidates__alert_says_nothing_of_the_kind__both_are_followed() -> None:
    both = [Service("front", 0.1, 0.9, failing_now=0.2), Service("cart")]
    found = propagation_candidates(shop_case(both, (), {"title": "front: anomaly"}))
    assert [candidate.headline for candidate in found] == ["front is slow", "front is failing"]


async def test_report__callee_accounts_for_it__dependency_failure_with_the_way_cited() -> None:
    ran = await run_turn(shop_snapshot(SLOW_STORE, CALLS, alarm("front")))
    root = ran.report.root_cause
    assert root is not None
    assert (root.category, root.object) == (Category.DEPENDENCY_FAILURE, "store")
    assert ran.report.causal_chain[1:] == ("cart waits for it.", "front waits for it.")
    way = next(claim for claim in ran.report.claims if "The calls lead there" in claim.text)
    assert way.text == "The calls lead there: front → cart → store."
    quotes = [ran.observations[id_].quote for id_ in way.citations]
    assert quotes == ["cart calls store", "front calls cart, search"]


async def test_report__no_callee_accounts_for_it__the_alarmed_object_is_named_and_the_kind_left_open() -> None:
    services = [Service("front", 0.3, 0.9), *QUIET[1:]]
    ran = await run_turn(shop_snapshot(services, CALLS, alarm("front")))
    root = ran.report.root_cause
    assert root is not None
    assert (root.category, root.object) == (Category.UNKNOWN, "front")
    assert "nothing it depends on accounts for that" in root.mechanism


async def test_report__quiet_system__nobody_is_blamed() -> None:
    ran = await run_turn(shop_snapshot(QUIET, CALLS, alarm("front")))
    assert ran.report.root_cause is not None
    assert ran.report.root_cause.category in (Category.HEALTHY, Category.UNKNOWN)
    assert all(one.confidence < 0.4 or one.category is Category.HEALTHY for one in ran.report.hypotheses)


KNOWN = ("front", "cart", "search", "store", "mailer")
NEW_NAMES = st.permutations(["zz-top", "a1-svc", "mid-tier", "Queue_7", "omega"])


@st.composite
def shops(draw: st.DrawFn) -> tuple[list[Service], list[tuple[str, str]]]:
    """Draw services with some latencies, and calls of each to later ones: no two volumes are alike."""
    factors = draw(st.lists(st.floats(0.9, 12), min_size=len(KNOWN), max_size=len(KNOWN), unique=True))
    loads = draw(st.lists(st.integers(1, 300), min_size=len(KNOWN), max_size=len(KNOWN)))
    services = [
        Service(name, 0.1 + place / 100, factor * (0.1 + place / 100), requests=float(load))
        for place, (name, factor, load) in enumerate(zip(KNOWN, factors, loads, strict=True))
    ]
    pairs = [(caller, callee) for place, caller in enumerate(KNOWN) for callee in KNOWN[place + 1 :]]
    return services, draw(st.lists(st.sampled_from(pairs), unique=True, max_size=8))


def outcome(blames: Sequence[Blame], names_: Mapping[str, str] | None = None) -> list[tuple[str, float, float]]:
    return [((names_ or {}).get(blame.object, blame.object), blame.own, blame.share) for blame in blames]


@given(shop=shops(), power=st.integers(-10, 10))
def test_blame__all_latencies_scaled__same_order_and_shares(
    shop: tuple[list[Service], list[tuple[str, str]]], power: int
) -> None:
    services, calls = shop
    factor = 2.0**power
    plain, scaled = blamed(services, calls), blamed([service.slower(factor) for service in services], calls)
    assert [(name, own * factor, share) for name, own, share in outcome(plain)] == outcome(scaled)


@given(shop=shops(), days=st.integers(-3000, 3000))
def test_blame__moved_in_time__same_verdict(shop: tuple[list[Service], list[tuple[str, str]]], days: int) -> None:
    services, calls = shop
    start = BEGIN + timedelta(days=days, hours=days % 24)
    moved = blamed(services, calls, alarm("front", start=start), start=start)
    assert outcome(moved) == outcome(blamed(services, calls))


@given(shop=shops(), new=NEW_NAMES)
def test_blame__renamed__same_order_and_shares(
    shop: tuple[list[Service], list[tuple[str, str]]], new: list[str]
) -> None:
    services, calls = shop
    to = dict(zip(KNOWN, new, strict=True))
    changed = blamed(
        [service.renamed(to) for service in services], [(to[a], to[b]) for a, b in calls], alarm(to["front"])
    )
    plain = outcome(blamed(services, calls), to)
    assert [name for name, _, _ in outcome(changed)] == [name for name, _, _ in plain]
    assert [figures for _, *figures in outcome(changed)] == [pytest.approx(figures) for _, *figures in plain]


@given(shop=shops(), data=st.data())
def test_blame__listed_in_another_order__same_verdict(
    shop: tuple[list[Service], list[tuple[str, str]]], data: st.DataObject
) -> None:
    services, calls = shop
    mixed = blamed(data.draw(st.permutations(services)), data.draw(st.permutations(calls)))
    plain = blamed(services, calls)
    assert names(mixed) == names(plain)
    assert [blame.share for blame in mixed] == pytest.approx([blame.share for blame in plain])


def test_blame__callee_behind_a_proxy_that_nobody_measures__explains_the_caller() -> None:
    services = [Service("front", 0.3, 0.8), Service("store", 0.05, 0.55)]
    assert names(blamed(services, [("front", "proxy"), ("proxy", "store")])) == ["store"]


async def test_lone_service__slower_than_ever_recorded__is_no_healthy_one() -> None:
    evidence = shop_snapshot([Service("front", 0.2, 1.0)], (), alarm("front"))
    ran = await run_turn(evidence, alert=alarm("front"), prompt="Why?")
    assert ran.report.root_cause is not None
    assert (ran.report.root_cause.category, ran.report.root_cause.object) == (Category.UNKNOWN, "front")
    assert "latency of front rose" in ran.report.summary


async def test_noise_of_an_object_nobody_asked_about__leaves_the_system_healthy() -> None:
    queue = Service("queue", 0.012, (0.012, 0.012, 0.012, 0.05, 0.05, 0.05), requests=1)
    evidence = shop_snapshot([*QUIET, queue], [*CALLS, ("store", "queue")], alarm("front"))
    ran = await run_turn(evidence, alert=alarm("front"), prompt="Why?")
    assert ran.report.root_cause is not None
    assert (ran.report.root_cause.category, ran.report.root_cause.object) == (Category.HEALTHY, "front")


@pytest.mark.parametrize(
    ("samples", "begins"),
    [([0.3], timedelta()), ([0.3, 0.3], timedelta()), ([0.3] * 60, timedelta(days=115)), ([1.7e308] * 6, timedelta())],
    ids=["one sample", "two samples", "long ago", "beyond any measure"],
)
async def test_lone_metric__too_little_or_not_of_the_time__is_no_proof_of_health(
    samples: list[float], begins: timedelta
) -> None:
    evidence = shop_snapshot([Service("front", 0.3, samples)], (), None)
    table = evidence["sources"]["metrics"]
    table.pop("normal", None)
    table["columns"] = [column for column in table["columns"] if column["metric"] == "latency"]
    ran = await run_turn(evidence, alert=alarm("front", start=BEGIN + begins), prompt="Why?")
    assert ran.report.root_cause is not None
    assert ran.report.root_cause.category is Category.UNKNOWN


def test_claims__onset__is_where_the_metric_changed_not_where_the_alert_began() -> None:
    slow = [0.3] * 10 + [0.9] * 20
    services = [Service("front", 0.3, slow), Service("store", 0.05, [value - 0.25 for value in slow])]
    alert = alarm("front", start=BEGIN + timedelta(minutes=5 * 28))
    (candidate,) = propagation_candidates(shop_case(services, [("front", "store")], alert))
    began = BEGIN + timedelta(minutes=50)
    assert f"from {began:%H:%M} UTC on" in candidate.claims[0].text


@pytest.mark.parametrize(
    ("words", "expected"), [("why are requests failing?", ["failing"]), ("why is the front so slow?", ["slow"])]
)
async def test_question_without_an_alert__its_words_choose_the_trouble(words: str, expected: list[str]) -> None:
    services = [Service("front", 0.3, 0.9, failing_now=0.2), Service("store", 0.05, 0.65, failing_now=0.2)]
    ran = await run_turn(shop_snapshot(services, [("front", "store")]), prompt=words)
    assert [word for word in ("slow", "failing") if f"store is {word}" in ran.report.title] == expected


async def test_alert_about_what_nobody_knows__is_said_and_weighs_less() -> None:
    calls = [("front", "store")]
    services = [Service("front", 0.3, 0.9), Service("store", 0.05, 0.65)]
    known = await run_turn(shop_snapshot(services, calls), alert=alert_of("front"), prompt="Why?")
    stranger = await run_turn(shop_snapshot(services, calls), alert=alert_of("ledger-b"), prompt="Why?")
    assert known.report.root_cause is not None
    assert stranger.report.root_cause is not None
    assert stranger.report.root_cause.confidence < known.report.root_cause.confidence - 0.2
    assert "Nothing that was read is about ledger-b" in stranger.report.summary
    assert [item.why for item in stranger.report.not_checked if item.what == "ledger-b"] == [
        "No source that was read knows it."
    ]
    assert "ledger-b" not in {item.what for item in known.report.not_checked}


def alert_of(service: str) -> dict[str, Any]:
    return {"status": "firing", "commonLabels": {"alertname": "Slow", "service": service}}


async def test_follow_up_about_a_part_of_the_verdict__is_answered_and_the_verdict_stays() -> None:
    evidence = shop_snapshot([Service("front", 0.3, 0.9), Service("store", 0.05, 0.65)], [("front", "store")])
    first = HistoryTurn("Why is front slow?", "store is slow", "completed")
    ran = await run_turn(evidence, alert=alert_of("front"), prompt="What calls store?", history=[first])
    assert ran.report.root_cause is not None
    assert (ran.report.root_cause.category, ran.report.root_cause.object) == (Category.DEPENDENCY_FAILURE, "store")
    assert "store is called by front." in ran.result.text

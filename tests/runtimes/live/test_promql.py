"""Scope, window and recipes: pure functions from an alert and a list of families to PromQL."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.runtimes.signals.measures import Measure, measure_of
from controlplane.runtimes.sources.live.plan import MOST_EXPRESSIONS, Catalogue, planned
from controlplane.runtimes.sources.live.promql import (
    RECIPES,
    filled,
    gauge_unit,
    generic_families,
    recipe_expressions,
    request_expressions,
    request_families,
)
from controlplane.runtimes.sources.live.scope import MOST_POINTS, quoted, scope_of, window_at
from tests.runtimes.live.peer import matches
from tests.runtimes.live.support import alert

EARLY, LATE = datetime(2020, 1, 1), datetime(2030, 1, 1)  # noqa: DTZ001 (hypothesis adds the zone)
NOW = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
ALL_FAMILIES = {need for recipe in RECIPES for need in recipe.needs}


def balanced(query: str) -> bool:
    """Return whether the brackets of an expression outside its strings close in order."""
    closing, stack = {")": "(", "}": "{", "]": "["}, []
    for character in re.sub(r'"(?:[^"\\]|\\.)*"', "", query):
        if character in "({[":
            stack.append(character)
        elif character in closing and (not stack or stack.pop() != closing[character]):
            return False
    return not stack


@pytest.mark.parametrize(
    ("ago", "start", "end"),
    [
        (timedelta(minutes=5), timedelta(minutes=65), timedelta()),
        (timedelta(hours=3), timedelta(hours=4), timedelta(hours=3) - timedelta(minutes=15)),
        (timedelta(hours=-3), timedelta(minutes=60), timedelta()),
        (None, timedelta(minutes=60), timedelta()),
    ],
)
def test_window_at__alert__from_an_hour_before_to_a_quarter_after_never_beyond_now(
    ago: timedelta | None, start: timedelta, end: timedelta
) -> None:
    given_alert = {"labels": {}, **({"startsAt": (NOW - ago).isoformat()} if ago is not None else {})}
    window = window_at(NOW, given_alert)

    assert (window.start, window.end) == (NOW - start, NOW - end)


@given(st.datetimes(min_value=EARLY, max_value=LATE, timezones=st.just(UTC)))
def test_window_at__any_alert__has_at_most_120_points(started: datetime) -> None:
    window = window_at(NOW, {"startsAt": started.isoformat()})

    assert 2 <= window.seconds / window.step_s + 1 <= MOST_POINTS
    assert window.end <= NOW


@given(st.text())
def test_quoted__any_text__is_one_string_that_reads_back(text: str) -> None:
    inside = quoted(text)

    assert re.search(r'(?<!\\)(?:\\\\)*"', inside) is None
    assert "\n" not in inside
    unescaped = re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), inside, flags=re.DOTALL)
    assert unescaped == text


def test_scope_of__service_of_a_namespace__exact_label_first_then_where_else_it_may_be() -> None:
    scope = scope_of(alert(service="checkout", namespace="shop"))

    within = ',namespace=~"shop|"'
    assert scope.selectors[0] == f'service="checkout"{within}'
    assert {f'job="checkout"{within}', f'pod=~"checkout-.+"{within}'} <= set(scope.selectors)
    assert len(scope.selectors) <= 10
    assert scope.names("checkout")
    assert scope.names("checkout-5d8f-abcde")
    assert not scope.names("checkouts")


def test_scope_of__host_with_a_port__other_exporters_of_the_host_too() -> None:
    selectors = scope_of(alert(instance="db-1.example.org:9187", job="postgres")).selectors

    assert selectors[0] == 'instance="db-1.example.org:9187"'
    other = next(one for one in selectors if one.startswith("instance=~"))
    assert matches(other, {"instance": "db-1.example.org:9100"})
    assert not matches(other, {"instance": "db-1xexample.org:9100"})


@given(st.text(min_size=1, max_size=60))
def test_scope_of__any_label_value__selectors_stay_closed(value: str) -> None:
    for selector in scope_of({"labels": {"service": value, "namespace": value}}).selectors:
        assert balanced(f"{{{selector}}}")


@pytest.mark.parametrize("scope", ["", 'service="a",namespace=~"b|"'])
def test_recipe_expressions__all_families__are_closed_and_carry_the_scope(scope: str) -> None:
    made = list(recipe_expressions(ALL_FAMILIES, scope=scope, rate_s=60))

    assert [one.name for one in made] == [recipe.name for recipe in RECIPES]
    for one in made:
        assert balanced(one.query)
        assert "$" not in one.query
        assert ",}" not in one.query
        assert all(label in one.query for label in one.objects)
        if scope:
            assert scope in one.query
            assert re.search(r"[a-z]_[a-z_]+\[", one.query) is None, "a selector without the scope"


@pytest.mark.parametrize(
    ("name", "measure"),
    [
        ("node_cpu_usage_percent", Measure.CPU),
        ("node_memory_available_percent", Measure.FREE_MEMORY),
        ("node_filesystem_avail_percent", Measure.FREE_STORAGE),
        ("node_load1", Measure.LOAD),
        ("node_disk_io_time", Measure.OTHER),
        ("node_network_errors", Measure.ERRORS),
        ("container_memory_working_set_percent_of_limit", Measure.MEMORY_USED),
        ("pg_connections_percent_of_max", Measure.CONNECTIONS),
        ("pg_replication_lag_seconds", Measure.REPLICA_LAG),
        ("redis_memory_used_percent", Measure.MEMORY_USED),
        ("kafka_consumer_group_lag", Measure.QUEUE),
    ],
)
def test_recipes__names__are_judged_as_what_they_measure(name: str, measure: Measure) -> None:
    assert name in {recipe.name for recipe in RECIPES}
    assert measure_of(name) is measure


@pytest.mark.parametrize(
    ("names", "labels", "expected"),
    [
        (
            ["http_requests_total", "http_request_duration_seconds_bucket"],
            ["service", "status", "le"],
            [
                "http_requests_rate",
                "http_requests_error_percent",
                "http_requests_duration",
                "http_requests_duration_p99",
            ],
        ),
        (["http_requests_total"], ["job"], ["http_requests_rate"]),
        (
            ["http_server_request_duration_seconds_bucket", "http_server_request_duration_seconds_count"],
            ["service_name", "http_response_status_code"],
            [
                "http_server_request_rate",
                "http_server_request_error_percent",
                "http_server_request_duration",
                "http_server_request_duration_p99",
            ],
        ),
        (["prometheus_http_requests_total"], ["job", "code"], []),
    ],
)
def test_request_expressions__families_and_labels__give_what_they_can_tell(
    names: list[str], labels: list[str], expected: list[str]
) -> None:
    made = [
        one
        for family in request_families(names, scope="")
        for one in request_expressions(family, labels, scope="", rate_s=60)
    ]

    assert [one.name for one in made] == expected
    assert all(balanced(one.query) and f"by ({labels[0]}" in one.query for one in made)


def test_request_families__monitoring_itself_asked_about__counts() -> None:
    assert len(request_families(["prometheus_http_requests_total"], scope='job="prometheus"')) == 1


def test_generic_families__types_decide_and_known_measures_come_first() -> None:
    names = [
        "a_thing", "b_errors_total", "c_queue_length", "d_seconds_sum", "d_seconds_count", "e_bucket", "e_count",
        "e_sum", "f_created", "g_opened", "go_goroutines", "node_x", "build_info",
    ]  # fmt: skip
    found = generic_families(names, {"g_opened": "counter"}, known={"node_x"}, scope="")

    assert found.gauges == ("c_queue_length", "a_thing")
    assert found.counters == ("b_errors_total", "g_opened")
    assert found.summaries == ("d_seconds",)


@given(st.sets(st.sampled_from([*sorted(ALL_FAMILIES), *(f"app_{n}_total" for n in range(40)), "app_requests_total"])))
def test_planned__any_families__within_the_budget_the_alerts_own_first(names: set[str]) -> None:
    selector = 'service="checkout"'
    catalogue = Catalogue({"": frozenset(names), selector: frozenset(sorted(names)[::2])}, {}, {})
    expressions, left_out = planned(catalogue, [])

    assert len(expressions) <= MOST_EXPRESSIONS
    assert len({one.query for one in expressions}) == len(expressions)
    assert left_out == 0 or len(expressions) == MOST_EXPRESSIONS
    if any(set(recipe.needs) <= catalogue.names[selector] for recipe in RECIPES):
        assert expressions[0].scope == selector


def test_filled__empty_scope__leaves_no_empty_braces() -> None:
    assert filled('a{b="c",$S} + d{$S}', scope="", rate_s=90, by="x") == 'a{b="c"} + d'


def test_filled__scope_that_looks_like_a_template__stays_as_it_is() -> None:
    scope = 'service="$W{},}"'
    assert filled("sum by ($BY) (rate(a{$S}[$W]))", scope=scope, rate_s=90, by="x") == (
        'sum by (x) (rate(a{service="$W{},}"}[90s]))'
    )


@pytest.mark.parametrize(
    ("name", "unit", "expected"),
    [("x_bytes", "", "Bytes"), ("x_seconds", "", "Seconds"), ("x", "volts", "volts"), ("used_ratio", "", "ratio")],
)
def test_gauge_unit__by_suffix_else_by_metadata(name: str, unit: str, expected: Any) -> None:
    assert gauge_unit(name, unit) == expected

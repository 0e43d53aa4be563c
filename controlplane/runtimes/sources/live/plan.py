"""Which expressions to ask a Prometheus for: the alert's object first, then the system around it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from controlplane.runtimes.signals.measures import Measure, measure_of
from controlplane.runtimes.sources.live.promql import (
    Expression,
    Generic,
    RequestFamily,
    counter_expression,
    families_in,
    gauge_expressions,
    generic_families,
    recipe_expressions,
    request_expressions,
    request_families,
    summary_expression,
)

MOST_EXPRESSIONS: Final = 20  # each costs one query for the window and one for the day before
MOST_FAMILIES: Final = 4  # of request metrics
_FIRST: Final = 6  # of each kind, before any kind has more


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What a server has: ``names`` of families by selector (``""``: all), ``types`` and ``units`` from metadata."""

    names: Mapping[str, frozenset[str]]
    types: Mapping[str, str]
    units: Mapping[str, str]
    object_label: str = ""
    rate_s: int = 300

    def selectors(self) -> list[str]:
        """Return the selectors that find something, the best first."""
        return [selector for selector, names in self.names.items() if selector and names]

    def request_families(self) -> list[tuple[str, RequestFamily]]:
        """Return the request metrics worth asking about, each with its selector."""
        found: dict[RequestFamily, str] = {}
        for selector in [*self.selectors(), ""]:
            for family in request_families(self.names.get(selector, ()), scope=selector)[:MOST_FAMILIES]:
                found.setdefault(family, selector)
        scoped = [(selector, family) for family, selector in found.items() if selector]
        everywhere = [("", family) for family in request_families(self.names.get("", ()), scope="")]
        return [*scoped[:MOST_FAMILIES], *everywhere[:MOST_FAMILIES]]


def planned(
    catalogue: Catalogue, requests: Sequence[tuple[str, RequestFamily, Collection[str]]]
) -> tuple[list[Expression], int]:
    """Return the expressions to ask, in order of importance, and how many were left out for the budget.

    Args:
        catalogue: what there is.
        requests: families of request metrics, each with its selector and the labels its series have.
    """
    scoped: list[Expression] = []
    wide: list[Expression] = []
    for selector, family, labels in requests:
        made = request_expressions(
            family, labels, scope=selector, rate_s=catalogue.rate_s, object_label=catalogue.object_label
        )
        (scoped if selector else wide).extend(made)
    own, taken = _own_recipes(catalogue)
    everywhere = _recipes(catalogue, "")
    around = [one for one in everywhere if one.name not in taken]
    again = [one for one in everywhere if one.name in taken]  # of objects beside the alert's
    known = {name for one in (*scoped, *wide, *own, *around) for name in families_in(one.query, catalogue.names[""])}
    telling, rest = _generic(catalogue, known)
    kinds = [own, scoped, telling, wide, around] if catalogue.selectors() else [wide, around, telling]
    first = [part[:_FIRST] for part in kinds]
    later = [part[_FIRST:] for part in kinds]
    own_rest = [one for one in rest if one.scope][:_FIRST]
    listed = list(chain(*first, own_rest, *later, again, rest))
    distinct = list({one.query: one for one in reversed(listed)}.values())[::-1]
    return distinct[:MOST_EXPRESSIONS], max(len(distinct) - MOST_EXPRESSIONS, 0)


def _recipes(catalogue: Catalogue, selector: str) -> list[Expression]:
    return list(
        recipe_expressions(
            catalogue.names.get(selector, frozenset()),
            scope=selector,
            rate_s=catalogue.rate_s,
            object_label=catalogue.object_label,
        )
    )


def _own_recipes(catalogue: Catalogue) -> tuple[list[Expression], set[str]]:
    """Return the recipes that the alert's selectors have all families of, each by its best selector."""
    found: dict[str, Expression] = {}
    for selector in catalogue.selectors():
        for expression in _recipes(catalogue, selector):
            found.setdefault(expression.name, expression)
    return list(found.values()), set(found)


def _generic(catalogue: Catalogue, known: set[str]) -> tuple[list[Expression], list[Expression]]:
    """Return the fallback's expressions: those whose measure the alert's object is judged by, and all others."""
    telling: list[Expression] = []
    rest: list[Expression] = []
    seen = set(known)
    selectors = catalogue.selectors()
    for selector in [*selectors, ""]:
        families = generic_families(
            catalogue.names.get(selector, frozenset()), catalogue.types, known=seen, scope=selector
        )
        seen.update(families.counters, families.gauges, families.summaries)
        own = telling if selector or not selectors else rest
        for is_telling, into in ((True, own), (False, rest)):
            into.extend(_expressions(catalogue, selector, families, is_telling=is_telling))
    return telling, rest


def _expressions(catalogue: Catalogue, selector: str, families: Generic, *, is_telling: bool) -> Iterator[Expression]:
    """Yield the expressions of those families whose measure is known, or of all others."""

    def wanted(names: Sequence[str]) -> list[str]:
        return [name for name in names if (measure_of(name) is not Measure.OTHER) is is_telling]

    label = catalogue.object_label
    yield from gauge_expressions(wanted(families.gauges), catalogue.units, scope=selector, object_label=label)
    for names, expression in ((families.counters, counter_expression), (families.summaries, summary_expression)):
        for name in wanted(names):
            yield expression(name, scope=selector, rate_s=catalogue.rate_s, object_label=label)

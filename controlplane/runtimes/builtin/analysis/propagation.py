"""Following trouble along the calls between services, from where it is felt to where it is made.

A caller waits for what it calls, and fails when that fails. So its volume of trouble (see ``volumes``) contains those
of its callees; what is left over is its own. The object with the most trouble of its own, among all that the alarmed
one depends on, is where the cause lies.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Final

from controlplane.runtimes.builtin.analysis.candidate import Candidate, act, inferred, listed, seen
from controlplane.runtimes.builtin.analysis.case import Case
from controlplane.runtimes.builtin.analysis.facts import CallsFact, distinct
from controlplane.runtimes.builtin.analysis.signs import SYMPTOMS, SignKind
from controlplane.runtimes.builtin.analysis.volumes import Trouble, Volume, is_count, volumes
from controlplane.runtimes.report import Category, Claim
from controlplane.runtimes.signals.measures import Measure, measure_of
from controlplane.runtimes.sources.figures import clock, figure

_LEAST_SHARE: Final = {Trouble.SLOW: 0.05, Trouble.FAILING: 0.1}
_LEAST_OBJECTS: Final = 2
_MOST: Final = 5
_WORDS: Final = {
    Trouble.SLOW: ("latency", "slow", "duration", "response time", "timeout", "apdex"),
    Trouble.FAILING: ("availability", "error", "5xx", "fail", "success", "unavailable"),
}


@dataclass(frozen=True, slots=True)
class Blame:
    """The trouble that an object makes itself: ``own`` of its volume is no callee's, ``share`` of what is felt.

    ``way`` leads from the alarmed object to it, ``seen`` is the trouble along it; ``new`` are what it calls now and did
    not before.
    """

    volume: Volume
    own: float
    share: float
    way: tuple[str, ...]
    seen: tuple[Volume, ...]
    new: tuple[Volume, ...]

    @property
    def object(self) -> str:
        return self.volume.object


def propagation_candidates(case: Case) -> Iterator[Candidate]:
    """Yield an explanation for each object that makes a good part of the trouble felt at what the alert names."""
    for trouble in _troubles(case):
        blames = assign_blame(case, trouble)
        for place, blame in enumerate(blames):
            yield _candidate(case, trouble, blame, first=place == 0)


def assign_blame(case: Case, trouble: Trouble) -> list[Blame]:
    """Return who makes the trouble, most of it first; nobody, when nothing stands out of normal operation."""
    alert = case.alert
    found = volumes(
        case.facts.metrics,
        trouble,
        statistic=alert.statistic if alert else "",
        since=alert.starts_at if alert else None,
    )
    if len(found) < _LEAST_OBJECTS:
        return []  # of one object alone there is nothing to follow
    ways = _ways(case, found)
    callees = {calls.object: calls.callees for calls in case.facts.calls}
    reached = {name: found[name] for name in ways if name in found}
    blames = [_blame(volume, ways[name], callees, found) for name, volume in reached.items() if volume.significant]
    felt = _felt(trouble, case, found, blames)
    weighed = [
        replace(blame, share=min(blame.own / felt, 1.0))
        for blame in blames
        if felt > 0 and not blame.volume.is_new and blame.own / felt >= _LEAST_SHARE[trouble]
    ]
    return sorted(weighed, key=lambda blame: -blame.own)[:_MOST]


def _blame(
    volume: Volume, way: tuple[str, ...], callees: Mapping[str, Sequence[str]], found: Mapping[str, Volume]
) -> Blame:
    called = [found[name] for name in _measured_below(volume.object, callees, found)]
    # Where calls go in a circle, what lies on the way here waits for this object, not the other way round.
    disturbed = [callee for callee in called if callee.significant and callee.object not in way]
    # A call that was never made before is the caller's own doing, whatever becomes of it.
    explained = sum(callee.excess for callee in disturbed if not callee.is_new)
    own = max(volume.excess - explained, 0.0)
    along = [found[name] for name in way[::-1] if name in found]
    shown = tuple(other for other in along if other.significant)
    return Blame(volume, own, 0.0, way, shown, tuple(callee for callee in disturbed if callee.is_new))


def _measured_below(name: str, callees: Mapping[str, Sequence[str]], found: Mapping[str, Volume]) -> dict[str, None]:
    """Return the nearest measured objects below one: a proxy that nobody measures hides nothing behind it."""
    below: dict[str, None] = {}
    seen, ahead = {name}, deque(callees.get(name, ()))
    while ahead:
        callee = ahead.popleft()
        if callee in seen:
            continue
        seen.add(callee)
        if callee in found:
            below[callee] = None
        else:
            ahead.extend(callees.get(callee, ()))
    return below


def _felt(trouble: Trouble, case: Case, found: Mapping[str, Volume], blames: Sequence[Blame]) -> float:
    """Return what the parts are measured by: all waiting at the alarmed objects, or the most failures there are."""
    alarmed = [found[name] for name in case.focus if name in found]
    if trouble is Trouble.SLOW and alarmed:
        return sum(volume.total for volume in alarmed)
    return max((blame.volume.excess for blame in blames), default=0.0)


def _ways(case: Case, found: Mapping[str, Volume]) -> dict[str, tuple[str, ...]]:
    """Return how each object is reached from the alarmed ones, shortest ways first; from all, when none is named."""
    callees = {calls.object: calls.callees for calls in case.facts.calls}
    called = {name for names in callees.values() for name in names}
    known = {*found, *callees, *called}
    starts = sorted(case.focus & known) or sorted(known - called) or sorted(known)
    ways: dict[str, tuple[str, ...]] = {name: (name,) for name in starts}
    ahead = deque(starts)
    while ahead:
        name = ahead.popleft()
        for callee in callees.get(name, () if callees else sorted(found)):
            if callee not in ways:
                ways[callee] = (*ways[name], callee)
                ahead.append(callee)
    return ways


def _troubles(case: Case) -> list[Trouble]:
    """Return the kinds of trouble that the alert or the question speaks of, else all."""
    alert = case.alert
    measure = measure_of(alert.metric) if alert and alert.metric else Measure.OTHER
    if measure is Measure.LATENCY:
        return [Trouble.SLOW]
    if measure in (Measure.AVAILABILITY, Measure.ERRORS):
        return [Trouble.FAILING]
    told = f"{case.question} {alert.words if alert else ''}".lower()
    said = [trouble for trouble, words in _WORDS.items() if any(word in told for word in words)]
    return said or list(Trouble)


def _candidate(case: Case, trouble: Trouble, blame: Blame, *, first: bool) -> Candidate:
    alarmed = blame.way[0]
    elsewhere = blame.object != alarmed
    words = "slow" if trouble is Trouble.SLOW else "failing"
    steps = [
        seen(f"{volume.object} {_levels(trouble, volume)}, from {clock(_onset(case, volume))} UTC on.", *volume.ids)
        for volume in blame.seen
    ]
    calls = _calls_on(case, blame.way)
    ids = distinct([*blame.volume.ids, *(id_ for step in steps for id_ in step.citations), *(c.id for c in calls)])
    headline = f"{blame.object} is {words}" + (f", and {alarmed} waits for it" if elsewhere and words == "slow" else "")
    if elsewhere and words == "failing":
        headline += f", and {alarmed} fails with it"
    return Candidate(
        kind=SignKind.DEPENDENCY if elsewhere else SignKind.LATENCY_UP,
        headline=headline,
        category=Category.DEPENDENCY_FAILURE if elsewhere else Category.UNKNOWN,
        object=blame.object,
        mechanism=_mechanism(trouble, blame),
        score=min(0.45 + 0.4 * blame.share + (0.05 if first and case.facts.calls else 0.0), 0.9),
        supports=ids,
        chain=_chain(trouble, blame),
        claims=(*steps, *_own_claims(case, trouble, blame)),
        actions=(act("immediate", f"Look into {blame.object}: its last change, its logs, its load."),),
        explains=frozenset({SignKind.DEPENDENCY, *SYMPTOMS}),
        affected=blame.way[::-1],
    )


def _onset(case: Case, volume: Volume) -> datetime:
    """Return when the trouble began: where the metric changed, which may lie long before the alert."""
    onsets = (vital.onset for vital in case.vitals if vital.id == volume.fact.id and vital.moved)
    return next((onset for onset in onsets if onset is not None), volume.onset)


def _mechanism(trouble: Trouble, blame: Blame) -> str:
    volume = blame.volume
    what = _levels(trouble, volume)
    if blame.new:
        names = listed(callee.object for callee in blame.new)
        return f"{volume.object} {what}; it calls {names}, which it never did in normal operation."
    if len(blame.way) == 1:
        return f"{volume.object} {what}, and nothing it depends on accounts for that: the cause is in itself."
    return f"{volume.object} {what}, more than anything it calls accounts for, and {blame.way[0]} depends on it."


def _levels(trouble: Trouble, volume: Volume) -> str:
    if trouble is Trouble.SLOW:
        return f"takes {figure(volume.level, 'seconds')} a request instead of {figure(volume.usual, 'seconds')}"
    if is_count(volume.fact):
        return f"fails {figure(volume.level, volume.fact.unit)} instead of {figure(volume.usual, volume.fact.unit)}"
    level, usual = (figure(100 * share, "percent") for share in (volume.level, volume.usual))
    return f"fails {level} of its requests instead of {usual}"


def _own_claims(case: Case, trouble: Trouble, blame: Blame) -> Iterator[Claim]:
    for callee in blame.new:
        calls = [c.id for c in case.facts.calls if c.object == blame.object and callee.object in c.callees]
        yield seen(
            f"{blame.object} calls {callee.object}, which normal operation does not; that {_levels(trouble, callee)}.",
            *callee.ids,
            *calls,
        )
    way = " → ".join(blame.way)
    if len(blame.way) > 1 and case.facts.calls:
        yield seen(f"The calls lead there: {way}.", *(calls.id for calls in _calls_on(case, blame.way)))
    if trouble is Trouble.SLOW:
        told = (
            f"{blame.object} itself makes its callers wait about {figure(blame.own, 'seconds')} in all more than usual"
        )
    else:
        told = f"{blame.object} itself fails about {blame.own:,.0f} requests more than usual"
    yield inferred(f"{told}; what it calls accounts for none of that.", *blame.volume.ids)


def _calls_on(case: Case, way: Sequence[str]) -> list[CallsFact]:
    pairs = set(pairwise(way))
    return [calls for calls in case.facts.calls if any((calls.object, callee) in pairs for callee in calls.callees)]


def _chain(trouble: Trouble, blame: Blame) -> tuple[str, ...]:
    verb = "waits for it" if trouble is Trouble.SLOW else "fails with it"
    first = f"{blame.object} {_levels(trouble, blame.volume)}."
    return (first, *(f"{caller} {verb}." for caller in blame.way[-2::-1]))

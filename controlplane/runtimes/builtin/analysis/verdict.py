"""Weighing: which explanation stands first, what else is possible, what stays unexplained."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from controlplane.runtimes.builtin.analysis.candidate import Candidate, act, cited, from_signs, listed, seen
from controlplane.runtimes.builtin.analysis.case import Case
from controlplane.runtimes.builtin.analysis.cluster import cluster_candidates
from controlplane.runtimes.builtin.analysis.connections import connection_candidates
from controlplane.runtimes.builtin.analysis.general import service_candidates
from controlplane.runtimes.builtin.analysis.health import healthy_candidate, open_symptoms
from controlplane.runtimes.builtin.analysis.hosts import host_candidates
from controlplane.runtimes.builtin.analysis.propagation import propagation_candidates
from controlplane.runtimes.builtin.analysis.records import record_candidates
from controlplane.runtimes.builtin.analysis.replication import replication_candidates
from controlplane.runtimes.builtin.analysis.ruledout import ruled_out
from controlplane.runtimes.builtin.analysis.signs import Sign, SignKind
from controlplane.runtimes.builtin.analysis.storage import storage_candidates
from controlplane.runtimes.report import Category, Claim, RuledOut

RULES: Final = (
    storage_candidates,
    replication_candidates,
    connection_candidates,
    host_candidates,
    cluster_candidates,
    service_candidates,
    propagation_candidates,
    record_candidates,
)
LEAST_SCORE: Final = 0.4  # below it an explanation is a mere possibility

_ALERT_WORDS: Final = {
    SignKind.REPLICA_LAG: ("lag",),
    SignKind.CPU_SATURATED: ("cpu",),
    SignKind.CONNECTIONS_FULL: ("connection",),
    SignKind.STORAGE_FULL: ("storage", "disk", "space"),
    SignKind.MEMORY_LOW: ("memory",),
    SignKind.FAILOVER: ("failover", "availability", "restart"),
    SignKind.OOM_KILLED: ("oom", "memory", "137"),
    SignKind.IMAGE_PULL: ("image",),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """``root`` is always there: a cause, "healthy" or "unknown". ``others`` are ranked alternatives."""

    root: Candidate
    others: Sequence[Candidate]
    ruled_out: Sequence[RuledOut]
    beside: Sequence[Sign]


def decide(case: Case) -> Verdict:
    """Return the verdict on a case.

    Causes compete by score. One that follows from another is no rival of it; one about an object that nobody asked
    about counts less. If none is strong enough the system is healthy, where the evidence carries that, else it is
    unknown.
    """
    found = [_weighed(case, candidate) for rule in RULES for candidate in rule(case)]
    ranked = sorted((_subordinate(one, found) for one in found), key=lambda one: -one.score)
    strong = [one for one in ranked if one.score >= LEAST_SCORE]
    weak = [one for one in ranked if one.score < LEAST_SCORE]
    if strong:
        root, others = strong[0], [*strong[1:], *weak]
    else:
        healthy = healthy_candidate(case)
        root, others = healthy or _unknown(case, ranked), ranked
    beside = [
        sign
        for sign in case.signs
        if sign.current
        and sign.kind not in root.explains
        and sign.kind is not root.kind
        and sign.strength >= 0.3
        and not set(sign.citations) <= set(root.supports)
    ]
    return Verdict(root, others[:4], ruled_out(case, root), beside[:4])


def _weighed(case: Case, candidate: Candidate) -> Candidate:
    score = candidate.score
    if candidate.affected and not any(map(case.in_focus, candidate.affected)) and not _hosts_focus(case, candidate):
        score *= 0.75
    if case.unfamiliar:
        score *= 0.6  # it is about something else than the alert
    words = _ALERT_WORDS.get(candidate.kind, ()) if candidate.kind else ()
    if case.alert is not None and any(word in case.alert.words for word in words):
        score = min(score + 0.03, 0.97)
    if case.unfamiliar:
        names = listed(case.unfamiliar)
        told = f"Nothing that was read is about {names}. What stands out elsewhere: {candidate.mechanism}"
        return replace(candidate, score=score, mechanism=told[:2_000])
    return replace(candidate, score=score)


def _hosts_focus(case: Case, candidate: Candidate) -> bool:
    """Return whether what is affected is a part of the cluster, which carries whatever is asked about."""
    nodes = {node.object for node in case.facts.of_type("node")}
    return any(name in nodes for name in candidate.affected)


def _subordinate(candidate: Candidate, found: Sequence[Candidate]) -> Candidate:
    for other in found:
        if other is candidate or candidate.kind is None or other.kind is candidate.kind:
            continue
        follows = candidate.kind in other.explains and other.score >= candidate.score - 0.15
        mutual = other.kind in candidate.explains and candidate.score >= other.score
        if follows and not mutual:
            return replace(candidate, score=candidate.score * 0.6)
    return candidate


def _unknown(case: Case, ranked: Sequence[Candidate]) -> Candidate:
    symptoms = open_symptoms(case)
    if case.unknown:
        names = listed(case.unknown)
        mechanism = f"No record of {names} is among the evidence, so nothing can be said about it."
        headline = f"{names} is not known"
    elif symptoms:
        names = listed((sign.object for sign in symptoms), 3)
        mechanism = f"{names} is disturbed, but the evidence does not show why: {symptoms[0].text}."
        headline = f"Cause unknown: {names}"
    elif not case.facts.read_anything():
        mechanism = "There is no evidence to judge by: no metric, event, log or state was available."
        headline = "No evidence to judge by"
    else:
        mechanism = "What was read shows no fault, but it is too little to call the system healthy."
        headline = "Too little evidence"
    return Candidate(
        kind=None,
        headline=headline,
        category=Category.UNKNOWN,
        object=symptoms[0].object if symptoms else next(iter(sorted(case.focus)), "the system"),
        mechanism=mechanism,
        score=0.3 if symptoms else 0.1,
        supports=cited(symptoms[:4]),
        chain=(),
        claims=(*from_signs(symptoms[:4]), *_seen(case)),
        actions=(act("immediate", _wanted(case)),),
        explains=frozenset(sign.kind for sign in symptoms),
        affected=tuple(dict.fromkeys(sign.object for sign in symptoms)),
        contradicts=tuple(id_ for one in ranked[:1] for id_ in one.contradicts),
    )


def _seen(case: Case) -> Iterator[Claim]:
    """Say what was read, most telling first: a person may make more of it than the rules do."""
    moved = sorted((vital for vital in case.vitals if vital.moved), key=lambda vital: not case.in_focus(vital.object))
    yield from (seen(f"{vital.course()}.", vital.id) for vital in moved[:3])
    for event in sorted(case.facts.events, key=lambda event: not event.loud)[:3]:
        yield seen(f'Event on {event.object}: "{event.message[:300].rstrip(".")}".', event.id)
    for line in [line for line in case.facts.logs if line.loud][:3]:
        yield seen(f'{line.object} logs "{line.message[:300].rstrip(".")}".', line.id)
    yield from (seen(f"{state.quote[:300]}.", state.id) for state in case.facts.states[:2])


def _wanted(case: Case) -> str:
    facts = case.facts
    wanted = [
        word
        for word, there in (
            ("metrics of the affected service around the time of the alert", bool(facts.metrics)),
            ("events of its platform", bool(facts.events)),
            ("its logs", bool(facts.logs)),
            ("the state of its instances", bool(facts.states)),
        )
        if not there
    ]
    missing = [item.name for item in facts.missing]
    if missing:
        wanted.insert(0, f"what is missing ({listed(missing)})")
    return (
        f"Provide {listed(wanted)} and ask again." if wanted else "Look at what changed just before the first symptom."
    )

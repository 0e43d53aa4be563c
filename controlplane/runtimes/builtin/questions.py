"""What a person's words point at: objects, measures, kinds of evidence."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from controlplane.runtimes.builtin.analysis.candidate import listed
from controlplane.runtimes.builtin.analysis.case import Case
from controlplane.runtimes.builtin.analysis.facts import EventFact, Facts, LogFact, StateFact
from controlplane.runtimes.report import Claim
from controlplane.runtimes.signals.alert import named_in
from controlplane.runtimes.signals.measures import Measure, name_words

_MEASURES: Final = {
    Measure.CPU: "cpu processor cores",
    Measure.FREE_STORAGE: "storage disk space volume full",
    Measure.STORAGE_USED: "storage disk space volume full",
    Measure.FREE_MEMORY: "memory ram oom heap",
    Measure.MEMORY_USED: "memory ram oom heap",
    Measure.SWAP: "swap",
    Measure.CONNECTIONS: "connection connections pool sessions",
    Measure.REPLICA_LAG: "lag replica replication stale",
    Measure.WAL_RATE: "wal",
    Measure.WAL_SIZE: "wal binlog",
    Measure.SLOT_LAG: "slot slots",
    Measure.WRITES: "write writes commit commits",
    Measure.READS: "read reads",
    Measure.LATENCY: "latency slow slowness response duration p95 p99",
    Measure.ERRORS: "error errors 5xx failures",
    Measure.QUEUE: "queue queues backlog iops",
    Measure.LOAD: "load",
    Measure.TRAFFIC: "traffic requests network throughput",
}
_TOPICS: Final = {
    "event": "event events happened restart restarts restarted failover backup",
    "log": "log logs line lines exception exceptions stacktrace error errors",
    "pod": "pod pods container containers restart restarts crash oom",
    "node": "node nodes",
    "deployment": "deployment deployments rollout deploy release replicas",
    "monitor": "monitor monitors",
    "query": "query queries statement statements sql",
    "waits": "wait waits lock locks blocking",
    "call": "call calls called caller callers callee callees depend depends dependency upstream downstream",
}


@dataclass(frozen=True, slots=True)
class Pointers:
    """What some words point at; all empty when they name nothing that is known."""

    objects: tuple[str, ...] = ()
    measures: frozenset[Measure] = frozenset()
    metrics: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.objects or self.measures or self.metrics or self.topics)

    def asks_for_facts(self) -> bool:
        """Return whether measures or metrics are pointed at, not only an object or a kind of evidence."""
        return bool(self.measures or self.metrics)

    def words(self) -> str:
        """Return what is pointed at, as a person would name it."""
        named = [*self.objects, *sorted(self.metrics), *sorted(measure.value for measure in self.measures)]
        return ", ".join(dict.fromkeys([*named, *sorted(f"{topic}s" for topic in self.topics)]))


def pointers_in(words: str, facts: Facts, objects: Iterable[str] = ()) -> Pointers:
    """Return what ``words`` point at among the facts, and among ``objects`` known before any fact was read."""
    lowered = words.lower()
    listed = set("".join(character if character.isalnum() else " " for character in lowered).split())
    known = list(dict.fromkeys([*facts.objects(), *objects]))
    metrics = frozenset(metric.metric for metric in facts.metrics if metric.metric and metric.metric.lower() in lowered)
    return Pointers(
        objects=tuple(named_in(lowered, known)),
        measures=frozenset(measure for measure, synonyms in _MEASURES.items() if listed & set(synonyms.split())),
        metrics=metrics,
        topics=frozenset(topic for topic, synonyms in _TOPICS.items() if listed & set(synonyms.split())),
    )


def answer_about(pointers: Pointers, case: Case, most: int = 6) -> list[Claim]:
    """Return what the evidence says about what is pointed at, each statement with its citation."""
    claims: list[Claim] = []
    vitals = [
        vital
        for vital in case.vitals
        if vital.measure in pointers.measures
        or vital.name in pointers.metrics
        or (vital.object in pointers.objects and vital.moved and not pointers.measures and not pointers.metrics)
    ]
    vitals = [vital for vital in vitals if not pointers.objects or vital.object in pointers.objects] or vitals
    vitals.sort(key=lambda vital: (not case.in_focus(vital.object), vital.moved == 0, vital.name))
    claims += [Claim(text=f"{vital.course()}.", citations=(vital.id,)) for vital in vitals[:most]]
    if "call" in pointers.topics:
        claims += _calls_about(pointers, case.facts)
    for fact in _facts_about(pointers, case.facts)[:most]:
        quote = fact.quote if isinstance(fact, StateFact) else f"{fact.object}: {fact.message}"
        claims.append(Claim(text=quote[:500], citations=(fact.id,)))
    return claims[: most + 2]


def _calls_about(pointers: Pointers, facts: Facts) -> list[Claim]:
    """Return what each object calls, and what calls it."""
    claims: list[Claim] = []
    for name in pointers.objects:
        own = [calls for calls in facts.calls if calls.object == name]
        callers = [calls for calls in facts.calls if name in calls.callees]
        if callers:
            who = listed((calls.object for calls in callers), 8)
            claims.append(Claim(text=f"{name} is called by {who}.", citations=tuple(c.id for c in callers[:8])))
        if own:
            whom = listed((callee for calls in own for callee in calls.callees), 8)
            claims.append(Claim(text=f"{name} calls {whom}.", citations=tuple(c.id for c in own)))
        elif callers:
            claims.append(Claim(text=f"{name} calls nothing that is known.", citations=(callers[0].id,)))
    return claims


def _facts_about(pointers: Pointers, facts: Facts) -> Sequence[EventFact | LogFact | StateFact]:
    found: list[EventFact | LogFact | StateFact] = []
    events = sorted(facts.events, key=lambda event: not event.loud)
    lines = [line for line in facts.logs if line.loud]
    if "event" in pointers.topics:
        found += events
    if "log" in pointers.topics:
        found += lines
    found += [state for state in facts.states if state.type in pointers.topics]
    if pointers.objects and not found and not pointers.asks_for_facts():
        found = [*facts.states, *(event for event in events if event.loud), *lines]
    chosen = [fact for fact in found if not pointers.objects or fact.object in pointers.objects]
    return chosen or (found if pointers.topics else ())


def is_a_question(words: str) -> bool:
    """Return whether words ask for something rather than report or command."""
    asking = {
        "what",
        "why",
        "how",
        "when",
        "where",
        "which",
        "who",
        "is",
        "are",
        "was",
        "were",
        "did",
        "does",
        "do",
        "can",
    }
    first = next(iter(name_words(words.replace("'", " "))), "")
    return words.rstrip().endswith("?") or first in asking

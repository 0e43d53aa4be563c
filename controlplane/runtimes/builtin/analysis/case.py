"""A case: the facts of a run with what they show, ready for the rules."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from controlplane.runtimes.builtin.analysis.facts import Facts, StateFact, pods
from controlplane.runtimes.builtin.analysis.incidents import (
    Incident,
    incidents_in,
    meant,
    unknown_ids,
    way_back,
    within,
)
from controlplane.runtimes.builtin.analysis.reports import log_signs, platform_signs
from controlplane.runtimes.builtin.analysis.signs import Signs
from controlplane.runtimes.builtin.analysis.sizes import InstanceSize, instance_size
from controlplane.runtimes.builtin.analysis.vitals import Vital, vital_of, vital_signs
from controlplane.runtimes.builtin.analysis.workloads import is_sick, workload_signs
from controlplane.runtimes.loose_json import mapping, number, text, whole
from controlplane.runtimes.signals.alert import AlertView, named_in
from controlplane.runtimes.signals.measures import Measure

_WRITE: Final = re.compile(
    r"^\s*(?:insert|update|delete|copy|merge|replace|create|alter|vacuum|truncate|reindex)\b", re.IGNORECASE
)
_LIMIT_WORDS: Final = re.compile(r"(?:max(?:imum)?|limit)(?: of| is|:|=)?\s*(\d{2,6})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a database and its share (0 to 1) of the load; ``waits`` are shares of its own load by name."""

    id: str
    object: str
    text: str
    share: float
    waits: Mapping[str, float]

    @property
    def writes(self) -> bool:
        return _WRITE.match(self.text) is not None

    @property
    def verb(self) -> str:
        return self.text.split(None, 1)[0].upper() if self.text.split() else ""

    def waiting_on(self, *prefixes: str) -> float:
        """Return the share of the statement's load that waits on events beginning so."""
        return sum(share for name, share in self.waits.items() if name.lower().startswith(prefixes))

    def short(self, most: int = 90) -> str:
        """Return the statement on one line, cut."""
        line = " ".join(self.text.split())
        return line if len(line) <= most else line[: most - 1] + "…"


@dataclass(frozen=True, slots=True)
class Waits:
    """What a database waits on: shares of the whole load by event name, heaviest first."""

    id: str
    object: str
    shares: Mapping[str, float]

    def on(self, *prefixes: str) -> float:
        return sum(share for name, share in self.shares.items() if name.lower().startswith(prefixes))

    @property
    def top(self) -> str:
        return next(iter(self.shares), "")


@dataclass(frozen=True, slots=True)
class Case:
    """``focus`` are the objects that the alert or the question speaks of; empty when neither names one.

    ``incidents`` are the recorded incident that is meant and those it goes back to, one by one; ``facts`` then are
    those of its time, ``everything`` are all. ``unknown`` are ids that were asked for and that no record has.

    ``question`` is what a person asked. ``unfamiliar`` is what the alert is about, where nothing of it is among the
    evidence.
    """

    facts: Facts
    alert: AlertView | None
    vitals: Sequence[Vital]
    signs: Signs
    focus: frozenset[str]
    size: InstanceSize | None
    statements: Sequence[Statement]
    waits: Waits | None
    everything: Facts
    incidents: tuple[Incident, ...] = ()
    unknown: tuple[str, ...] = ()
    question: str = ""
    unfamiliar: tuple[str, ...] = ()

    def vital(self, measure: Measure, object_: str | None = None) -> Vital | None:
        """Return the metric of a measure, of an object, else of the focus, else of any; moved ones first."""
        found = [vital for vital in self.vitals if vital.measure is measure]
        if object_ is not None:
            found = [vital for vital in found if vital.object == object_]
        found.sort(key=lambda vital: (vital.object not in self.focus, vital.moved == 0))
        return next(iter(found), None)

    def in_focus(self, object_: str) -> bool:
        """Return whether an object is asked about, or belongs to one that is (a pod of a deployment, a replica)."""
        return not self.focus or any(object_ == name or object_.startswith(f"{name}-") for name in self.focus)

    def connection_limit(self) -> tuple[int | None, tuple[str, ...]]:
        """Return the limit of connections and the observations that tell it."""
        return _connection_limit(self.facts, self.size)


def case_of(facts: Facts, alert: AlertView | None, prompt: str = "", asked: str = "") -> Case:
    """Return the case of some facts: metrics judged, signs found.

    The focus is what later words (``asked``) name, else what the alert, the prompt and the description of the system
    name.
    """
    names, everything = facts.objects(), facts
    scenario = facts.scenario.facts if facts.scenario else {}
    focus = named_in(asked, names)
    if not focus:
        known = " ".join(text(value) for value in scenario.values())
        focus = named_in(f"{alert.words if alert else ''} {prompt} {known}", names)
    recorded = incidents_in(facts)
    words = f"{asked} {prompt} {alert.words if alert else ''}"
    lead = meant(recorded, words, frozenset(focus))
    if lead is not None:
        focus = focus or [lead.service]
        facts = within(facts, lead.window())
    size = instance_size(text(scenario.get("instance_class")))
    limit, _ = _connection_limit(facts, size)
    vitals = [vital_of(metric) for metric in facts.metrics]
    now, start = facts.now(), _window_start(facts)
    sick = [pod.name for pod in pods(facts) if is_sick(pod, now) or pod.terminating]
    main = set(focus)

    def limit_of(object_: str) -> int | None:
        # The limit is that of the instance the scenario describes; of others nothing is known.
        return limit if not main or object_ in main else None

    signs = Signs(
        [
            *vital_signs(vitals, limit_of),
            *workload_signs(facts),
            *platform_signs(facts, start),
            *log_signs(facts, sick, now),
        ]
    )
    return Case(
        facts,
        alert,
        vitals,
        signs,
        frozenset(focus),
        size,
        _statements(facts),
        _waits(facts),
        everything,
        way_back(lead, recorded) if lead is not None else (),
        tuple(unknown_ids(recorded, words)),
        f"{asked} {prompt}",
        alert.subjects if alert and names and not focus else (),
    )


def _window_start(facts: Facts) -> datetime | None:
    return min((metric.times[0] for metric in facts.metrics), default=None)


def _connection_limit(facts: Facts, size: InstanceSize | None) -> tuple[int | None, tuple[str, ...]]:
    for event in facts.events:
        if "connection" in event.message.lower() and (match := _LIMIT_WORDS.search(event.message)):
            return int(match.group(1)), (event.id,)
    scenario = facts.scenario
    if scenario is None:
        return None, ()
    stated = number(scenario.facts.get("max_connections"))
    if stated:
        return int(stated), (scenario.id,)
    engine = text(scenario.facts.get("engine")).lower()
    if size is None:
        return None, ()
    if "postgres" in engine:
        return size.postgres_connections(), (scenario.id,)
    return (size.mysql_connections(), (scenario.id,)) if "mysql" in engine or "maria" in engine else (None, ())


def _statements(facts: Facts) -> list[Statement]:
    listed = [(state, _load(state)) for state in facts.of_type("query")]
    total = sum(load for _, load in listed)
    found = [_statement(state, load / total) for state, load in listed if total > 0]
    return sorted(found, key=lambda statement: -statement.share)


def _statement(state: StateFact, share: float) -> Statement:
    return Statement(
        state.id, state.object, text(state.facts.get("statement")), share, _shares(state.facts.get("waits"))
    )


def _load(state: StateFact) -> float:
    return max(number(state.facts.get("load")) or 0.0, 0.0)


def _waits(facts: Facts) -> Waits | None:
    state = next(iter(facts.of_type("waits")), None)
    return Waits(state.id, state.object, _shares(state.facts.get("waits"))) if state else None


def _shares(value: Any) -> dict[str, float]:
    loads = {name: number(load) or 0.0 for name, load in mapping(value).items()}
    total = sum(loads.values())
    ordered = sorted(loads.items(), key=lambda pair: -pair[1])
    return {name: load / total for name, load in ordered} if total > 0 else {}


def replicas(facts: Facts) -> dict[str, tuple[int, int, str]]:
    """Return ready and desired replicas and the observation's id, by deployment."""
    return {
        state.object: (whole(state.facts.get("ready")), whole(state.facts.get("desired")), state.id)
        for state in facts.of_type("deployment")
    }

"""Observations as typed facts, so that rules need not look into JSON."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from controlplane.runtimes.evidence import Observation, ObservationKind, TimeRange
from controlplane.runtimes.loose_json import flag, items, mapping, moment, number, objects, text, whole
from controlplane.runtimes.sources.records import Baseline


@dataclass(frozen=True, slots=True)
class MetricFact:
    id: str
    source: str
    object: str
    metric: str
    unit: str
    statistic: str
    times: tuple[datetime, ...]
    values: tuple[float, ...]
    low: float
    high: float
    baseline: Baseline | None = None
    query: str = ""


@dataclass(frozen=True, slots=True)
class CallsFact:
    """What an object calls."""

    id: str
    source: str
    object: str
    callees: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EventFact:
    id: str
    source: str
    object: str
    reason: str
    message: str
    loud: bool
    count: int
    at: TimeRange | None


@dataclass(frozen=True, slots=True)
class LogFact:
    """A pattern of lines: ``message`` is its first line, ``level`` its loudest."""

    id: str
    source: str
    object: str
    message: str
    level: str
    count: int
    at: TimeRange | None

    @property
    def loud(self) -> bool:
        return self.level in ("warning", "error")


@dataclass(frozen=True, slots=True)
class StateFact:
    id: str
    source: str
    object: str
    type: str
    facts: Mapping[str, Any]
    quote: str


@dataclass(frozen=True, slots=True)
class Missing:
    id: str
    name: str
    reason: str


@dataclass(slots=True)
class Facts:
    """All facts of a run. ``summaries`` are the ids that say how much a source gave, by ``(source, of what)``."""

    metrics: list[MetricFact] = field(default_factory=list)
    events: list[EventFact] = field(default_factory=list)
    logs: list[LogFact] = field(default_factory=list)
    states: list[StateFact] = field(default_factory=list)
    calls: list[CallsFact] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    sources: list[StateFact] = field(default_factory=list)
    summaries: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    alert: Observation | None = None
    scenario: StateFact | None = None

    def of_type(self, type_: str) -> list[StateFact]:
        """Return the states of a type."""
        return [state for state in self.states if state.type == type_]

    def read_anything(self) -> bool:
        """Return whether any source gave or could have given records."""
        return bool(self.summaries or self.metrics or self.events or self.logs or self.states or self.calls)

    def now(self) -> datetime | None:
        """Return the latest time anything was recorded at: the "now" of the evidence."""
        ends = [metric.times[-1] for metric in self.metrics]
        ends += [event.at.end for event in self.events if event.at is not None]
        ends += [line.at.end for line in self.logs if line.at is not None]
        return max(ends, default=None)

    def objects(self) -> list[str]:
        """Return the names of everything observed, most specific (longest) first."""
        names = {metric.object for metric in self.metrics} | {event.object for event in self.events}
        names |= {line.object for line in self.logs} | {state.object for state in self.states}
        names |= {name for calls in self.calls for name in (calls.object, *calls.callees)}
        names |= {str(name) for source in self.sources for name in items(source.facts.get("objects"))}
        return sorted((name for name in names if name), key=lambda name: (-len(name), name))

    def summary(self, of: str) -> tuple[str, ...]:
        """Return the ids that say how many records of a kind (``event``, ``log line``, …) each source gave."""
        return tuple(id_ for (_, what), (id_, _) in self.summaries.items() if what == of)


def facts_from(observations: Iterable[Observation]) -> Facts:
    """Return the facts in observations; what is not understood is left out."""
    facts = Facts()
    for observation in observations:
        value = mapping(observation.value)
        match observation.kind:
            case ObservationKind.ALERT:
                facts.alert = observation
            case _ if value.get("type") == "summary":
                facts.summaries[observation.source, text(value.get("of"))] = (observation.id, whole(value.get("count")))
            case ObservationKind.METRIC:
                metric = _metric(observation, value)
                if metric is not None:
                    facts.metrics.append(metric)
            case ObservationKind.EVENT | ObservationKind.CHANGE:
                facts.events.append(_event(observation, value))
            case ObservationKind.LOG:
                facts.logs.append(_log(observation, value))
            case ObservationKind.STATE:
                _take_state(facts, observation, value)
            case ObservationKind.TOPOLOGY:
                callees = tuple(text(name) for name in items(value.get("callees")) if text(name))
                facts.calls.append(CallsFact(observation.id, observation.source, observation.object, callees))
    return facts


def _take_state(facts: Facts, observation: Observation, value: Mapping[str, Any]) -> None:
    type_ = text(value.get("type"))
    state = StateFact(observation.id, observation.source, observation.object, type_, value, observation.quote)
    if type_ == "missing":
        facts.missing.append(Missing(observation.id, observation.object, text(value.get("reason"))))
    elif type_ == "scenario":
        facts.scenario = state
    elif type_ == "source":
        facts.sources.append(state)
    else:
        facts.states.append(state)


_MOST_SAMPLES: Final = 1_000
_MOST_VALUE: Final = 1e100  # beyond it sums and squares overflow, and nothing measured is that large


def _metric(observation: Observation, value: Mapping[str, Any]) -> MetricFact | None:
    start, listed = moment(value.get("start")), items(value.get("values"))[:_MOST_SAMPLES]
    values = tuple(sample for sample in (number(item) for item in listed) if sample is not None)
    if start is None or not values or len(values) != len(listed) or max(map(abs, values)) > _MOST_VALUE:
        return None
    step = number(value.get("step_s"))
    offsets = [number(item) for item in items(value.get("offsets_s"))[:_MOST_SAMPLES]]
    if len(offsets) != len(values) or None in offsets:
        offsets = [index * (step if step is not None else 60.0) for index in range(len(values))]
    low, high = number(value.get("min")), number(value.get("max"))
    return MetricFact(
        id=observation.id,
        source=observation.source,
        object=observation.object,
        metric=text(value.get("metric")),
        unit=text(value.get("unit")),
        statistic=text(value.get("statistic")),
        times=tuple(start + timedelta(seconds=offset or 0.0) for offset in offsets),
        values=values,
        low=min(values) if low is None else low,
        high=max(values) if high is None else high,
        baseline=_baseline(mapping(value.get("baseline"))),
        query=text(value.get("query")),
    )


def _baseline(value: Mapping[str, Any]) -> Baseline | None:
    median, mean, spread, low, high = (number(value.get(name)) for name in ("median", "mean", "spread", "low", "high"))
    if median is None or mean is None or spread is None or low is None or high is None:
        return None
    return Baseline(median, mean, spread, low, high, whole(value.get("samples")))


def _event(observation: Observation, value: Mapping[str, Any]) -> EventFact:
    return EventFact(
        id=observation.id,
        source=observation.source,
        object=observation.object,
        reason=text(value.get("reason")),
        message=text(value.get("message")),
        loud=text(value.get("level")) in ("warning", "error"),
        count=max(whole(value.get("count"), 1), 1),
        at=observation.at,
    )


def _log(observation: Observation, value: Mapping[str, Any]) -> LogFact:
    return LogFact(
        id=observation.id,
        source=observation.source,
        object=observation.object,
        message=text(value.get("message")),
        level=text(value.get("level"), "info"),
        count=max(whole(value.get("count"), 1), 1),
        at=observation.at,
    )


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod; exit code and reason are of now, else of its last end. ``ready`` may be unknown."""

    name: str
    image: str
    ready: bool | None
    waiting: bool
    restarts: int
    reason: str
    last_reason: str
    message: str
    exit_code: int | None
    started: datetime | None


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod; ``ready`` is ``None`` where its source does not tell, which is no sign of anything."""

    id: str
    name: str
    owner: str
    node: str
    phase: str
    reason: str
    ready: bool | None
    terminating: bool
    restarts: int
    started: datetime | None
    containers: tuple[Container, ...]
    unscheduled: str


def pods(facts: Facts) -> list[Pod]:
    """Return the pods among the states."""
    return [_pod(state) for state in facts.of_type("pod")]


def _pod(state: StateFact) -> Pod:
    value = state.facts
    scheduled = mapping(mapping(value.get("conditions")).get("PodScheduled"))
    return Pod(
        id=state.id,
        name=state.object,
        owner=text(value.get("owner")),
        node=text(value.get("node")),
        phase=text(value.get("phase")),
        reason=text(value.get("reason")),
        ready=flag(value.get("ready")),
        terminating=flag(value.get("terminating")) is True,
        restarts=whole(value.get("restarts")),
        started=moment(value.get("started")),
        containers=tuple(_container(part) for part in objects(value.get("containers"))),
        unscheduled=(text(scheduled.get("message")) or text(scheduled.get("reason"))) if scheduled else "",
    )


def _container(part: Mapping[str, Any]) -> Container:
    code = part.get("exit_code") if isinstance(part.get("exit_code"), int) else part.get("last_exit_code")
    return Container(
        name=text(part.get("name")),
        image=text(part.get("image")),
        ready=flag(part.get("ready")),
        waiting=flag(part.get("waiting")) is True,
        restarts=whole(part.get("restarts")),
        reason=text(part.get("reason")),
        last_reason=text(part.get("last_reason")),
        message=text(part.get("message")),
        exit_code=code if isinstance(code, int) else None,
        started=moment(part.get("started")),
    )


def distinct(ids: Iterable[str]) -> tuple[str, ...]:
    """Return ids without repeats, in order."""
    return tuple(dict.fromkeys(ids))

"""One investigation in progress: which calls are still to make, and what they have brought."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from controlplane.runtimes.builtin.analysis.facts import Facts, facts_from
from controlplane.runtimes.evidence import Observation
from controlplane.runtimes.loose_json import mapping, whole
from controlplane.runtimes.report import NotChecked

MOST_CALLS: Final = 24
_PAGE: Final = {
    "query_metrics": 100,
    "query_events": 200,
    "query_logs": 200,
    "get_states": 200,
    "service_topology": 500,
}
_COUNTED: Final = {
    "query_metrics": "metrics",
    "query_events": "events",
    "query_logs": "log lines",
    "get_states": "states",
    "service_topology": "calls",
}
_WHY: Final = {
    "query_metrics": "What moved, how far and when",
    "query_events": "What the platform reports to have happened",
    "query_logs": "What the programs complain about",
    "get_states": "What is wrong right now",
    "service_topology": "What calls what, so that a cause can be followed",
}


@dataclass(frozen=True, slots=True)
class Step:
    """A call to make, and why."""

    tool: str
    arguments: Mapping[str, Any]
    why: str


@dataclass(slots=True)
class Investigation:
    """The steps ahead, within a budget of calls, and the evidence gathered so far."""

    budget: int
    available: Sequence[str]
    steps: deque[Step] = field(default_factory=deque)
    observations: list[Observation] = field(default_factory=list)
    undone: list[NotChecked] = field(default_factory=list)
    calls: int = 0

    def begin(self) -> None:
        """Plan the first call: see what there is."""
        if "list_evidence" in self.available:
            self.steps.append(Step("list_evidence", {}, "See what evidence there is"))

    def next_step(self) -> Step | None:
        """Return the next call, or ``None`` when nothing is left to do or the budget is used up."""
        if not self.steps or self.calls >= self.budget:
            return None
        self.calls += 1
        return self.steps.popleft()

    def take(self, step: Step, observations: Sequence[Observation]) -> None:
        """Keep what a call brought, and plan what follows from it."""
        self.observations += observations
        if step.tool == "list_evidence":
            self._plan_queries()
        else:
            self._read_on(step, observations)

    def failed(self, step: Step, error: str) -> None:
        """Note a call that failed; the first one failing does not keep the others from being tried."""
        self.undone.append(NotChecked(what=step.tool, why=error[:500]))
        if step.tool == "list_evidence":
            self._plan_queries()

    def focus_on(self, objects: Sequence[str]) -> None:
        """Ask about named objects before anything else that is left to ask."""
        for name in reversed(objects[:3]):
            for tool in ("get_states", "query_metrics"):
                if tool in self.available:
                    self.steps.appendleft(Step(tool, {"object": name}, f"Asked about {name}"))

    def leave(self, why: str) -> None:
        """Give up the steps that are left, and say so."""
        for step in self.steps:
            self.undone.append(NotChecked(what=f"{step.tool} ({step.why.lower()})", why=why))
        self.steps.clear()

    def facts(self) -> Facts:
        """Return everything gathered, as facts; the same thing seen twice counts once."""
        distinct: dict[tuple[str, ...], Observation] = {}
        for observation in self.observations:
            distinct.setdefault(_identity(observation), observation)
        return facts_from(distinct.values())

    def _plan_queries(self) -> None:
        counts = self._counts()
        for tool, word in _COUNTED.items():
            # Without any count everything is asked for, so that the report can say what is missing; calls are no must.
            if tool in self.available and (word in counts or (not counts and tool != "service_topology")):
                self.steps.append(Step(tool, {"limit": _PAGE[tool]}, _WHY[tool]))

    def _counts(self) -> dict[str, int]:
        """Return how many records of each kind all sources have together."""
        counts: dict[str, int] = {}
        for observation in self.observations:
            value = mapping(observation.value)
            if value.get("type") == "source":
                for word, count in mapping(value.get("counts")).items():
                    counts[word] = counts.get(word, 0) + whole(count)
        return counts

    def _read_on(self, step: Step, observations: Sequence[Observation]) -> None:
        """Plan to read the rest where an answer had no room for all of them.

        Events and logs come loudest first, so their rest is left unread.
        """
        got = sum(mapping(one.value).get("type") != "summary" for one in observations)
        read = int(step.arguments.get("offset", 0)) + got
        left = self._counts().get(_COUNTED[step.tool], 0) - read
        if got and left > 0 and step.tool in ("query_metrics", "get_states") and "object" not in step.arguments:
            self.steps.appendleft(Step(step.tool, {**step.arguments, "offset": read}, f"{left} more to read"))


def _identity(observation: Observation) -> tuple[str, ...]:
    return observation.source, observation.object, observation.kind, observation.quote

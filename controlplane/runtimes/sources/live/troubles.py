"""Which questions tell the trouble of a Kubernetes cluster in PromQL, so that no answer grows with the cluster.

Metrics: the pages on pod, deployment and node metrics of the kube-state-metrics documentation.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from controlplane.runtimes.sources.live.promql import duration
from controlplane.runtimes.sources.live.scope import Scope, quoted

MOST_TROUBLED: Final = 30  # pods with one kind of trouble
MOST_OWN: Final = 20  # running pods of the alert's objects
MOST_PODS: Final = 50  # whose details are asked
MOST_DEPLOYMENTS: Final = 50
MOST_CONDITIONS: Final = 100  # of nodes
POD: Final = (
    "kube_pod_status_phase", "kube_pod_status_reason", "kube_pod_status_ready", "kube_pod_status_unschedulable",
    "kube_pod_info",
)  # fmt: skip
CONTAINER: Final = (
    "kube_pod_container_status_ready", "kube_pod_container_status_waiting_reason",
    "kube_pod_container_status_terminated_reason", "kube_pod_container_status_last_terminated_reason",
    "kube_pod_container_status_last_terminated_exitcode", "kube_pod_container_status_restarts_total",
)  # fmt: skip
DEPLOYMENT: Final = (
    "kube_deployment_spec_replicas", "kube_deployment_status_replicas_available",
    "kube_deployment_status_replicas_ready", "kube_deployment_status_replicas_unavailable",
)  # fmt: skip
NODE: Final = "kube_node_status_condition"
PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")

_BY_POD: Final = "max by (namespace, pod)"
_BY_DEPLOYMENT: Final = "max by (namespace, deployment)"
_OBJECT: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")  # a name as Kubernetes takes it
_MOST_VALUES: Final = 6
_PATTERN_CHARS: Final = 4_000  # of a URL that every proxy lets pass


@dataclass(frozen=True, slots=True)
class Question:
    """An instant query whose answer has at most ``most`` of ``what``."""

    query: str
    what: str
    most: int


def node_question(names: Collection[str]) -> Question | None:
    """Return the question for conditions of nodes: those in trouble first, then which nodes are ready."""
    if NODE not in names:
        return None
    pressures = "|".join(PRESSURES)
    trouble = (
        f'{NODE}{{condition="Ready",status!="true"}} == 1 or {NODE}{{condition=~"{pressures}",status="true"}} == 1'
    )
    listed = f'2 * ({trouble}) or {NODE}{{condition="Ready",status="true"}} == 1'
    query = f"topk({MOST_CONDITIONS}, max by (node, condition, status) ({listed}))"
    return Question(query, "conditions of nodes, those in trouble first,", MOST_CONDITIONS)


def deployment_question(names: Collection[str], scope: Scope) -> Question | None:
    """Return the question for replicas of deployments, those of the alert and those that miss most first.

    ``None`` without the families that tell how many replicas are wanted and how many are there.
    """
    there = next((name for name in DEPLOYMENT[1:3] if name in names), None)
    if DEPLOYMENT[0] not in names or there is None:
        return None
    within = _within(scope)

    def missing(*matchers: str) -> str:
        wanted, found = (_selected(name, *within, *matchers) for name in (DEPLOYMENT[0], there))
        return f"{_BY_DEPLOYMENT} ({wanted}) - {_BY_DEPLOYMENT} ({found})"

    worst = _most(MOST_DEPLOYMENTS, missing, _own(scope, "deployment"))
    query = f"{_of_families(DEPLOYMENT, names, *within)} and on (namespace, deployment) {worst}"
    return Question(query, "deployments, those that miss replicas first,", MOST_DEPLOYMENTS)


def pod_questions(names: Collection[str], scope: Scope, *, span_s: int) -> Iterator[Question]:
    """Yield the questions that name pods worth reading: one for each kind of trouble, and one for the alert's own.

    Args:
        names: of the families there are; what has none is not asked.
        scope: its namespace bounds them all.
        span_s: seconds in which a restart counts as trouble.
    """
    within, own = _within(scope), _own(scope, "pod")
    for what, trouble in _troubles(names, span_s):

        def listed(*matchers: str, trouble: Callable[..., str] = trouble) -> str:
            return f"{_BY_POD} ({trouble(*within, *matchers)})"

        yield Question(_most(MOST_TROUBLED, listed, own), what, MOST_TROUBLED)
    if own or within:
        phase, info = 'kube_pod_status_phase{phase="Running",%s} > 0', "kube_pod_info{%s}"
        running = next((text for text in (phase, info) if text.partition("{")[0] in names), None)
        if running is not None:
            query = f"topk({MOST_OWN}, {_BY_POD} ({running % ','.join([*within, *own])}))"
            yield Question(query, "running pods of the alert's objects", MOST_OWN)


def detail_queries(names: Collection[str], scope: Scope, pods: Sequence[str]) -> Iterator[str]:
    """Yield the queries for what is known of pods and of their containers.

    Args:
        names: of the families there are.
        scope: its namespace bounds them.
        pods: names, the most telling first; those beyond 4,000 characters are left out.
    """
    pattern = ""
    for pod in pods:
        longer = f"{pattern}|{_literal(pod)}".lstrip("|")
        if len(longer) > _PATTERN_CHARS:
            break
        pattern = longer
    for families in (POD, CONTAINER):
        if pattern and any(name in names for name in families):
            selector = _of_families(families, names, *_within(scope), f'pod=~"{quoted(pattern)}"')
            yield f"{selector} > 0"


def _troubles(names: Collection[str], span_s: int) -> Iterator[tuple[str, Callable[..., str]]]:
    """Yield each kind of trouble that the families can tell, with what makes its expression of matchers."""
    waiting, restarts = "kube_pod_container_status_waiting_reason", "kube_pod_container_status_restarts_total"
    ready, part_ready = "kube_pod_status_ready", "kube_pod_container_status_ready"
    phase, unscheduled = "kube_pod_status_phase", "kube_pod_status_unschedulable"
    ended = f' unless on (namespace, pod) {phase}{{phase="Succeeded"}} > 0' if phase in names else ""
    if waiting in names:
        yield "pods with a waiting container", lambda *where: f"{_selected(waiting, *where)} > 0"
    if ready in names:
        unready = 'condition=~"false|unknown"'
        yield "pods that are not ready", lambda *where: f"{_selected(ready, unready, *where)} > 0{ended}"
    elif part_ready in names:
        yield "pods that are not ready", lambda *where: f"1 - {_selected(part_ready, *where)} > 0{ended}"
    if restarts in names:
        span = duration(span_s)
        yield "pods that restarted", lambda *where: f"increase({_selected(restarts, *where)}[{span}]) > 0"
    if phase in names:
        stuck = 'phase=~"Pending|Failed|Unknown"'
        yield "pods that do not run", lambda *where: f"{_selected(phase, stuck, *where)} > 0"
    elif unscheduled in names:
        yield "pods that are not scheduled", lambda *where: f"{_selected(unscheduled, *where)} > 0"


def _most(most: int, listed: Callable[..., str], own: Sequence[str]) -> str:
    """Return the ``most`` of what an expression of matchers lists, those of the alert's objects before all others."""
    everything = listed()
    return f"topk({most}, 1e6 * (1 + ({listed(*own)})) or {everything})" if own else f"topk({most}, {everything})"


def _own(scope: Scope, label: str) -> list[str]:
    """Return the matcher of the alert's objects, whose names those of their pods begin with; none without objects."""
    values = [value for value in scope.values if _OBJECT.fullmatch(value)][:_MOST_VALUES]
    pattern = "|".join(f"{_literal(value)}(-.+)?" for value in values)
    return [f'{label}=~"{quoted(pattern)}"'] if pattern else []


def _within(scope: Scope) -> list[str]:
    return [f'namespace="{quoted(scope.labels["namespace"])}"'] if "namespace" in scope.labels else []


def _selected(name: str, *matchers: str) -> str:
    return f"{name}{{{','.join(matchers)}}}" if matchers else name


def _of_families(families: Sequence[str], names: Collection[str], *matchers: str) -> str:
    listed = "|".join(name for name in families if name in names)
    return _selected("", f'__name__=~"{listed}"', *matchers)


def _literal(value: str) -> str:
    return re.escape(value).replace(r"\-", "-")  # a hyphen means nothing outside of brackets

"""The state of a Kubernetes cluster as kube-state-metrics tells it, in the shape that recorded states have.

Metrics: the pages on pod, deployment and node metrics of the kube-state-metrics documentation.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any, Final

from controlplane.runtimes.sources.formats import kubernetes
from controlplane.runtimes.sources.live.scope import Scope
from controlplane.runtimes.sources.live.source import Reading
from controlplane.runtimes.sources.live.troubles import (
    DEPLOYMENT,
    MOST_PODS,
    Question,
    deployment_question,
    detail_queries,
    node_question,
    pod_questions,
)
from controlplane.runtimes.sources.records import State

MOST_QUERIES: Final = 9
_PRESSURES: Final = {
    "MemoryPressure": "memory_pressure",
    "DiskPressure": "disk_pressure",
    "PIDPressure": "pid_pressure",
    "NetworkUnavailable": "network_unavailable",
}

Samples = Sequence[tuple[Mapping[str, str], float]]
Ask = Callable[[str], Awaitable[Samples]]


async def read_cluster(
    source: str, names: frozenset[str], scope: Scope, *, span_s: int, ask: Ask, reading: Reading
) -> list[State]:
    """Return pods, deployments and nodes: those in trouble first, then those of the alert.

    Args:
        source: of the states.
        names: of the families there are.
        scope: what the alert is about.
        span_s: seconds in which a restart counts as trouble.
        ask: returns the samples of an instant query, none when it fails.
        reading: where it is noted that there may be more than is read.
    """

    async def answer(question: Question | None) -> Samples:
        samples = await ask(question.query) if question else ()
        if question and len({_object(labels) for labels, _ in samples}) >= question.most:
            reading.problem(f"at most {question.most} {question.what} are read; there may be more")
        return samples

    async def pods_of() -> list[dict[str, Any]]:
        listed = await asyncio.gather(*(answer(one) for one in pod_questions(names, scope, span_s=span_s)))
        wanted = _worst(listed)
        details = detail_queries(names, scope, list(dict.fromkeys(pod for _, pod in wanted)))
        samples = list(chain.from_iterable(await asyncio.gather(*(ask(query) for query in details))))
        return list(_pods([one for one in samples if _pod_key(one[0]) in wanted], names))

    nodes, deployments, pods = await asyncio.gather(
        answer(node_question(names)), answer(deployment_question(names, scope)), pods_of()
    )

    def read() -> list[State]:
        records = [
            *kubernetes.read_nodes(source, {"nodes": list(_nodes(nodes))}),
            *kubernetes.read_deployments(source, {"deployments": list(_deployments(deployments))}),
            *kubernetes.read_pods(source, {"pods": pods}),
        ]
        states = [record for record in records if isinstance(record, State)]
        return sorted(states, key=lambda state: (not _troubled(state), not scope.names(state.object)))

    return await asyncio.to_thread(read)


def _worst(listed: Sequence[Samples]) -> list[tuple[str, str]]:
    """Return at most 50 pods with their namespaces, by turns from each list, so that no trouble hides another."""
    ordered = [sorted(samples, key=lambda sample: -sample[1]) for samples in listed]
    taken = (_pod_key(sample[0]) for turn in zip_longest(*ordered) for sample in turn if sample)
    return list(dict.fromkeys(key for key in taken if key[1]))[:MOST_PODS]


def _pod_key(labels: Mapping[str, str]) -> tuple[str, str]:
    return labels.get("namespace", ""), labels.get("pod", "")


def _object(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return what a sample is about, whichever family it is of."""
    return tuple(labels.get(name, "") for name in ("namespace", "pod", "deployment", "node", "condition", "status"))


def _troubled(state: State) -> bool:
    facts = state.facts
    match state.type:
        case "deployment":
            return bool(facts["ready"] < facts["desired"])
        case "node":
            return facts["ready"] is False or bool(facts["pressures"])
        case _:
            waiting = any(part["waiting"] or part["last_reason"] == "OOMKilled" for part in facts["containers"])
            return facts["phase"] != "Succeeded" and (facts["ready"] is False or waiting or facts["restarts"] > 0)


def _pods(samples: Samples, names: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Yield pods as the API describes them; readiness that no family tells is left out."""
    unless_told = {"ready": False} if "kube_pod_container_status_ready" in names else {}
    pods: dict[tuple[str, str], dict[str, Any]] = {}
    containers: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for labels, value in samples:
        name, key = labels.get("__name__", ""), _pod_key(labels)
        if not name.startswith("kube_pod_") or not key[1]:
            continue
        pod = pods.setdefault(key, {"name": key[1], "namespace": key[0], "conditions": []})
        if name.startswith("kube_pod_container_"):
            container = containers.setdefault(key, {}).setdefault(
                labels.get("container", ""), {"name": labels.get("container", ""), **unless_told}
            )
            _take_container(container, name, labels, value)
        else:
            _take_pod(pod, name, labels)
    for key, pod in pods.items():
        pod["containers"] = list(containers.get(key, {}).values())
        yield pod


def _take_pod(pod: dict[str, Any], name: str, labels: Mapping[str, str]) -> None:
    match name:
        case "kube_pod_status_phase":
            pod["phase"] = labels.get("phase", "")
        case "kube_pod_status_reason":
            pod["reason"] = labels.get("reason", "")
        case "kube_pod_status_ready":  # "unknown": its node no longer reports
            status = "True" if labels.get("condition") == "true" else "False"
            pod["conditions"].append({"type": "Ready", "status": status})
        case "kube_pod_status_unschedulable":
            pod["conditions"].append({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"})
        case "kube_pod_info":
            pod["node_name"] = labels.get("node", "")
            pod["owner"] = labels.get("created_by_name", "")


def _take_container(container: dict[str, Any], name: str, labels: Mapping[str, str], value: float) -> None:
    reason = labels.get("reason", "")
    match name.removeprefix("kube_pod_container_status_"):
        case "ready":
            container["ready"] = True
        case "waiting_reason":
            container["state"] = {"waiting": {"reason": reason}}
        case "terminated_reason":
            container["state"] = {"terminated": {"reason": reason}}
        case "last_terminated_reason":
            container.setdefault("last_state", {})["reason"] = reason
        case "last_terminated_exitcode":
            container.setdefault("last_state", {})["exit_code"] = int(value)
        case "restarts_total":
            container["restart_count"] = int(value)


def _deployments(samples: Samples) -> Iterator[dict[str, Any]]:
    words = dict(zip(DEPLOYMENT, ("desired", "available", "ready", "unavailable"), strict=True))
    has_ready = any(labels.get("__name__") == "kube_deployment_status_replicas_ready" for labels, _ in samples)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for labels, value in samples:
        word, name = words.get(labels.get("__name__", "")), labels.get("deployment", "")
        if word and name:
            namespace = labels.get("namespace", "")
            found.setdefault((namespace, name), {"name": name, "namespace": namespace})[word] = int(value)
    for deployment in found.values():
        if not has_ready:  # releases before 2.0 do not have it
            deployment["ready"] = deployment.get("available", 0)
        yield deployment


def _nodes(samples: Samples) -> Iterator[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for labels, _ in samples:
        name = labels.get("node", "")
        if not name:
            continue
        node = found.setdefault(name, {"name": name})
        condition, status = labels.get("condition", ""), labels.get("status")
        if condition == "Ready":
            node["ready"] = status == "true"  # "unknown" is a node that no longer reports
        elif condition in _PRESSURES and status == "true":
            node[_PRESSURES[condition]] = True
    yield from found.values()

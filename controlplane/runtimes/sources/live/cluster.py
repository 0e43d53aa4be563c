"""The state of a Kubernetes cluster as kube-state-metrics tells it, in the shape that recorded states have.

Metrics: the pages on pod, deployment and node metrics of the kube-state-metrics documentation.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from controlplane.runtimes.sources.formats import kubernetes
from controlplane.runtimes.sources.live.scope import Scope, quoted
from controlplane.runtimes.sources.records import State

MOST_STATES: Final = 200
_POD: Final = (
    "kube_pod_status_phase", "kube_pod_status_reason", "kube_pod_status_ready", "kube_pod_status_unschedulable",
    "kube_pod_container_status_ready", "kube_pod_container_status_waiting_reason",
    "kube_pod_container_status_terminated_reason", "kube_pod_container_status_last_terminated_reason",
    "kube_pod_container_status_last_terminated_exitcode", "kube_pod_container_status_restarts_total", "kube_pod_info",
)  # fmt: skip
_DEPLOYMENT: Final = (
    "kube_deployment_spec_replicas", "kube_deployment_status_replicas_available",
    "kube_deployment_status_replicas_ready", "kube_deployment_status_replicas_unavailable",
)  # fmt: skip
_NODE: Final = "kube_node_status_condition"
_PRESSURES: Final = {
    "MemoryPressure": "memory_pressure",
    "DiskPressure": "disk_pressure",
    "PIDPressure": "pid_pressure",
    "NetworkUnavailable": "network_unavailable",
}

Samples = Sequence[tuple[Mapping[str, str], float]]


def state_queries(names: Sequence[str] | frozenset[str], scope: Scope) -> Iterator[str]:
    """Yield the instant queries that tell the state of a cluster, as far as its families are there."""
    within = f',namespace="{quoted(scope.labels["namespace"])}"' if "namespace" in scope.labels else ""
    workloads = [name for name in (*_POD, *_DEPLOYMENT) if name in names]
    if workloads:
        yield f'{{__name__=~"{"|".join(workloads)}"{within}}} > 0'
    if _NODE in names:
        yield f"{_NODE} == 1"


def cluster_states(source: str, samples: Samples, scope: Scope) -> list[State]:
    """Return pods, deployments and nodes: those in trouble and those of the alert first, at most 200."""
    listed = [
        *kubernetes.read_nodes(source, {"nodes": list(_nodes(samples))}),
        *kubernetes.read_deployments(source, {"deployments": list(_deployments(samples))}),
        *kubernetes.read_pods(source, {"pods": list(_pods(samples))}),
    ]
    states = [record for record in listed if isinstance(record, State)]
    return sorted(states, key=lambda state: (not _troubled(state), not scope.names(state.object)))[:MOST_STATES]


def _troubled(state: State) -> bool:
    facts = state.facts
    match state.type:
        case "deployment":
            return bool(facts["ready"] < facts["desired"])
        case "node":
            return facts["ready"] is False or bool(facts["pressures"])
        case _:
            waiting = any(part["waiting"] or part["last_reason"] == "OOMKilled" for part in facts["containers"])
            return facts["phase"] != "Succeeded" and (not facts["ready"] or waiting or facts["restarts"] > 0)


def _pods(samples: Samples) -> Iterator[dict[str, Any]]:
    pods: dict[tuple[str, str], dict[str, Any]] = {}
    containers: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for labels, value in samples:
        name, key = labels.get("__name__", ""), (labels.get("namespace", ""), labels.get("pod", ""))
        if not name.startswith("kube_pod_") or not key[1]:
            continue
        pod = pods.setdefault(key, {"name": key[1], "namespace": key[0], "conditions": []})
        if name.startswith("kube_pod_container_"):
            container = containers.setdefault(key, {}).setdefault(
                labels.get("container", ""), {"name": labels.get("container", ""), "ready": False}
            )
            _take_container(container, name, labels, value)
        else:
            _take_pod(pod, name, labels)
    for key, pod in pods.items():
        pod["containers"] = list(containers.get(key, {}).values())
        if not any(condition["type"] == "Ready" for condition in pod["conditions"]):
            pod["conditions"].append({"type": "Ready", "status": "False"})
        yield pod


def _take_pod(pod: dict[str, Any], name: str, labels: Mapping[str, str]) -> None:
    match name:
        case "kube_pod_status_phase":
            pod["phase"] = labels.get("phase", "")
        case "kube_pod_status_reason":
            pod["reason"] = labels.get("reason", "")
        case "kube_pod_status_ready" if labels.get("condition") == "true":
            pod["conditions"].append({"type": "Ready", "status": "True"})
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
    words = dict(zip(_DEPLOYMENT, ("desired", "available", "ready", "unavailable"), strict=True))
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
        if labels.get("__name__") != _NODE or not name:
            continue
        node = found.setdefault(name, {"name": name})
        condition, status = labels.get("condition", ""), labels.get("status")
        if condition == "Ready":
            node["ready"] = status == "true"  # "unknown" is a node that no longer reports
        elif condition in _PRESSURES and status == "true":
            node[_PRESSURES[condition]] = True
    yield from found.values()

"""A cluster's state by kube-state-metrics: trouble is asked for, bounded; what no family tells is unknown."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.runtimes.builtin.analysis.facts import facts_from, pods
from controlplane.runtimes.builtin.analysis.workloads import has_recovered, is_sick, workload_signs
from controlplane.runtimes.evidence import ObservationKind
from controlplane.runtimes.sources.live.source import LiveSource
from controlplane.runtimes.sources.live.troubles import CONTAINER, DEPLOYMENT, NODE, POD
from controlplane.runtimes.sources.records import State
from tests.runtimes.live.peer import Curve, Peer, PrometheusStub, failure, serving
from tests.runtimes.live.support import EVERYTHING, alert, evidence, info_of, source

START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
NAME = "checkout-5d8f-abcde"
Sample = tuple[dict[str, str], Curve]
LISTING = "topk(30"


def sample(family: str, value: float = 1, /, **labels: str) -> Sample:
    return {"__name__": family, **labels}, lambda _: value


def pod(family: str, value: float = 1, /, name: str = NAME, **labels: str) -> Sample:
    return sample(f"kube_pod_{family}", value, namespace="shop", pod=name, **labels)


CRASHING = [
    pod("status_phase", phase="Running"),
    pod("info", node="node-2", created_by_name="checkout-5d8f"),
    pod("container_status_waiting_reason", container="app", reason="CrashLoopBackOff"),
    pod("container_status_last_terminated_reason", container="app", reason="OOMKilled"),
    pod("container_status_last_terminated_exitcode", 137, container="app"),
    pod("container_status_restarts_total", 9, container="app"),
]
REPLICAS = [
    sample("kube_deployment_spec_replicas", 3, namespace="shop", deployment="checkout"),
    sample("kube_deployment_status_replicas_available", 1, namespace="shop", deployment="checkout"),
]
NODES = [
    sample(NODE, node="node-2", condition=name, status=status)
    for name, status in (("Ready", "false"), ("MemoryPressure", "true"))
]


def cluster(*samples: Sample, listed: Sequence[str] = (NAME,)) -> PrometheusStub:
    """Return a server with families; every question for troubled or running pods names those listed."""
    named: list[Sample] = [({"namespace": "shop", "pod": one}, lambda _: 1) for one in listed]
    inside = [one for one in samples if one[0]["__name__"] in CONTAINER]
    outside = [one for one in samples if one[0]["__name__"] in POD]
    return PrometheusStub(
        series=[labels for labels, _ in samples],
        answers=[
            ("max by (node", [one for one in samples if one[0]["__name__"] == NODE]),
            ("topk(50", [one for one in samples if one[0]["__name__"] in DEPLOYMENT]),
            ("topk(", named),
            ('"kube_pod_container', inside),
            ('"kube_pod_', outside),
        ],
    )


@pytest.fixture
def peer() -> Iterator[Peer]:
    with serving(Peer(cluster(*CRASHING, *REPLICAS, *NODES).respond)) as made:
        yield made


async def states_of(made: LiveSource) -> dict[str, State]:
    return {state.object: state for state in (await made.states(EVERYTHING)).records}


def state_queries(peer: Peer) -> list[str]:
    return [one.first("query") for one in peer.to("/query") if "kube_" in one.first("query")]


async def test_states__kube_state_metrics__are_pods_deployments_and_nodes(peer: Peer) -> None:
    found = await states_of(source(peer.url, alert=alert(START, namespace="shop")))

    assert (found["checkout"].facts["ready"], found["checkout"].facts["desired"]) == (1, 3)
    assert (found["node-2"].facts["ready"], found["node-2"].facts["pressures"]) == (False, ["memory_pressure"])
    crashing = found[NAME]
    (container,) = crashing.facts["containers"]
    assert (container["reason"], container["last_reason"], container["last_exit_code"]) == (
        "CrashLoopBackOff", "OOMKilled", 137,
    )  # fmt: skip
    assert (crashing.facts["ready"], crashing.facts["owner"]) == (False, "checkout-5d8f")


@pytest.mark.parametrize("named", [{}, {"service": "checkout"}, {"namespace": "shop"}])
async def test_states__any_alert__every_question_is_bounded(peer: Peer, named: dict[str, str]) -> None:
    await info_of(source(peer.url, alert=alert(START, **named)))

    asked = state_queries(peer)
    assert 0 < len(asked) <= 9
    assert [query for query in asked if "topk(" not in query and f'pod=~"{NAME}"' not in query] == []
    assert all('namespace="shop"' in query for query in asked if "node" not in query) is ("namespace" in named)


async def test_states__alert_on_a_service__its_pods_come_before_other_trouble(peer: Peer) -> None:
    await info_of(source(peer.url, alert=alert(START, service="checkout")))

    waiting = "kube_pod_container_status_waiting_reason"
    assert (
        f'topk(30, 1e6 * (1 + (max by (namespace, pod) ({waiting}{{pod=~"checkout(-.+)?"}} > 0))) or '
        f"max by (namespace, pod) ({waiting} > 0))"
    ) in state_queries(peer)


@pytest.mark.parametrize(
    ("failing", "lost"),
    [("max by (node", {"node-2"}), ("topk(50", {"checkout"}), ("increase(", set()), ('"kube_pod_container', set())],
)
async def test_states__one_question_fails__loses_only_its_part(peer: Peer, failing: str, lost: set[str]) -> None:
    stub = cluster(*CRASHING, *REPLICAS, *NODES)
    stub.errors = {failing: failure(422, "execution", "query processing would load too many samples")}
    peer.respond = stub.respond
    made = source(peer.url, alert=alert(START, namespace="shop"))

    assert set(await states_of(made)) == {"checkout", "node-2", NAME} - lost
    assert any("too many samples" in problem for problem in (await info_of(made)).problems)


async def test_states__more_in_trouble_than_is_read__read_by_turns_and_said(peer: Peer) -> None:
    names = [f"web-{number}-abcde" for number in range(30)]
    running = [pod("status_phase", name=name, phase="Running") for name in names]
    peer.respond = cluster(*running, listed=names).respond
    made = source(peer.url)

    assert set(await states_of(made)) == set(names)
    assert any("at most 30 pods that do not run are read" in one for one in (await info_of(made)).problems)


async def test_states__pod_of_the_same_name_elsewhere__is_not_read(peer: Peer) -> None:
    other = sample("kube_pod_status_phase", namespace="other", pod=NAME, phase="Failed")
    peer.respond = cluster(pod("status_phase", phase="Running"), other).respond
    found = (await source(peer.url).states(EVERYTHING)).records

    assert [state.facts["namespace"] for state in found] == ["shop"]


READY = pod("status_ready", condition="true")
PART_READY = pod("container_status_ready", container="app")
RUNNING = pod("status_phase", phase="Running")
RESTARTED = pod("container_status_restarts_total", 2, container="app")
ELSEWHERE: list[Sample] = [
    sample("kube_pod_container_status_ready", namespace="shop", pod="other", container="app"),
]


@pytest.mark.parametrize(
    ("samples", "ready"),
    [
        ([RUNNING, RESTARTED], None),
        ([RUNNING], None),
        ([RUNNING, RESTARTED, READY], True),
        ([RUNNING, RESTARTED, PART_READY], True),
        ([RUNNING, RESTARTED, *ELSEWHERE], False),
        ([RUNNING, pod("status_ready", condition="false")], False),
        ([RUNNING, pod("status_ready", condition="unknown")], False),
        ([pod("status_phase", phase="Pending")], False),
        ([RUNNING, pod("container_status_waiting_reason", container="app", reason="ImagePullBackOff")], False),
    ],
)
async def test_readiness__families_missing__is_unknown_and_no_sign(
    peer: Peer, samples: list[Sample], ready: bool | None
) -> None:
    peer.respond = cluster(*samples).respond
    made = source(peer.url, alert=alert(START, namespace="shop"))
    state = (await states_of(made))[NAME]
    words = {True: ", ready", False: ", not ready", None: ", of unknown readiness"}[ready]
    assert state.facts["ready"] is ready
    assert words in state.text

    result = await evidence([made], "get_states")
    facts = facts_from(one for one in result.observations if one.kind is ObservationKind.STATE)
    (told,) = pods(facts)
    signs: list[Any] = [sign for sign in workload_signs(facts) if sign.object == NAME]
    assert is_sick(told, None) is (ready is False)
    assert bool(signs) is (ready is False)
    assert has_recovered(told, None) is (ready is True)

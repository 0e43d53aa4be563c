"""The explanation that nothing is wrong (any more), and what speaks for it."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from controlplane.runtimes.builtin.analysis.candidate import Candidate, act, seen
from controlplane.runtimes.builtin.analysis.case import Case, replicas
from controlplane.runtimes.builtin.analysis.cluster import torn_down
from controlplane.runtimes.builtin.analysis.facts import Pod, distinct, pods
from controlplane.runtimes.builtin.analysis.signs import SYMPTOMS, Sign, SignKind
from controlplane.runtimes.builtin.analysis.vitals import Vital
from controlplane.runtimes.builtin.analysis.workloads import has_recovered, is_sick
from controlplane.runtimes.loose_json import text
from controlplane.runtimes.report import Category, Claim
from controlplane.runtimes.signals.measures import Measure
from controlplane.runtimes.sources.figures import clock

_LEAST_SAMPLES: Final = 3
_STALE: Final = timedelta(hours=1)
#: Where calls are known, whether such trouble elsewhere matters here has been judged by following them.
_OF_REQUESTS: Final = frozenset({SignKind.LATENCY_UP, SignKind.ERRORS_UP, SignKind.TRAFFIC_DOWN})
_SHOWN: Final = (
    Measure.CONNECTIONS,
    Measure.CPU,
    Measure.FREE_STORAGE,
    Measure.REPLICA_LAG,
    Measure.LOAD,
    Measure.LATENCY,
    Measure.ERRORS,
    Measure.MEMORY_USED,
)


def healthy_candidate(case: Case) -> Candidate | None:
    """Return the case for "no failure", or ``None`` when the evidence does not carry it.

    It takes evidence of the present state (metrics in focus, or states), no unexplained symptom, and fewer sources
    missing than read.
    """
    states = [*case.facts.of_type("pod"), *case.facts.of_type("deployment"), *case.facts.of_type("node")]
    metrics = [vital for vital in case.vitals if case.in_focus(vital.object) and _tells_of_now(case, vital)]
    absent, present = len(case.facts.missing), len({source for source, _ in case.facts.summaries}) or 1
    if not (states or metrics) or open_symptoms(case) or absent >= present:
        return None
    torn, recovered = torn_down(case), _recovered_pods(case)
    past = [sign for sign in case.signs if not sign.current and sign.strength >= 0.3]
    claims = [*torn, *(claim for claim, _ in recovered), *_past_claims(past), *_steady(case), *_quiet(case)]
    supports = distinct(id_ for claim in claims for id_ in claim.citations)
    firing = case.alert is None or case.alert.firing is not False
    object_ = next(iter(sorted(case.focus & {vital.object for vital in metrics})), "") or _workload(case)
    confidence = (0.8 if firing else 0.9) - 0.1 * absent
    return Candidate(
        kind=None,
        headline=f"No failure of {object_}" if object_ else "No failure",
        category=Category.HEALTHY,
        object=object_ or "the system",
        mechanism=_mechanism(bool(torn), [pod for _, pod in recovered], past, firing),
        score=max(confidence, 0.3),
        supports=supports,
        chain=(_story(bool(torn), bool(recovered), bool(past), firing),),
        claims=tuple(claims[:14]),
        actions=(act("long_term", _advice(bool(torn), bool(recovered or past))),) if firing else (),
    )


def _tells_of_now(case: Case, vital: Vital) -> bool:
    """Return whether a metric has enough samples to judge by, and some of the alert's own time."""
    began = case.alert.starts_at if case.alert else None
    late = began is not None and began - vital.fact.times[-1] > _STALE
    return len(vital.fact.values) >= _LEAST_SAMPLES and not late


def open_symptoms(case: Case) -> list[Sign]:
    """Return the present symptoms strong enough that calling the system healthy would be wrong."""
    return [
        sign
        for sign in case.signs.of(*SYMPTOMS, current=True)
        if sign.strength >= 0.35
        and not (case.facts.calls and sign.kind in _OF_REQUESTS and not case.in_focus(sign.object))
    ]


def _mechanism(torn: bool, recovered: list[Pod], past: list[Sign], firing: bool) -> str:
    if torn:
        return (
            "No active failure: what the alert reports is an old pod that is being terminated after a rollout; the "
            "current ReplicaSet is complete and ready."
        )
    if recovered:
        pod = recovered[0]
        since = max((part.started for part in pod.containers if part.started), default=None)
        times = "once" if pod.restarts == 1 else f"{pod.restarts} times"
        return (
            f"No active failure: {pod.name} restarted {times} and has been running and ready"
            + (f" since {clock(since)} UTC" if since else "")
            + "; it is not restarting now. The restart is over and left no lasting harm."
        )
    if past:
        return f"No active failure: what was out of order has recovered. {past[0].text}."
    if firing:
        return (
            "No failure: every signal that was read is within normal bounds, and no error is reported. The alert fired "
            "on a threshold that marks no failure."
        )
    return "No failure: every signal that was read is within normal bounds; the alert itself reports a normal state."


def _story(torn: bool, recovered: bool, past: bool, firing: bool) -> str:
    if torn:
        return "A rollout replaced the pods; the old one is torn down, which looks like a crash to the alert."
    if recovered or past:
        return "A disturbance came and went before this investigation; nothing of it is left."
    if firing:
        return (
            "Load moves within its usual range and crosses the alert's threshold; no causal chain leads to a failure."
        )
    return "A routine check reported; no causal chain leads to a failure."


def _advice(torn: bool, recovered: bool) -> str:
    if torn:
        return "Let the alert leave out pods that are being deleted."
    if recovered:
        return "Let the alert wait until the state has lasted, so that what heals itself wakes nobody."
    return "Raise the alert's threshold to where service suffers, or alert on errors and latency instead."


def _recovered_pods(case: Case) -> list[tuple[Claim, Pod]]:
    found: list[tuple[Claim, Pod]] = []
    for pod in pods(case.facts):
        if has_recovered(pod, case.facts.now()):
            since = max((part.started for part in pod.containers if part.started), default=None)
            times = "1 restart" if pod.restarts == 1 else f"{pod.restarts} restarts"
            when = f" since {clock(since)} UTC" if since else ""
            what = f"Pod {pod.name} has {times} behind it and is running and ready{when}."
            found.append((seen(what, pod.id), pod))
    return found


def _past_claims(past: list[Sign]) -> Iterator[Claim]:
    for sign in past[:3]:
        yield seen(f"{sign.text}.", *sign.citations)


def _steady(case: Case) -> Iterator[Claim]:
    """Say where the vital metrics stand, the focus first."""
    limit, limit_ids = case.connection_limit()
    for measure in _SHOWN:
        vital = case.vital(measure)
        if vital is None or not case.in_focus(vital.object):
            continue
        text_ = f"{vital.name} of {vital.object} stays {vital.range()}"
        if measure is Measure.CONNECTIONS and limit:
            share = vital.fact.high / limit
            yield seen(f"{text_}, at most {share:.0%} of the limit of {limit:,}.", vital.id, *limit_ids)
        elif measure is Measure.LOAD and case.size is not None:
            yield seen(f"{text_}, for {case.size.cpus} processors.", vital.id)
        else:
            yield seen(f"{text_}: within normal bounds.", vital.id)


def _quiet(case: Case) -> Iterator[Claim]:
    """Say which states are in order and which sources report nothing."""
    facts, now = case.facts, case.facts.now()
    present = [pod for pod in pods(facts) if not pod.terminating]
    if present and not any(pod.ready is None or is_sick(pod, now) for pod in present):
        clean = sum(pod.restarts == 0 for pod in present)
        yield seen(
            f"All {len(present)} pods are running and ready, {clean} of them without a restart.",
            *(p.id for p in present[:6]),
        )
    for name, (ready, desired, id_) in replicas(facts).items():
        yield seen(f"Deployment {name} has {ready} of {desired} replicas ready.", id_)
    nodes = facts.of_type("node")
    if nodes and not case.signs.of(SignKind.NODE_DOWN, SignKind.NODE_PRESSURE, current=True):
        yield seen("All nodes are ready without pressure.", *(node.id for node in nodes[:4]))
    monitors = facts.of_type("monitor")
    if monitors and all(text(monitor.facts.get("state")).lower() == "ok" for monitor in monitors):
        yield seen(f"Monitors are OK, all {len(monitors)} of them.", *(monitor.id for monitor in monitors[:4]))
    if facts.summary("event") and not any(event.loud for event in facts.events):
        count = (
            f"{len(facts.events)} routine event{'' if len(facts.events) == 1 else 's'}" if facts.events else "no event"
        )
        yield seen(f"No error, failure or warning is among the events ({count}).", *facts.summary("event"))
    if facts.summary("log line") and not any(line.loud for line in facts.logs):
        yield seen("The logs hold no error and no warning.", *facts.summary("log line"))
    if case.statements:
        top = case.statements[0]
        yield seen(
            f"The load is spread: the heaviest statement is {top.share:.0%} of it, and no wait stands out.", top.id
        )


def _workload(case: Case) -> str:
    return next(iter(replicas(case.facts)), "") or next((pod.owner for pod in pods(case.facts)), "")

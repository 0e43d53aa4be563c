"""Rules for workloads of a cluster: why pods do not run, and whether that is a fault at present."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controlplane.runtimes.builtin.analysis.candidate import Candidate, act, cited, from_signs, inferred, listed, seen
from controlplane.runtimes.builtin.analysis.case import Case, replicas
from controlplane.runtimes.builtin.analysis.facts import Pod, distinct, pods
from controlplane.runtimes.builtin.analysis.messages import dependency_in
from controlplane.runtimes.builtin.analysis.signs import Sign, SignKind
from controlplane.runtimes.builtin.analysis.workloads import is_sick
from controlplane.runtimes.loose_json import text
from controlplane.runtimes.report import ActionItem, Category, Claim


@dataclass(frozen=True, slots=True)
class _Words:
    """How one kind of fault reads: category, mechanism, chain, actions."""

    category: Category
    mechanism: str
    chain: tuple[str, ...]
    actions: tuple[ActionItem, ...]


_HEADLINES: Final = {
    SignKind.NODE_DOWN: "Node failure: {}",
    SignKind.IMAGE_PULL: "Image cannot be pulled: {}",
    SignKind.OOM_KILLED: "Out of memory: {}",
    SignKind.UNSCHEDULABLE: "Cannot be scheduled: {}",
    SignKind.BAD_CONFIG: "Wrong configuration: {}",
    SignKind.SANDBOX: "Cannot be set up by its node: {}",
    SignKind.NODE_PRESSURE: "Node under pressure: {}",
    SignKind.PROBE_FAILING: "Probe fails: {}",
    SignKind.DEPENDENCY: "Dependency unreachable: {}",
    SignKind.CODE_FAULT: "Fault in the program: {}",
    SignKind.BAD_DATA: "Unreadable data: {}",
    SignKind.CONNECTIONS_FULL: "Connections exhausted: {}",
    SignKind.STORAGE_FULL: "Disk full: {}",
    SignKind.CRASHING: "Keeps crashing: {}",
}

Tell = Callable[[Sequence[Sign]], _Words]


def cluster_candidates(case: Case) -> Iterator[Candidate]:
    """Yield one explanation for each kind of fault that pods or nodes show now."""
    for kind, tell in _TELLERS.items():
        signs = [
            sign for sign in case.signs.of(kind, current=True) if "log" not in sign.details or "pod" in sign.details
        ]
        signs = [sign for sign in signs if "vital" not in sign.details and "event" not in sign.details]
        if signs:
            yield _candidate(case, kind, signs, tell(signs))


def _candidate(case: Case, kind: SignKind, signs: Sequence[Sign], words: _Words) -> Candidate:
    names = [sign.object for sign in signs]
    context = _context(case, names)
    missing = [sign for sign in case.signs.of(SignKind.REPLICAS_MISSING, current=True) if sign.object not in names]
    wider = 0.03 * (len(signs) - 1)
    return Candidate(
        kind,
        _HEADLINES[kind].format(listed(names, 2)),
        words.category,
        listed(names, 3),
        words.mechanism,
        min(signs[0].strength + wider, 0.97),
        distinct([*cited(signs), *cited(missing[:2])]),
        words.chain,
        (*from_signs([*signs[:4], *missing[:2]]), *context),
        words.actions,
        explains=frozenset(
            {kind, SignKind.REPLICAS_MISSING, SignKind.MONITOR_ALERT, SignKind.LOG_ERRORS, SignKind.CRASHING}
        )
        | {SignKind.ERRORS_UP, SignKind.LATENCY_UP, SignKind.PROBE_FAILING, SignKind.TRAFFIC_DOWN},
        affected=tuple(names[:20]),
    )


def _context(case: Case, sick: Sequence[str]) -> list[Claim]:
    """Say how the siblings, nodes and deployments of sick pods do: it tells a pod's fault from a wider one."""
    now = case.facts.now()
    well = [pod for pod in pods(case.facts) if pod.name not in sick and pod.ready and not is_sick(pod, now)]
    claims: list[Claim] = []
    if well:
        owners = {pod.owner for pod in pods(case.facts) if pod.name in sick}
        siblings = [pod for pod in well if pod.owner in owners]
        older = [pod for pod in well if pod.owner not in owners]
        if siblings:
            who = f"The {len(siblings)} sibling pods run" if len(siblings) > 1 else "The sibling pod runs"
            claims.append(seen(f"{who} and {_be(siblings)} ready.", *(pod.id for pod in siblings[:4])))
        if older and owners:
            who = f"{len(older)} pods of another ReplicaSet" if len(older) > 1 else "One pod of the old ReplicaSet"
            claims.append(seen(f"{who} {_be(older)} ready and still serving.", *(pod.id for pod in older[:4])))
    nodes = case.facts.of_type("node")
    if nodes and not case.signs.of(SignKind.NODE_DOWN, SignKind.NODE_PRESSURE, current=True):
        claims.append(seen("All nodes are ready and report no pressure.", *(node.id for node in nodes[:4])))
    return claims


def _pod_of(sign: Sign) -> Pod | None:
    pod = sign.details.get("pod")
    return pod if isinstance(pod, Pod) else None


def _be(listed_: Sequence[object]) -> str:
    return "is" if len(listed_) == 1 else "are"


def _oom(signs: Sequence[Sign]) -> _Words:
    lead = signs[0]
    code = lead.details.get("exit_code")
    stated = f" with exit code {code}" if code else ""
    names = listed((sign.object for sign in signs), 3)
    return _Words(
        Category.RESOURCE_EXHAUSTION,
        f"{names}: the container uses more memory than its limit, so the kernel kills it (OOMKilled{stated}) and the "
        "kubelet restarts it, again and again.",
        (
            "The memory of the container grows past its limit.",
            f"The kernel's OOM killer ends the process{stated}.",
            "The kubelet restarts it with growing delay (CrashLoopBackOff); memory grows again.",
        ),
        (
            act(
                "immediate",
                f"Raise the memory limit of {names}, or give it less work at once, until the cause is known.",
            ),
            act("short_term", "Profile what grows: heap, cache, batch size; compare with the last release."),
            act("long_term", "Alert on memory against the limit, before the kill."),
        ),
    )


_PULL_CATEGORY: Final = {"unreachable": Category.DEPENDENCY_FAILURE}
_PULL_WORDS: Final = {
    "missing": "the registry does not have it (manifest unknown): the tag or name in the workload is wrong",
    "denied": "the registry denies access: the pull secret is missing or wrong",
    "unreachable": "the registry cannot be reached or refuses to serve now",
    "": "the reason is not recorded",
}


def _image(signs: Sequence[Sign]) -> _Words:
    details = signs[0].details
    image, cause, reason = (text(details.get(key)) for key in ("image", "cause", "reason"))
    fix = {
        "missing": "Correct the image tag of the workload, or push the image; roll back meanwhile.",
        "denied": "Correct the imagePullSecrets of the workload.",
        "unreachable": "Check the way from the nodes to the registry, and the registry's own state and limits.",
    }.get(cause, "Look at the events of the pod for the registry's answer.")
    return _Words(
        _PULL_CATEGORY.get(cause, Category.CONFIGURATION_ERROR),
        f"New pods cannot start ({reason}): image {image or '(not named)'} cannot be pulled; {_PULL_WORDS[cause]}.",
        (
            f"A rollout asks for image {image or '(not named)'}.",
            f"The pull fails: {_PULL_WORDS[cause]}.",
            f"The kubelet tries again with growing delay ({reason}); the new pods stay unready and the rollout stalls.",
        ),
        (act("immediate", fix), act("long_term", "Check in the pipeline that the image exists before it is deployed.")),
    )


def _unscheduled(signs: Sequence[Sign]) -> _Words:
    lead = signs[0]
    why = text(lead.details.get("why"))[:300]
    shortage = bool(lead.details.get("shortage"))
    names = listed((sign.object for sign in signs), 3)
    return _Words(
        Category.RESOURCE_EXHAUSTION if shortage else Category.CONFIGURATION_ERROR,
        f"{names} cannot be scheduled: {why}. "
        + (
            "The cluster has not the resources that are requested."
            if shortage
            else "No node fits what the pod demands."
        ),
        ("The scheduler finds no node for the pod.", "The pod stays pending; the workload lacks replicas."),
        (
            act(
                "immediate",
                "Add nodes or free resources." if shortage else "Correct the selector, affinity or toleration.",
            ),
            act("short_term", "Compare requests with what the workload uses."),
        ),
    )


def _config(signs: Sequence[Sign]) -> _Words:
    lead = signs[0]
    names = listed((sign.object for sign in signs), 3)
    return _Words(
        Category.CONFIGURATION_ERROR,
        f"{names} cannot run as configured: {lead.text}.",
        (
            "The configuration of the workload names or demands something that is not there.",
            "Its container cannot start.",
        ),
        (act("immediate", "Correct the configuration it names, or roll back the change that brought it."),),
    )


def _probe(signs: Sequence[Sign]) -> _Words:
    lead = signs[0]
    why = text(lead.details.get("why"))
    live = "liveness" in why.lower()
    names = listed((sign.object for sign in signs), 3)
    effect = "the kubelet restarts the container" if live else "the pod gets no traffic"
    return _Words(
        Category.CONFIGURATION_ERROR,
        f"{names}: the {'liveness' if live else 'readiness'} probe fails, so {effect}: {why[:300]}",
        ("The probe asks for something the program does not answer as expected.", f"The probe fails; {effect}."),
        (
            act("immediate", "Check path, port and delays of the probe against what the program serves."),
            act("short_term", "If the probe is right, look at why the program does not answer."),
        ),
    )


def _crash(signs: Sequence[Sign]) -> _Words:
    lead = signs[0]
    code = lead.details.get("exit_code")
    return _Words(
        Category.CODE_DEFECT if code not in (None, 0, 143) else Category.UNKNOWN,
        f"{lead.text}. The program ends by itself; its log does not give a cause that is recognised.",
        ("The program ends soon after its start.", "The kubelet restarts it with growing delay."),
        (act("immediate", "Read the last lines of the container's previous log; roll back the last release."),),
    )


def _code(signs: Sequence[Sign]) -> _Words:
    lead = signs[0]
    return _Words(
        Category.CODE_DEFECT,
        f"{lead.object} fails in its own code: {lead.text}.",
        ("The program meets a case that its code does not handle.", "It fails; the kubelet restarts it."),
        (
            act("immediate", "Roll back to the last release that ran."),
            act("short_term", "Fix the fault the log names."),
        ),
    )


def _dependency(signs: Sequence[Sign]) -> _Words:
    lead = signs[0]
    log = lead.details.get("log")
    host = dependency_in(log.message) if log is not None else ""
    return _Words(
        Category.DEPENDENCY_FAILURE,
        f"{lead.object} cannot reach what it depends on{f' ({host})' if host else ''}: {lead.text}.",
        (f"{host or 'A dependency'} does not answer.", f"{lead.object} fails without it."),
        (act("immediate", f"Check {host or 'the dependency'}: is it up, resolvable and reachable from the pod?"),),
    )


def _data(signs: Sequence[Sign]) -> _Words:
    lead = signs[0]
    return _Words(
        Category.DATA_QUALITY,
        f"{lead.object} fails on data it cannot read: {lead.text}.",
        ("Input has a form that the program does not accept.", "Processing stops at it."),
        (act("immediate", "Set the offending input aside; find who wrote it."),),
    )


def _exhausted(signs: Sequence[Sign]) -> _Words:
    lead = signs[0]
    return _Words(
        Category.RESOURCE_EXHAUSTION,
        f"{lead.object} runs out of a resource: {lead.text}.",
        ("A resource the program needs is used up.", "The program fails."),
        (act("immediate", "Free or enlarge the resource that the log names."),),
    )


def _sandbox(signs: Sequence[Sign]) -> _Words:
    lead = signs[0]
    return _Words(
        Category.INFRASTRUCTURE,
        f"The platform cannot set up {listed((sign.object for sign in signs), 3)}: {lead.text}.",
        ("Network or volume of the pod cannot be set up on its node.", "The pod never starts."),
        (act("immediate", "Look at the network plug-in or volume driver on that node."),),
    )


def _node_down(signs: Sequence[Sign]) -> _Words:
    nodes = [sign for sign in signs if _pod_of(sign) is None]
    hit = [sign for sign in signs if _pod_of(sign) is not None]
    names = listed((sign.object for sign in nodes), 3) or "a node"
    return _Words(
        Category.INFRASTRUCTURE,
        f"Node {names} is not ready" + (f", which takes down {len(hit)} pods on it" if hit else "") + ".",
        (f"Node {names} stops reporting.", "Its pods are lost or unreachable until they are moved."),
        (act("immediate", "Cordon and drain the node; look at its kubelet, network and host."),),
    )


def _node_pressure(signs: Sequence[Sign]) -> _Words:
    return _Words(
        Category.RESOURCE_EXHAUSTION,
        f"{signs[0].text}: the node runs out of it, and pods are evicted or refused.",
        ("The node runs short of the resource.", "The kubelet evicts pods to protect the node."),
        (
            act("immediate", "Free the resource on the node or move load away."),
            act("short_term", "Set requests and limits."),
        ),
    )


_TELLERS: Final[dict[SignKind, Tell]] = {
    SignKind.NODE_DOWN: _node_down,
    SignKind.IMAGE_PULL: _image,
    SignKind.OOM_KILLED: _oom,
    SignKind.UNSCHEDULABLE: _unscheduled,
    SignKind.BAD_CONFIG: _config,
    SignKind.SANDBOX: _sandbox,
    SignKind.NODE_PRESSURE: _node_pressure,
    SignKind.PROBE_FAILING: _probe,
    SignKind.DEPENDENCY: _dependency,
    SignKind.CODE_FAULT: _code,
    SignKind.BAD_DATA: _data,
    SignKind.CONNECTIONS_FULL: _exhausted,
    SignKind.STORAGE_FULL: _exhausted,
    SignKind.CRASHING: _crash,
}


def torn_down(case: Case) -> list[Claim]:
    """Say which pods are only being deleted after a rollout: they look broken and are not."""
    claims: list[Claim] = []
    present = pods(case.facts)
    for pod in (one for one in present if one.terminating):
        current = [one for one in present if one.owner != pod.owner and one.ready and not one.terminating]
        if current:
            claims.append(_replaced(pod, current, replicas(case.facts)))
    if claims:
        text_ = "What such a pod reports while it is torn down is not a current failure."
        claims.append(inferred(text_, *claims[0].citations))
    return claims


def _replaced(pod: Pod, current: Sequence[Pod], deployments: Mapping[str, tuple[int, int, str]]) -> Claim:
    owner = current[0].owner
    said = (
        f"Pod {pod.name} is being deleted: it belongs to the old ReplicaSet {pod.owner}, which a completed rollout "
        f"replaced; ReplicaSet {owner} has {len(current)} pods ready"
    )
    ids = [pod.id, *(one.id for one in current[:4])]
    for name, (ready, desired, id_) in deployments.items():
        if owner.startswith(name):
            said += f", deployment {name} {ready} of {desired} replicas"
            ids.append(id_)
    return seen(f"{said}.", *ids)

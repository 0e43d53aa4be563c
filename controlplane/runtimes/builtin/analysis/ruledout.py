"""What was looked at and found not to be the cause, and why."""

from collections.abc import Iterator

from controlplane.runtimes.builtin.analysis.candidate import Candidate
from controlplane.runtimes.builtin.analysis.case import Case
from controlplane.runtimes.builtin.analysis.facts import pods
from controlplane.runtimes.builtin.analysis.signs import SignKind
from controlplane.runtimes.loose_json import text
from controlplane.runtimes.report import RuledOut
from controlplane.runtimes.signals.measures import Measure


def ruled_out(case: Case, root: Candidate) -> list[RuledOut]:
    """Return the rival explanations that the evidence speaks against, those of metrics first."""
    return [*_by_metrics(case, root), *_by_states(case, root), *_by_reports(case, root)][:10]


def _by_metrics(case: Case, root: Candidate) -> Iterator[RuledOut]:
    rivals = (
        (Measure.CPU, (SignKind.CPU_SATURATED, SignKind.CPU_UP), "CPU saturation", "is far from saturated"),
        (Measure.FREE_STORAGE, (SignKind.STORAGE_FULL,), "Lack of storage", "leaves room"),
        (Measure.CONNECTIONS, (SignKind.CONNECTIONS_FULL,), "Too many connections", "is below the limit"),
        (Measure.FREE_MEMORY, (SignKind.MEMORY_LOW,), "Lack of memory", "leaves room"),
        (Measure.REPLICA_LAG, (SignKind.REPLICA_LAG,), "Replication lag", "stays low"),
        (Measure.ERRORS, (SignKind.ERRORS_UP,), "A rise of errors", "does not rise"),
    )
    for measure, kinds, name, verdict in rivals:
        vital = case.vital(measure)
        # A metric of some other object says nothing about the one in question.
        if vital is None or not case.in_focus(vital.object) or root.kind in kinds:
            continue
        limit, limit_ids = case.connection_limit() if measure is Measure.CONNECTIONS else (0, ())
        if limit is None or case.signs.of(*kinds, current=True):
            continue
        reason = (
            f"{vital.name} of {vital.object} {verdict}{f' of {limit:,}' if limit else ''}: it stays {vital.range()}."
        )
        yield RuledOut(hypothesis=name, reason=reason, citations=(vital.id, *limit_ids))


def _by_states(case: Case, root: Candidate) -> Iterator[RuledOut]:
    present = pods(case.facts)
    ids = tuple(pod.id for pod in present[:6])
    if present:
        absent = (
            (
                SignKind.OOM_KILLED,
                "A memory kill",
                "No container was OOM-killed: it is not an OOM, nothing is OOMKilled.",
            ),
            (SignKind.IMAGE_PULL, "A wrong image", "There is no image pull error."),
            (SignKind.UNSCHEDULABLE, "Lack of room in the cluster", "Every pod is scheduled."),
            (SignKind.PROBE_FAILING, "A failing probe", "No probe failure is reported."),
        )
        for kind, name, reason in absent:
            if root.kind is not kind and not case.signs.of(kind, current=True):
                yield RuledOut(hypothesis=name, reason=reason, citations=ids)
        if root.kind is None and not any(pod.terminating for pod in present):
            yield RuledOut(hypothesis="A crash loop", reason="No pod is currently restarting.", citations=ids)
    nodes = case.facts.of_type("node")
    if nodes and not case.signs.of(SignKind.NODE_DOWN, SignKind.NODE_PRESSURE, current=True):
        reason = "All nodes are ready and report no pressure."
        yield RuledOut(hypothesis="A failing node", reason=reason, citations=tuple(node.id for node in nodes[:4]))
    monitors = case.facts.of_type("monitor")
    if monitors and all(text(one.facts.get("state")).lower() == "ok" for one in monitors):
        reason = "All monitors are OK."
        yield RuledOut(hypothesis="Harm to users", reason=reason, citations=tuple(one.id for one in monitors[:4]))


def _by_reports(case: Case, root: Candidate) -> Iterator[RuledOut]:
    # An alert manager's events are alerts: of what a platform did they tell nothing.
    alerting = {source.object for source in case.facts.sources if source.facts.get("format") == "alertmanager"}
    told = case.facts.summaries.items()
    summary = tuple(id_ for (source, of), (id_, _) in told if of == "event" and source not in alerting)
    if case.vitals and summary and root.kind is not SignKind.FAILOVER and not case.signs.of(SignKind.FAILOVER):
        yield RuledOut(hypothesis="A failover or restart", reason="No event reports one.", citations=summary)
    lines = case.facts.summary("log line")
    if lines and root.kind is not SignKind.DEPENDENCY and not case.signs.of(SignKind.DEPENDENCY):
        reason = "No log line reports a failed connection."
        yield RuledOut(hypothesis="A failing dependency", reason=reason, citations=lines)

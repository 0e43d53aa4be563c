"""The rule for replicas that fall behind."""

from collections.abc import Iterator, Sequence

from controlplane.runtimes.builtin.analysis.candidate import Candidate, Story, act, cited, from_signs
from controlplane.runtimes.builtin.analysis.case import Case, Statement
from controlplane.runtimes.builtin.analysis.facts import distinct
from controlplane.runtimes.builtin.analysis.loads import dominates, processor_beside, writer_of
from controlplane.runtimes.builtin.analysis.signs import Sign, SignKind
from controlplane.runtimes.builtin.analysis.vitals import Vital
from controlplane.runtimes.report import Category
from controlplane.runtimes.signals.measures import Measure

_EXPLAINS = frozenset(
    {
        SignKind.REPLICA_LAG,
        SignKind.WAL_UP,
        SignKind.WRITES_UP,
        SignKind.LOAD_UP,
        SignKind.CPU_UP,
        SignKind.QUEUE_UP,
        SignKind.READS_UP,
    }
)


def replication_candidates(case: Case) -> Iterator[Candidate]:
    """Yield the explanation that a replica lags, from its metric, from events, or from what the alert reports."""
    signs = case.signs.of(SignKind.REPLICA_LAG, current=True)
    metric = next((sign for sign in signs if "vital" in sign.details), None)
    events = [sign for sign in signs if "event" in sign.details]
    surges = case.signs.of(SignKind.WAL_UP, SignKind.WRITES_UP, current=True)
    lead = metric or next(iter(events), None) or _reported(case, surges)
    if lead is None:
        return
    flat = _flat_lag(case, lead) if metric is None else None
    if flat is not None and (flat.moved or flat.fact.high > 10 * max(flat.now, 1.0) or not surges):
        return  # the replica has caught up, or never fell behind
    writer = writer_of(case)
    story = _outrun(lead, surges, writer) if surges or writer else _slow_replica(lead)
    beside = processor_beside(case, effect="the replication lag", writes="WAL")
    yield Candidate(
        kind=SignKind.REPLICA_LAG,
        headline=f"Replication lag on {lead.object}",
        category=Category.RESOURCE_EXHAUSTION if surges or writer else Category.INFRASTRUCTURE,
        object=lead.object,
        mechanism=story.mechanism,
        score=_score(metric, events, flat, bool(surges or writer)),
        supports=distinct([*cited([lead, *events, *surges]), *story.supports]),
        contradicts=(flat.id,) if flat is not None else (),
        chain=(*story.chain, *beside.chain),
        claims=(
            *from_signs([lead, *surges[:3], *(event for event in events[:3] if event is not lead)]),
            *story.claims,
            *beside.claims,
        ),
        actions=story.actions,
        explains=_EXPLAINS,
        affected=(lead.object,),
    )


def _score(metric: Sign | None, events: Sequence[Sign], flat: Vital | None, explained: bool) -> float:
    if metric is not None:
        return (0.9 if explained else 0.55) + (0.03 if events else 0)
    return 0.5 if flat is not None else 0.65


def _reported(case: Case, surges: Sequence[Sign]) -> Sign | None:
    """Return the alert as a sign of lag, where no lag was measured but the primary writes far more than before."""
    alert, seen_as = case.alert, case.facts.alert
    measured = any(vital.measure is Measure.REPLICA_LAG and case.in_focus(vital.object) for vital in case.vitals)
    if alert is None or seen_as is None or measured or not surges or alert.firing is False:
        return None
    if "replica" not in alert.words or "lag" not in alert.words:
        return None
    said = f'The alert reports replication lag: "{alert.summary[:300].rstrip(".")}"'
    return Sign(SignKind.REPLICA_LAG, surges[0].object, said, (seen_as.id,), 0.5)


def _flat_lag(case: Case, lead: Sign) -> Vital | None:
    """Return the metric of the same replica's lag, which does not show it."""
    for vital in case.vitals:
        if vital.measure is Measure.REPLICA_LAG and (
            vital.object == lead.object or vital.object.startswith(lead.object)
        ):
            return vital
    return None


def _outrun(lead: Sign, surges: Sequence[Sign], writer: Statement | None) -> Story:
    primary = next((sign.object for sign in surges if sign.object != lead.object), "")
    where = f" on {primary}" if primary else ""
    job = f" ({writer.short()} is {writer.share:.0%} of the load)" if writer else ""
    return Story(
        mechanism=(
            f"Replication lag on {lead.object}: a write-heavy workload{where}{job} generates WAL (write-ahead log) "
            "faster than the replica can replay it. What is read from the replica is stale; the primary keeps serving."
        ),
        chain=(
            f"A write-heavy workload{f' ({writer.verb} in bulk)' if writer else ''} starts on the primary.",
            "WAL is generated faster than the replica replays it.",
            f"Replication lag builds up on {lead.object}, and what is read from it is stale.",
        ),
        claims=(dominates(writer),) if writer else (),
        actions=(
            act(
                "immediate",
                "Throttle the bulk write, or split it into smaller batches, until the replica has caught up.",
            ),
            act("short_term", "Send reads that need fresh data to the primary while the lag lasts."),
            act("long_term", "Schedule bulk writes off-peak, or give the replica the primary's instance class."),
        ),
        supports=(writer.id,) if writer else (),
    )


def _slow_replica(lead: Sign) -> Story:
    return Story(
        mechanism=(
            f"Replication lag on {lead.object} without a rise of writes on its primary: the replica itself, or the way "
            "to it, is too slow."
        ),
        chain=(f"{lead.object} falls behind its primary although the primary writes no more than before.",),
        actions=(
            act("immediate", f"Look at {lead.object}: long queries that hold back replay, its processor, its disk."),
        ),
    )

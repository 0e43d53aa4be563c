"""The rule for storage that runs out."""

from collections.abc import Iterator, Sequence

from controlplane.runtimes.builtin.analysis.candidate import Candidate, Story, act, cited, from_signs, seen
from controlplane.runtimes.builtin.analysis.case import Case, Statement
from controlplane.runtimes.builtin.analysis.facts import distinct
from controlplane.runtimes.builtin.analysis.loads import dominates, processor_beside, writer_of
from controlplane.runtimes.builtin.analysis.signs import Sign, SignKind
from controlplane.runtimes.builtin.analysis.vitals import Vital
from controlplane.runtimes.report import Category, Claim
from controlplane.runtimes.signals.measures import Measure, name_words

_EXPLAINS = frozenset(
    {
        SignKind.STORAGE_FULL,
        SignKind.LATENCY_UP,
        SignKind.QUEUE_UP,
        SignKind.WAL_RETAINED,
        SignKind.WRITES_UP,
        SignKind.LOAD_UP,
        SignKind.TRAFFIC_DOWN,
        SignKind.FAILOVER,
        SignKind.CONNECTIONS_FULL,
    }
)


def storage_candidates(case: Case) -> Iterator[Candidate]:
    """Yield the explanation that storage runs out, from the metric of free storage, from events, or from both."""
    signs = [sign for sign in case.signs.of(SignKind.STORAGE_FULL, current=True) if "log" not in sign.details]
    metric = next((sign for sign in signs if "vital" in sign.details), None)
    events = [sign for sign in signs if "event" in sign.details]
    lead = metric or next(iter(events), None)
    if lead is None:
        return
    object_ = lead.object
    vital = case.vital(Measure.FREE_STORAGE, object_)
    if metric is None and vital is not None and (vital.moved or vital.fact.low < 0.5 * vital.now):
        return  # the metric shows that there is room again
    retained = [sign for sign in case.signs.of(SignKind.WAL_RETAINED, current=True) if sign.object == object_]
    writer = writer_of(case)
    if retained:
        story = _retained_log(case, object_, retained)
    elif writer is not None:
        story = _bulk_writes(object_, writer)
    else:
        story = _unnamed(object_)
    own_events = [sign for sign in events if sign.object == object_]
    stalled = list(_stalled(case, object_))
    beside = processor_beside(case, effect="the lack of storage", writes="data")
    yield Candidate(
        kind=SignKind.STORAGE_FULL,
        headline=f"{object_} runs out of storage",
        category=Category.RESOURCE_EXHAUSTION,
        object=object_,
        mechanism=f"{object_} runs out of storage: {story.mechanism}." + (f" {metric.text}." if metric else ""),
        score=_score(metric, own_events, vital) + (0.02 if retained or writer else 0),
        supports=distinct([*cited([*([metric] if metric else []), *own_events]), *story.supports]),
        contradicts=(vital.id,) if metric is None and vital is not None else (),
        chain=(*story.chain, *_end(vital if metric else None, own_events, stalled), *beside.chain),
        claims=(
            *from_signs([*([metric] if metric else []), *own_events[:4]]),
            *story.claims,
            *stalled[:2],
            *beside.claims,
        ),
        actions=story.actions,
        explains=_EXPLAINS,
        affected=(object_,),
    )


def _score(metric: Sign | None, events: Sequence[Sign], vital: Vital | None) -> float:
    if metric is not None:
        return metric.strength + (0.02 if events else 0)
    # Events alone: enough where no metric of the object was recorded, doubtful where one shows no sign of it.
    return 0.75 if vital is None else 0.55


def _retained_log(case: Case, object_: str, retained: Sequence[Sign]) -> Story:
    claims = list(from_signs(retained[:3]))
    writes = case.vital(Measure.WRITES, object_)
    if writes is not None and writes.moved <= 0:
        claims.append(seen(f"{writes.course()}: no surge of writes fills the disk.", writes.id))
    named = [line for line in case.facts.logs if line.loud and "slot" in name_words(line.message)]
    claims += [seen(f'{line.object} logs "{line.message[:300].rstrip(".")}".', line.id) for line in named[:2]]
    return Story(
        mechanism=(
            "write-ahead log (WAL) piles up, because a replication slot keeps it for a consumer that no longer reads it"
        ),
        chain=(
            "A replication slot is not consumed, so the server keeps all WAL written since.",
            "The retained WAL grows steadily and takes the free storage.",
        ),
        claims=tuple(claims),
        actions=(
            act(
                "immediate",
                f"Find the inactive slot on {object_} (pg_replication_slots); resume its consumer or drop it.",
            ),
            act("immediate", "Add storage if less than an hour is left."),
            act("short_term", "Set max_slot_wal_keep_size, so that a lost consumer cannot fill the disk."),
            act("long_term", "Alert on inactive slots and on the WAL they retain."),
        ),
        supports=distinct([*cited(retained), *(line.id for line in named[:2])]),
    )


def _bulk_writes(object_: str, writer: Statement) -> Story:
    return Story(
        mechanism=f"a heavy write workload ({writer.short()}) fills the disk",
        chain=(f"{writer.verb} statements write in bulk: {writer.share:.0%} of the database load.",),
        claims=(dominates(writer),),
        actions=(
            act("immediate", f"Add storage to {object_}, then pause the {writer.verb} job."),
            act("long_term", "Turn on storage autoscaling; alert on the time left, not on the bytes left."),
        ),
        supports=(writer.id,),
    )


def _unnamed(object_: str) -> Story:
    return Story(
        mechanism="what fills the disk is not in the evidence",
        chain=(),
        actions=(
            act("immediate", f"Add storage to {object_}; look for what grows: tables, temporary files, WAL, logs."),
        ),
    )


def _stalled(case: Case, object_: str) -> Iterator[Claim]:
    for vital in case.vitals:
        slower = vital.measure is Measure.WRITES and vital.moved < 0
        later = vital.measure is Measure.LATENCY and vital.moved > 0
        if vital.object == object_ and (slower or later):
            yield seen(f"{vital.course()}.", vital.id)


def _end(vital: Vital | None, events: Sequence[Sign], stalled: Sequence[Claim]) -> Iterator[str]:
    yield f"{vital.name if vital else 'Free storage'} runs towards zero" + (
        ", and events confirm it." if events else "."
    )
    yield "Without free storage the database refuses writes and may stop."
    if stalled:
        yield "Writes slow down and stop as the disk fills."

"""Rules for whatever runs out of something or is moved: processor, memory, disk, locks, failover."""

from collections.abc import Iterator

from controlplane.runtimes.builtin.analysis.candidate import Candidate, act, cited, from_signs, seen
from controlplane.runtimes.builtin.analysis.case import Case
from controlplane.runtimes.builtin.analysis.facts import distinct
from controlplane.runtimes.builtin.analysis.loads import burner_of, dominates, writer_of
from controlplane.runtimes.builtin.analysis.signs import SignKind
from controlplane.runtimes.report import Category
from controlplane.runtimes.signals.measures import Measure


def host_candidates(case: Case) -> Iterator[Candidate]:
    """Yield what may be wrong with the host or instance of a case."""
    for rule in (_processor, _memory, _credit, _input_output, _locks, _failover, _transaction_ids):
        yield from rule(case)


def _processor(case: Case) -> Iterator[Candidate]:
    sign = case.signs.first(SignKind.CPU_SATURATED, current=True)
    if sign is None:
        return
    burner = burner_of(case)
    heavy = burner is not None and burner.share * burner.waiting_on("cpu") >= 0.25
    claims, supports = list(from_signs([sign])), [*sign.citations]
    load = case.vital(Measure.LOAD, sign.object)
    overload = load is not None and case.size is not None and load.now > case.size.cpus
    if load is not None and case.size is not None and overload:
        claims.append(seen(f"{load.course()}, for {case.size.cpus} processors.", load.id))
        supports.append(load.id)
    if burner is not None and heavy:
        claims.append(dominates(burner))
        supports.append(burner.id)
        why = f"one statement takes it: {burner.short()} is {burner.share:.0%} of the load, mostly on CPU"
        chain = [
            f"{burner.short()} runs often or scans much.",
            f"The CPU of {sign.object} is saturated.",
            "All queries slow down.",
        ]
        actions = [
            act("immediate", "End or throttle that statement; look at its plan for a full scan or a missing index."),
            act("short_term", "Add the index or rewrite the statement."),
        ]
    else:
        why = "which work takes it is not in the evidence"
        chain = [f"The CPU of {sign.object} is saturated.", "Everything that runs there slows down."]
        actions = [act("immediate", f"Look at what runs on {sign.object}, heaviest first.")]
    yield Candidate(
        kind=SignKind.CPU_SATURATED,
        headline=f"CPU of {sign.object} is saturated",
        category=Category.RESOURCE_EXHAUSTION,
        object=sign.object,
        mechanism=f"The CPU of {sign.object} is saturated: {why}. {sign.text}.",
        score=sign.strength + (0.08 if heavy else 0) + (0.04 if overload else 0),
        supports=distinct(supports),
        chain=tuple(chain),
        claims=tuple(claims),
        actions=tuple(actions),
        explains=frozenset(
            {SignKind.CPU_SATURATED, SignKind.LATENCY_UP, SignKind.LOAD_UP, SignKind.READS_UP, SignKind.QUEUE_UP}
        ),
        affected=(sign.object,),
    )


def _memory(case: Case) -> Iterator[Candidate]:
    signs = [sign for sign in case.signs.of(SignKind.MEMORY_LOW, current=True) if "pod" not in sign.details]
    if not signs:
        return
    lead = signs[0]
    swap = case.vital(Measure.SWAP, lead.object)
    claims, supports = list(from_signs(signs[:3])), [*cited(signs)]
    if swap is not None and swap.moved > 0 and swap.ratio() >= 1.5:
        claims.append(seen(f"{swap.course()}.", swap.id))
        supports.append(swap.id)
    yield Candidate(
        kind=SignKind.MEMORY_LOW,
        headline=f"{lead.object} runs out of memory",
        category=Category.RESOURCE_EXHAUSTION,
        object=lead.object,
        mechanism=f"{lead.object} runs out of memory: {lead.text}.",
        score=lead.strength,
        supports=distinct(supports),
        chain=(
            f"The memory of {lead.object} is used up.",
            "It swaps or its processes are killed; everything on it slows down.",
        ),
        claims=tuple(claims),
        actions=(
            act("immediate", f"Find what holds the memory of {lead.object}; restart it or give the instance more."),
        ),
        explains=frozenset({SignKind.MEMORY_LOW, SignKind.LATENCY_UP, SignKind.OOM_KILLED, SignKind.QUEUE_UP}),
        affected=(lead.object,),
    )


def _credit(case: Case) -> Iterator[Candidate]:
    sign = case.signs.first(SignKind.CREDIT_EMPTY, current=True)
    if sign is None:
        return
    yield Candidate(
        kind=SignKind.CREDIT_EMPTY,
        headline=f"{sign.object} has no burst credit left",
        category=Category.RESOURCE_EXHAUSTION,
        object=sign.object,
        mechanism=f"{sign.object} has used up its burst credit and is held to its baseline: {sign.text}.",
        score=sign.strength,
        supports=sign.citations,
        chain=(
            "Load above the baseline uses up the burst credit.",
            "The volume or instance is throttled.",
            "Latency rises.",
        ),
        claims=from_signs([sign]),
        actions=(
            act("immediate", "Raise the provisioned throughput or the size."),
            act("short_term", "Reduce the load above baseline."),
        ),
        explains=frozenset({SignKind.CREDIT_EMPTY, SignKind.LATENCY_UP, SignKind.QUEUE_UP, SignKind.TRAFFIC_DOWN}),
        affected=(sign.object,),
    )


def _input_output(case: Case) -> Iterator[Candidate]:
    queue = case.signs.first(SignKind.QUEUE_UP, current=True)
    slow = case.signs.first(SignKind.LATENCY_UP, current=True)
    busy = case.waits.on("io:", "wal") if case.waits else 0.0
    if queue is None or slow is None or (case.waits is not None and busy < 0.4):
        return
    supports = [*queue.citations, *slow.citations, *([case.waits.id] if case.waits else [])]
    claims = list(from_signs([queue, slow]))
    if case.waits is not None:
        claims.append(
            seen(f"{busy:.0%} of the sessions' waiting is for input and output ({case.waits.top}).", case.waits.id)
        )
    writer = writer_of(case) or next(iter(case.statements), None)
    if writer is not None:
        claims.append(dominates(writer))
    yield Candidate(
        kind=SignKind.QUEUE_UP,
        headline=f"Disk of {queue.object} cannot keep up",
        category=Category.RESOURCE_EXHAUSTION,
        object=queue.object,
        mechanism=f"The disk of {queue.object} cannot keep up: {queue.text}, and {slow.text}.",
        score=0.65 + (0.1 if busy >= 0.6 else 0),
        supports=distinct(supports),
        chain=("More input and output is asked for than the disk serves.", "Requests queue, and latency rises."),
        claims=tuple(claims),
        actions=(
            act("immediate", "Throttle the heaviest statement."),
            act("short_term", "Provision more input and output."),
        ),
        explains=frozenset(
            {SignKind.QUEUE_UP, SignKind.LATENCY_UP, SignKind.WRITES_UP, SignKind.READS_UP, SignKind.LOAD_UP}
        ),
        affected=(queue.object,),
    )


def _locks(case: Case) -> Iterator[Candidate]:
    waits = case.waits
    risen = case.signs.of(SignKind.LOAD_UP, SignKind.LATENCY_UP, SignKind.CONNECTIONS_UP, current=True)
    if waits is None or waits.on("lock:", "lwlock:") < 0.4 or not risen:
        return
    share = waits.on("lock:", "lwlock:")
    holder = next((one for one in case.statements if one.waiting_on("lock") >= 0.4), None)
    claims = [
        seen(f"{share:.0%} of the sessions' waiting is for locks ({waits.top}).", waits.id),
        *from_signs(risen[:2]),
    ]
    if holder is not None:
        claims.append(dominates(holder))
    yield Candidate(
        kind=SignKind.LOCK_WAITS,
        headline=f"Sessions of {waits.object} block each other",
        category=Category.CODE_DEFECT,
        object=waits.object,
        mechanism=f"Sessions of {waits.object} block each other: {share:.0%} of their waits are locks ({waits.top}).",
        score=0.7,
        supports=distinct([waits.id, *cited(risen[:2]), *([holder.id] if holder else [])]),
        chain=("A transaction holds its locks for long.", "Others wait behind it; sessions and latency grow."),
        claims=tuple(claims),
        actions=(
            act("immediate", "Find the session at the head of the lock queue and end it."),
            act("short_term", "Shorten transactions."),
        ),
        explains=frozenset({SignKind.LOAD_UP, SignKind.LATENCY_UP, SignKind.CONNECTIONS_UP}),
        affected=(waits.object,),
    )


def _failover(case: Case) -> Iterator[Candidate]:
    signs = case.signs.of(SignKind.FAILOVER, current=True)
    loud = [sign for sign in signs if sign.details["event"].loud]
    if not signs:
        return
    lead = (loud or signs)[0]
    dips = [vital for vital in case.vitals if vital.object == lead.object and vital.measure is Measure.CONNECTIONS]
    dip = next((vital for vital in dips if vital.fact.low <= 0.3 * vital.base), None)
    claims = list(from_signs(signs[:4]))
    if dip is not None:
        claims.append(seen(f"{dip.name} of {dip.object} dropped to {dip.shown(dip.fact.low)}.", dip.id))
    yield Candidate(
        kind=SignKind.FAILOVER,
        headline=f"{lead.object} was restarted or failed over",
        category=Category.INFRASTRUCTURE,
        object=lead.object,
        mechanism=f"{lead.object} was restarted or failed over by its platform, and its clients cut off: {lead.text}.",
        score=(0.75 if loud else 0.5) + (0.1 if dip else 0),
        supports=distinct([*cited(signs), *([dip.id] if dip else [])]),
        chain=(
            f"The platform restarts or fails over {lead.object}.",
            "Connections break; clients see errors until they reconnect.",
        ),
        claims=tuple(claims),
        actions=(
            act("immediate", "Check that every client has reconnected to the new primary."),
            act("short_term", "Ask the platform's events for the reason; test how clients reconnect."),
        ),
        explains=frozenset({SignKind.FAILOVER, SignKind.TRAFFIC_DOWN, SignKind.ERRORS_UP, SignKind.LATENCY_UP}),
        affected=(lead.object,),
    )


def _transaction_ids(case: Case) -> Iterator[Candidate]:
    sign = case.signs.first(SignKind.TRANSACTION_IDS_HIGH, current=True)
    if sign is None:
        return
    yield Candidate(
        kind=SignKind.TRANSACTION_IDS_HIGH,
        headline=f"{sign.object} runs out of transaction ids",
        category=Category.RESOURCE_EXHAUSTION,
        object=sign.object,
        mechanism=f"{sign.object} comes close to transaction id wraparound, where writes stop: {sign.text}.",
        score=sign.strength,
        supports=sign.citations,
        chain=(
            "Old rows are not frozen in time.",
            "Transaction ids run out; the database protects itself by refusing writes.",
        ),
        claims=from_signs([sign]),
        actions=(
            act("immediate", "Vacuum the oldest tables by hand; end transactions and slots that hold back freezing."),
        ),
        explains=frozenset({SignKind.TRANSACTION_IDS_HIGH}),
        affected=(sign.object,),
    )

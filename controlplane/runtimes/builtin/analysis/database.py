"""Rules for databases: storage, replication, connections."""

from collections.abc import Iterator

from controlplane.runtimes.builtin.analysis.candidate import Candidate, act, cited, from_signs, inferred, seen
from controlplane.runtimes.builtin.analysis.case import Case, Statement
from controlplane.runtimes.builtin.analysis.changepoints import concordance
from controlplane.runtimes.builtin.analysis.facts import distinct
from controlplane.runtimes.builtin.analysis.loads import burner_of, dominates, writer_of
from controlplane.runtimes.builtin.analysis.metrics import Measure
from controlplane.runtimes.builtin.analysis.signs import Sign, SignKind
from controlplane.runtimes.builtin.analysis.vitals import Vital
from controlplane.runtimes.report import Category, Claim


def database_candidates(case: Case) -> Iterator[Candidate]:
    """Yield what may be wrong with the database of a case."""
    for rule in (_storage, _replication, _connections):
        yield from rule(case)


def _storage(case: Case) -> Iterator[Candidate]:
    signs = [sign for sign in case.signs.of(SignKind.STORAGE_FULL, current=True) if "log" not in sign.details]
    metric = next((sign for sign in signs if "vital" in sign.details), None)
    object_ = (metric or signs[0]).object if signs else ""
    vital = case.vital(Measure.FREE_STORAGE, object_)
    if not signs or (metric is None and vital is not None):
        return  # only events speak of it, and the metric shows that there is room (again)
    events = [sign for sign in signs if "event" in sign.details and sign.object == object_]
    retained = [sign for sign in case.signs.of(SignKind.WAL_RETAINED, current=True) if sign.object == object_]
    writer = writer_of(case)
    claims = [*from_signs([*([metric] if metric else []), *events])]
    chain: list[str] = []
    if retained:
        claims += from_signs(retained)
        writes = case.vital(Measure.WRITES, object_)
        if writes is not None and writes.moved <= 0:
            claims.append(seen(f"{writes.course()}, so no surge of writes fills the disk.", writes.id))
        why = (
            "write-ahead log (WAL) piles up on the disk because a replication slot keeps it for a consumer that no longer "
            "reads it"
        )
        chain += [
            "A replication slot is not consumed, so the server must keep every WAL segment written since.",
            "Retained WAL grows steadily and takes the free storage.",
        ]
        actions = (
            act("immediate", f"Find the inactive slot on {object_} (pg_replication_slots) and resume or drop it."),
            act("immediate", "Add storage if less than an hour is left."),
            act("short_term", "Set max_slot_wal_keep_size, so that a lost consumer cannot fill the disk."),
        )
    elif writer is not None:
        claims.append(dominates(writer))
        why = f"a heavy write workload ({writer.short()}) fills the disk"
        chain += [f"{writer.verb} statements write in bulk: {writer.share:.0%} of the database load."]
        actions = (
            act("immediate", f"Add storage to {object_}, then pause the {writer.verb} job."),
            act("long_term", "Turn on storage autoscaling and alert on the time left, not on bytes left."),
        )
    else:
        why = "what fills the disk is not in the evidence"
        actions = (
            act("immediate", f"Add storage to {object_} and look for what grows: tables, temporary files, WAL, logs."),
        )
    course = f"{metric.text}. " if metric else ""
    chain += [
        f"{vital.name if vital else 'Free storage'} runs towards zero" + (" and events confirm it." if events else "."),
        "Without free storage the database refuses writes and may stop.",
    ]
    effect, effect_claims = _write_stall(case, object_)
    yield Candidate(
        SignKind.STORAGE_FULL,
        f"{object_} runs out of storage",
        Category.RESOURCE_EXHAUSTION,
        object_,
        f"{object_} runs out of storage: {why}. {course}".strip(),
        min((metric.strength if metric else 0.7) + (0.02 if events else 0) + (0.02 if retained or writer else 0), 0.97),
        distinct([*cited([*signs, *retained]), *([writer.id] if writer else [])]),
        (*chain, *effect),
        (*claims, *effect_claims),
        actions,
        explains=frozenset(
            {
                SignKind.STORAGE_FULL,
                SignKind.LATENCY_UP,
                SignKind.QUEUE_UP,
                SignKind.WAL_RETAINED,
                SignKind.TRAFFIC_DOWN,
            }
            | {SignKind.WRITES_UP, SignKind.LOAD_UP, SignKind.FAILOVER, SignKind.CONNECTIONS_FULL}
        ),
        affected=(object_,),
    )


def _write_stall(case: Case, object_: str) -> tuple[list[str], list[Claim]]:
    stalled = [
        vital
        for vital in case.vitals
        if vital.object == object_
        and (
            (vital.measure is Measure.WRITES and vital.moved < 0)
            or (vital.measure is Measure.LATENCY and vital.moved > 0)
        )
    ]
    claims = [seen(f"{vital.course()}.", vital.id) for vital in stalled[:2]]
    return (["Writes slow down and stop as the disk fills."] if stalled else []), claims


def _replication(case: Case) -> Iterator[Candidate]:
    signs = case.signs.of(SignKind.REPLICA_LAG, current=True)
    metric = next((sign for sign in signs if "vital" in sign.details), None)
    if metric is None and (not signs or any(vital.measure is Measure.REPLICA_LAG for vital in case.vitals)):
        return  # no lag, or the metric shows that the replica has caught up
    lag = metric or signs[0]
    surges = [
        sign for sign in case.signs.of(SignKind.WAL_UP, SignKind.WRITES_UP, current=True) if sign.object != lag.object
    ]
    surges = surges or case.signs.of(SignKind.WAL_UP, SignKind.WRITES_UP, current=True)
    writer = writer_of(case)
    events = [sign for sign in signs if "event" in sign.details]
    claims = [*from_signs([lag, *surges[:3]]), *from_signs(event for event in events if event is not lag)]
    supports = cited([lag, *events, *surges])
    primary = surges[0].object if surges else ""
    if surges or writer:
        job = f": {writer.short()} is {writer.share:.0%} of the load" if writer else ""
        mechanism = (
            f"Replication lag on {lag.object}: a write-heavy workload{f' on {primary}' if primary else ''} generates WAL "
            f"(write-ahead log) faster than the replica can replay it{job}. Reads from the replica are stale; the primary "
            "itself keeps serving."
        )
        chain = [
            f"A write-heavy workload{f' ({writer.verb} in bulk)' if writer else ''} starts on the primary.",
            "WAL is generated faster than the replica replays it.",
            f"Replication lag builds up on {lag.object}, and what is read from it is stale.",
        ]
        actions = [
            act(
                "immediate", "Throttle the bulk write or split it into smaller batches until the replica has caught up."
            ),
            act("short_term", "Send reads that need fresh data to the primary while the lag lasts."),
            act("long_term", "Schedule bulk writes off-peak, or give the replica the primary's instance class."),
        ]
        score = 0.9 if metric else 0.65
    else:
        mechanism = (
            f"Replication lag on {lag.object} without a rise of writes on its primary: the replica itself, or the way to it, "
            "is too slow."
        )
        chain = [f"{lag.object} falls behind its primary although the primary writes no more than before."]
        actions = [
            act("immediate", f"Look at {lag.object}: long queries that hold back replay, its processor and disk.")
        ]
        score = 0.55
    if writer is not None:
        claims.append(dominates(writer))
        supports = distinct([*supports, writer.id])
    cpu_claims, cpu_chain = _processor_beside(case, writer, "replication lag")
    yield Candidate(
        SignKind.REPLICA_LAG,
        f"Replication lag on {lag.object}",
        Category.RESOURCE_EXHAUSTION if surges or writer else Category.INFRASTRUCTURE,
        lag.object,
        mechanism,
        score + (0.03 if events and metric else 0),
        supports,
        (*chain, *cpu_chain),
        (*claims, *cpu_claims),
        tuple(actions),
        explains=frozenset(
            {SignKind.REPLICA_LAG, SignKind.WAL_UP, SignKind.WRITES_UP, SignKind.LOAD_UP, SignKind.CPU_UP}
            | {SignKind.QUEUE_UP, SignKind.READS_UP}
        ),
        affected=(lag.object,),
    )


def _processor_beside(case: Case, writer: Statement | None, cause: str) -> tuple[list[Claim], list[str]]:
    """Say whether a rise of the processor comes from the same work as the cause, or from other statements."""
    sign = case.signs.first(SignKind.CPU_SATURATED, SignKind.CPU_UP, current=True)
    if sign is None:
        return [], []
    claims = list(from_signs([sign]))
    burner = burner_of(case)
    if burner is None:
        return claims, []
    if writer is None or burner.id == writer.id or burner.writes:
        claims.append(
            inferred(f"The CPU rise is part of the same write work ({burner.short()}).", sign.citations[0], burner.id)
        )
        return claims, []
    text = (
        f"The CPU rise comes from a {burner.verb} ({burner.short()}), which writes no WAL: it coincides with the {cause} but "
        "is causally independent of it, and not the root cause."
    )
    claims.append(inferred(text, sign.citations[0], burner.id))
    return claims, [
        f"Beside it a read-only {burner.verb} raises the CPU; it is coincidental and does not cause the {cause}."
    ]


def _connections(case: Case) -> Iterator[Candidate]:
    signs = [sign for sign in case.signs.of(SignKind.CONNECTIONS_FULL, current=True) if "pod" not in sign.details]
    metric = next((sign for sign in signs if "vital" in sign.details), None)
    if not signs or (metric is None and case.vital(Measure.CONNECTIONS, signs[0].object) is not None):
        return
    lead = metric or signs[0]
    events = [sign for sign in signs if "event" in sign.details]
    _, limit_ids = case.connection_limit()
    supports = distinct([*cited([lead, *events]), *limit_ids])
    claims = [
        seen(f"{lead.text}.", *lead.citations, *limit_ids),
        *from_signs(sign for sign in events if sign is not lead),
    ]
    idle = case.waits.on("client:") if case.waits else 0.0
    grows = isinstance(lead.details.get("vital"), Vital) and lead.details["vital"].moved > 0
    if case.waits is not None and idle >= 0.4:
        supports = distinct([*supports, case.waits.id])
        waiting = (
            f"{case.waits.top} is {idle:.0%} of what sessions wait for: they are idle, open, and wait for their client"
        )
        claims.append(seen(f"{waiting}.", case.waits.id))
        mechanism = (
            f"A connection pool leak exhausts the connections of {lead.object}: clients open connections and neither use nor "
            f"release them. {lead.text}; {waiting}."
        )
        chain = [
            "Clients take connections from the pool and do not give them back: a connection pool leak.",
            f"Idle but open connections accumulate on {lead.object} up to its limit.",
            "New connections are refused.",
        ]
        actions = [
            act(
                "immediate",
                "End sessions that have been idle for long, and restart the client that holds most of them.",
            ),
            act("short_term", "Find the code path that does not return its connection; cap the pool of each client."),
            act("long_term", "Put a connection pooler before the database; set idle_session_timeout."),
        ]
    else:
        mechanism = f"{lead.object} runs out of connections: {lead.text}; clients open more than the instance admits."
        chain = [
            f"Clients open ever more connections to {lead.object}." if grows else f"{lead.object} is at its limit."
        ]
        chain.append("New connections are refused.")
        actions = [
            act("immediate", f"Find who holds the connections of {lead.object} (pg_stat_activity) and end idle ones."),
            act("long_term", "Put a connection pooler before the database."),
        ]
    cpu_claims, cpu_chain, explains_cpu = _same_root(case, lead)
    explains = {SignKind.CONNECTIONS_FULL, SignKind.CONNECTIONS_UP, SignKind.ERRORS_UP, SignKind.LATENCY_UP}
    explains |= {SignKind.READS_UP, SignKind.LOAD_UP}
    yield Candidate(
        SignKind.CONNECTIONS_FULL,
        f"{lead.object} runs out of connections",
        Category.RESOURCE_EXHAUSTION,
        lead.object,
        mechanism,
        lead.strength + (0.04 if idle >= 0.4 else 0) + (0.02 if events and metric else 0),
        supports,
        (*chain, *cpu_chain),
        (*claims, *cpu_claims),
        tuple(actions),
        explains=frozenset(explains | ({SignKind.CPU_SATURATED, SignKind.CPU_UP} if explains_cpu else set())),
        affected=(lead.object,),
    )


def _same_root(case: Case, lead: Sign) -> tuple[list[Claim], list[str], bool]:
    """Say whether a busy processor has the same root as exhausted connections: both rise together."""
    cpu = case.signs.first(SignKind.CPU_SATURATED, SignKind.CPU_UP, current=True)
    one, other = lead.details.get("vital"), cpu.details.get("vital") if cpu else None
    if cpu is None or not isinstance(one, Vital) or not isinstance(other, Vital) or cpu.object != lead.object:
        return [], [], False
    together = concordance(one.fact.values, other.fact.values)
    if together < 0.3:
        return list(from_signs([cpu])), [], False
    text = (
        "CPU rises together with the connections on the same instance: one root, seen in two metrics, not a separate fault. "
        "Each connection held open keeps its work going."
    )
    claims = [*from_signs([cpu]), inferred(text, *lead.citations, *cpu.citations)]
    burner = next(iter(case.statements), None)
    if burner is not None:
        claims.append(dominates(burner))
    return claims, ["The work of the connections held open drives the CPU up at the same time: the same root."], True

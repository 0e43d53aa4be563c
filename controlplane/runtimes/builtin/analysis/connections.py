"""The rule for connections that run out."""

from collections.abc import Iterator

from controlplane.runtimes.builtin.analysis.candidate import Candidate, Story, act, cited, from_signs, inferred, seen
from controlplane.runtimes.builtin.analysis.case import Case
from controlplane.runtimes.builtin.analysis.facts import distinct
from controlplane.runtimes.builtin.analysis.loads import dominates
from controlplane.runtimes.builtin.analysis.signs import Sign, SignKind
from controlplane.runtimes.builtin.analysis.vitals import Vital
from controlplane.runtimes.report import Category
from controlplane.runtimes.signals.changepoints import concordance
from controlplane.runtimes.signals.measures import Measure

_IDLE = 0.4  # share of waiting on the client from which sessions count as idle
_EXPLAINS = frozenset(
    {
        SignKind.CONNECTIONS_FULL,
        SignKind.CONNECTIONS_UP,
        SignKind.ERRORS_UP,
        SignKind.LATENCY_UP,
        SignKind.READS_UP,
        SignKind.LOAD_UP,
    }
)


def connection_candidates(case: Case) -> Iterator[Candidate]:
    """Yield the explanation that connections run out: leaked by idle clients, or simply too many."""
    found = case.signs.of(SignKind.CONNECTIONS_FULL, current=True)
    signs = [sign for sign in found if "pod" not in sign.details and "log" not in sign.details]
    metric = next((sign for sign in signs if "vital" in sign.details), None)
    lead = metric or next(iter(signs), None)
    if lead is None or (metric is None and case.vital(Measure.CONNECTIONS, lead.object) is not None):
        return  # only events speak of it, and the metric shows room (again)
    events = [sign for sign in signs if "event" in sign.details]
    _, limit_ids = case.connection_limit()
    idle = case.waits.on("client:") if case.waits else 0.0
    story = _leak(case, lead, idle) if idle >= _IDLE else _surge(lead)
    processor = _same_root(case, lead)
    yield Candidate(
        kind=SignKind.CONNECTIONS_FULL,
        headline=f"{lead.object} runs out of connections",
        category=Category.RESOURCE_EXHAUSTION,
        object=lead.object,
        mechanism=story.mechanism,
        score=lead.strength + (0.04 if idle >= _IDLE else 0) + (0.02 if events and metric else 0),
        supports=distinct([*cited([lead, *events]), *limit_ids, *story.supports]),
        chain=(*story.chain, *processor.chain),
        claims=(
            seen(f"{lead.text}.", *lead.citations, *limit_ids),
            *from_signs(sign for sign in events[:3] if sign is not lead),
            *story.claims,
            *processor.claims,
        ),
        actions=story.actions,
        explains=_EXPLAINS | ({SignKind.CPU_SATURATED, SignKind.CPU_UP} if processor.chain else set()),
        affected=(lead.object,),
    )


def _leak(case: Case, lead: Sign, idle: float) -> Story:
    waits = case.waits
    top, ids = (waits.top, (waits.id,)) if waits else ("", ())
    waiting = f"{top} is {idle:.0%} of what sessions wait for: they are open but idle, waiting for their client"
    return Story(
        mechanism=(
            f"A connection pool leak exhausts the connections of {lead.object}: clients open connections and neither "
            f"use nor release them. {lead.text}; {waiting}."
        ),
        chain=(
            "Clients take connections from the pool and do not give them back: a connection pool leak.",
            f"Idle but open connections accumulate on {lead.object} up to its limit.",
            "New connections are refused.",
        ),
        claims=(seen(f"{waiting}.", *ids),),
        actions=(
            act("immediate", "End sessions that have long been idle; restart the client that holds most of them."),
            act("short_term", "Find the code path that does not return its connection; cap the pool of each client."),
            act("long_term", "Put a connection pooler before the database; set idle_session_timeout."),
        ),
        supports=ids,
    )


def _surge(lead: Sign) -> Story:
    vital = lead.details.get("vital")
    grows = isinstance(vital, Vital) and vital.moved > 0
    first = f"Clients open ever more connections to {lead.object}." if grows else f"{lead.object} is at its limit."
    return Story(
        mechanism=f"{lead.object} runs out of connections: {lead.text}; clients open more than the instance admits.",
        chain=(first, "New connections are refused."),
        actions=(
            act("immediate", f"Find who holds the connections of {lead.object} (pg_stat_activity); end idle ones."),
            act("long_term", "Put a connection pooler before the database."),
        ),
    )


def _same_root(case: Case, lead: Sign) -> Story:
    """Say whether a busy processor has the same root as exhausted connections; the chain is empty when it has not."""
    cpu = case.signs.first(SignKind.CPU_SATURATED, SignKind.CPU_UP, current=True)
    one, other = lead.details.get("vital"), cpu.details.get("vital") if cpu else None
    if cpu is None or not isinstance(one, Vital) or not isinstance(other, Vital) or cpu.object != lead.object:
        return Story("", ())
    if concordance(one.fact.values, other.fact.values) < 0.3:
        return Story("", (), from_signs([cpu]))
    together = inferred(
        "CPU rises together with the connections on the same instance: one root, seen in two metrics, not a separate "
        "fault. Each connection held open keeps its work going.",
        *lead.citations,
        *cpu.citations,
    )
    heaviest = [dominates(statement) for statement in case.statements[:1]]
    step = "The work of the connections held open drives the CPU up at the same time: the same root."
    return Story("", (step,), (*from_signs([cpu]), together, *heaviest))

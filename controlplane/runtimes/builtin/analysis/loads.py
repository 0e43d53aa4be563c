"""What a database is busy with: its heaviest statements, as rules and reports name them."""

from controlplane.runtimes.builtin.analysis.candidate import Story, from_signs, inferred, seen
from controlplane.runtimes.builtin.analysis.case import Case, Statement
from controlplane.runtimes.builtin.analysis.signs import SignKind
from controlplane.runtimes.report import Claim

_HEAVY = 0.3  # share of the load from which a statement matters


def writer_of(case: Case) -> Statement | None:
    """Return the heaviest statement if it writes and matters."""
    return next((one for one in case.statements[:1] if one.writes and one.share >= _HEAVY), None)


def dominates(statement: Statement) -> Claim:
    """Say how much of the load a statement is, and what it waits on."""
    top = sorted(statement.waits.items(), key=lambda pair: -pair[1])[:2]
    waits = " and ".join(f"{name} ({share:.0%})" for name, share in top)
    text = f"{statement.short(160)} is {statement.share:.0%} of the database load" + (
        f", waiting on {waits}" if waits else ""
    )
    return seen(f"{text}.", statement.id)


def burner_of(case: Case) -> Statement | None:
    """Return the statement that takes most of the processor, if any takes some."""
    burner = max(case.statements, key=lambda one: one.share * one.waiting_on("cpu"), default=None)
    return burner if burner is not None and burner.share * burner.waiting_on("cpu") > 0 else None


def processor_beside(case: Case, *, effect: str, writes: str) -> Story:
    """Say whether a rise of the processor comes from the same work as an ``effect`` of writes, or from other work.

    ``writes`` is what causes the effect and a reading statement does not write. The story has no mechanism of its own.
    """
    sign = case.signs.first(SignKind.CPU_SATURATED, SignKind.CPU_UP, current=True)
    if sign is None:
        return Story("", ())
    claims = from_signs([sign])
    burner = burner_of(case)
    if burner is None:
        return Story("", (), claims)
    if burner.writes:
        same = inferred(f"The CPU rise is part of the same write work ({burner.short()}).", *sign.citations, burner.id)
        return Story("", (), (*claims, same))
    other = inferred(
        f"The CPU rise comes from a {burner.verb} ({burner.short()}), which writes no {writes}: it coincides with "
        f"{effect} but is causally independent of it, and not the root cause.",
        *sign.citations,
        burner.id,
    )
    step = f"Beside it a read-only {burner.verb} raises the CPU; that is a coincidence and does not cause {effect}."
    return Story("", (step,), (*claims, other))

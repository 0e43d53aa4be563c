"""Explanations that rest on recorded incidents: the one that is asked about, and the one it goes back to."""

from collections.abc import Iterator, Sequence
from typing import Final

from controlplane.runtimes.builtin.analysis.candidate import Candidate, act, inferred, listed, seen
from controlplane.runtimes.builtin.analysis.case import Case
from controlplane.runtimes.builtin.analysis.facts import LogFact, distinct
from controlplane.runtimes.builtin.analysis.incidents import Incident, changes_before, is_setting, lines_of
from controlplane.runtimes.builtin.analysis.messages import NAMED_FAULTS, reported
from controlplane.runtimes.builtin.analysis.signs import SYMPTOMS, SignKind
from controlplane.runtimes.report import Category, Claim
from controlplane.runtimes.signals.alert import without_names

_CATEGORIES: Final = {
    SignKind.DEPENDENCY: Category.DEPENDENCY_FAILURE,
    SignKind.CODE_FAULT: Category.CODE_DEFECT,
    SignKind.BAD_DATA: Category.DATA_QUALITY,
    SignKind.BAD_CONFIG: Category.CONFIGURATION_ERROR,
    SignKind.CONNECTIONS_FULL: Category.RESOURCE_EXHAUSTION,
    SignKind.STORAGE_FULL: Category.RESOURCE_EXHAUSTION,
    SignKind.OOM_KILLED: Category.RESOURCE_EXHAUSTION,
}
_MOST_LINES: Final = 4


def record_candidates(case: Case) -> Iterator[Candidate]:
    """Yield what the records say about the incident that is meant; nothing when none is."""
    if not case.incidents:
        return
    lead, *causes = case.incidents
    if causes:
        yield _cascade(case, lead, causes[-1])
    else:
        yield _single(case, lead)


def _cascade(case: Case, lead: Incident, origin: Incident) -> Candidate:
    way = case.incidents
    lines = [line for incident in way for line in lines_of(case.everything, incident)[:_MOST_LINES]]
    steps = [f"{incident.service}: {incident.title} ({incident.name})." for incident in way[::-1]]
    between = [incident.service for incident in way[:-1]]
    return Candidate(
        kind=SignKind.DEPENDENCY,
        headline=f"{lead.name} of {lead.service} goes back to {origin.name} of {origin.service}",
        category=Category.DEPENDENCY_FAILURE,
        object=origin.service,
        mechanism=(
            f"{lead.title} of {lead.service} is the end of a cascade that began with {origin.title} of "
            f"{origin.service} ({origin.name}): {origin.summary}"
        )[:2_000],
        score=0.85,
        supports=distinct([*(incident.id for incident in way), *(line.id for line in lines)]),
        chain=tuple(steps),
        claims=(
            *(_said(incident) for incident in way[::-1]),
            *(_logged(line) for line in lines),
        ),
        actions=(
            act("immediate", f"Work on {origin.service} ({origin.name}): that is where it began."),
            act("short_term", f"Treating {listed(between)} alone leaves the cause; verify them once it is gone."),
        ),
        explains=frozenset({SignKind.DEPENDENCY, SignKind.CONNECTIONS_FULL, SignKind.CODE_FAULT, *SYMPTOMS}),
        affected=distinct([*between, origin.service]),
    )


def _single(case: Case, lead: Incident) -> Candidate:
    lines = lines_of(case.everything, lead)
    changes = changes_before(case.everything, lead)[-1:]
    kind = _kind(lead, lines)
    category = _CATEGORIES[kind] if kind else _category_of(changes)
    ending = f"; it was resolved ({lead.status})" if lead.is_over else f"; it is {lead.status}"
    after = f" It began right after a change: {changes[0].message[:200].rstrip('.')}." if changes else ""
    return Candidate(
        kind=kind,
        headline=f"{lead.name} of {lead.service}: {lead.title}",
        category=category,
        object=lead.service,
        mechanism=f"What is recorded of {lead.name}: {lead.summary.rstrip('.')}{ending}.{after}"[:2_000],
        score=0.6 if kind else 0.5 if changes else 0.45,
        supports=distinct([lead.id, *(line.id for line in [*changes, *lines[:_MOST_LINES]])]),
        claims=(
            _said(lead),
            *(_logged(line) for line in [*changes, *lines[:_MOST_LINES]]),
            inferred("The record does not name another incident that this one goes back to.", lead.id),
        ),
        actions=(
            act("immediate", f"Undo that change at {lead.service}, if it can be undone.")
            if changes
            else act("immediate", f"Look at what changed at {lead.service} just before {lead.name} was opened."),
        ),
        explains=frozenset(SYMPTOMS),
        affected=(lead.service,),
    )


def _category_of(changes: Sequence[LogFact]) -> Category:
    """Return what a change right before an incident makes the likeliest kind of cause."""
    if not changes:
        return Category.UNKNOWN
    return Category.CONFIGURATION_ERROR if is_setting(changes[-1]) else Category.CODE_DEFECT


def _kind(lead: Incident, lines: Sequence[LogFact]) -> SignKind | None:
    """Return the kind of fault that was reported first: what a program logs later follows from it."""
    told = [*(line.message for line in lines), f"{lead.title}. {lead.summary}"]
    kinds = (reported(without_names(words, [lead.service]), NAMED_FAULTS) for words in told)
    return next((kind for kind in kinds if kind is not None), None)


def _logged(line: LogFact) -> Claim:
    return seen(f'{line.object} logs "{line.message[:300].rstrip(".")}".', line.id)


def _said(incident: Incident) -> Claim:
    severity = f", {incident.severity}" if incident.severity else ""
    return seen(
        f"{incident.name} of {incident.service} ({incident.status}{severity}): {incident.title}. {incident.summary}"[
            :900
        ],
        incident.id,
    )

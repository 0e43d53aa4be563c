"""From a verdict to the report: title, claims, timeline, what was not checked."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from controlplane.runtimes.builtin.analysis.case import Case
from controlplane.runtimes.builtin.analysis.signs import SignKind
from controlplane.runtimes.builtin.analysis.verdict import Verdict
from controlplane.runtimes.loose_json import items, mapping, text
from controlplane.runtimes.report import (
    Category,
    Claim,
    Impact,
    NotChecked,
    Report,
    ReportStatus,
    Severity,
    TimelineEntry,
)
from controlplane.runtimes.signals.alert import AlertView

_SEVERITIES: Final = {
    "critical": Severity.CRITICAL,
    "page": Severity.CRITICAL,
    "emergency": Severity.CRITICAL,
    "error": Severity.HIGH,
    "high": Severity.HIGH,
    "major": Severity.HIGH,
    "warning": Severity.MEDIUM,
    "warn": Severity.MEDIUM,
    "medium": Severity.MEDIUM,
    "minor": Severity.LOW,
    "low": Severity.LOW,
    "info": Severity.LOW,
}
_MOST_CLAIMS: Final = 12
_MOST_TIMES: Final = 10


def report_of(verdict: Verdict, case: Case, undone: Sequence[NotChecked] = ()) -> Report:
    """Return the report of a verdict. ``undone`` is what the run itself could not do (a failed call, an interrupt)."""
    root = verdict.root
    hypotheses = tuple(candidate.hypothesis() for candidate in (root, *verdict.others))
    claims = _without_repeats(
        [*root.claims, *(Claim(text=f"{sign.text}.", citations=sign.citations) for sign in verdict.beside)]
    )
    return Report(
        title=root.headline[:300],
        status=_status(verdict, case),
        severity=_severity(verdict, case.alert),
        summary=root.mechanism,
        impact=Impact(summary=_impact(case.alert), affected=root.affected, user_facing=_user_facing(case)),
        timeline=tuple(_timeline(verdict, case)),
        causal_chain=root.chain,
        hypotheses=hypotheses,
        root_cause=hypotheses[0],
        claims=tuple(claims[:_MOST_CLAIMS]),
        ruled_out=tuple(verdict.ruled_out),
        not_checked=tuple([*_not_checked(case), *undone][:20]),
        actions=root.actions,
    )


def _status(verdict: Verdict, case: Case) -> ReportStatus:
    if verdict.root.category is Category.UNKNOWN:
        return ReportStatus.INCONCLUSIVE
    if verdict.root.category is Category.HEALTHY:
        return ReportStatus.RESOLVED
    if verdict.root.kind is SignKind.FAILOVER and not case.signs.of(
        SignKind.ERRORS_UP, SignKind.TRAFFIC_DOWN, current=True
    ):
        return ReportStatus.MITIGATED
    return ReportStatus.ONGOING


def _severity(verdict: Verdict, alert: AlertView | None) -> Severity:
    if verdict.root.category is Category.HEALTHY:
        return Severity.INFO
    stated = _SEVERITIES.get(alert.severity) if alert else None
    if stated is None and verdict.root.category is Category.UNKNOWN:
        return Severity.INFO
    return stated or (Severity.HIGH if verdict.root.score >= 0.8 else Severity.MEDIUM)


def _impact(alert: AlertView | None) -> str:
    return alert.summary if alert else ""


def _user_facing(case: Case) -> bool | None:
    if case.signs.of(SignKind.ERRORS_UP, SignKind.MONITOR_ALERT, current=True):
        return True
    return None


def _without_repeats(claims: Iterable[Claim]) -> list[Claim]:
    return list({claim.text: claim for claim in claims}.values())


def _timeline(verdict: Verdict, case: Case) -> list[TimelineEntry]:
    """Return when what the verdict rests on began, oldest first."""
    wanted = set(verdict.root.supports) | {id_ for claim in verdict.root.claims for id_ in claim.citations}
    entries: dict[tuple[datetime, str], TimelineEntry] = {}
    for sign in case.signs:
        if sign.at is not None and wanted & set(sign.citations):
            entries[sign.at, sign.text] = TimelineEntry(at=sign.at, text=f"{sign.text}.", citations=sign.citations)
    signed = {id_ for entry in entries.values() for id_ in entry.citations}
    for vital in case.vitals:
        if vital.id in wanted and vital.id not in signed and vital.moved and vital.onset is not None:
            text_ = f"{vital.course()}."
            entries[vital.onset, vital.name] = TimelineEntry(at=vital.onset, text=text_, citations=(vital.id,))
    for event in case.facts.events:
        if event.id in wanted and event.id not in signed and event.at is not None:
            words = f"{event.reason}: {event.message}" if event.reason else event.message
            entries[event.at.start, words] = TimelineEntry(at=event.at.start, text=words[:400], citations=(event.id,))
    return [entries[key] for key in sorted(entries)][:_MOST_TIMES]


def _not_checked(case: Case) -> list[NotChecked]:
    """Return what could not be checked: missing sources, skipped parts, kinds of evidence that nobody offers."""
    facts = case.facts
    found = [NotChecked(what=name, why="No source that was read knows it.") for name in case.unfamiliar]
    found += [NotChecked(what=item.name, why=_sentence(item.reason)) for item in facts.missing]
    unread = {item.name for item in facts.missing}
    for source in facts.sources:
        problems = [text(problem).rstrip(".") for problem in items(source.facts.get("problems"))]
        if problems and source.object not in unread:
            found.append(NotChecked(what=source.object, why=f"In part: {'; '.join(problems[:5])}."))
    kinds = {word for source in facts.sources for word in mapping(source.facts.get("counts"))}
    for word, kind, why in (
        ("metrics", "metrics", ""),
        ("events", "events", ", so changes and restarts may have gone unseen"),
        ("log lines", "logs", ""),
    ):
        if word not in kinds:
            state = "could be read" if unread else "is connected"
            found.append(NotChecked(what=word, why=f"No source of {kind} {state}{why}."))
    if not facts.calls:
        why = "No topology is connected, so what calls this and what it calls were not followed."
        found.append(NotChecked(what="neighbouring services", why=why))
    return found


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:].rstrip('.')}."

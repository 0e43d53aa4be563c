"""Incidents that people have recorded: which one is meant, and which one it goes back to.

A record may name others by their ids. Around an id, words tell which way the cause runs ("a symptom of INC-7", "root
cause of INC-8"); where they do not, the one that was opened earlier came first. Followed to its end, that gives the
incident that set off the rest.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from controlplane.runtimes.builtin.analysis.facts import Facts, LogFact
from controlplane.runtimes.evidence import TimeRange
from controlplane.runtimes.loose_json import moment, text

#: How an id of a record looks: letters, a dash, a number.
ID: Final = re.compile(r"\b[A-Z][A-Z0-9]{1,9}-\d{1,8}\b")
_AROUND: Final = timedelta(hours=1)
_BEFORE_CHARS: Final = 60
_MOST_STEPS: Final = 20
#: What stands between two records, as whoever wrote one says it: the other one came of this one, or this one of it.
_GAVE_RISE: Final = re.compile(
    r"\bcauses? (?:of|for)\b|\bcaused\b|\bled to\b|\bleads to\b|\btriggered\b|\bset off\b|\bresult(?:ed|ing)? in\b|"
    r"\bfollowed by\b",
    re.IGNORECASE,
)
_CAME_OF: Final = re.compile(
    r"\bsymptoms? of\b|\bcaused by\b|\bdue to\b|\bbecause of\b|\bresult(?:ed|ing)? (?:of|from)\b|\btriggered by\b|"
    r"\bset off by\b|\bconsequence of\b|\bfollow(?:ing|s)\b|\b(?:from|after|since)\s*\(?$",
    re.IGNORECASE,
)
_RELEASE: Final = re.compile(
    r"\b(?:deploy(?:ed|ment|ing)?|roll(?:ed|ing) ?out|rollout|releas(?:e|ed|ing) (?:version |v?\d)|upgraded?|"
    r"migrat(?:ed|ion))\b",
    re.IGNORECASE,
)
_SETTING: Final = re.compile(
    r"\bconfig(?:uration)?\b.{0,30}\b(?:chang|updat|reload|appl)\w*|\bfeature flag\b|\bflag \S+ (?:enabled|disabled)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Incident:
    """A record. ``id`` is its observation's, ``name`` its own (``INC-7``)."""

    id: str
    name: str
    service: str
    title: str
    summary: str
    severity: str
    status: str
    opened: datetime | None
    resolved: datetime | None

    @property
    def is_over(self) -> bool:
        return self.resolved is not None

    def window(self) -> TimeRange | None:
        """Return the time in which what belongs to it was recorded."""
        if self.opened is None:
            return None
        return TimeRange(start=self.opened - _AROUND, end=max(self.resolved or self.opened, self.opened) + _AROUND)


def incidents_in(facts: Facts) -> list[Incident]:
    """Return the records among the states, oldest first."""
    found = [
        Incident(
            id=state.id,
            name=text(state.facts.get("id")),
            service=state.object,
            title=text(state.facts.get("title")),
            summary=text(state.facts.get("summary")),
            severity=text(state.facts.get("severity")),
            status=text(state.facts.get("status")),
            opened=moment(state.facts.get("opened")),
            resolved=moment(state.facts.get("resolved")),
        )
        for state in facts.of_type("incident")
    ]
    return sorted(found, key=lambda incident: (incident.opened is None, str(incident.opened), incident.name))


def meant(incidents: Sequence[Incident], words: str, focus: frozenset[str]) -> Incident | None:
    """Return the record that words name, else the newest open one of the services they name."""
    named = _ids_in(words, incidents)
    for incident in incidents:
        if incident.name.upper() in named:
            return incident
    if named:
        return None  # another one is asked for, which nobody recorded
    opened = [incident for incident in incidents if incident.service in focus and not incident.is_over]
    return opened[-1] if opened else None


def unknown_ids(incidents: Sequence[Incident], words: str) -> list[str]:
    """Return the ids in words that look like those of the records and are none of them."""
    known = {incident.name.upper() for incident in incidents}
    return [name for name in _ids_in(words, incidents) if name not in known]


def _ids_in(words: str, incidents: Sequence[Incident]) -> dict[str, None]:
    """Return the ids in words, of the kinds that the records have: a region or a host is named alike."""
    kinds = {incident.name.upper().partition("-")[0] for incident in incidents}
    return {name: None for name in ID.findall(words.upper()) if name.partition("-")[0] in kinds}


def way_back(incident: Incident, incidents: Sequence[Incident]) -> tuple[Incident, ...]:
    """Return the records from ``incident`` to the one it goes back to, each the cause of the one before it."""
    causes = _causes(incidents)
    way = [incident]
    while len(way) < _MOST_STEPS:
        ahead = [cause for cause in causes.get(way[-1].name, ()) if cause not in way]
        if not ahead:
            break
        # The nearest cause first, so that a cascade is told in all its steps.
        way.append(max(ahead, key=lambda cause: str(cause.opened)))
    return tuple(way)


def within(facts: Facts, window: TimeRange | None) -> Facts:
    """Return the facts of a window: what was reported or logged at other times belongs to other incidents."""
    if window is None:
        return facts
    return Facts(
        metrics=facts.metrics,
        events=[event for event in facts.events if _meets(event.at, window)],
        logs=[line for line in facts.logs if _meets(line.at, window)],
        states=facts.states,
        calls=facts.calls,
        missing=facts.missing,
        sources=facts.sources,
        summaries=facts.summaries,
        alert=facts.alert,
        scenario=facts.scenario,
    )


def lines_of(facts: Facts, incident: Incident) -> list[LogFact]:
    """Return the loud lines that the service logged around its incident, oldest first."""
    return [line for line in _logged(facts, incident) if line.loud]


def changes_before(facts: Facts, incident: Incident) -> list[LogFact]:
    """Return the lines by which the service says that it was changed, in the hour before its incident was opened."""
    opened = incident.opened
    return [
        line
        for line in _logged(facts, incident)
        if opened and line.at and line.at.start <= opened and (_RELEASE.search(line.message) or is_setting(line))
    ]


def is_setting(line: LogFact) -> bool:
    """Return whether a line tells of another configuration rather than of another release."""
    return _SETTING.search(line.message) is not None


def _logged(facts: Facts, incident: Incident) -> list[LogFact]:
    window = incident.window()
    lines = [
        line
        for line in facts.logs
        if line.object == incident.service and window is not None and _meets(line.at, window)
    ]
    return sorted(lines, key=lambda line: line.at.start.isoformat() if line.at else "")


def _causes(incidents: Sequence[Incident]) -> Mapping[str, list[Incident]]:
    """Return the causes of each record, by its name."""
    by_name = {incident.name: incident for incident in incidents}
    causes: dict[str, list[Incident]] = {}
    for incident in incidents:
        for other, forward in _mentions(incident, by_name):
            cause, effect = (incident, other) if forward else (other, incident)
            causes.setdefault(effect.name, []).append(cause)
    return causes


def _mentions(incident: Incident, by_name: Mapping[str, Incident]) -> Iterator[tuple[Incident, bool]]:
    """Yield each other record that one names, and whether it is said to have followed from it."""
    told = incident.summary
    forward = False
    end = 0
    for match in ID.finditer(told):
        other = by_name.get(match.group())
        before = told[max(end, match.start() - _BEFORE_CHARS) : match.start()]
        words = before.rpartition(". ")[2]
        said = _direction(words)
        if said is not None:
            forward = said
        elif not _joins(before):
            forward = other is not None and str(other.opened) > str(incident.opened)
        end = match.end()
        if other is not None and other is not incident:
            yield other, forward


def _direction(words: str) -> bool | None:
    """Return whether the phrase nearest before an id says that the id came of this record; ``None`` if none says it."""
    ends = {
        forward: max((match.end() for match in phrases.finditer(words)), default=0)
        for forward, phrases in ((True, _GAVE_RISE), (False, _CAME_OF))
    }
    if ends[True] == ends[False]:
        return None
    return ends[True] > ends[False]


def _joins(between: str) -> bool:
    """Return whether the text before an id only joins it to the one before ("INC-8 and INC-9")."""
    return between.strip(" ,").lower() in ("", "and", "or")


def _meets(at: TimeRange | None, window: TimeRange) -> bool:
    return at is None or (at.end >= window.start and at.start <= window.end)

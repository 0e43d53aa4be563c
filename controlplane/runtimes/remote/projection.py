"""OpenSRE's ``structured_report`` as a ``report/1``."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from pydantic import ValidationError

from controlplane.runtimes.loose_json import items, mapping, objects, text
from controlplane.runtimes.report import (
    ActionItem,
    Category,
    Hypothesis,
    Impact,
    Report,
    ReportStatus,
    Severity,
    TimelineEntry,
)

_CONFIDENCE: Final = {"confirmed": 0.95, "probable": 0.7, "hypothesis": 0.4}
_FENCED: Final = re.compile(r"```json[ \t]*\r?\n(.*?)\n[ \t]*```", re.DOTALL)
_MOST: Final = 100


def report_in(data: Mapping[str, Any]) -> Report | None:
    """Return the report of a ``result``: its ``structured_report``, else the first fenced JSON object of its text.

    The protocol has no categories and cites nothing: the cause is ``unknown`` of kind, and no claims are made of it.
    """
    given = mapping(data.get("structured_report")) or _fenced(text(data.get("text")))
    if not (text(given.get("title")) or text(given.get("executive_summary"))):
        return None
    try:
        return _report(given)
    except ValidationError:
        return None


def _fenced(words: str) -> Mapping[str, Any]:
    found = _FENCED.search(words)
    try:
        return mapping(orjson.loads(found[1])) if found else {}
    except ValueError:
        return {}


def _report(given: Mapping[str, Any]) -> Report:
    affected = tuple(_cut(one, 200) for one in items(given.get("affected_services"))[:_MOST] if _cut(one))
    impact = mapping(given.get("impact"))
    said = [f"{name}: {_cut(impact.get(key))}" for key, name in _IMPACT.items() if _cut(impact.get(key))]
    cause = _cause(mapping(given.get("root_cause")), affected)
    summary = _cut(given.get("executive_summary"))
    return Report(
        title=_cut(given.get("title"), 300) or summary[:300],
        status=ReportStatus(_one_of(given.get("status"), ReportStatus, "inconclusive")),
        severity=Severity(_one_of(given.get("severity"), Severity, "info")),
        summary=summary,
        impact=Impact(summary="; ".join(said)[:4000], affected=affected),
        timeline=tuple(
            TimelineEntry(at=at, text=_cut(entry.get("event")))
            for entry in list(objects(given.get("timeline")))[:_MOST]
            if (at := _time(text(entry.get("time")))) is not None
        ),
        hypotheses=() if cause is None else (cause,),
        root_cause=cause,
        actions=tuple(
            ActionItem(
                priority=_one_of(one.get("priority"), ("immediate", "short_term", "long_term"), "short_term"),  # type: ignore[arg-type]
                action=_cut(one.get("action")),
            )
            for one in list(objects(given.get("action_items")))[:_MOST]
        ),
        lessons=tuple(_cut(one) for one in items(given.get("lessons_learned"))[:_MOST] if _cut(one)),
    )


_IMPACT: Final = {"user_facing": "Users", "service_impact": "Services", "blast_radius": "Blast radius"}


def _cause(given: Mapping[str, Any], affected: tuple[str, ...]) -> Hypothesis | None:
    told = " ".join(words for key in ("summary", "details") if (words := _cut(given.get(key))))
    if not told:
        return None
    confidence = _CONFIDENCE.get(text(given.get("confidence")).lower(), 0.4)
    named = affected[0] if affected else ""
    return Hypothesis(category=Category.UNKNOWN, object=named, mechanism=told[:4000], confidence=confidence)


def _cut(value: Any, limit: int = 4000) -> str:
    return text(value).strip()[:limit]


def _one_of(value: Any, known: Any, default: str) -> str:
    word = text(value).lower()
    return word if word in {str(one) for one in known} else default


def _time(words: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(words)
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)

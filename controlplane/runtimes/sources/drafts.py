"""Records as observations: a value that code can compute with, and a quote that a person can check."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any, Final

from controlplane.runtimes.evidence import JsonValue, ObservationKind, TimeRange
from controlplane.runtimes.signals.alert import read_alert
from controlplane.runtimes.sources.figures import clock, clock_dated, figure
from controlplane.runtimes.sources.records import LEVEL_ORDER, Happening, Level, Link, LogLine, Series, State
from controlplane.runtimes.sources.source import SourceInfo
from controlplane.runtimes.toolbox import Draft

MAX_POINTS: Final = 120
_TEXT_CHARS: Final = 1_000
_LISTED: Final = 20
_DEPTH: Final = 6


def alert_draft(alert: Mapping[str, Any]) -> Draft:
    """The alert itself, cut to what an observation may hold."""
    value = bounded(alert)
    view = read_alert(alert)
    name = str(alert.get("title") or alert.get("alertname") or (view.title if view else "alert"))
    annotations = alert.get("commonAnnotations")
    notes = annotations if isinstance(annotations, Mapping) else {}
    words = [name, *(str(notes.get(key)) for key in ("summary", "description", "error") if notes.get(key))]
    return Draft("alert", name[:200], ObservationKind.ALERT, " — ".join(words), value=value)


def scenario_draft(scenario: Mapping[str, Any]) -> Draft:
    """What is known of the system beforehand."""
    value = {"type": "scenario", **bounded(scenario)}
    known = [f"{key} {item}" for key, item in scenario.items() if isinstance(item, str | int | float)]
    return Draft("scenario", "scenario", ObservationKind.STATE, "known beforehand: " + ", ".join(known), value=value)


def source_draft(info: SourceInfo) -> Draft:
    """What a source holds."""
    value = {
        "type": "source",
        "format": info.format,
        "counts": dict(info.counts),
        "objects": list(info.objects[:_LISTED]),
        "problems": list(info.problems),
    }
    counts = ", ".join(f"{count} {word}" for word, count in info.counts.items()) or "nothing readable"
    quote = f"{info.name}: {counts}"
    if info.start and info.end:
        quote += f", {clock_dated(info.start)} to {clock_dated(info.end)} UTC"
    if info.objects:
        more = len(info.objects) - _LISTED
        quote += f"; about {', '.join(info.objects[:_LISTED])}" + (f" and {more} more" if more > 0 else "")
    if info.problems:
        quote += f"; {'; '.join(info.problems)}"
    at = TimeRange(start=info.start, end=info.end) if info.start and info.end else None
    return Draft(info.name, info.name, ObservationKind.STATE, quote, at, value)


def missing_draft(name: str, reason: str) -> Draft:
    """Something that should be there and is not."""
    value = {"type": "missing", "reason": reason}
    return Draft(name, name, ObservationKind.STATE, f"{name} {reason}", value=value)


def summary_draft(source: str, word: str, records: Sequence[Any]) -> Draft:
    """How many records a source gave, so that their absence can be cited too."""
    loud = [item for item in records if LEVEL_ORDER[getattr(item, "level", Level.INFO)] >= LEVEL_ORDER[Level.WARNING]]
    value = {"type": "summary", "of": word, "count": len(records), "loud": len(loud)}
    quote = f"{source}: {len(records) or 'no'} {word}{'' if len(records) == 1 else 's'}"
    if word in ("event", "log line") and records:
        quote += f", {len(loud) or 'none'} of them a warning or failure"
    kind = {"metric": ObservationKind.METRIC, "event": ObservationKind.EVENT, "log line": ObservationKind.LOG}
    return Draft(source, source, kind.get(word, ObservationKind.STATE), quote, value=value)


def series_draft(series: Series) -> Draft:
    """A metric: its extremes, and its points thinned out to at most 120."""
    low, high = (find(range(len(series.values)), key=series.values.__getitem__) for find in (min, max))
    times, values = thinned(series)
    value: dict[str, JsonValue] = {
        "metric": series.metric,
        "unit": series.unit,
        "statistic": series.statistic,
        "samples": len(series.values),
        "min": series.values[low],
        "max": series.values[high],
        "min_at": series.times[low].isoformat(),
        "max_at": series.times[high].isoformat(),
        "start": times[0].isoformat(),
        "values": values,
    }
    offsets = [round((moment - times[0]).total_seconds(), 3) for moment in times]
    steps = {round(after - before, 3) for before, after in pairwise(offsets)}
    value |= {"step_s": steps.pop()} if len(steps) == 1 else {"offsets_s": offsets}
    if series.query:
        value["query"] = series.query[:_TEXT_CHARS]
    if series.baseline is not None:
        value["baseline"] = asdict(series.baseline)
    quote = (
        f"{series.metric} of {series.object or 'the system'}"
        f"{f' ({series.statistic.lower()})' if series.statistic else ''}: "
        f"{figure(series.values[0], series.unit)} at {clock(series.times[0])}, "
        f"{figure(series.values[-1], series.unit)} at {clock(series.times[-1])} UTC; "
        f"median {figure(median(series.values), series.unit)}, "
        f"lowest {figure(series.values[low], series.unit)} at {clock(series.times[low])}, "
        f"highest {figure(series.values[high], series.unit)} at {clock(series.times[high])}"
    )
    at = TimeRange(start=series.times[0], end=series.times[-1])
    return Draft(series.source, series.object or series.source, ObservationKind.METRIC, quote, at, value)


def event_draft(event: Happening) -> Draft:
    """An event."""
    value = {"reason": event.reason, "message": event.message[:_TEXT_CHARS], "level": event.level, "count": event.count}
    when = ""
    if event.at is not None:
        spans = event.at.end - event.at.start >= timedelta(seconds=1)
        when = f" {clock_dated(event.at.start)}" + (f" to {clock(event.at.end)}" if spans else "") + " UTC"
    times = f" ({event.count} times)" if event.count > 1 else ""
    reason = f"{event.reason}: " if event.reason else ""
    quote = f"{reason}{event.message}{times}{when}"
    return Draft(event.source, event.object or event.source, ObservationKind.EVENT, quote, event.at, value)


def state_draft(state: State) -> Draft:
    """A state."""
    value = {**bounded(state.facts), "type": state.type}
    quote = f"{state.type} {state.object}: {state.text}"
    return Draft(state.source, state.object or state.source, ObservationKind.STATE, quote, state.at, value)


def link_drafts(links: Sequence[Link]) -> list[Draft]:
    """Return one observation for each caller: what it calls."""
    groups: dict[tuple[str, str], list[str]] = {}
    for link in links:
        groups.setdefault((link.source, link.object), []).append(link.callee)
    return [_calls_draft(source, caller, callees) for (source, caller), callees in groups.items()]


def _calls_draft(source: str, caller: str, callees: Sequence[str]) -> Draft:
    quote = f"{caller} calls {', '.join(dict.fromkeys(callees))}"
    value = {"type": "calls", "callees": list(dict.fromkeys(callees))}
    return Draft(source, caller, ObservationKind.TOPOLOGY, quote, value=value)


def log_drafts(lines: Sequence[LogLine]) -> list[Draft]:
    """Return one observation for each pattern of lines, loudest first, then most frequent."""
    groups: dict[tuple[str, str, str], list[LogLine]] = {}
    for line in lines:
        groups.setdefault((line.source, line.object, pattern_of(line.message)), []).append(line)
    ranked = sorted(groups.values(), key=lambda group: (-max(LEVEL_ORDER[line.level] for line in group), -len(group)))
    return [_log_draft(group) for group in ranked]


def _log_draft(group: Sequence[LogLine]) -> Draft:
    first = group[0]
    level = max((line.level for line in group), key=LEVEL_ORDER.__getitem__)
    times = [line.at for line in group if line.at is not None]
    value = {"level": level, "message": first.message[:_TEXT_CHARS], "count": len(group)}
    repeated = f" ({len(group)} lines like this)" if len(group) > 1 else ""
    when = f"{clock_dated(times[0])} UTC " if times else ""
    at = TimeRange(start=min(times), end=max(times)) if times else None
    quote = f"{when}{first.message[:_TEXT_CHARS]}{repeated}"
    return Draft(first.source, first.object or first.source, ObservationKind.LOG, quote, at, value)


_VARIABLE: Final = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}(?:-[0-9a-f]{4,})*|\d+(?:[.,:]\d+)*", re.IGNORECASE)


def pattern_of(message: str) -> str:
    """Return a log line with everything that varies between its like (numbers, ids, hashes) blanked out."""
    return _VARIABLE.sub("#", message[:_TEXT_CHARS])


def clip(series: Series, start: datetime | None, end: datetime | None) -> Series | None:
    """Return the part of a series within the times, ``None`` if there is none."""
    if start is None and end is None:
        return series
    kept = [
        (at, value)
        for at, value in zip(series.times, series.values, strict=True)
        if (start is None or at >= start) and (end is None or at <= end)
    ]
    if not kept:
        return None
    times, values = zip(*kept, strict=True)
    return replace(series, times=times, values=values)


def thinned(series: Series, most: int = MAX_POINTS) -> tuple[list[datetime], list[float]]:
    """Return at most ``most`` points: medians of equal stretches, each at the stretch's first time."""
    count = len(series.values)
    if count <= most:
        return list(series.times), list(series.values)
    edges = [round(index * count / most) for index in range(most + 1)]
    return (
        [series.times[begin] for begin, _ in pairwise(edges)],
        [median(series.values[begin:end]) for begin, end in pairwise(edges)],
    )


def bounded(value: Any, depth: int = _DEPTH) -> Any:
    """Return JSON cut to a size an observation may have: long texts, long lists and deep nesting shortened."""
    if isinstance(value, str):
        return value if len(value) <= _TEXT_CHARS else value[: _TEXT_CHARS - 1] + "…"
    if isinstance(value, Mapping):
        kept = list(value.items())[:100] if depth else []
        return {str(key)[:100]: bounded(item, depth - 1) for key, item in kept}
    if isinstance(value, list | tuple):
        return [bounded(item, depth - 1) for item in value[:_LISTED]] if depth else []
    return value

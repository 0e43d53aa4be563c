"""Filters and tags of the pages: times, durations, states, the same words everywhere."""

import re
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from controlplane.core.clock import rfc3339
from controlplane.runtimes.loose_json import mapping
from controlplane.runtimes.signals.alert import AlertView, read_alert
from web.config_page import pretty_json
from web.markdown import render_markdown

register = template.Library()


class Look(NamedTuple):
    words: str
    icon: str
    tone: str


#: The states of a run. ``render.js`` has the same table for what changes while one looks.
STATUSES: Final = {
    "queued": Look("Queued", "queue", ""),
    "running": Look("Running", "", "tone-run"),
    "waiting": Look("Waiting", "pause", "tone-warn"),
    "completed": Look("Completed", "check", "tone-good"),
    "failed": Look("Failed", "warn", "tone-bad"),
    "interrupted": Look("Interrupted", "stop", "tone-halt"),
    "timeout": Look("Timed out", "clock", "tone-late"),
}
#: The states of a review.
REVIEW_STATES: Final = {
    "pending": Look("Pending", "clock", "tone-warn"),
    "approved": Look("Approved", "check", "tone-good"),
    "rejected": Look("Rejected", "cross", "tone-bad"),
    "expired": Look("Expired", "clock", ""),
    "withdrawn": Look("Withdrawn", "back", ""),
    "needs_rebase": Look("Needs rebase", "warn", "tone-late"),
}
#: What became of an alert.
FATES: Final = {
    "investigated": Look("Investigated", "check", "tone-good"),
    "joined": Look("Joined a run", "plus", "tone-run"),
    "waiting": Look("Waiting", "clock", "tone-warn"),
    "skipped": Look("Skipped", "next", ""),
}
_NAME: Final = re.compile(r"[\w./%-]+")
_NAME_PART: Final = re.compile(r"[^_/]+[_/]*|[_/]+")
_SEVERITIES: Final = {
    "critical": "tone-bad", "fatal": "tone-bad", "high": "tone-late", "error": "tone-late", "major": "tone-late",
    "medium": "tone-warn", "warning": "tone-warn", "low": "tone-run", "info": "",
}  # fmt: skip
_REPORT_STATUSES: Final = {
    "resolved": "tone-good", "mitigated": "tone-run", "ongoing": "tone-warn", "inconclusive": "",
}  # fmt: skip


@register.inclusion_tag("web/partials/status.html")
def status_badge(status: str) -> dict[str, Any]:
    """The badge of a run's state: colour, icon and words, never colour alone."""
    return {"status": status, "look": STATUSES.get(status, Look(status, "info", ""))}


@register.inclusion_tag("web/partials/review_state.html")
def review_badge(state: str) -> dict[str, Any]:
    """The badge of a review's state."""
    return {"look": REVIEW_STATES.get(state, Look(state, "info", ""))}


@register.inclusion_tag("web/partials/fate.html")
def fate_badge(fate: str) -> dict[str, Any]:
    """The badge of what became of an alert; nothing where nothing has yet."""
    return {"fate": fate, "look": FATES.get(fate, Look(fate, "info", ""))}


@register.filter
def severity_tone(severity: str) -> str:
    return _SEVERITIES.get(severity, "")


@register.filter
def report_status_tone(status: str) -> str:
    return _REPORT_STATUSES.get(status, "")


@register.filter
def words(code: str) -> str:
    """``resource_exhaustion`` → ``Resource exhaustion``."""
    text = str(code).replace("_", " ").strip()
    return text[:1].upper() + text[1:]


@register.filter
def breakable(name: str) -> SafeString | str:
    """A name of parts such as ``group/issue_2``, which may be broken between them; any other text as it is."""
    if not _NAME.fullmatch(name):
        return name
    return format_html_join(mark_safe("<wbr>"), "{}", ((part,) for part in _NAME_PART.findall(name)))


@register.filter
def alert_view(alert: Any) -> AlertView | None:
    """What an alert says, whatever sent it."""
    return read_alert(mapping(alert))


@register.filter
def percent(share: float) -> int:
    """A confidence of 0–1 as a whole percentage."""
    return round(share * 100)


@register.filter
def duration(milliseconds: float | None) -> str:
    """``4.2 s``, ``1 min 12 s``, ``2 h 5 min`` of milliseconds; the same as ``format.js``."""
    if milliseconds is None or milliseconds < 0:
        return ""
    if milliseconds < 1000:
        return f"{round(milliseconds)} ms"
    if milliseconds < 59_950:
        return f"{round(milliseconds / 100) / 10:g} s"
    seconds = round(milliseconds / 1000)
    if seconds < 3600:
        minutes, rest = divmod(seconds, 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


@register.filter
def run_duration(run: Any) -> str:
    """How long an ended run took, from being accepted to its end."""
    if run.ended_at is None:
        return ""
    return duration((run.ended_at - run.created_at).total_seconds() * 1000)


@register.simple_tag
def moment(at: datetime | None, *, relative: bool = False) -> SafeString | str:
    """``<time>`` of a moment in UTC; ``relative`` lets the page show its age instead."""
    if at is None:
        return ""
    utc = at.astimezone(UTC)
    text = f"{utc.day} {utc:%b %Y, %H:%M} UTC"
    return format_html('<time datetime="{}"{}>{}</time>', rfc3339(at), " data-relative" if relative else "", text)


@register.filter
def utc_clock(at: datetime) -> str:
    """``11:22:05`` in UTC: what logs and metrics speak."""
    return f"{at.astimezone(UTC):%H:%M:%S}"


@register.filter
def utc_day(at: datetime) -> str:
    utc = at.astimezone(UTC)
    return f"{utc.day} {utc:%b %Y}"


@register.filter
def markdown(text: str) -> SafeString:
    return render_markdown(text)


@register.filter(name="pretty_json")
def pretty_json_filter(value: Any) -> str:
    return pretty_json(value)

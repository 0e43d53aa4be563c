"""What an effective configuration says about alerts: routing rules, when alerts start runs, and who may send them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, Final

from pydantic import ValidationError

from controlplane.configs.alert_sections import AlertSource, AlertsSection
from controlplane.configs.sections import AlertRule

REPEAT_WINDOW: Final = timedelta(hours=4)
"""Alertmanager's own default ``repeat_interval``: by default an alert that goes on is looked at again after that."""


RUNS_PER_HOUR: Final = 30
"""How many runs the alerts of a team start in an hour where nothing else is configured."""


@dataclass(frozen=True, slots=True)
class AlertPolicy:
    """When alerts of a team start runs.

    ``repeat_window``: how long after a run's end a repeat of the same alerts starts no other one. ``debounce``: how
    long an alert that is not urgent must keep firing first. ``runs_per_hour``: how many runs alerts start at most.
    ``group_by``: labels by which alerts that come one by one are put together.
    """

    repeat_window: timedelta = REPEAT_WINDOW
    debounce: timedelta = timedelta()
    runs_per_hour: int = RUNS_PER_HOUR
    group_by: tuple[str, ...] = ()


def alert_policy(document: Mapping[str, Any]) -> AlertPolicy:
    """Return the policy of an effective configuration.

    What the section does not set, or sets to something no write accepts, is the default.
    """
    debounce, hourly, labels = (_setting(document, name) for name in ("debounce_s", "runs_per_hour", "group_by"))
    return AlertPolicy(
        repeat_window=repeat_window(document),
        debounce=timedelta(seconds=debounce or 0),
        runs_per_hour=hourly or RUNS_PER_HOUR,
        group_by=tuple(labels or ()),
    )


def repeat_window(document: Mapping[str, Any]) -> timedelta:
    """Return how long after a run's end a repeat of the same alerts starts no other one."""
    seconds = _setting(document, "repeat_window_s")
    return REPEAT_WINDOW if seconds is None else timedelta(seconds=seconds)


def alert_sources(document: Mapping[str, Any]) -> dict[str, AlertSource]:
    """Return the senders that a configuration names, by name; one that is off or cannot be read is none."""
    section = document.get("alerts")
    listed = section.get("sources") if isinstance(section, Mapping) else None
    found: dict[str, AlertSource] = {}
    for name, entry in listed.items() if isinstance(listed, Mapping) else ():
        try:
            source = AlertSource.model_validate(entry)
        except ValidationError:  # stored by an earlier release
            continue
        if source.kind is not None and source.enabled is not False:
            found[str(name)] = source
    return found


def _setting(document: Mapping[str, Any], name: str) -> Any:
    """Return one member of the section ``alerts``; a broken one does not hold up the others."""
    section = document.get("alerts")
    if not isinstance(section, Mapping):
        return None
    try:
        return getattr(AlertsSection.model_validate({name: section.get(name)}), name)
    except ValidationError:
        return None


def team_by_rules(document: Mapping[str, Any], labels: Mapping[str, str]) -> str | None:
    """Return the slug that the first matching rule of ``routing.alerts`` names, ``None`` when none matches."""
    return next((rule.team for rule in _rules(document) if _matches(rule, labels)), None)


def _rules(document: Mapping[str, Any]) -> Iterator[AlertRule]:
    section = document.get("routing")
    rules = section.get("alerts") if isinstance(section, Mapping) else None
    for rule in rules if isinstance(rules, list) else []:
        try:
            yield AlertRule.model_validate(rule)
        except ValidationError:  # stored by an earlier release: it matches nothing
            continue


def _matches(rule: AlertRule, labels: Mapping[str, str]) -> bool:
    return all(name in labels and fnmatchcase(labels[name], glob) for name, glob in rule.match.items())

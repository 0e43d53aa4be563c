"""What an effective configuration says about alerts: routing rules and the repeat window."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, Final

from pydantic import ValidationError

from controlplane.configs.sections import AlertRule, AlertsSection

REPEAT_WINDOW: Final = timedelta(hours=4)
"""Alertmanager's own default ``repeat_interval``: by default an alert that goes on is looked at again after that."""


def repeat_window(document: Mapping[str, Any]) -> timedelta:
    """Return how long after a run's end a repeat of the same alerts starts no other one.

    What the section does not set, or sets to something no write accepts, is the default.
    """
    try:
        seconds = AlertsSection.model_validate(document.get("alerts") or {}).repeat_window_s
    except ValidationError:
        seconds = None
    return REPEAT_WINDOW if seconds is None else timedelta(seconds=seconds)


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

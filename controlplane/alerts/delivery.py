"""What one delivery of an alert source says, in the form that intake works with, whatever the source."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Self

_STORED: Final = (
    "source", "group_key", "group_text", "status", "title", "severity", "about", "summary", "firing_count", "whole",
    "urgent",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Single:
    """One alert of a delivery as it is listed, redacted and bounded. ``digest`` tells it from others of its group."""

    digest: str
    status: str
    name: str
    severity: str
    service: str
    host: str
    workload: str
    summary: str
    url: str
    starts_at: datetime | None
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery, read and checked. All texts but ``routing_labels`` are redacted and bounded.

    ``routing_labels`` are the labels that all alerts share, as they came: they choose the team and are never stored or
    quoted. ``firing`` holds a digest of every alert that fires (at most some thousands, see the reader), ``names`` what
    to call those of them that are kept. ``payload`` is the document a run gets.

    ``whole``: it tells the state of its whole group, and not of some alerts that belong to it. ``singles`` are its
    alerts one by one. ``key`` is the same for the same delivery sent again, ``""`` where the sender has no ids.
    ``identifiers`` are kinds of routes with their keys, as they came. ``urgent``: one fires that waits for nothing.
    """

    source: str
    group_key: str
    group_text: str
    status: str
    title: str
    severity: str
    about: str
    summary: str
    labels: Mapping[str, str]
    firing: frozenset[str]
    names: Mapping[str, str]
    firing_count: int
    starts_at: datetime | None
    routing_labels: Mapping[str, str]
    payload: Mapping[str, Any]
    whole: bool = True
    singles: tuple[Single, ...] = ()
    key: str = ""
    identifiers: Mapping[str, str] = field(default_factory=dict)
    urgent: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return what a run can be started with later, as JSON: nothing that is not redacted."""
        return {
            **{name: getattr(self, name) for name in _STORED},
            "labels": dict(self.labels),
            "names": dict(self.names),
            "payload": dict(self.payload),
            "firing": sorted(self.firing),
            "starts_at": self.starts_at.isoformat() if self.starts_at else None,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the delivery that :meth:`as_json` made."""
        starts_at = stored["starts_at"]
        return cls(
            **{name: stored[name] for name in (*_STORED, "labels", "names", "payload")},
            firing=frozenset(stored["firing"]),
            starts_at=datetime.fromisoformat(starts_at) if starts_at else None,
            routing_labels={},
        )

    def prompt(self) -> str:
        """Return the one line that a run is asked with."""
        said = f": {self.summary}" if self.summary else ""
        return f"{self._heading()} is firing{self.about}{said}{self._counted()}"

    def news(self, fresh: frozenset[str], *, turned: bool) -> str:
        """Return the one line that tells a running thread what changed: new alerts, or how the group turned out."""
        if self.status == "resolved":
            return f"{self._heading()} is resolved: no alert of the group fires any more."
        if not fresh:
            return f"{self._heading()} is firing again{self._counted()}."
        named = [self.names[one] for one in sorted(fresh) if one in self.names][:5]
        listed = f" ({'; '.join(named)}{'; …' if len(fresh) > len(named) else ''})" if named else ""
        again = " It is firing again." if turned else ""
        joined = f"{len(fresh):,} more alert{'s' if len(fresh) != 1 else ''} joined{listed}"
        return f"{self._heading()}: {joined}; {self.firing_count:,} fire now.{again}"

    def _heading(self) -> str:
        return f"Alert {self.title} ({self.severity})" if self.severity else f"Alert {self.title}"

    def _counted(self) -> str:
        return f" ({self.firing_count:,} alerts)" if self.firing_count > 1 else ""

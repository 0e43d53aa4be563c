"""Alertmanager as a source: which alerts are there, silenced and inhibited ones included.

Source: the OpenAPI document of its API v2 (api/v2/openapi.yaml).
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from typing_extensions import override

from controlplane.runtimes.loose_json import between, items, mapping, objects, text
from controlplane.runtimes.sources.live.bounds import labels_of
from controlplane.runtimes.sources.live.http import JsonApi, SourceError
from controlplane.runtimes.sources.live.matrix import version_in
from controlplane.runtimes.sources.live.monitors import NAMING, message_of, monitor_state
from controlplane.runtimes.sources.live.scope import OBJECT_LABELS
from controlplane.runtimes.sources.live.source import LiveSource, Reading
from controlplane.runtimes.sources.records import Happening, Level, State

MOST_ALERTS: Final = 200
_SUPPRESSED: Final = {"silencedBy": "silenced", "mutedBy": "silenced", "inhibitedBy": "inhibited"}
_LEVELS: Final = {"info": Level.INFO, "none": Level.INFO, "warning": Level.WARNING, "warn": Level.WARNING}
_ORDER: Final = {"firing": 0, "inhibited": 1, "silenced": 2}


class AlertmanagerSource(LiveSource):
    """Alerts as states of monitors, and as events at the time each began."""

    kinds: ClassVar[tuple[type, ...]] = (State, Happening)

    @override
    async def collect(self, api: JsonApi, reading: Reading) -> None:
        wanted = [(name, "true") for name in ("active", "silenced", "inhibited")]
        body = await api.get("/api/v2/alerts", wanted)
        if not isinstance(body, list):
            raise SourceError("not_json", "The server's answers have another form than this API's.")
        await asyncio.to_thread(self._read, body, reading)

    def _read(self, body: Sequence[Any], reading: Reading) -> None:
        alerts = sorted(objects(body), key=lambda alert: (_ORDER[_standing(alert)[0]], text(alert.get("startsAt"))))
        if len(alerts) > MOST_ALERTS:
            reading.problem(f"{len(alerts) - MOST_ALERTS:,} further alerts left out")
        for alert in alerts[:MOST_ALERTS]:
            self._take(alert, reading)
        reading.records[Happening].sort(key=lambda event: (event.at is None, event.at.start if event.at else 0))

    def _take(self, alert: Mapping[str, Any], reading: Reading) -> None:
        named = (self._endpoint.object_label, *NAMING)
        labels, notes = labels_of(alert.get("labels"), reading, first=named), mapping(alert.get("annotations"))
        standing, note = _standing(alert)
        state = monitor_state(self.name, labels, notes, state=standing, since=alert.get("startsAt"), note=note)
        if state is None:
            reading.problem("alert without a name left out")
            return
        words = (self._endpoint.object_label, *OBJECT_LABELS)
        about = next((labels[name] for name in words if labels.get(name)), "")
        severity = text(labels.get("severity")).lower()
        message = message_of(notes) or f"alert {state.object} began"
        reading.add(
            state,
            Happening(
                source=self.name,
                object=about,
                message=message,
                at=between(alert.get("startsAt")),
                reason=state.object,
                level=_LEVELS.get(severity, Level.ERROR) if standing == "firing" else Level.INFO,
            ),
        )


def _standing(alert: Mapping[str, Any]) -> tuple[str, str]:
    """Return whether an alert is firing, silenced or inhibited, and by what."""
    status = mapping(alert.get("status"))
    if text(status.get("state")) == "suppressed":
        for member, word in _SUPPRESSED.items():
            by = [text(item) for item in items(status.get(member))]
            if by:
                return word, f"by {', '.join(by)[:100]}"
        return "silenced", ""
    return "firing", ""


async def alertmanager_version(api: JsonApi) -> str:
    """Return the server's version; used to test a connection.

    Raises:
        SourceError: the server does not answer as an Alertmanager does.
    """
    body = await api.get("/api/v2/status")
    if "versionInfo" not in mapping(body):
        raise SourceError("not_json", "The server's answers have another form than this API's.")
    return version_in(body["versionInfo"])

"""Short ways to make sources over peers, and to ask them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.configs.credentials import Resolved, State
from controlplane.configs.limits import Limits
from controlplane.runtimes.evidence import ToolResult
from controlplane.runtimes.sources.live.integrations import live_sources
from controlplane.runtimes.sources.live.source import LiveSource
from controlplane.runtimes.sources.records import Series
from controlplane.runtimes.sources.source import Query, SourceInfo
from controlplane.runtimes.sources.tools import toolbox_for

EVERYTHING = Query()
SECRET = "hunter2-very-secret-bearer"


def source(
    url: str,
    kind: str = "prometheus",
    *,
    alert: Mapping[str, Any] | None = None,
    words: str = "",
    **settings: Any,
) -> LiveSource:
    """Return the source of an integration called ``mon``; references in its settings have :data:`SECRET` as value."""
    document = {"integrations": {"mon": {"kind": kind, "url": url, **settings}}}
    (made,) = live_sources(document, alert=alert, words=words, resolve=resolved)
    return made


def resolved(text: str, _host: str | None) -> Resolved:
    """Return a text with :data:`SECRET` as the value of its references."""
    name = "${OPENSRE_CRED_MON}"
    return Resolved(text.replace(name, SECRET), (SECRET,) if name in text else ())


def unresolved(text: str, _host: str | None) -> Resolved:
    """Return a text, or that its credentials are not granted."""
    return Resolved(None, (), (("OPENSRE_CRED_MON", State.NOT_GRANTED),)) if "${" in text else Resolved(text)


async def info_of(made: LiveSource) -> SourceInfo:
    (info,) = await made.describe()
    return info


async def series_of(made: LiveSource) -> dict[tuple[str, str], Series]:
    """Return the series by metric and object."""
    return {(one.metric, one.object): one for one in (await made.series(EVERYTHING)).records}


async def evidence(sources: Sequence[LiveSource], tool: str = "list_evidence", **arguments: Any) -> ToolResult:
    """Return what a tool answers over sources."""
    box = toolbox_for(sources, turn=1, limits=Limits())
    result, _ = await box.finish(box.start(tool, arguments))
    return result


def alert(started: datetime | None = None, /, **labels: str) -> dict[str, Any]:
    """Return an alert as Alertmanager's webhook sends it, two hours old unless told otherwise."""
    at = started or datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)
    named = {"alertname": "HighErrorRate", "severity": "critical", **labels}
    return {
        "status": "firing",
        "commonLabels": named,
        "commonAnnotations": {"summary": "many requests fail"},
        "alerts": [{"status": "firing", "labels": named, "startsAt": at.isoformat()}],
    }

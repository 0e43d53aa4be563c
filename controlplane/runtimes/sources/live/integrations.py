"""The live sources that an effective configuration names."""

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.configs.sections import INTEGRATION_KINDS
from controlplane.runtimes.sources.live.alertmanager import AlertmanagerSource
from controlplane.runtimes.sources.live.endpoint import Integration, Resolve, integrations_in
from controlplane.runtimes.sources.live.loki import LokiSource
from controlplane.runtimes.sources.live.prometheus import PrometheusSource
from controlplane.runtimes.sources.live.source import LiveSource, UnreadSource


def live_sources(
    document: Mapping[str, Any],
    *,
    alert: Mapping[str, Any] | None,
    words: str = "",
    resolve: Resolve,
) -> Sequence[LiveSource]:
    """Return a source for each enabled integration of a kind that is read here; nothing is asked yet.

    Args:
        document: the effective configuration of the run.
        alert: of the run: what the sources ask about.
        words: of the question; they name objects where the alert has no labels.
        resolve: gives the values of credentials' references, for the host they are sent to. An integration whose
            credentials have none becomes a source that says so.
    """
    wanted = [one for one in integrations_in(document, resolve) if one.enabled and one.kind in INTEGRATION_KINDS]
    return [_source(one, alert, words) for one in wanted]


def _source(integration: Integration, alert: Mapping[str, Any] | None, words: str) -> LiveSource:
    endpoint = integration.endpoint
    if endpoint is None:
        return UnreadSource(integration.name, integration.kind, integration.problem)
    match integration.kind:
        case "prometheus":
            return PrometheusSource(endpoint, alert=alert, words=words)
        case "alertmanager":
            return AlertmanagerSource(endpoint)
        case _:
            return LokiSource(endpoint, alert=alert)

"""The process's metrics, in a registry of our own. Names are ``opensre_<domain>_<what>_<unit>``.

A higher app keeps its metrics in its own ``metrics.py`` and registers them here: ``Counter(..., registry=registry)``.
Labels come from closed sets (route names, states, runtime kinds), never from URLs, users or organizations.
"""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for every counter and histogram, which nobody asks for

registry = CollectorRegistry()
ProcessCollector(namespace="opensre", registry=registry)

http_request_duration_seconds = Histogram(
    "opensre_http_request_duration_seconds",
    "Time from a request to the first byte of its answer, by route name.",
    ["method", "route", "status"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0),
    registry=registry,
)
tasks_pending_count = Gauge(
    "opensre_tasks_pending_count", "Background tasks of this process not finished yet.", registry=registry
)
tasks_run_duration_seconds = Histogram(
    "opensre_tasks_run_duration_seconds",
    "Time a background task ran, by task and outcome.",
    ["task", "outcome"],
    registry=registry,
)
tasks_worker_restarts_total = Counter(
    "opensre_tasks_worker_restarts_total", "How often the part that does stored tasks began again.", registry=registry
)
database_busy_total = Counter(
    "opensre_database_busy_total", "Requests refused because the database was locked or unreachable.", registry=registry
)

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def observe_request(*, method: str, route: str, status: int, duration_s: float) -> None:
    """Record one answered request. A method outside the usual ones counts as ``other``: clients make them up."""
    label = method if method in _METHODS else "other"
    http_request_duration_seconds.labels(label, route, str(status)).observe(duration_s)


def render() -> bytes:
    """Return all metrics in the Prometheus text format, version 0.0.4.

    Source: https://prometheus.io/docs/instrumenting/exposition_formats/
    """
    return generate_latest(registry)

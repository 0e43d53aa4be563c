"""Metrics of alert intake."""

from prometheus_client import Counter

from controlplane.core.metrics import registry

deliveries_total = Counter(
    "opensre_alert_deliveries_total",
    "Deliveries of alert sources, by what became of them.",
    ["source", "action"],
    registry=registry,
)

"""Metrics of reviews."""

from prometheus_client import Counter

from controlplane.core.metrics import registry

review_transitions_total = Counter(
    "opensre_review_transitions_total",
    "Reviews opened, decided, withdrawn, expired or found outdated by this process.",
    ["kind", "transition"],
    registry=registry,
)

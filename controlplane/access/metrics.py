"""Metrics of access."""

from prometheus_client import Counter

from controlplane.core.metrics import registry

rate_limited_total = Counter(
    "opensre_rate_limited_total", "Requests refused by a rate limit, by rule.", ["rule"], registry=registry
)
sign_ins_total = Counter(
    "opensre_sign_ins_total",
    "Sign-ins by method and outcome: ok, refused.",
    ["method", "outcome"],
    registry=registry,
)

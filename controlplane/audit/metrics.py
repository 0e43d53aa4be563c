"""Metrics of the audit log."""

from collections.abc import Iterator
from typing import Final

from django.db import DatabaseError, InterfaceError
from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from controlplane.core.metrics import registry

security_events_total: Final = Counter(
    "opensre_security_events_total", "Refusals, sign-ins and secrets given out, by kind.", ["kind"], registry=registry
)
security_overflow_total: Final = Counter(
    "opensre_security_overflow_total",
    "Security events that were only counted, because their minute was full.",
    registry=registry,
)


class ChainCollector(Collector):
    """The state of the chains as the database has it: the same from whichever process it is read."""

    def describe(self) -> Iterator[Metric]:
        yield from self._families(0, 0.0)

    @override
    def collect(self) -> Iterator[Metric]:
        from controlplane.audit.verification import broken_chains, oldest_verification_s

        try:
            yield from self._families(broken_chains(), oldest_verification_s())
        except (DatabaseError, InterfaceError):
            return  # the scrape still has everything else

    @staticmethod
    def _families(broken: int, age_s: float) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "opensre_audit_broken_chains_count", "Organizations whose audit chain is broken.", value=broken
        )
        yield GaugeMetricFamily(
            "opensre_audit_verification_age_seconds", "Time since the verification that is oldest.", value=age_s
        )

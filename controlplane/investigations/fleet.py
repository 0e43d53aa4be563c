"""The workers there are, for operators: each shows itself while it lives. Nothing is decided by it, see the leases."""

import os
import socket
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.db.models import (
    Case,
    CharField,
    Count,
    IntegerField,
    OuterRef,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from controlplane.core import clock
from controlplane.core.version import VERSION
from controlplane.investigations.models import Priority, Run, RunStatus, Thread, WorkerProcess

STATES: Final = ("working", "draining", "stopped", "lost")
#: How long a worker that is gone is still shown.
REMEMBERED: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a worker says of itself once."""

    name: str
    concurrency: int
    embedded: bool
    host: str = field(default_factory=lambda: socket.gethostname()[:200])
    pid: int = field(default_factory=os.getpid)
    started_at: datetime = field(default_factory=clock.now)


def beat_every_s() -> float:
    """Return the seconds between two signs of life: three fit into the time after which a worker counts as lost."""
    return min(settings.LEASE_SECONDS / 3, 10.0)


def worker_beat(facts: Facts, *, draining: bool) -> None:
    """Record that a worker lives; the first time makes its row. One query, or two the first time."""
    now = clock.lease_now()
    if WorkerProcess.objects.filter(pk=facts.name).update(seen_at=now, draining=draining, stopped_at=None):
        return
    WorkerProcess.objects.create(
        name=facts.name,
        host=facts.host,
        pid=facts.pid,
        version=VERSION,
        concurrency=facts.concurrency,
        embedded=facts.embedded,
        draining=draining,
        started_at=facts.started_at,
        seen_at=now,
    )


def worker_sign_off(name: str) -> None:
    """Record that a worker has ended as it should."""
    now = clock.lease_now()
    WorkerProcess.objects.filter(pk=name).update(seen_at=now, stopped_at=now, draining=False)


def workers_forget() -> int:
    """Remove the rows of workers that ended, or were lost, more than a day ago. Returns how many."""
    deleted, _ = WorkerProcess.objects.filter(seen_at__lt=clock.lease_now(plus=-REMEMBERED)).delete()
    return deleted


def workers_all() -> QuerySet[Any]:
    """Return the workers, newest first, each with ``running`` (leases it holds) and ``state`` (:data:`STATES`).

    For the installation's operators alone: workers belong to no organization. One query.
    """
    held = Thread.objects.filter(lease_owner=OuterRef("name"), lease_until__isnull=False).order_by()
    running = held.values("lease_owner").annotate(count=Count("pk")).values("count")
    silent = clock.lease_now(plus=-timedelta(seconds=settings.LEASE_SECONDS))
    state = Case(
        When(stopped_at__isnull=False, then=Value("stopped")),
        When(seen_at__lt=silent, then=Value("lost")),
        When(draining=True, then=Value("draining")),
        default=Value("working"),
        output_field=CharField(),
    )
    return WorkerProcess.objects.annotate(
        running=Coalesce(Subquery(running, output_field=IntegerField()), 0), state=state
    ).order_by("-started_at", "name")


class FleetCollector(Collector):
    """The workers and the queue as the database has them: the same from whichever process they are read."""

    def describe(self) -> Iterator[Metric]:
        yield from self._families({}, {})

    @override
    def collect(self) -> Iterator[Metric]:
        try:
            states = Counter(worker.state for worker in workers_all())
            queued = dict(
                Run.objects.filter(status=RunStatus.QUEUED)
                .order_by()
                .values_list("priority")
                .annotate(count=Count("pk"))
            )
        except (DatabaseError, InterfaceError):
            return  # the scrape still has everything else
        yield from self._families(states, queued)

    @staticmethod
    def _families(states: Mapping[str, int], queued: Mapping[int, int]) -> Iterator[Metric]:
        workers = GaugeMetricFamily(
            "opensre_workers_count", "Workers of the installation in the last day, by state.", labels=["state"]
        )
        for state in STATES:
            workers.add_metric([state], states.get(state, 0))
        yield workers
        waiting = GaugeMetricFamily(
            "opensre_runs_queued_count", "Runs of the installation that wait for a worker.", labels=["priority"]
        )
        for priority in Priority:
            waiting.add_metric([priority.name.lower()], queued.get(priority.value, 0))
        yield waiting

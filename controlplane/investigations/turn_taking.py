"""Whose turn it is: the order in which waiting runs are claimed, fair between teams, with nobody left behind.

* Within a team what people asked goes before what alerts started, in order of arrival. An alert's run is ranked as if
  it had come a minute later: after that minute it goes by its age like any other, so it cannot wait for ever.
* Between teams a free place goes to the team with the fewest running runs; among equals to the one that waits longest.
  So a team with a hundred waiting runs holds up nobody, and a team that has none running always gets its turn.
* A fresh run of an alert, in its first minute, goes after every other team's other runs.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import Case, Count, DateTimeField, ExpressionWrapper, F, Min, Value, When
from django.db.models.expressions import Combinable

from controlplane.core import clock
from controlplane.investigations.models import Priority, Run, RunStatus

#: How much later than it came the run of an alert is ranked.
ALERTS_YIELD: Final = timedelta(seconds=60)
#: So many teams, those that have waited longest, are looked at for one claim.
_TEAMS_AT_ONCE: Final = 200
#: Names the lock under which all running runs are counted; any number that nothing else uses.
_GLOBAL_LOCK: Final = 0x6F70656E737265


@dataclass(frozen=True, slots=True)
class WaitingTeam:
    """A team with queued runs: how many it has running, and the rank of the first that waits."""

    node_id: UUID
    running: int
    first: datetime


def rank() -> Combinable:
    """Return the SQL expression that queued runs of a team are claimed by, lowest first: a time."""
    yielded = ExpressionWrapper(F("created_at") + Value(ALERTS_YIELD), output_field=DateTimeField())
    return Case(When(priority=Priority.ALERT, then=yielded), default=F("created_at"), output_field=DateTimeField())


def teams_in_turn(*, only: UUID | None = None) -> list[WaitingTeam]:
    """Return the teams that have queued runs, the one whose turn it is first. Two queries.

    Args:
        only: look at this run alone.

    None when as many runs as the installation allows are running; whoever claims counts again under the lock.
    """
    queued = Run.objects.filter(status=RunStatus.QUEUED, **({"pk": only} if only else {}))
    waiting = list(
        queued.order_by().values_list("thread__node_id").annotate(first=Min(rank())).order_by("first")[:_TEAMS_AT_ONCE]
    )
    if not waiting:
        return []
    running = Run.objects.filter(status=RunStatus.RUNNING).order_by().values_list("thread__node_id")
    counts = dict(running.annotate(count=Count("pk")))
    if settings.RUNS_MAX_GLOBAL and sum(counts.values()) >= settings.RUNS_MAX_GLOBAL:
        return []
    now = clock.now()
    teams = [WaitingTeam(node_id, counts.get(node_id, 0), first) for node_id, first in waiting]
    return sorted(teams, key=lambda team: (team.first > now, team.running, team.first))


def room_for_one_more() -> bool:
    """Return whether the installation's limit admits another run; the caller's transaction claims it.

    Claims wait for each other here while there is a limit, so that two workers never both see the last place. (SQLite
    has one writer at a time anyway.)
    """
    if not settings.RUNS_MAX_GLOBAL:
        return True
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_GLOBAL_LOCK])
    return Run.objects.filter(status=RunStatus.RUNNING).count() < settings.RUNS_MAX_GLOBAL

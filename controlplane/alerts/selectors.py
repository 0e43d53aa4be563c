"""Reading alert groups, restricted to what the actor may see: who reads the runs of a team reads its alerts."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet

from controlplane.alerts.models import Alert, AlertGroup, Fate, GroupStatus, Source
from controlplane.core.actor import Actor
from controlplane.core.errors import NotFound, invalid
from controlplane.core.pagination import Page, page_of
from controlplane.core.permissions import Action, nodes_that_allow
from controlplane.orgs.models import NodeAncestor
from controlplane.orgs.selectors import team_named

NEWEST_FIRST = ("-last_at", "-id")
SHOWN_ALERTS = 200
FATES = tuple(Fate.values)
STATUSES = tuple(GroupStatus.values)
SOURCES = tuple(Source.choices)


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """A group with its alerts, the last delivered first, at most :data:`SHOWN_ALERTS` of ``total``."""

    group: AlertGroup
    alerts: Sequence[Alert]
    total: int


def alert_groups_visible(actor: Actor) -> QuerySet[AlertGroup]:
    """Return the alert groups of the teams whose runs ``actor`` may read."""
    if actor.organization_id is None:
        return AlertGroup.objects.none()
    permitted = NodeAncestor.objects.filter(
        descendant_id=OuterRef("node_id"), ancestor_id__in=nodes_that_allow(actor, Action.RUN_READ)
    )
    return AlertGroup.objects.filter(Exists(permitted), organization_id=actor.organization_id)


def alert_groups_page(
    actor: Actor,
    *,
    team: str | None = None,
    status: str | None = None,
    fate: str | None = None,
    source: str | None = None,
    cursor: str | None = None,
    limit: int | str = 50,
) -> Page[AlertGroup]:
    """Return a page of alert groups, the last delivered first. One query, and one more for ``team``.

    Args:
        team: only those of this team, ``ORG/TEAM`` or ``TEAM`` (slugs), archived or not.
        status: ``firing`` or ``resolved``.
        fate: ``investigated``, ``joined``, ``waiting`` or ``skipped``: groups with an alert of that fate.
        source: who sent them.

    Raises:
        InvalidInput: ``unknown_status``, ``unknown_fate``, ``unknown_source`` or ``unknown_team``.
        PermissionDenied: the actor sees the team and may not read its runs.
        MalformedRequest: ``bad_cursor`` or ``bad_limit``.
    """
    groups = alert_groups_visible(actor).select_related("node", "organization").defer("fingerprints", "held")
    if team:
        groups = groups.filter(node=team_named(actor, team, Action.RUN_READ))
    if status:
        if status not in GroupStatus.values:
            raise invalid("/status", "unknown_status", f"A status is one of {', '.join(GroupStatus.values)}.")
        groups = groups.filter(status=status)
    if fate:
        if fate not in FATES:
            raise invalid("/fate", "unknown_fate", f"A fate is one of {', '.join(FATES)}.")
        groups = groups.filter(Exists(Alert.objects.filter(group=OuterRef("pk"), fate=fate)))
    if source:
        if source not in Source.values:
            raise invalid("/source", "unknown_source", f"A source is one of {', '.join(Source.values)}.")
        groups = groups.filter(source=source)
    return page_of(groups, ordering=NEWEST_FIRST, params={"cursor": cursor, "limit": limit})


def alert_group_get(actor: Actor, group_id: UUID) -> GroupDetail:
    """Return one group with its alerts and what became of each. Three queries.

    Raises:
        NotFound: there is none that the actor may see.
    """
    groups = alert_groups_visible(actor).select_related("node", "organization").defer("fingerprints", "held")
    group = groups.filter(pk=group_id).first()
    if group is None:
        raise NotFound
    alerts = Alert.objects.filter(group=group)
    return GroupDetail(group, list(alerts.order_by(*NEWEST_FIRST)[:SHOWN_ALERTS]), alerts.count())

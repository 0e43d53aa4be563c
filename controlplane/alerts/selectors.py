"""Reading alert groups, restricted to what the actor may see: who reads the runs of a team reads its alerts."""

from django.db.models import Exists, OuterRef, QuerySet

from controlplane.alerts.models import AlertGroup, GroupStatus
from controlplane.core.actor import Actor
from controlplane.core.errors import invalid
from controlplane.core.pagination import Page, page_of
from controlplane.core.permissions import Action, nodes_that_allow
from controlplane.orgs.models import NodeAncestor
from controlplane.orgs.selectors import team_named

NEWEST_FIRST = ("-last_at", "-id")


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
    cursor: str | None = None,
    limit: int | str = 50,
) -> Page[AlertGroup]:
    """Return a page of alert groups, the last delivered first. One query, and one more for ``team``.

    Args:
        team: only those of this team, ``ORG/TEAM`` or ``TEAM`` (slugs), archived or not.
        status: ``firing`` or ``resolved``.

    Raises:
        InvalidInput: ``unknown_status`` or ``unknown_team``.
        PermissionDenied: the actor sees the team and may not read its runs.
        MalformedRequest: ``bad_cursor`` or ``bad_limit``.
    """
    groups = alert_groups_visible(actor).select_related("node", "organization").defer("fingerprints")
    if team:
        groups = groups.filter(node=team_named(actor, team, Action.RUN_READ))
    if status:
        if status not in GroupStatus.values:
            raise invalid("/status", "unknown_status", f"A status is one of {', '.join(GroupStatus.values)}.")
        groups = groups.filter(status=status)
    return page_of(groups, ordering=NEWEST_FIRST, params={"cursor": cursor, "limit": limit})

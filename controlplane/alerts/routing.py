"""Which team an alert is for. Nothing in an alert leads outside what its credential reaches."""

from collections.abc import Mapping
from typing import Final

from django.db.models import QuerySet

from controlplane.alerts.policy import team_by_rules
from controlplane.configs.routes import route_owner
from controlplane.configs.selectors import config_effective
from controlplane.core.actor import Actor
from controlplane.core.errors import InvalidInput, PermissionDenied, invalid
from controlplane.core.permissions import Action, scope_allows
from controlplane.orgs.models import Node, is_slug
from controlplane.orgs.selectors import LISTED_TEAMS, node_is_archived, teams_for

TEAM_LABEL: Final = "team"
SERVICE_LABEL: Final = "service"


def team_route(*, actor: Actor, labels: Mapping[str, str], identifiers: Mapping[str, str] | None = None) -> Node:
    """Return the team, with its organization, that takes in an alert.

    A token of a team: that team, whatever the alert says. Else the label ``team`` where it names a team in reach; else
    the first matching rule of ``routing.alerts`` in the effective configuration of the token's node; else the team in
    reach that owns what the alert is about by its ``routing`` (the label ``service``, a service of PagerDuty, a team or
    an alert source of incident.io); else the only team in reach, where the alert names none.

    Args:
        actor: who delivers.
        labels: what all alerts of the group share.
        identifiers: kinds of routes that the vendor's members name, with their keys.

    Raises:
        PermissionDenied: the actor may take alerts in nowhere.
        InvalidInput: ``team_archived``, or ``team_unclear``; ``teams`` lists the candidates, all of them in reach.
    """
    if not scope_allows(actor, Action.ALERT_INGEST):
        raise PermissionDenied(f"You may not do this (it needs {Action.ALERT_INGEST.value}).")
    teams = teams_for(actor, Action.ALERT_INGEST)
    if actor.token_node_id is not None:
        own = teams.filter(pk=actor.token_node_id).first()
        if own is not None:
            return own
    named = labels.get(TEAM_LABEL, "")
    if (team := _team(teams, named)) is not None:
        return team
    ruled = None
    if actor.token_node_id is not None:
        ruled = team_by_rules(config_effective(node_id=actor.token_node_id).document, labels)
        if ruled is not None and (team := _team(teams, ruled)) is not None:
            return team
    if not named and ruled is None and (team := _owner(actor, teams, labels, identifiers)) is not None:
        return team
    return _only(actor, teams, asked=bool(named) or ruled is not None)


def _team(teams: QuerySet[Node], slug: str) -> Node | None:
    return teams.filter(slug=slug).first() if is_slug(slug) else None


def _owner(
    actor: Actor, teams: QuerySet[Node], labels: Mapping[str, str], identifiers: Mapping[str, str] | None
) -> Node | None:
    service = labels.get(SERVICE_LABEL, "")
    keys = {**(identifiers or {}), **({"service": service} if service else {})}
    if actor.organization_id is None or not keys:
        return None
    owner = route_owner(organization_id=actor.organization_id, identifiers=keys)
    return None if owner is None else teams.filter(pk=owner.node.pk).first()


def _only(actor: Actor, teams: QuerySet[Node], *, asked: bool) -> Node:
    listed = list(teams[: LISTED_TEAMS + 1])
    if len(listed) == 1 and not asked:
        return listed[0]
    if not listed:
        if actor.token_node_id is not None and node_is_archived(actor.token_node_id):
            raise invalid("", "team_archived", "This team is archived and takes no alerts.")
        raise PermissionDenied("You may take alerts in for no team.", code="no_team")
    said = "The alert names a team that is not in reach" if asked else "Nothing says which team this alert is for"
    detail = f"{said}: give it a label team with one of these slugs, or add a rule to routing.alerts."
    error = invalid(f"/commonLabels/{TEAM_LABEL}", "team_unclear", detail)
    names = [f"{team.organization.slug}/{team.slug}" for team in listed[:LISTED_TEAMS]]
    raise InvalidInput(error.detail, code=error.code, errors=error.errors, extra={"teams": names})

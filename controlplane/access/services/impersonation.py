"""Viewing as a team: short, read-only, recorded under both names."""

from datetime import timedelta
from typing import Final

from django.db import transaction

from controlplane.access.delegation import TOKEN, Level, Wish, settle
from controlplane.access.models import AccessToken, TokenKind, User
from controlplane.access.revocations import rights_taken
from controlplane.access.services.tokens import IssuedToken, audit_token, issue_token, token_levels
from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.core.errors import PermissionDenied, invalid
from controlplane.core.permissions import VIEW_SCOPES, Action
from controlplane.core.text import single_line
from controlplane.orgs.models import Node, NodeKind
from controlplane.orgs.selectors import node_is_archived, node_lineage, node_require

DEFAULT_MINUTES: Final = 15
LONGEST_MINUTES: Final = 60


@transaction.atomic
def impersonation_begin(*, actor: Actor, node: Node, minutes: int = DEFAULT_MINUTES, reason: str = "") -> IssuedToken:
    """Issue a token that reads what ``node``, a team, reads, and nothing that is a person's own.

    It ends by itself, when it is revoked, and when its person no longer administers the team.

    Args:
        actor: a person, signed in or by a personal token of scope ``admin:*``, that administers the team.
        node: the team.
        minutes: 1 to 60.
        reason: why; kept in the audit log.

    Raises:
        NotFound, PermissionDenied: the actor may not.
        InvalidInput: ``not_a_team``, ``team_archived``, ``minutes``, or a rule of the reason; ``expires_too_late`` or
            ``addresses_too_wide`` as for any token.
    """
    node_require(actor=actor, action=Action.IMPERSONATE, node=node)
    if actor.user_id is None:
        raise PermissionDenied("Only people view as a team.")
    if node.kind != NodeKind.TEAM:
        raise invalid("/node", "not_a_team", "Only a team can be viewed as.")
    if node_is_archived(node.pk):
        raise invalid("/node", "team_archived", "This team is archived.")
    if not 1 <= minutes <= LONGEST_MINUTES:
        raise invalid("/minutes", "minutes", f"This must be from 1 to {LONGEST_MINUTES}.")
    why = single_line(reason, pointer="/reason", max_length=500) if reason.strip() else ""
    levels, _ = token_levels(actor, TokenKind.VIEW.value, node, node_lineage(node.pk))
    bounds = [level for level in levels if level.kind == TOKEN]
    # Its scopes are no delegation: they are the same for everybody who may view as a team.
    bounds = [Level(level.kind, level.name, None, level.until, level.endless, level.networks) for level in bounds]
    terms = settle(Wish(VIEW_SCOPES, clock.now() + timedelta(minutes=minutes)), bounds)
    token = AccessToken(
        kind=TokenKind.VIEW,
        node=node,
        user=User.objects.get(pk=actor.user_id),
        name=f"{actor.label} as team {node.name}"[:200],
        scopes=sorted(terms.scopes),
        expires_at=terms.expires_at,
        allowed_addresses=list(terms.networks),
    )
    return issue_token(actor, token, "impersonation.begin", reason=why)


@transaction.atomic
def impersonation_end(*, actor: Actor, public_id: str) -> bool:
    """End the actor's own view of a team, whatever it may do there by now; return whether there was one to end.

    Args:
        actor: the person, as itself.
        public_id: of the token.
    """
    if actor.user_id is None:
        return False
    tokens = AccessToken.objects.select_for_update(of=("self",)).select_related("node")
    token = tokens.filter(
        public_id=public_id, kind=TokenKind.VIEW, user_id=actor.user_id, revoked_at__isnull=True
    ).first()
    if token is None:
        return False
    token.revoked_at = clock.now()
    token.save(update_fields=["revoked_at"])
    audit_token(actor, "impersonation.end", token)
    rights_taken(token.node.organization_id)
    return True

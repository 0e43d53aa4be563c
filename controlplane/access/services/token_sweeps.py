"""Revoking many tokens at once: those somebody picks, and those that nobody uses."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import structlog
from django.db import transaction
from django.db.models import QuerySet

from controlplane.access.models import AccessToken, TokenKind, TokenPolicy
from controlplane.access.revocations import rights_taken
from controlplane.access.services.tokens import audit_token
from controlplane.access.token_selectors import TokenFilter, narrowed, tokens_of_organization, unused_since, working
from controlplane.core import clock
from controlplane.core.actor import Actor, system_actor
from controlplane.core.errors import invalid
from controlplane.core.permissions import Action
from controlplane.core.text import single_line
from controlplane.orgs.models import Node, Organization

log = structlog.get_logger(__name__)

#: Revoked in one transaction: each has its audit row, and the chain's head is locked until the last is written.
MOST_REVOKED: Final = 500
#: How often each process looks whether a policy has something to revoke.
SWEEP_EVERY_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Revocation:
    """What came of it: ``count`` tokens matched, ``ids`` were revoked (in a dry run: would be), ``left`` remain."""

    count: int
    ids: tuple[str, ...]
    dry_run: bool

    @property
    def left(self) -> int:
        return self.count - len(self.ids)


@transaction.atomic
def tokens_revoke(
    *, actor: Actor, organization_slug: str, wanted: TokenFilter, dry_run: bool = False, reason: str = ""
) -> Revocation:
    """Revoke the working tokens that a filter wants, at most :data:`MOST_REVOKED` a call, oldest first.

    Only those count that the actor may revoke one by one: of nodes whose tokens it writes, and its own. One that it may
    not is as if it were not there.

    Raises:
        NotFound: not the actor's organization.
        InvalidInput: ``nothing_named``: a filter that asks for nothing would take everything.
    """
    if replace(wanted, state="") == TokenFilter():
        raise invalid("", "nothing_named", "Say which tokens: by ids, node, person, creator, kind or disuse.")
    why = single_line(reason, pointer="/reason", max_length=500) if reason.strip() else ""
    found = tokens_of_organization(
        actor=actor, organization_slug=organization_slug, wanted=wanted, action=Action.TOKEN_WRITE
    ).filter(working(clock.now()))
    return _revoke(actor, found, dry_run=dry_run, reason=why)


def tokens_revoke_unused(
    *, organization: Organization, unused_days: int, kind: str = "", dry_run: bool = False
) -> Revocation:
    """Revoke the organization's working tokens that nobody has used for so long, as the installation itself."""
    actor = _keeper(organization)
    wanted = TokenFilter(kind=kind, unused_days=unused_days)
    rows = AccessToken.objects.filter(node__organization=organization).select_related("node", "user")
    found = narrowed(rows, wanted, organization.pk).filter(working(clock.now()))
    reason = f"not used for {unused_days} days"
    with transaction.atomic():
        done = _revoke(actor, found, dry_run=dry_run, reason=reason)
    while not dry_run and done.left:
        with transaction.atomic():
            more = _revoke(actor, found, dry_run=False, reason=reason)
        if not more.ids:
            break
        done = Revocation(done.count, (*done.ids, *more.ids), dry_run=False)
    return done


def token_policies_apply() -> int:
    """Revoke what the policies of all organizations say has gone unused too long; return how many. Run now and then."""
    revoked = 0
    policies = TokenPolicy.objects.filter(revoke_unused_days__isnull=False).select_related("organization")
    for policy in policies:
        days = policy.revoke_unused_days
        if days is None or not _any_unused(policy, days):
            continue
        done = tokens_revoke_unused(organization=policy.organization, unused_days=days, kind=policy.kind)
        log.info("tokens.unused_revoked", organization=policy.organization.slug, kind=policy.kind, count=len(done.ids))
        revoked += len(done.ids)
    return revoked


def _any_unused(policy: TokenPolicy, days: int) -> bool:
    now = clock.now()
    rows = AccessToken.objects.filter(working(now), node__organization_id=policy.organization_id, kind=policy.kind)
    return rows.filter(unused_since(now - timedelta(days=days))).exists()


def _revoke(actor: Actor, found: QuerySet[AccessToken], *, dry_run: bool, reason: str) -> Revocation:
    count = found.count()
    oldest = found.order_by("created_at", "id")
    if dry_run:
        return Revocation(count, tuple(oldest.values_list("public_id", flat=True)[:MOST_REVOKED]), dry_run=True)
    rows = list(oldest.select_for_update(of=("self",))[:MOST_REVOKED])
    now = clock.now()
    AccessToken.objects.filter(pk__in=[row.pk for row in rows]).update(revoked_at=now)
    for row in rows:
        row.revoked_at = now
        action = "impersonation.end" if row.kind == TokenKind.VIEW else "token.revoke"
        audit_token(actor, action, row, reason=reason)
    if rows:
        rights_taken(rows[0].node.organization_id)
    for organization_id in {row.node.organization_id for row in rows}:
        rights_taken(organization_id)
    return Revocation(max(count, len(rows)), tuple(row.public_id for row in rows), dry_run=False)


def _keeper(organization: Organization) -> Actor:
    root = Node.objects.get(organization=organization, parent__isnull=True)
    return system_actor(name="tokens", organization_id=organization.pk, root_id=root.pk)

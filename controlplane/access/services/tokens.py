"""Issuing, revoking and rotating tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import transaction

from controlplane.access import tokens
from controlplane.access.addresses import networks_clean
from controlplane.access.delegation import POLICY, ROLE, TOKEN, Level, Terms, Wish, settle
from controlplane.access.models import AccessToken, TokenKind, TokenPolicy, User
from controlplane.access.permissions import TEAM_TOKEN_SCOPES, scopes_held
from controlplane.access.revocations import rights_taken
from controlplane.audit.services import audit_record
from controlplane.core import clock
from controlplane.core.actor import Actor, ActorKind
from controlplane.core.clock import rfc3339
from controlplane.core.errors import Conflict, NotAuthenticated, NotFound, PermissionDenied, invalid
from controlplane.core.permissions import PERSONAL_SCOPES, SCOPES, Action
from controlplane.core.text import name_line
from controlplane.orgs.models import Node
from controlplane.orgs.selectors import node_lineage, node_require

#: What a personal token holds only when asked for.
POWERFUL: Final = frozenset({"admin:*", "config:resolve"})
#: How long the old token still works beside the new one, and how long it may.
ROTATION_OVERLAP: Final = timedelta(hours=24)
LONGEST_OVERLAP: Final = timedelta(days=30)
_END_OF_TIME: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token and its text, which exists only here: it is shown once and stored nowhere."""

    token: AccessToken
    plaintext: str = field(repr=False)


@transaction.atomic
def token_create(
    *,
    actor: Actor,
    kind: str,
    node: Node,
    name: str,
    scopes: Iterable[str] | None = None,
    expires_at: datetime | None = None,
    endless: bool = False,
    allowed_addresses: Sequence[str] | None = None,
    user: User | None = None,
) -> IssuedToken:
    """Issue a token. It gets no more than its creator has: see :mod:`controlplane.access.delegation`.

    Args:
        actor: the creator.
        kind: ``team``, ``admin`` or ``user`` (personal, ``user`` required: acts by that person's roles ∩ scopes).
        node: team and admin tokens act on its subtree; a personal token is only listed there.
        name: what it is called in lists.
        scopes: ``None`` takes the defaults of the kind: those of a team's runtime; all; all the creator
            holds but the :data:`POWERFUL`.
        expires_at: ``None`` takes the organization's default for the kind, but no more than the creator may give.
        endless: it is to live for ever.
        allowed_addresses: networks it may be used from; ``None`` those of the creator's own token, if it has any.
        user: whose it is, of a personal token.

    Raises:
        NotFound, PermissionDenied: the actor may not issue this kind of token there.
        InvalidInput: ``kind``, ``user``, ``unknown_scope``, ``no_scopes``, ``expires_in_past``, ``network``,
            ``too_many`` or a rule of the name; ``admin_scope`` for ``admin:*`` in a team token; ``personal_scope``;
            ``scope_not_held``, ``expires_too_late``, ``expiry_required`` or ``addresses_too_wide`` where a level binds,
            which ``binding`` names.
    """
    lineage = node_lineage(node.pk)
    _require_may_issue(actor, kind, node, user)
    networks = None if allowed_addresses is None else networks_clean(allowed_addresses, pointer="/allowed_addresses")
    wish = Wish(
        scopes=_clean_scopes(scopes, kind=kind, held=scopes_held(actor, lineage)),
        expires_at=_clean_expiry(expires_at),
        endless=endless,
        networks=None if networks is None else tuple(networks),
    )
    terms = _terms(actor, kind, node, lineage, wish)
    token = AccessToken(kind=kind, node=node, user=user, name=name_line(name, pointer="/name"))
    return _issue(actor, token, terms, "token.create")


@transaction.atomic
def token_revoke(*, actor: Actor, token: AccessToken) -> AccessToken:
    """Revoke a token, in effect at once. Idempotent. A person may always revoke its own personal tokens.

    Raises:
        NotFound, PermissionDenied: the actor may not write tokens of the node.
    """
    token = _locked_token(actor, token)
    if token.revoked_at is None:
        token.revoked_at = clock.now()
        token.save(update_fields=["revoked_at"])
        audit_token(actor, "impersonation.end" if token.kind == TokenKind.VIEW else "token.revoke", token)
        rights_taken(token.node.organization_id)
    return token


@transaction.atomic
def token_rotate(
    *, actor: Actor, token: AccessToken, overlap: timedelta = ROTATION_OVERLAP, expires_at: datetime | None = None
) -> IssuedToken:
    """Issue a token like ``token`` and let the old one work for ``overlap`` more at most.

    Args:
        actor: who rotates it; it gives no more than it could give a new one.
        token: the old one.
        overlap: nothing to 30 days.
        expires_at: of the new one. ``None`` gives it as long a life as the old one had, from now; one without end stays
            without, unless the policy no longer allows that: then it gets the default.

    Raises:
        NotFound, PermissionDenied: the actor may not write tokens of the node.
        InvalidInput: ``overlap``, or as :func:`token_create` when the token holds more than the actor does.
        Conflict: ``token_inactive`` for a revoked or expired token, ``not_rotatable`` for one that views as a team.
    """
    if not timedelta() <= overlap <= LONGEST_OVERLAP:
        seconds = int(LONGEST_OVERLAP.total_seconds())
        raise invalid("/overlap_s", "overlap", f"This must be from 0 to {seconds} seconds.")
    old = _locked_token(actor, token)
    if old.kind == TokenKind.VIEW:
        raise Conflict("A token that views as a team is short-lived: begin anew.", code="not_rotatable")
    _require_may_issue(actor, old.kind, old.node, old.user)
    now = clock.now()
    if old.revoked_at is not None or (old.expires_at is not None and old.expires_at <= now):
        raise Conflict("Only a working token can be rotated.", code="token_inactive")
    lineage = node_lineage(old.node_id)
    terms = _terms_again(actor, old, lineage, _clean_expiry(expires_at))
    fresh = AccessToken(kind=old.kind, node=old.node, user=old.user, name=old.name)
    end = now + overlap
    old.expires_at = min(end, old.expires_at or end)
    old.save(update_fields=["expires_at"])
    issued = _issue(actor, fresh, terms, "token.rotate", before=describe_token(old))
    if not overlap:
        rights_taken(old.node.organization_id)
    return issued


def token_levels(actor: Actor, kind: str, node: Node, lineage: Sequence[UUID]) -> tuple[list[Level], datetime | None]:
    """Return what binds a token of ``kind`` that ``actor`` makes on ``node``, and when it ends if nobody says.

    The creator's own token is locked: one that is being revoked makes no other meanwhile. Two queries.

    Raises:
        NotAuthenticated: that token has been revoked since the request came in.
    """
    levels = []
    if actor.token_node_id is None:
        held = scopes_held(replace(actor, scopes=None), lineage)
        levels.append(Level(ROLE, f"your roles on {node.slug}", scopes=held))
    if actor.credential_id is not None:
        levels.append(_level_of_credential(actor, actor.credential_id))
    policy = TokenPolicy.objects.filter(organization_id=node.organization_id, kind=kind).first()
    if policy is None:
        return levels, None
    now = clock.now()
    until = None if policy.max_days is None else now + timedelta(days=policy.max_days)
    name = "the organization's token policy"
    levels.append(Level(POLICY, name, until=until, endless=policy.endless_allowed))
    return levels, None if policy.default_days is None else now + timedelta(days=policy.default_days)


def _level_of_credential(actor: Actor, credential_id: str) -> Level:
    own = AccessToken.objects.select_for_update().filter(public_id=credential_id).first()
    if own is None or own.revoked_at is not None:
        raise NotAuthenticated
    return Level(
        TOKEN,
        f"your token {own.name} (osre_{own.kind}_{own.public_id})",
        scopes=SCOPES if actor.scopes is None else actor.scopes & SCOPES,
        until=own.expires_at,
        endless=own.expires_at is None,
        networks=tuple(own.allowed_addresses),
    )


def _terms(actor: Actor, kind: str, node: Node, lineage: Sequence[UUID], wish: Wish) -> Terms:
    levels, default_until = token_levels(actor, kind, node, lineage)
    return settle(wish, levels, default_until=default_until)


def _terms_again(actor: Actor, old: AccessToken, lineage: Sequence[UUID], expires_at: datetime | None) -> Terms:
    """Return the terms of a token that takes the place of ``old``: its own, cut to what may be given now."""
    levels, default_until = token_levels(actor, old.kind, old.node, lineage)
    networks = tuple(old.allowed_addresses)
    wish = Wish(frozenset(old.scopes), expires_at, networks=networks)
    if expires_at is None:
        if old.expires_at is None:
            wish = replace(wish, endless=all(level.endless for level in levels))
        else:
            ends = [level.until for level in levels if level.until is not None]
            now = clock.now()
            life = min(old.expires_at - old.created_at, _END_OF_TIME - now)
            wish = replace(wish, expires_at=min([now + life, *ends]))
    return settle(wish, levels, default_until=default_until)


def issue_token(
    actor: Actor, token: AccessToken, action: str, *, before: object = None, reason: str = ""
) -> IssuedToken:
    """Give an unsaved token its text, save and record it: the last step of every service that makes one."""
    text = tokens.issue(token.kind)
    token.public_id = text.public_id
    token.pepper_version = tokens.current_pepper()
    token.digest = tokens.token_digest(text, token.pepper_version)
    token.created_by = actor.principal
    token.save(force_insert=True)
    audit_token(actor, action, token, before=before, reason=reason)
    return IssuedToken(token, text.plaintext)


def _issue(actor: Actor, token: AccessToken, terms: Terms, action: str, before: object = None) -> IssuedToken:
    token.scopes = sorted(terms.scopes)
    token.expires_at = terms.expires_at
    token.allowed_addresses = list(terms.networks)
    return issue_token(actor, token, action, before=before)


def _require_may_issue(actor: Actor, kind: str, node: Node, user: User | None) -> None:
    if kind not in {TokenKind.TEAM, TokenKind.ADMIN, TokenKind.USER}:
        raise invalid("/kind", "kind", "This must be team, admin or user.")
    if (kind == TokenKind.USER) != (user is not None):
        raise invalid("/kind", "user", "A personal token, and no other, belongs to a person.")
    if user is None:
        node_require(actor=actor, action=Action.TOKEN_WRITE, node=node)
        return
    node_require(actor=actor, action=Action.NODE_READ, node=node)
    # A token must not make tokens of a person: a stolen one would outlive its own revocation.
    own = actor.kind == ActorKind.USER and actor.user_id == user.pk
    if not (own or actor.kind == ActorKind.SYSTEM) or user.organization_id != node.organization_id:
        raise PermissionDenied("Personal tokens are made by their owners, signed in.")


def _clean_scopes(scopes: Iterable[str] | None, *, kind: str, held: frozenset[str]) -> frozenset[str]:
    if scopes is None:
        chosen = {TokenKind.TEAM: TEAM_TOKEN_SCOPES, TokenKind.ADMIN: SCOPES - PERSONAL_SCOPES}.get(
            TokenKind(kind), held - POWERFUL
        )
    else:
        chosen = frozenset(scopes)
    unknown = chosen - SCOPES
    if unknown:
        raise invalid(
            "/scopes", "unknown_scope", f"There are {len(unknown)} unknown scopes; known: {', '.join(sorted(SCOPES))}."
        )
    if not chosen:
        raise invalid("/scopes", "no_scopes", "A token needs at least one scope.")
    if kind == TokenKind.TEAM and "admin:*" in chosen:
        raise invalid("/scopes", "admin_scope", "admin:* is for admin and personal tokens.")
    if kind != TokenKind.USER and chosen & PERSONAL_SCOPES:
        personal = ", ".join(sorted(chosen & PERSONAL_SCOPES))
        raise invalid("/scopes", "personal_scope", f"Only personal tokens may have: {personal}.")
    return chosen


def _clean_expiry(expires_at: datetime | None) -> datetime | None:
    if expires_at is not None and expires_at <= clock.now():
        raise invalid("/expires_at", "expires_in_past", "This must be in the future.")
    return expires_at


def _locked_token(actor: Actor, token: AccessToken) -> AccessToken:
    fresh = (
        AccessToken.objects.select_for_update(of=("self",)).select_related("node", "user").filter(pk=token.pk).first()
    )
    if fresh is None:
        raise NotFound
    own = fresh.user_id is not None and fresh.user_id == actor.user_id
    node_require(actor=actor, action=Action.NODE_READ if own else Action.TOKEN_WRITE, node=fresh.node)
    return fresh


def describe_token(token: AccessToken) -> dict[str, object]:
    """Return a token as the audit log keeps it."""
    return {
        "id": token.public_id,
        "kind": str(token.kind),
        "name": token.name,
        "scopes": token.scopes,
        "person": str(token.user_id) if token.user_id else None,
        "expires_at": rfc3339(token.expires_at) if token.expires_at else None,
        "revoked_at": rfc3339(token.revoked_at) if token.revoked_at else None,
        "allowed_addresses": token.allowed_addresses,
    }


def audit_token(actor: Actor, action: str, token: AccessToken, before: object = None, reason: str = "") -> None:
    """Record an act on a token in the log of its organization."""
    audit_record(
        actor=actor,
        organization_id=token.node.organization_id,
        action=action,
        object_kind="access_token",
        object_id=token.public_id,
        node_id=token.node_id,
        before=before,
        after=describe_token(token),
        reason=reason,
    )

"""Issuing, revoking and rotating tokens."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from controlplane.access import tokens
from controlplane.access.models import AccessToken, TokenKind, User
from controlplane.access.permissions import TEAM_TOKEN_SCOPES, scopes_held
from controlplane.access.revocations import rights_taken
from controlplane.audit.services import audit_record
from controlplane.core import clock
from controlplane.core.actor import Actor, ActorKind
from controlplane.core.clock import rfc3339
from controlplane.core.errors import Conflict, NotFound, PermissionDenied, invalid
from controlplane.core.permissions import PERSONAL_SCOPES, SCOPES, Action
from controlplane.core.text import name_line
from controlplane.orgs.models import Node
from controlplane.orgs.selectors import node_lineage, node_require

#: What a personal token holds only when asked for.
POWERFUL: Final = frozenset({"admin:*", "config:resolve"})
#: How long the old token still works beside the new one.
ROTATION_OVERLAP: Final = timedelta(hours=24)


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
    user: User | None = None,
) -> IssuedToken:
    """Issue a token.

    Args:
        actor: the creator; it may put in no scope it does not hold on ``node``.
        kind: ``team``, ``admin`` or ``user`` (personal, ``user`` required: acts by that person's roles ∩ scopes).
        node: team and admin tokens act on its subtree; a personal token is only listed there.
        scopes: ``None`` takes the defaults of the kind: those of a team's runtime; all; all the creator
            holds but the :data:`POWERFUL`.
        expires_at: ``None`` never.

    Raises:
        NotFound, PermissionDenied: the actor may not issue this kind of token there.
        InvalidInput: ``kind``, ``user``, ``unknown_scope``, ``no_scopes``, ``scope_not_held``, ``expires_in_past`` or a
            rule of the name; ``admin_scope`` for ``admin:*`` in a team token; ``personal_scope``.
    """
    lineage = node_lineage(node.pk)
    _require_may_issue(actor, kind, node, user)
    token = AccessToken(
        kind=kind,
        node=node,
        user=user,
        name=name_line(name, pointer="/name"),
        scopes=_clean_scopes(scopes, kind=kind, held=scopes_held(actor, lineage)),
        expires_at=_clean_expiry(expires_at),
        created_by=actor.principal,
    )
    return _issue(actor, token, "token.create")


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
        _audit_token(actor, "token.revoke", token)
        rights_taken(token.node.organization_id)
    return token


@transaction.atomic
def token_rotate(*, actor: Actor, token: AccessToken, overlap: timedelta = ROTATION_OVERLAP) -> IssuedToken:
    """Issue a token like ``token`` and let the old one work for ``overlap`` more at most.

    Raises:
        NotFound, PermissionDenied: the actor may not write tokens of the node.
        InvalidInput: ``scope_not_held`` when the token holds more than the actor does.
        Conflict: ``token_inactive`` for a revoked or expired token.
    """
    old = _locked_token(actor, token)
    _require_may_issue(actor, old.kind, old.node, old.user)
    now = clock.now()
    if old.revoked_at is not None or (old.expires_at is not None and old.expires_at <= now):
        raise Conflict("Only a working token can be rotated.", code="token_inactive")
    held = scopes_held(actor, node_lineage(old.node_id))
    fresh = AccessToken(
        kind=old.kind,
        node=old.node,
        user=old.user,
        name=old.name,
        scopes=_clean_scopes(old.scopes, kind=old.kind, held=held),
        expires_at=old.expires_at,
        created_by=actor.principal,
    )
    end = now + max(overlap, timedelta())
    old.expires_at = min(end, old.expires_at or end)
    old.save(update_fields=["expires_at"])
    return _issue(actor, fresh, "token.rotate", before=_describe_token(old))


def _issue(actor: Actor, token: AccessToken, action: str, before: object = None) -> IssuedToken:
    text = tokens.issue(token.kind)
    token.public_id = text.public_id
    token.pepper_version = tokens.current_pepper()
    token.digest = tokens.token_digest(text, token.pepper_version)
    token.save(force_insert=True)
    _audit_token(actor, action, token, before=before)
    return IssuedToken(token, text.plaintext)


def _require_may_issue(actor: Actor, kind: str, node: Node, user: User | None) -> None:
    if kind not in TokenKind.values:
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


def _clean_scopes(scopes: Iterable[str] | None, *, kind: str, held: frozenset[str]) -> list[str]:
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
    beyond = chosen - held
    if beyond:
        raise invalid(
            "/scopes", "scope_not_held", f"You cannot grant what you do not hold: {', '.join(sorted(beyond))}."
        )
    return sorted(chosen)


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


def _describe_token(token: AccessToken) -> dict[str, object]:
    return {
        "id": token.public_id,
        "kind": str(token.kind),
        "name": token.name,
        "scopes": token.scopes,
        "person": str(token.user_id) if token.user_id else None,
        "expires_at": rfc3339(token.expires_at) if token.expires_at else None,
        "revoked_at": rfc3339(token.revoked_at) if token.revoked_at else None,
    }


def _audit_token(actor: Actor, action: str, token: AccessToken, before: object = None) -> None:
    audit_record(
        actor=actor,
        organization_id=token.node.organization_id,
        action=action,
        object_kind="access_token",
        object_id=token.public_id,
        node_id=token.node_id,
        before=before,
        after=_describe_token(token),
    )

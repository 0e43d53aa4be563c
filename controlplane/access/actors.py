"""Making an :class:`Actor` from a credential, once, at the edge: REST, web, WebSocket and hot routes share this."""

import time
from datetime import datetime, timedelta
from importlib import import_module
from typing import Final
from uuid import UUID

import structlog
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.backends.base import SessionBase
from django.db import OperationalError
from django.db.models import Q
from django.http import HttpRequest

from controlplane.access import sessions, tokens
from controlplane.access.addresses import address_allowed
from controlplane.access.models import AccessToken, ExternalIdentity, Membership, TokenKind, User
from controlplane.access.stored_tokens import StoredToken, stored_token, stored_token_of
from controlplane.audit.security import SecurityKind, audit_denied
from controlplane.core import clock
from controlplane.core.actor import Actor, ActorKind, Channel, Grant, Role
from controlplane.core.db import impatient
from controlplane.core.errors import NotAuthenticated
from controlplane.core.permissions import VIEW_SCOPES, Action, allows
from controlplane.orgs.selectors import node_lineage

log = structlog.get_logger(__name__)

LAST_USED_EVERY: Final = timedelta(minutes=1)
#: In a session: the public id of the token by which its person looks at things as a team does.
VIEW_AS: Final = "view_as"
_KINDS: Final = {
    TokenKind.TEAM.value: ActorKind.TEAM_TOKEN,
    TokenKind.ADMIN.value: ActorKind.ADMIN_TOKEN,
    TokenKind.USER.value: ActorKind.PERSONAL_TOKEN,
    TokenKind.VIEW.value: ActorKind.IMPERSONATION,
}


def actor_for_user(user: User, *, channel: Channel, address: str | None = None) -> Actor:
    """Return the actor of a signed-in person, acting by its roles. One query.

    An operator belongs to no organization and gets no grants, so nothing of any organization is there for it.

    Raises:
        NotAuthenticated: the person has been deactivated.
    """
    if not user.is_active:
        raise NotAuthenticated
    rows = Membership.objects.filter(user=user).order_by("pk").values_list("node_id", "role")
    grants = tuple(Grant(node_id, Role(role)) for node_id, role in rows) if user.organization_id else ()
    return Actor(
        kind=ActorKind.USER,
        principal=f"user:{user.pk}",
        label=user.display_name,
        organization_id=user.organization_id,
        user_id=user.pk,
        grants=grants,
        channel=channel,
        address=address,
    )


def actor_for_bearer(plaintext: str, *, channel: Channel, address: str | None = None) -> Actor:
    """Return the actor of a token. One query, and at most once a minute an UPDATE of ``last_used_at``.

    A token that is stored under an older pepper is stored under the current one by that same UPDATE.

    Args:
        plaintext: what was presented.
        channel: where.
        address: of the client, by the connection or a proxy that the installation trusts; a token with networks of its
            own works from no other.

    Raises:
        NotAuthenticated: in the same words if malformed, unknown, wrong, revoked, expired, presented from elsewhere, of
            a deactivated person, or of one that may no longer view as the team.
    """
    text = tokens.parse(plaintext)
    if text is None:
        raise NotAuthenticated
    token = stored_token(text.public_id, text.kind)
    if token is None:
        tokens.verify_nothing(text)
        raise NotAuthenticated
    if not (tokens.verify(text, digest=token.digest, pepper_version=token.pepper_version) and token.works):
        raise NotAuthenticated
    if not address_allowed(address, token.allowed_addresses):
        _address_refused(token, channel, address)
        raise NotAuthenticated
    if token.is_view:
        return _viewing_actor(token, channel, address)
    _touch(token, text, address)
    return _token_actor(token, channel, address)


def actor_for_session(session: SessionBase, user: User, *, channel: Channel, address: str | None = None) -> Actor:
    """Return the actor of a signed-in browser: the person, or the team as whom the person views things meanwhile.

    Raises:
        NotAuthenticated: the person has been deactivated, or the time of viewing is over and nobody has ended it yet:
            what comes from the same page must not act as the person all of a sudden.
    """
    viewing = session.get(VIEW_AS)
    if viewing is None:
        return actor_for_user(user, channel=channel, address=address)
    token = stored_token(viewing, TokenKind.VIEW.value)
    if token is None or token.user_id != user.pk or not token.works:
        raise NotAuthenticated
    return _viewing_actor(token, channel, address)


def actor_for_directory_identity(
    *, organization_id: UUID, tid: UUID, oid: UUID, channel: Channel, address: str | None = None
) -> Actor:
    """Return the actor of the person whom a directory of an organization knows by an object id. Two queries.

    For a channel that has verified who speaks, as a bot does the sender of an activity (``from.aadObjectId`` and the
    conversation's ``tenantId`` of the Bot Framework). An identity alone opens nothing: the organization's provider must
    still be the one that vouches for that directory, and the person must have signed in here by it.

    Args:
        organization_id: to whom the channel belongs; the same person may be somebody else in another organization.
        tid, oid: of the directory, and of the person in it.
        channel: where.

    Raises:
        NotAuthenticated: for any of these reasons, and for a person who has been deactivated.
    """
    identities = ExternalIdentity.objects.filter(organization_id=organization_id, tid=tid, oid=oid)
    identity = identities.select_related("user", "organization__identity_provider").first()
    if identity is None:
        raise NotAuthenticated
    provider = getattr(identity.organization, "identity_provider", None)
    if provider is None or not provider.enabled or tid not in provider.directories:
        raise NotAuthenticated
    return actor_for_user(identity.user, channel=channel, address=address)


def actor_for_principal(
    principal: str, credential_id: str | None, *, channel: Channel, address: str | None = None
) -> Actor:
    """Return the actor that a recorded principal would be now, with the rights it has now. Two queries.

    Args:
        principal: ``user:<uuid>`` or ``token:<public id>``, as :attr:`Actor.principal` says it.
        credential_id: public id of the token that a person came with; ``None`` for a session.

    Raises:
        NotAuthenticated: the token is revoked, expired or gone, the person deactivated or gone, or it is neither.
    """
    kind, _, name = principal.partition(":")
    if kind == "token" or credential_id is not None:
        token = stored_token_of(credential_id or name)
        if token is None or not token.works or token.is_view:  # one that views has left nothing to do in its name
            raise NotAuthenticated
        actor = _token_actor(token, channel, address)
    else:
        user = User.objects.filter(pk=UUID(name)).first() if kind == "user" else None
        if user is None:
            raise NotAuthenticated
        actor = actor_for_user(user, channel=channel, address=address)
    if actor.principal != principal:
        raise NotAuthenticated
    return actor


def actor_for_session_cookie(cookie: str, *, channel: Channel, address: str | None = None) -> Actor | None:
    """Return the actor of a Django session given its cookie's value, ``None`` for one that signs nobody in.

    For plain ASGI routes, which pass no middleware. Django's own check runs: the session's hash of the password must
    still match and the person be active. Three queries.
    """
    if not (cookie.isascii() and cookie.isalnum()):
        return None
    engine = import_module(settings.SESSION_ENGINE)
    request = HttpRequest()
    request.session = engine.SessionStore(cookie)
    user = get_user(request)
    if not isinstance(user, User) or sessions.is_over(request.session, time.time()):
        return None
    if request.session.get(sessions.MUST_ENROL):
        return None
    try:
        return actor_for_session(request.session, user, channel=channel, address=address)
    except NotAuthenticated:
        return None


def _token_actor(token: StoredToken, channel: Channel, address: str | None) -> Actor:
    personal = token.user_id is not None
    return Actor(
        kind=_KINDS[token.kind],
        principal=f"user:{token.user_id}" if personal else f"token:{token.public_id}",
        label=token.label,
        organization_id=token.organization_id,
        user_id=token.user_id,
        grants=token.grants,
        scopes=frozenset(token.scopes),
        token_node_id=None if personal else token.node_id,
        credential_id=token.public_id,
        channel=channel,
        address=address,
    )


def _viewing_actor(token: StoredToken, channel: Channel, address: str | None) -> Actor:
    """Return the actor of a team's read-only view, which is given up when its person may no longer have one there.

    Every use is in the security stream, under both names. One query besides, of what the stream writes apart.
    """
    person = Actor(
        kind=ActorKind.USER,
        principal=f"user:{token.user_id}",
        label=token.label,
        organization_id=token.user_organization_id,
        user_id=token.user_id,
        grants=token.grants,
    )
    same = token.user_organization_id == token.organization_id
    if not same or not allows(person, Action.IMPERSONATE, node_lineage(token.node_id)):
        raise NotAuthenticated
    actor = Actor(
        kind=ActorKind.IMPERSONATION,
        principal=f"token:{token.public_id}",
        label=f"{person.label} as team {token.node_name}",
        organization_id=token.organization_id,
        scopes=VIEW_SCOPES.intersection(token.scopes),
        token_node_id=token.node_id,
        credential_id=token.public_id,
        channel=channel,
        impersonator=person.principal,
        address=address,
    )
    if is_touch_due(token.last_used_at, clock.now()):
        token_touch(token.id, address)
    audit_denied(
        actor=actor,
        action="impersonation.use",
        code="",
        kind=SecurityKind.IMPERSONATION,
        object_kind="access_token",
        object_id=token.public_id,
        node_id=token.node_id,
    )
    return actor


def _address_refused(token: StoredToken, channel: Channel, address: str | None) -> None:
    """Tell the organization what its caller is not told: the answer is that of a wrong token."""
    log.warning("token.address_refused", token=token.public_id)
    audit_denied(
        actor=_token_actor(token, channel, address),
        action="token.use",
        code="address_refused",
        kind=SecurityKind.NOT_AUTHENTICATED,
        object_kind="access_token",
        object_id=token.public_id,
        node_id=token.node_id,
    )


def _touch(token: StoredToken, text: tokens.TokenText, address: str | None) -> None:
    stale = tokens.stale_text(text, token.pepper_version)
    if stale is not None or is_touch_due(token.last_used_at, clock.now()):
        token_touch(token.id, address, stale)


def is_touch_due(last_used_at: datetime | None, now: datetime) -> bool:
    """Return whether a use of a token is to be written down: at most once a minute."""
    return last_used_at is None or last_used_at <= now - LAST_USED_EVERY


def token_touch(token_id: UUID, address: str | None, stale: tokens.TokenText | None = None) -> None:
    """Note that a token is used now and from where, unless another process has within the last minute. One UPDATE.

    Args:
        token_id: primary key.
        address: of the client.
        stale: the token's text where it is stored under an older pepper: it is stored under the current one.
    """
    try:
        with impatient():
            if stale is None:
                _touched(token_id, address)
            else:
                _store_under_current_pepper(token_id, address, stale)
    except OperationalError:  # a locked database must not refuse a reader over a statistic
        log.warning("token.last_used_not_written", token=str(token_id))


def _touched(token_id: UUID, address: str | None) -> None:
    now = clock.now()
    unused = Q(last_used_at__isnull=True) | Q(last_used_at__lte=now - LAST_USED_EVERY)
    used = {"last_used_at": now, "last_used_address": (address or "")[:64]}
    AccessToken.objects.filter(unused, pk=token_id).update(**used)


def _store_under_current_pepper(token_id: UUID, address: str | None, text: tokens.TokenText) -> None:
    version = tokens.current_pepper()
    AccessToken.objects.filter(pk=token_id, pepper_version__lt=version).update(
        digest=tokens.token_digest(text, version),
        pepper_version=version,
        last_used_at=clock.now(),
        last_used_address=(address or "")[:64],
    )

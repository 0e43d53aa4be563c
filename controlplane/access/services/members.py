"""Inviting people, and letting them go: the account, whatever roles it holds on nodes."""

from datetime import timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from django.db import IntegrityError, transaction

from controlplane.access.member_selectors import is_pending
from controlplane.access.models import (
    AccessToken,
    ExternalIdentity,
    IdentityProvider,
    Membership,
    ProviderKind,
    SignInLink,
    User,
)
from controlplane.access.permissions import roles_grantable
from controlplane.access.revocations import rights_taken
from controlplane.access.services.links import sign_in_link_create
from controlplane.access.services.people import audit_user, membership_grant, require_other_owner, user_create
from controlplane.access.services.sessions import sessions_end
from controlplane.core import clock
from controlplane.core.actor import Actor, Role
from controlplane.core.errors import Conflict, NotFound, PermissionDenied, invalid
from controlplane.core.permissions import Action
from controlplane.core.text import single_line
from controlplane.orgs.models import Node
from controlplane.orgs.selectors import node_lineage, node_require

#: How long the link of an invitation works. It is given from hand to hand, so longer than one for signing in at once.
INVITATION_LIFETIME: Final = timedelta(hours=72)


class InvitedBy(StrEnum):
    """The way in."""

    LINK = "link"
    PROVIDER = "provider"


@transaction.atomic
def person_invite(
    *,
    actor: Actor,
    node: Node,
    role: str,
    username: str,
    name: str = "",
    email: str = "",
    by: str = InvitedBy.LINK,
    subject: str = "",
    tenant: str = "",
) -> tuple[User, str]:
    """Make an account with its first role, and the way in.

    Args:
        node: where the role is given.
        by: ``link``: a local account, entered by a one-time link; ``provider``: one that the organization's identity
            provider signs in. E-mail addresses bind nobody: their owners change them at will.
        subject: of ``provider``: the person's object id in Entra, ``sub`` of any other provider.
        tenant: of Entra: the person's directory, the provider's own when left out.

    Returns:
        The person, and the secret of the link, which exists only here; ``""`` for ``provider``.

    Raises:
        NotFound, PermissionDenied: the actor may not write members of the organization, or not hold the role on the
            node (``role_not_held``).
        InvalidInput: a rule of a field; ``no_identity_provider``; ``tenant_not_allowed``; ``not_a_guid``.
        Conflict: ``username_taken``, ``identity_taken``.
    """
    if by not in list(InvitedBy):
        raise invalid("/by", "unknown_way", f"This must be one of {', '.join(InvitedBy)}.")
    user = user_create(actor=actor, organization=node.organization, username=username, name=name, email=email)
    membership_grant(actor=actor, user=user, node=node, role=role)
    if by == InvitedBy.PROVIDER:
        _identity_foreseen(actor, user, subject, tenant)
        return user, ""
    _no_identity(subject, tenant)
    return user, _link(actor, user)


@transaction.atomic
def invitation_renew(*, actor: Actor, user: User) -> str:
    """Return the secret of a new link for somebody who has never signed in; the earlier ones stop working.

    Raises:
        NotFound, PermissionDenied: the actor may not write members of the organization, or the person holds a role
            that the actor does not (``role_not_held``): the link would be a way to it.
        Conflict: ``not_pending``: the person has signed in already, and nobody else is given a way into that account;
            ``signs_in_by_provider``: the directory may give the person more than the actor holds, and whoever had come
            in by the link would have it too.
    """
    user = _locked(user)
    _require_over(actor, user)
    if not user.is_active or not is_pending(user):
        raise Conflict("Only a person who has never signed in gets a new invitation.", code="not_pending")
    if ExternalIdentity.objects.filter(user=user).exists():
        detail = "This person signs in through the identity provider and gets no other way in."
        raise Conflict(detail, code="signs_in_by_provider")
    SignInLink.objects.filter(user=user, used_at__isnull=True).update(expires_at=clock.now())
    return _link(actor, user)


@transaction.atomic
def person_deactivate(*, actor: Actor, user: User, reason: str = "") -> None:
    """Shut a person out at once: sessions, personal tokens and links end. Roles are kept for the day of return.

    Idempotent. Tokens of machines that the person has made go on working.

    Raises:
        NotFound, PermissionDenied: the actor may not write members of the organization, or the person holds a role
            that the actor does not (``role_not_held``).
        Conflict: ``own_account``; ``last_owner``.
    """
    user = _locked(user)
    _require_over(actor, user)
    if not user.is_active:
        return
    _require_not_own(actor, user)
    _require_no_last_owner(user)
    ended = _shut_out(actor, user)
    audit_user(actor, "user.deactivate", user, after=ended | ({"reason": reason} if reason else {}))
    rights_taken(user.organization_id)


@transaction.atomic
def person_reactivate(*, actor: Actor, user: User) -> None:
    """Let a person in again, with the roles kept; what ended with the deactivation stays ended. Idempotent.

    Raises:
        NotFound, PermissionDenied: as :func:`person_deactivate`.
    """
    user = _locked(user)
    _require_over(actor, user)
    if user.is_active:
        return
    user.is_active = True
    user.save(update_fields=["is_active"])
    audit_user(actor, "user.reactivate", user)


@transaction.atomic
def person_remove(*, actor: Actor, user: User, reason: str = "") -> None:
    """Deactivate a person and take back every role. The account's row stays: what it did names it.

    Raises:
        NotFound, PermissionDenied, Conflict: as :func:`person_deactivate`.
    """
    user = _locked(user)
    _require_over(actor, user)
    _require_not_own(actor, user)
    _require_no_last_owner(user)
    roles = Membership.objects.filter(user=user).select_related("node").order_by("node__slug", "role")
    held = [f"{row.role} on {row.node.slug}" for row in roles]
    Membership.objects.filter(user=user).delete()
    after = _shut_out(actor, user) | {"roles": held} | ({"reason": reason} if reason else {})
    audit_user(actor, "user.remove", user, after=after)
    rights_taken(user.organization_id)


def _shut_out(actor: Actor, user: User) -> dict[str, object]:
    now = clock.now()
    user.is_active = False
    user.save(update_fields=["is_active"])
    browsers = sessions_end(actor=actor, user=user)
    # A person who returns makes new ones: nobody has looked after these meanwhile.
    tokens = AccessToken.objects.filter(user=user, revoked_at__isnull=True).update(revoked_at=now)
    SignInLink.objects.filter(user=user, used_at__isnull=True, expires_at__gt=now).update(expires_at=now)
    return {"username": user.username, "browsers": browsers, "personal_tokens": tokens}


def _locked(user: User) -> User:
    # Not a key lock: whoever refers to the person holds the head of the audit log by the time that is checked.
    return User.objects.select_for_update(of=("self",), no_key=True).select_related("organization").get(pk=user.pk)


def _home(user: User) -> UUID:
    if user.organization_id is None:
        raise NotFound  # an operator is nobody's member
    return user.organization_id


def _require_over(actor: Actor, user: User) -> None:
    """Check that ``actor`` writes members of the whole organization, and holds whatever the person holds."""
    root = Node.objects.get(organization_id=_home(user), parent__isnull=True)
    node_require(actor=actor, action=Action.MEMBER_WRITE, node=root)
    grantable = roles_grantable(actor, node_lineage(root.pk))
    held = {Role(role) for role in Membership.objects.filter(user=user).values_list("role", flat=True)}
    if not held <= grantable:
        raise PermissionDenied("This person holds a role that you do not hold.", code="role_not_held")


def _require_not_own(actor: Actor, user: User) -> None:
    if actor.user_id == user.pk:
        raise Conflict("Somebody else has to do this: it is your own account.", code="own_account")


def _require_no_last_owner(user: User) -> None:
    owned = Membership.objects.filter(user=user, role=Role.OWNER.value).select_related("node").first()
    if owned is not None:
        require_other_owner(node=owned.node, user=user)


def _link(actor: Actor, user: User) -> str:
    return sign_in_link_create(user=user, lifetime=INVITATION_LIFETIME, actor=actor)


def _no_identity(subject: str, tenant: str) -> None:
    for pointer, value in (("/subject", subject), ("/tenant", tenant)):
        if value:
            raise invalid(pointer, "not_used", "An account entered by a link has none.")


def _identity_foreseen(actor: Actor, user: User, subject: str, tenant: str) -> None:
    """Bind the account to who the provider will vouch for; the same row that a first sign-in would make."""
    provider = IdentityProvider.objects.filter(organization_id=_home(user), enabled=True).first()
    if provider is None:
        raise invalid("/by", "no_identity_provider", "This organization has no identity provider that signs in.")
    identity = ExternalIdentity(organization_id=_home(user), user=user, label=user.username)
    if provider.kind == ProviderKind.ENTRA:
        allowed = {provider.tenant, *(UUID(one) for one in provider.allowed_tenants)}
        identity.tid = _guid(tenant, "/tenant") if tenant else provider.tenant
        if identity.tid not in allowed:
            raise invalid("/tenant", "tenant_not_allowed", "The provider lets nobody in from this directory.")
        identity.oid = _guid(subject, "/subject")
    else:
        if tenant:
            raise invalid("/tenant", "not_used", "Only directories of Entra are named.")
        identity.issuer = provider.authority
        identity.subject = single_line(subject, pointer="/subject", max_length=255)
    try:
        with transaction.atomic():
            identity.save(force_insert=True)
    except IntegrityError:
        raise Conflict("Somebody else here has this identity already.", code="identity_taken") from None
    audit_user(actor, "external_identity.foresee", user, after={"provider": provider.name})


def _guid(text: str, pointer: str) -> UUID:
    try:
        return UUID(text.strip())
    except ValueError:
        raise invalid(
            pointer, "not_a_guid", "This must be an id such as 11111111-2222-3333-4444-555555555555."
        ) from None

"""What a sign-in by a provider comes to here: the person, and its roles, derived anew each time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn
from uuid import UUID

import structlog
from django.contrib.auth.hashers import make_password
from django.db import IntegrityError, transaction
from django.utils.crypto import get_random_string

from controlplane.access import metrics
from controlplane.access.entra.flow import Begun, Vouched, flow_begin, flow_finish
from controlplane.access.entra.id_tokens import Claims
from controlplane.access.entra.refusals import SignInRefused
from controlplane.access.models import (
    ExternalIdentity,
    GuestPolicy,
    IdentityProvider,
    MappingKind,
    Membership,
    MembershipSource,
    User,
)
from controlplane.access.revocations import rights_taken
from controlplane.audit.security import sign_in_record
from controlplane.audit.services import audit_record
from controlplane.core import clock
from controlplane.core.actor import Actor, ActorKind, Channel, Role
from controlplane.core.permissions import INCLUDES
from controlplane.orgs.models import Node

log = structlog.get_logger(__name__)

#: Attempts to find a free username for somebody new.
_NAMES: Final = 5


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A person let in. ``notice`` is for the person to read: why roles may be missing; ``""`` for nothing."""

    user: User
    notice: str
    end_session: str


def sign_in_begin(*, provider: IdentityProvider, address: str | None = None) -> Begun:
    """Return where to send a browser that wants to sign in; see :func:`~controlplane.access.entra.flow.flow_begin`.

    Raises:
        SignInRefused: recorded already.
    """
    try:
        return flow_begin(provider)
    except SignInRefused as refused:
        refusal_record(provider=provider, refused=refused, address=address)
        raise


def sign_in_finish(
    *,
    provider: IdentityProvider,
    flow: Mapping[str, Any],
    answer: Mapping[str, str],
    link_to: UUID | None = None,
    address: str | None = None,
) -> SignedIn:
    """Let in whom the provider vouches for, with the roles that its roles and groups give now. Blocks.

    Args:
        flow: taken out of this browser's session for good.
        answer: the query that the provider's redirect came back with.
        link_to: the person already signed in here who asked to link this identity.

    Raises:
        SignInRefused: recorded already.
    """
    label = ""
    try:
        vouched = flow_finish(provider, flow, answer)
        label = vouched.claims.label
        return _let_in(provider, vouched, link_to, address)
    except SignInRefused as refused:
        refused.label = label
        refusal_record(provider=provider, refused=refused, address=address)
        raise


def refusal_record(*, provider: IdentityProvider, refused: SignInRefused, address: str | None = None) -> None:
    """Log a refused sign-in and note it in the organization's security stream: anybody can make any number of them.

    The person is told neutral words; the reason is here for administrators, by the code of :data:`REASONS`.
    """
    log.warning("sign_in.refused", provider=str(provider.pk), reason=refused.reason, detail=refused.detail)
    metrics.sign_ins_total.labels(provider.kind, "refused").inc()
    sign_in_record(
        ok=False,
        method=provider.kind,
        principal="unknown",
        label=refused.label,
        organization_id=provider.organization_id,
        address=address,
        reason=refused.reason,
    )


def _let_in(provider: IdentityProvider, vouched: Vouched, link_to: UUID | None, address: str | None) -> SignedIn:
    try:
        signed_in = _derived(provider, vouched, link_to, address)
    except IntegrityError:
        # Somebody new signing in twice at once: the row of the first is there now.
        signed_in = _derived(provider, vouched, link_to, address)
    if signed_in is None:
        raise SignInRefused("groups_unavailable" if vouched.problem else "no_role", vouched.problem)
    return signed_in


@transaction.atomic
def _derived(
    provider: IdentityProvider, vouched: Vouched, link_to: UUID | None, address: str | None
) -> SignedIn | None:
    """Return the person with its roles as they are now, ``None`` for one left without any.

    The person's row is locked before the provider's: nobody who holds the provider's waits for a person.
    """
    identity = _identity_held(provider, vouched.claims, link_to)
    _require_unchanged(provider)
    wanted = _roles_wanted(provider, vouched)
    if link_to is not None:
        identity = _linked(provider, vouched.claims, identity, link_to)
    if identity is None:
        if not wanted:
            return None
        identity = _newcomer(provider, vouched.claims)
    user = identity.user
    if not user.is_active:
        _refuse("deactivated")
    _refresh(user, identity, vouched.claims)
    directory = Actor(
        ActorKind.SYSTEM,
        "system:sign-in",
        provider.name,
        provider.organization_id,
        channel=Channel.WEB,
        address=address,
    )
    granted, dropped = _memberships(directory, user, wanted)
    if not Membership.objects.filter(user=user).exists():
        if dropped:
            rights_taken(user.organization_id)
        return None
    if granted or dropped or vouched.problem:
        changes: dict[str, object] = {"provider": provider.name, "identity": identity.label}
        changes |= {"guest": vouched.claims.guest, "granted": granted, "dropped": dropped}
        _audit(directory, "sign_in.roles", user, after=changes | {"groups": vouched.problem or "read"})
    if dropped:
        rights_taken(user.organization_id)
    return SignedIn(user, _notice(vouched), vouched.end_session)


def _require_unchanged(provider: IdentityProvider) -> None:
    """Hold the provider as it is until the commit: who removes it takes away the roles of this sign-in too."""
    found = IdentityProvider.objects.select_for_update(no_key=True).filter(
        pk=provider.pk, enabled=True, updated_at=provider.updated_at
    )
    if found.first() is None:  # who vouched is no longer whom the organization trusts
        _refuse("not_enabled")


def _notice(vouched: Vouched) -> str:
    if not vouched.problem:
        return ""
    return "Your groups could not be read from the directory, so roles that come by them are missing for now."


def _roles_wanted(provider: IdentityProvider, vouched: Vouched) -> set[tuple[UUID, str]]:
    held = {MappingKind.ROLE.value: vouched.claims.roles, MappingKind.GROUP.value: vouched.groups}
    rows = provider.mappings.values_list("kind", "value", "node_id", "role")
    given = {(node_id, Role(role)) for kind, value, node_id, role in rows if value in held[kind]}
    if vouched.claims.guest:
        cap = Role(provider.guests) if provider.guests != GuestPolicy.DENY else _refuse("guest")
        return {(node_id, capped(role, cap).value) for node_id, role in given}
    return {(node_id, role.value) for node_id, role in given}


def capped(role: Role, cap: Role) -> Role:
    """Return the most that both ``role`` and ``cap`` include."""
    common = INCLUDES[role] & INCLUDES[cap]
    return next(one for one in (Role.RESPONDER, Role.VIEWER) if one in common)


def _identity_held(provider: IdentityProvider, claims: Claims, link_to: UUID | None) -> ExternalIdentity | None:
    """Return who that is here, ``None`` for nobody, with the row of the person locked, of one to be linked too."""
    found = _identity(provider, claims)
    held = link_to if found is None else found.user_id
    if held is None:
        return None
    User.objects.select_for_update(no_key=True).filter(pk=held).first()
    return _identity(provider, claims)  # it may have been unlinked while this waited


def _identity(provider: IdentityProvider, claims: Claims) -> ExternalIdentity | None:
    identities = ExternalIdentity.objects.filter(organization_id=provider.organization_id)
    return identities.filter(**_key(claims)).select_related("user").first()


def _key(claims: Claims) -> dict[str, Any]:
    if claims.oid is not None:
        return {"tid": claims.tid, "oid": claims.oid}
    return {"issuer": claims.issuer, "subject": claims.subject}


def _linked(
    provider: IdentityProvider, claims: Claims, identity: ExternalIdentity | None, link_to: UUID
) -> ExternalIdentity:
    if identity is not None:
        return identity if identity.user_id == link_to else _refuse("identity_taken")
    user = User.objects.filter(pk=link_to, organization_id=provider.organization_id, is_active=True).first()
    if user is None:
        _refuse("link_session")
    identity = ExternalIdentity.objects.create(
        organization_id=provider.organization_id, user=user, label=claims.label, **_key(claims)
    )
    _audit_identity(identity, "external_identity.link")
    return identity


def _newcomer(provider: IdentityProvider, claims: Claims) -> ExternalIdentity:
    """Return the identity of a new person: somebody else than whoever has the same e-mail address or name here."""
    username = claims.label[:140]
    for attempt in range(_NAMES):
        taken = User.objects.filter(username=username).exists()
        if not taken:
            break
        username = f"{claims.label[:140]}-{get_random_string(4 + attempt, 'abcdefghjkmnpqrstuvwxyz23456789')}"
    user = User.objects.create(
        organization_id=provider.organization_id,
        username=username,
        name=claims.name,
        email=claims.email,
        password=make_password(None),
    )
    identity = ExternalIdentity.objects.create(
        organization_id=provider.organization_id, user=user, label=claims.label, **_key(claims)
    )
    _audit_identity(identity, "user.create")
    return identity


def _refresh(user: User, identity: ExternalIdentity, claims: Claims) -> None:
    """Take over what the provider calls the person; an account with a password keeps the name given to it here."""
    identity.label, identity.last_sign_in_at = claims.label, clock.now()
    identity.save(update_fields=["label", "last_sign_in_at"])
    if not user.has_usable_password():
        user.name, user.email = claims.name, claims.email
        user.save(update_fields=["name", "email"])


def _memberships(directory: Actor, user: User, wanted: set[tuple[UUID, str]]) -> tuple[list[str], list[str]]:
    """Make the person's roles by sign-in those wanted; roles granted by hand are not touched."""
    rows = Membership.objects.filter(user=user, source=MembershipSource.SSO).select_related("node")
    held = {(row.node_id, row.role): row for row in rows}
    nodes = Node.objects.in_bulk([node_id for node_id, _ in wanted])
    granted: list[str] = []
    dropped: list[str] = []
    for key, row in held.items():
        if key not in wanted:
            dropped.append(f"{row.role} on {row.node.slug}")
            row.delete()
            _audit_role(directory, "membership.revoke", user, row.node, row.role)
    for node_id, role in sorted(wanted - held.keys(), key=str):
        node = nodes.get(node_id)
        if node is None:  # deleted since the mapping was read
            continue
        Membership.objects.create(user=user, node=node, role=role, source=MembershipSource.SSO)
        granted.append(f"{role} on {node.slug}")
        _audit_role(directory, "membership.grant", user, node, role)
    return granted, dropped


def _refuse(reason: str) -> NoReturn:
    raise SignInRefused(reason)


def _audit_role(directory: Actor, action: str, user: User, node: Node, role: str) -> None:
    row = {"username": user.username, "node": node.slug, "role": role, "source": MembershipSource.SSO.value}
    if action == "membership.grant":
        _audit(directory, action, user, node=node, after=row)
    else:
        _audit(directory, action, user, node=node, before=row)


def _audit_identity(identity: ExternalIdentity, action: str) -> None:
    user = identity.user
    person = Actor(ActorKind.USER, f"user:{user.pk}", user.display_name, identity.organization_id, user.pk)
    after = {"username": user.username, "name": user.name, "identity": identity.label}
    _audit(person.via(Channel.WEB), action, user, after=after)


def _audit(
    actor: Actor, action: str, user: User, *, node: Node | None = None, before: object = None, after: object = None
) -> None:
    if user.organization_id is None:
        raise ValueError("an operator belongs to no organization's audit log")
    audit_record(
        actor=actor,
        organization_id=user.organization_id,
        action=action,
        object_kind="user",
        object_id=str(user.pk),
        node_id=None if node is None else node.pk,
        before=before,
        after=after,
    )

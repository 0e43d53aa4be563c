"""Reading people, roles and credentials, restricted to what the actor may see."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db.models import Q, QuerySet

from controlplane.access.grants import Held
from controlplane.access.models import (
    AccessToken,
    Authenticator,
    BrowserSession,
    CredentialGrant,
    Membership,
    RecoveryCode,
    TokenKind,
    User,
)
from controlplane.access.sessions import SignInMethod
from controlplane.core.actor import Actor, Role
from controlplane.core.errors import NotFound, PermissionDenied, invalid
from controlplane.core.permissions import Action
from controlplane.orgs.models import Node
from controlplane.orgs.selectors import node_get, node_lineage, node_require, organization_of


@dataclass(frozen=True, slots=True)
class Identity:
    """Who an actor is, in slugs. ``node`` is that of a team or admin token; ``roles`` are ``(node, role)``."""

    organization: str | None
    node: str | None
    roles: tuple[tuple[str, str], ...]


def identity_of(actor: Actor) -> Identity:
    """Return who ``actor`` is. Two queries at most."""
    organization = organization_of(actor)
    ids = {grant.node_id for grant in actor.grants} | ({actor.token_node_id} if actor.token_node_id else set())
    slugs = dict(Node.objects.filter(pk__in=ids).values_list("pk", "slug")) if ids else {}
    roles = sorted((slugs[grant.node_id], grant.role.value) for grant in actor.grants if grant.node_id in slugs)
    return Identity(
        organization=organization.slug if organization else None,
        node=slugs.get(actor.token_node_id) if actor.token_node_id else None,
        roles=tuple(roles),
    )


def principal_name(principal: str) -> str:
    """Return what the person or the token behind a principal is called, ``""`` for none that there is. One query.

    For code that shows a record its reader may see, and with it by whom it was made.
    """
    kind, _, id_ = principal.partition(":")
    if kind == "token":
        return AccessToken.objects.filter(public_id=id_).values_list("name", flat=True).first() or ""
    person = User.objects.filter(pk=id_).first() if kind == "user" else None
    return "" if person is None else person.display_name


def token_makers(principal: str) -> frozenset[str]:
    """Return who has seen the text of a token: its maker, and where that is a token too, the maker of that.

    Empty for a principal that is no token. One query for each token on the way.
    """
    makers: set[str] = set()
    while principal.startswith("token:"):
        found = AccessToken.objects.filter(public_id=principal.partition(":")[2])
        maker = found.values_list("created_by", flat=True).first()
        if maker is None or maker in makers:
            break
        makers.add(maker)
        principal = maker
    return frozenset(makers)


def person_of(actor: Actor) -> User | None:
    """Return the person behind ``actor``, if any."""
    return None if actor.user_id is None else User.objects.filter(pk=actor.user_id).first()


def tokens_of_node(*, actor: Actor, organization_slug: str, node_slug: str) -> QuerySet[AccessToken]:
    """Return the tokens of a node, all for those who may read tokens there, else the person's own personal ones.

    Raises:
        NotFound: the actor does not see the node.
        PermissionDenied: it sees the node, may not read its tokens, and is no person.
    """
    try:
        node = node_get(actor=actor, organization_slug=organization_slug, node_slug=node_slug, action=Action.TOKEN_READ)
    except PermissionDenied:
        if actor.user_id is None:
            raise
        node = node_get(actor=actor, organization_slug=organization_slug, node_slug=node_slug)
        return _listed(node).filter(kind=TokenKind.USER, user_id=actor.user_id)
    return _listed(node)


def token_get(*, actor: Actor, organization_slug: str, node_slug: str, public_id: str) -> AccessToken:
    """Return one of :func:`tokens_of_node`.

    Raises:
        NotFound, PermissionDenied: as there; ``NotFound`` also for a token of another node.
    """
    tokens = tokens_of_node(actor=actor, organization_slug=organization_slug, node_slug=node_slug)
    token = tokens.filter(public_id=public_id).first()
    if token is None:
        raise NotFound
    return token


def memberships_of_node(*, actor: Actor, organization_slug: str, node_slug: str) -> QuerySet[Membership]:
    """Return the roles granted on the node itself, those inherited from above left out.

    Raises:
        NotFound, PermissionDenied: the actor does not see the node, or may not read its members.
    """
    node = node_get(actor=actor, organization_slug=organization_slug, node_slug=node_slug, action=Action.MEMBER_READ)
    return Membership.objects.filter(node=node).select_related("user", "node")


def membership_get(*, actor: Actor, organization_slug: str, node_slug: str, membership_id: int) -> Membership:
    """Return one of :func:`memberships_of_node`.

    Raises:
        NotFound, PermissionDenied: as there; ``NotFound`` also for a role on another node.
    """
    memberships = memberships_of_node(actor=actor, organization_slug=organization_slug, node_slug=node_slug)
    membership = memberships.filter(pk=membership_id).first()
    if membership is None:
        raise NotFound
    return membership


def user_for_grant(*, actor: Actor, node: Node, username: str) -> User:
    """Return a person of the node's organization, to give a role to.

    Raises:
        NotFound, PermissionDenied: the actor may not write members there.
        InvalidInput: ``unknown_user``, also for a person of another organization.
    """
    node_require(actor=actor, action=Action.MEMBER_WRITE, node=node)
    user = User.objects.filter(organization_id=node.organization_id, username=username).first()
    if user is None:
        raise invalid("/username", "unknown_user", "There is no such person in this organization.")
    return user


def grants_held(node_id: UUID, lineage: Sequence[UUID] | None = None) -> Held:
    """Return what a node holds of credentials, for code that has already been permitted to act on it.

    Args:
        lineage: the ids of its ancestors and itself, root first, where they are known. One query then, else two.
    """
    chain = tuple(node_lineage(node_id) if lineage is None else lineage)
    if not chain:
        return Held((), ())
    grants = CredentialGrant.objects.filter(
        Q(node__isnull=True) | Q(node_id__in=chain), organization__nodes=chain[0], revoked_at__isnull=True
    )
    return Held(chain, tuple(grants))


def grants_of_node(*, actor: Actor, organization_slug: str, node_slug: str) -> QuerySet[CredentialGrant]:
    """Return the live grants on the node, on those above it and to its organization: all that may count there.

    Raises:
        NotFound, PermissionDenied: the actor does not see the node, or may not read its configuration.
    """
    node = node_get(actor=actor, organization_slug=organization_slug, node_slug=node_slug, action=Action.CONFIG_READ)
    return CredentialGrant.objects.filter(
        Q(node__isnull=True) | Q(node_id__in=node_lineage(node.pk)),
        organization_id=node.organization_id,
        revoked_at__isnull=True,
    ).select_related("node", "given_from", "organization")


def grant_get(*, actor: Actor, organization_slug: str, node_slug: str, grant_id: UUID) -> CredentialGrant:
    """Return a live grant on the node itself; of the root also those of the operator.

    Raises:
        NotFound, PermissionDenied: the actor may not grant credentials there; ``NotFound`` also for another node's.
    """
    node = node_get(
        actor=actor, organization_slug=organization_slug, node_slug=node_slug, action=Action.CREDENTIAL_GRANT
    )
    here = Q(node=node) | Q(node__isnull=True) if node.parent_id is None else Q(node=node)
    grants = CredentialGrant.objects.filter(here, organization_id=node.organization_id, revoked_at__isnull=True)
    grant = grants.filter(pk=grant_id).select_related("node", "given_from", "organization").first()
    if grant is None:
        raise NotFound
    return grant


def _listed(node: Node) -> QuerySet[AccessToken]:
    return AccessToken.objects.filter(node=node).select_related("node", "user")


def must_have_authenticator(user: User, *, method: str) -> bool:
    """Return whether a person who signs in by ``method`` has to add an authenticator app before anything else.

    Only those with a password of ours and a powerful role, and only where ``TOTP_REQUIRED_FOR_ADMINS`` says so: the
    second factor of everybody else is their identity provider's.
    """
    if not settings.TOTP_REQUIRED_FOR_ADMINS or method not in {SignInMethod.PASSWORD, SignInMethod.LINK}:
        return False
    if Authenticator.objects.filter(user=user, confirmed_at__isnull=False).exists():
        return False
    powerful = Membership.objects.filter(user=user, role__in=[Role.OWNER.value, Role.ADMIN.value])
    return user.is_staff or (user.has_usable_password() and powerful.exists())


def authenticator_of(user: User) -> Authenticator | None:
    """Return the person's authenticator app, confirmed or just begun."""
    return Authenticator.objects.filter(user=user).first()


def recovery_codes_left(user: User) -> int:
    """Return how many recovery codes of a person still work."""
    return RecoveryCode.objects.filter(user=user, used_at__isnull=True).count()


def signed_in_by_link(user: User, session_key: str | None) -> bool:
    """Return whether the browser with this session was signed in by a one-time link."""
    return BrowserSession.objects.filter(user=user, session_key=session_key or "", method=SignInMethod.LINK).exists()

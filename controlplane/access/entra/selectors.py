"""Reading identity providers, restricted to what the actor may see; and what sign-in needs before there is an actor."""

from dataclasses import dataclass
from uuid import UUID

from django.db.models import QuerySet

from controlplane.access.credential_values import State, credentials_of
from controlplane.access.models import ExternalIdentity, IdentityProvider, Membership, MembershipSource, RoleMapping
from controlplane.core.actor import Actor, Role
from controlplane.core.errors import NotFound, PermissionDenied
from controlplane.core.permissions import Action, allows, nodes_that_allow
from controlplane.core.references import references_of
from controlplane.orgs.models import Node, Organization, is_slug
from controlplane.orgs.selectors import organization_get


@dataclass(frozen=True, slots=True)
class CredentialState:
    """The name of a provider's secret or certificate and what there is for it; the value is never here."""

    name: str
    state: State


def organization_for(*, actor: Actor, organization_slug: str, action: Action) -> tuple[Organization, Node]:
    """Return an organization and its root, on which ``actor`` may do ``action``. Two queries.

    Raises:
        NotFound: another organization than the actor's.
        PermissionDenied: its own, and it may not.
    """
    organization = organization_get(actor, organization_slug)
    root = Node.objects.get(organization=organization, parent__isnull=True)
    if not allows(actor, action, (root.pk,)):
        raise PermissionDenied(f"You may not do this here (it needs {action.value}).")
    return organization, root


def identity_provider_get(*, actor: Actor, organization_slug: str, action: Action) -> IdentityProvider:
    """Return the identity provider of an organization. Three queries.

    Raises:
        NotFound: another organization than the actor's, or there is no provider yet.
        PermissionDenied: as :func:`organization_for`.
    """
    organization, _ = organization_for(actor=actor, organization_slug=organization_slug, action=action)
    provider = IdentityProvider.objects.filter(organization=organization).select_related("organization").first()
    if provider is None:
        raise NotFound("This organization has no identity provider yet.")
    return provider


def may_read_provider(actor: Actor) -> bool:
    """Return whether the actor may read its organization's provider at all. One query for an admin, else none."""
    return _may(actor, Action.IDENTITY_PROVIDER_READ)


def may_write_provider(actor: Actor) -> bool:
    """Return whether the actor may change its organization's provider. One query."""
    return _may(actor, Action.IDENTITY_PROVIDER_WRITE)


def mappings_of(provider: IdentityProvider) -> QuerySet[RoleMapping]:
    """Return the mappings of a provider that the actor has been permitted to read."""
    return RoleMapping.objects.filter(provider=provider).select_related("node").order_by("kind", "value", "id")


def mapping_get(*, actor: Actor, organization_slug: str, mapping_id: UUID) -> RoleMapping:
    """Return a mapping that the actor may take away.

    Raises:
        NotFound, PermissionDenied: as :func:`identity_provider_get`; ``NotFound`` also for another provider's mapping.
    """
    provider = identity_provider_get(
        actor=actor, organization_slug=organization_slug, action=Action.IDENTITY_PROVIDER_WRITE
    )
    mapping = mappings_of(provider).filter(pk=mapping_id).first()
    if mapping is None:
        raise NotFound
    return mapping


def credential_state(provider: IdentityProvider) -> CredentialState:
    """Return the state of a provider's secret or certificate. Two queries."""
    reference = provider.client_secret or provider.client_certificate
    name = references_of(reference)[0].name
    root = Node.objects.only("pk").get(organization_id=provider.organization_id, parent__isnull=True)
    return CredentialState(name, credentials_of(root.pk, [root.pk]).state(name))


def provider_set_up(organization: Organization) -> IdentityProvider | None:
    """Return the provider of an organization whose settings the actor has been permitted to read. One query."""
    return IdentityProvider.objects.filter(organization=organization).select_related("organization").first()


def has_owner_by_hand(organization: Organization) -> bool:
    """Return whether somebody active is an owner other than by the provider, whose groups may vanish. One query."""
    owners = Membership.objects.filter(
        node__organization=organization, node__parent__isnull=True, role=Role.OWNER.value, user__is_active=True
    )
    return owners.exclude(source=MembershipSource.SSO).exists()


def provider_at_sign_in(organization_slug: str) -> IdentityProvider | None:
    """Return the provider that signs in to an organization, ``None`` if it has none switched on or is none. One query.

    For nobody in particular: the page before sign-in. An unknown organization looks like one without a provider.
    """
    if not is_slug(organization_slug):
        return None
    providers = IdentityProvider.objects.filter(organization__slug=organization_slug, enabled=True)
    return providers.select_related("organization").first()


def provider_of_own(actor: Actor) -> IdentityProvider | None:
    """Return the enabled provider of the actor's own organization, to link an account with. One query."""
    if actor.organization_id is None:
        return None
    providers = IdentityProvider.objects.filter(organization_id=actor.organization_id, enabled=True)
    return providers.select_related("organization").first()


def identities_of_own(actor: Actor) -> QuerySet[ExternalIdentity]:
    """Return the identities linked with the actor's own account."""
    if actor.user_id is None:
        return ExternalIdentity.objects.none()
    return ExternalIdentity.objects.filter(user_id=actor.user_id).order_by("created_at")


def _may(actor: Actor, action: Action) -> bool:
    if actor.organization_id is None or not nodes_that_allow(actor, action):
        return False
    root = Node.objects.filter(organization_id=actor.organization_id, parent__isnull=True).values_list("pk", flat=True)
    return allows(actor, action, tuple(root[:1]))

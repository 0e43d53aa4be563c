"""Writing identity providers. Who does it names who is let in and as what: owners alone."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from controlplane.access.entra.fields import (
    FieldChecks,
    authority_url,
    choice,
    domains,
    left_out,
    one_credential,
    reference,
    tenant_id,
    tenants,
)
from controlplane.access.entra.selectors import has_owner_by_hand, organization_for
from controlplane.access.models import GuestPolicy, IdentityProvider, Membership, MembershipSource, ProviderKind
from controlplane.access.revocations import rights_taken
from controlplane.audit.services import audit_record
from controlplane.core.actor import Actor
from controlplane.core.errors import Conflict, NotFound
from controlplane.core.permissions import Action
from controlplane.core.text import name_line
from controlplane.orgs.models import Node, Organization


@transaction.atomic
def identity_provider_set(
    *,
    actor: Actor,
    organization_slug: str,
    kind: str,
    client_id: str,
    name: str = "",
    enabled: bool = True,
    cloud: str = "",
    tenant: str = "",
    allowed_tenants: Iterable[str] = (),
    authority: str = "",
    client_secret: str = "",
    client_certificate: str = "",
    email_domains: Iterable[str] = (),
    guests: str = GuestPolicy.DENY.value,
    password_sign_in: bool = True,
) -> IdentityProvider:
    """Set the identity provider of an organization, in effect at the next sign-in. It replaces what was set before.

    Args:
        kind: ``entra`` or ``oidc``.
        client_id: of this installation as the provider knows it.
        name: on the sign-in button; the kind's when left out.
        cloud, tenant, allowed_tenants: of Entra: a name in ``ENTRA_CLOUDS``, the directory's GUID, and more of them.
        authority: of OpenID Connect: the issuer, exactly as the provider's discovery document has it.
        client_secret, client_certificate: one of them, a single ``${NAME}``; never the value.
        email_domains: where given, people of other domains are refused.
        guests: ``deny``, or the role that guests get at most.
        password_sign_in: whether members may sign in by password besides.

    Raises:
        NotFound, PermissionDenied: the actor is no owner of the organization.
        InvalidInput: with one entry for every field that breaks a rule; values are not quoted.
        Conflict: ``last_owner``: it vouches for others than before, and nobody would be left with the role owner.
    """
    organization, _ = organization_for(
        actor=actor, organization_slug=organization_slug, action=Action.IDENTITY_PROVIDER_WRITE
    )
    check = FieldChecks()
    wanted = check.one(lambda: choice(kind, ProviderKind.values, "/kind"))
    fields: dict[str, Any] = {
        "kind": wanted,
        "name": check.one(lambda: name_line(name or _name_of(wanted), pointer="/name", max_length=60)),
        "enabled": enabled,
        "client_id": check.one(lambda: name_line(client_id, pointer="/client_id")),
        "client_secret": check.one(lambda: reference(client_secret, "/client_secret")),
        "client_certificate": check.one(lambda: reference(client_certificate, "/client_certificate")),
        "email_domains": check.one(lambda: domains(email_domains)),
        "guests": check.one(lambda: choice(guests, GuestPolicy.values, "/guests")),
        "password_sign_in": password_sign_in,
    }
    check.one(lambda: one_credential(client_secret, client_certificate))
    if wanted == ProviderKind.OIDC:
        check.one(lambda: left_out(cloud=cloud, tenant=tenant, allowed_tenants=list(allowed_tenants)))
        fields |= {"authority": check.one(lambda: authority_url(authority)), "cloud": "", "tenant": None}
        fields |= {"allowed_tenants": []}
    elif wanted == ProviderKind.ENTRA:
        check.one(lambda: left_out(authority=authority))
        fields |= {"cloud": check.one(lambda: choice(cloud or "global", settings.ENTRA_CLOUDS, "/cloud"))}
        fields |= {"tenant": check.one(lambda: tenant_id(tenant, "/tenant")), "authority": ""}
        fields |= {"allowed_tenants": check.one(lambda: tenants(allowed_tenants, fields["tenant"]))}
    check.done()
    return _provider_saved(actor, organization, fields)


@transaction.atomic
def identity_provider_remove(*, actor: Actor, organization_slug: str) -> None:
    """Take the provider away, with its mappings and every role that came from them. Linked identities stay.

    Raises:
        NotFound, PermissionDenied: the actor is no owner of the organization, or there is no provider.
        Conflict: ``last_owner``: nobody would be left with the role owner.
    """
    organization, root = organization_for(
        actor=actor, organization_slug=organization_slug, action=Action.IDENTITY_PROVIDER_WRITE
    )
    Organization.objects.select_for_update(no_key=True).get(pk=organization.pk)
    provider = IdentityProvider.objects.filter(organization=organization).first()
    if provider is None:
        raise NotFound("This organization has no identity provider yet.")
    before, pk = describe(provider), provider.pk
    ended = end_roles(organization)
    provider.delete()
    _audit(actor, "identity_provider.remove", root, pk, before=before | {"roles_ended": ended})
    if ended:
        rights_taken(organization.pk)


def describe(provider: IdentityProvider) -> dict[str, Any]:
    """Return a provider as the audit log and the API show it: references by name, no value."""
    return {
        "kind": provider.kind,
        "name": provider.name,
        "enabled": provider.enabled,
        "cloud": provider.cloud,
        "tenant": str(provider.tenant) if provider.tenant else "",
        "allowed_tenants": provider.allowed_tenants,
        "authority": provider.authority,
        "client_id": provider.client_id,
        "client_secret": provider.client_secret,
        "client_certificate": provider.client_certificate,
        "email_domains": provider.email_domains,
        "guests": provider.guests,
        "password_sign_in": provider.password_sign_in,
    }


def _provider_saved(actor: Actor, organization: Organization, fields: dict[str, Any]) -> IdentityProvider:
    Organization.objects.select_for_update(no_key=True).get(pk=organization.pk)
    provider = IdentityProvider.objects.filter(organization=organization).first()
    before = describe(provider) if provider else None
    provider = provider or IdentityProvider(organization=organization)
    for field, value in fields.items():
        setattr(provider, field, value)
    provider.organization = organization
    after = describe(provider)
    if after == before:
        return provider
    provider.save()
    # Whom another provider vouched for may never sign in again, so that no sign-in would take the roles back.
    ended = end_roles(organization) if before is not None and _vouches_for_others(before, after) else 0
    root = Node.objects.get(organization=organization, parent__isnull=True)
    after |= {"roles_ended": ended} if ended else {}
    _audit(actor, "identity_provider.set", root, provider.pk, before=before, after=after)
    if ended:
        rights_taken(organization.pk)
    return provider


def _vouches_for_others(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether people of the provider as it was are no longer people of the provider as it is."""
    same = all(before[name] == after[name] for name in ("kind", "cloud", "authority"))
    directories = [{one["tenant"], *one["allowed_tenants"]} for one in (before, after)]
    return not (same and directories[0] <= directories[1])


def end_roles(organization: Organization) -> int:
    """Take away every role of an organization that came by its provider; return how many.

    Raises:
        Conflict: ``last_owner``: nobody holds the role owner by hand, so that nobody would be left with it.
    """
    Organization.objects.select_for_update(no_key=True).get(pk=organization.pk)
    roles = Membership.objects.filter(user__organization=organization, source=MembershipSource.SSO)
    ended, _ = roles.delete()
    if ended and not has_owner_by_hand(organization):
        detail = "Every owner is one by this provider. Give somebody the role owner by hand first."
        raise Conflict(detail, code="last_owner")
    return ended


def _name_of(kind: str | None) -> str:
    return "Microsoft" if kind == ProviderKind.ENTRA else "single sign-on"


def _audit(
    actor: Actor,
    action: str,
    node: Node,
    pk: UUID,
    *,
    before: object = None,
    after: object = None,
) -> None:
    audit_record(
        actor=actor,
        organization_id=node.organization_id,
        action=action,
        object_kind="identity_provider",
        object_id=str(pk),
        node_id=node.pk,
        before=before,
        after=after,
    )

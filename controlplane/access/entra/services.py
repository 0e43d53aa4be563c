"""Writing identity providers and their mappings. Who does it names who is let in and as what: owners alone."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.db import transaction

from controlplane.access.entra.selectors import organization_for
from controlplane.access.models import (
    ExternalIdentity,
    GuestPolicy,
    IdentityProvider,
    MappingKind,
    Membership,
    MembershipSource,
    ProviderKind,
    RoleMapping,
)
from controlplane.access.permissions import roles_grantable
from controlplane.access.revocations import rights_taken
from controlplane.audit.services import audit_record
from controlplane.core.actor import Actor, Role
from controlplane.core.errors import Conflict, FieldError, InvalidInput, NotFound, PermissionDenied, invalid
from controlplane.core.permissions import Action
from controlplane.core.references import MalformedReference, Reference, is_name, parse
from controlplane.core.text import name_line, single_line
from controlplane.orgs.models import Node, NodeKind, Organization
from controlplane.orgs.selectors import node_get, node_lineage

MAX_TENANTS: Final = 20
MAX_DOMAINS: Final = 50
MAX_MAPPINGS: Final = 500
#: The directory of personal Microsoft accounts: anybody has one.
PERSONAL_TENANT: Final = UUID("9188040d-6c67-4c5b-b112-36a304b66dad")
_DOMAIN: Final = re.compile(r"(?=.{1,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9-]{2,63}\Z")


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
    check = _Checks()
    wanted = check.one(lambda: _choice(kind, ProviderKind.values, "/kind"))
    fields: dict[str, Any] = {
        "kind": wanted,
        "name": check.one(lambda: name_line(name or _name_of(wanted), pointer="/name", max_length=60)),
        "enabled": enabled,
        "client_id": check.one(lambda: name_line(client_id, pointer="/client_id")),
        "client_secret": check.one(lambda: _reference(client_secret, "/client_secret")),
        "client_certificate": check.one(lambda: _reference(client_certificate, "/client_certificate")),
        "email_domains": check.one(lambda: _domains(email_domains)),
        "guests": check.one(lambda: _choice(guests, GuestPolicy.values, "/guests")),
        "password_sign_in": password_sign_in,
    }
    check.one(lambda: _one_credential(client_secret, client_certificate))
    if wanted == ProviderKind.OIDC:
        check.one(lambda: _left_out(cloud=cloud, tenant=tenant, allowed_tenants=list(allowed_tenants)))
        fields |= {"authority": check.one(lambda: _authority(authority)), "cloud": "", "tenant": None}
        fields |= {"allowed_tenants": []}
    elif wanted == ProviderKind.ENTRA:
        check.one(lambda: _left_out(authority=authority))
        fields |= {"cloud": check.one(lambda: _choice(cloud or "global", settings.ENTRA_CLOUDS, "/cloud"))}
        fields |= {"tenant": check.one(lambda: _tenant(tenant, "/tenant")), "authority": ""}
        fields |= {"allowed_tenants": check.one(lambda: _tenants(allowed_tenants, fields["tenant"]))}
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


@transaction.atomic
def role_mapping_set(
    *, actor: Actor, provider: IdentityProvider, kind: str, value: str, node: str, role: str
) -> RoleMapping:
    """Let a role of the application or a group give a role on a node, from the next sign-in on. Twice changes nothing.

    Args:
        kind: ``role`` or ``group``.
        value: the application role's value; the group's object id, of OpenID Connect its name as the token has it.
        node: slug of the node.

    Raises:
        NotFound, PermissionDenied: the actor is no owner of the organization.
        InvalidInput: ``unknown_kind``, ``unknown_role``, ``unknown_node``, ``owner_root_only``, ``not_a_guid``, or a
            rule of names.
        Conflict: ``too_many_mappings``.
    """
    slug = provider.organization.slug
    organization_for(actor=actor, organization_slug=slug, action=Action.IDENTITY_PROVIDER_WRITE)
    check = _Checks()
    fields = {
        "kind": check.one(lambda: _choice(kind, MappingKind.values, "/kind")),
        "value": check.one(lambda: _mapped(provider, kind, value)),
        "role": check.one(lambda: _choice(role, list(Role), "/role")),
        "node": check.one(lambda: _node(actor, slug, node)),
    }
    check.done()
    if fields["role"] == Role.OWNER and fields["node"].kind != NodeKind.ORG:
        raise invalid("/role", "owner_root_only", "The role owner is given on the root node only.")
    if Role(fields["role"]) not in roles_grantable(actor, node_lineage(fields["node"].pk)):
        raise PermissionDenied("You cannot grant a role you do not hold.", code="role_not_held")
    IdentityProvider.objects.select_for_update().get(pk=provider.pk)  # of two at once both must not pass the limit
    found = RoleMapping.objects.filter(provider=provider, **fields).select_related("node").first()
    if found is not None:
        return found
    if provider.mappings.count() >= MAX_MAPPINGS:
        raise Conflict(f"There are {MAX_MAPPINGS} mappings already; remove some first.", code="too_many_mappings")
    mapping = RoleMapping.objects.create(provider=provider, **fields)
    _audit(actor, "role_mapping.set", mapping.node, mapping.pk, after=_describe_mapping(mapping), kind="role_mapping")
    return mapping


@transaction.atomic
def role_mapping_remove(*, actor: Actor, mapping: RoleMapping) -> None:
    """Take a mapping away. Each person's roles follow at the next sign-in.

    Raises:
        NotFound, PermissionDenied: the actor is no owner of the organization.
    """
    slug = mapping.provider.organization.slug
    organization_for(actor=actor, organization_slug=slug, action=Action.IDENTITY_PROVIDER_WRITE)
    before, pk = _describe_mapping(mapping), mapping.pk
    deleted, _ = RoleMapping.objects.filter(pk=pk).delete()
    if deleted:
        _audit(actor, "role_mapping.remove", mapping.node, pk, before=before, kind="role_mapping")


@transaction.atomic
def external_identity_unlink(*, actor: Actor, identity_id: UUID) -> None:
    """Take an identity off the actor's own account, with the roles that came by it.

    Raises:
        NotFound: it is not the actor's own.
        Conflict: ``last_way_in``: the account has no password, so nobody could sign in to it any more.
    """
    own = ExternalIdentity.objects.select_related("user", "organization")
    identity = own.filter(pk=identity_id, user_id=actor.user_id).first() if actor.user_id else None
    if identity is None or actor.scopes is not None:
        raise NotFound
    if not identity.user.has_usable_password():
        raise Conflict("This account has no password: without its identity nobody could sign in.", code="last_way_in")
    before = {"label": identity.label, "user": identity.user.username}
    Membership.objects.filter(user=identity.user, source=MembershipSource.SSO).delete()
    identity.delete()
    root = Node.objects.get(organization=identity.organization, parent__isnull=True)
    _audit(actor, "external_identity.unlink", root, identity_id, before=before, kind="external_identity")
    rights_taken(identity.organization_id)


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


class _Checks:
    """Runs every check, and raises once with all that failed."""

    def __init__(self) -> None:
        self._errors: list[FieldError] = []

    def one(self, check: Any) -> Any:
        """Return what ``check`` returns, ``None`` when it raises InvalidInput."""
        try:
            return check()
        except InvalidInput as error:
            self._errors += error.errors
            return None

    def done(self) -> None:
        """Raise what was collected, if anything."""
        if self._errors:
            first = self._errors[0]
            detail = first.detail if len(self._errors) == 1 else "Some fields are not valid."
            raise InvalidInput(detail, code=first.code, errors=self._errors)


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
    owners = Membership.objects.filter(
        node__organization=organization, node__parent__isnull=True, role=Role.OWNER.value, user__is_active=True
    )
    if ended and not owners.exists():
        detail = "Every owner is one by this provider. Give somebody the role owner by hand first."
        raise Conflict(detail, code="last_owner")
    return ended


def _name_of(kind: str | None) -> str:
    return "Microsoft" if kind == ProviderKind.ENTRA else "single sign-on"


def _choice(value: str, choices: Iterable[str], pointer: str) -> str:
    listed = [str(choice) for choice in choices]
    if value not in listed:
        code = f"unknown_{pointer.removeprefix('/')}"
        raise invalid(pointer, code, f"This must be one of {', '.join(listed)}.")
    return value


def _reference(text: str, pointer: str) -> str:
    if not text:
        return ""
    try:
        parts = parse(text)
    except MalformedReference:
        parts = ()
    if len(parts) == 1 and isinstance(parts[0], Reference) and parts[0].default is None and is_name(parts[0].name):
        return text
    detail = "This holds the name of a credential, ${NAME}, and nothing else: never the value itself."
    raise invalid(pointer, "literal_secret", detail)


def _one_credential(secret: str, certificate: str) -> None:
    if bool(secret) == bool(certificate):
        detail = "Give either client_secret or client_certificate."
        raise invalid("/client_secret", "one_credential", detail)


def _left_out(**given: Any) -> None:
    errors = [
        FieldError(f"/{name}", "not_for_this_kind", "Providers of this kind have no such field.")
        for name, value in given.items()
        if value
    ]
    if errors:
        raise InvalidInput(errors[0].detail, code="not_for_this_kind", errors=errors)


def _authority(text: str) -> str:
    detail = "This must be the issuer's URL: https, a host, no user, query or fragment, at most 500 characters."
    url = single_line(text, pointer="/authority", max_length=500)
    try:
        parts = urlsplit(url)
        good = (
            parts.scheme == "https" and bool(parts.hostname) and not (parts.query or parts.fragment or parts.username)
        )
    except ValueError:
        good = False
    if not good:
        raise invalid("/authority", "authority", detail)
    hosts = {urlsplit(cloud["login"]).hostname for cloud in settings.ENTRA_CLOUDS.values()}
    if parts.hostname in hosts | {"sts.windows.net", "login.windows.net", "login.microsoft.com"}:
        raise invalid("/authority", "use_entra", "For Microsoft's directories choose the kind entra and the tenant.")
    return url


def _tenant(text: str, pointer: str) -> UUID:
    try:
        tenant = UUID(text.strip())
    except ValueError:
        raise invalid(pointer, "not_a_guid", "This must be the directory (tenant) id, a GUID.") from None
    if tenant == PERSONAL_TENANT:
        raise invalid(pointer, "personal_accounts", "This is the directory of personal accounts, which anybody has.")
    return tenant


def _tenants(texts: Iterable[str], own: UUID | None) -> list[str]:
    listed = list(texts)
    if len(listed) > MAX_TENANTS:
        raise invalid("/allowed_tenants", "too_many", f"At most {MAX_TENANTS} are accepted.")
    found = {_tenant(text, f"/allowed_tenants/{index}") for index, text in enumerate(listed)} - {own}
    return sorted(str(tenant) for tenant in found)


def _domains(texts: Iterable[str]) -> list[str]:
    listed: Sequence[str] = [text.strip().lower().removeprefix("@") for text in texts]
    if len(listed) > MAX_DOMAINS:
        raise invalid("/email_domains", "too_many", f"At most {MAX_DOMAINS} are accepted.")
    detail = "This is no domain, for example example.com."
    errors = [
        FieldError(f"/email_domains/{index}", "domain", detail)
        for index, text in enumerate(listed)
        if not _DOMAIN.match(text)
    ]
    if errors:
        raise InvalidInput(detail, code="domain", errors=errors)
    return sorted(set(listed))


def _mapped(provider: IdentityProvider, kind: str, value: str) -> str:
    if provider.kind == ProviderKind.ENTRA and kind == MappingKind.GROUP:
        try:
            return str(UUID(value.strip()))
        except ValueError:
            detail = "This must be the group's object id, a GUID: names of groups change."
            raise invalid("/value", "not_a_guid", detail) from None
    return name_line(value, pointer="/value")


def _node(actor: Actor, organization_slug: str, slug: str) -> Node:
    try:
        return node_get(actor=actor, organization_slug=organization_slug, node_slug=slug)
    except NotFound:
        raise invalid("/node", "unknown_node", "There is no such node in this organization.") from None


def _describe_mapping(mapping: RoleMapping) -> dict[str, object]:
    return {"kind": mapping.kind, "value": mapping.value, "node": mapping.node.slug, "role": mapping.role}


def _audit(
    actor: Actor,
    action: str,
    node: Node,
    pk: UUID,
    *,
    before: object = None,
    after: object = None,
    kind: str = "identity_provider",
) -> None:
    audit_record(
        actor=actor,
        organization_id=node.organization_id,
        action=action,
        object_kind=kind,
        object_id=str(pk),
        node_id=node.pk,
        before=before,
        after=after,
    )

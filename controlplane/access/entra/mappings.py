"""Writing what roles and groups of a provider give here, and taking an identity off an account."""

from typing import Final
from uuid import UUID

from django.db import transaction

from controlplane.access.entra.fields import FieldChecks, choice
from controlplane.access.entra.selectors import organization_for
from controlplane.access.models import (
    ExternalIdentity,
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
from controlplane.core.errors import Conflict, NotFound, PermissionDenied, invalid
from controlplane.core.permissions import Action
from controlplane.core.text import name_line
from controlplane.orgs.models import Node, NodeKind
from controlplane.orgs.selectors import node_get, node_lineage

MAX_MAPPINGS: Final = 500


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
    check = FieldChecks()
    fields = {
        "kind": check.one(lambda: choice(kind, MappingKind.values, "/kind")),
        "value": check.one(lambda: _mapped(provider, kind, value)),
        "role": check.one(lambda: choice(role, list(Role), "/role")),
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
    kind: str,
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

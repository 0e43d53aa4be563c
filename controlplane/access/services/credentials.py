"""Granting credentials by name: the operator to an organization, its holders to nodes below. No value is ever here."""

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from controlplane.access.grants import Held, givers, host_pattern, lost
from controlplane.access.models import CredentialGrant
from controlplane.access.selectors import grants_held
from controlplane.audit.services import audit_record
from controlplane.core import clock
from controlplane.core.actor import Actor, ActorKind
from controlplane.core.credentials import credential_protected
from controlplane.core.errors import Conflict, FieldError, InvalidInput, NotFound, PermissionDenied, invalid
from controlplane.core.permissions import Action, allows
from controlplane.core.references import MAX_NAME, is_name
from controlplane.orgs.models import Node, Organization
from controlplane.orgs.selectors import node_require, nodes_with_lineage

MAX_HOSTS: Final = 50
#: Live grants of one node, or of the operator to one organization.
MAX_GRANTS: Final = 1000


@transaction.atomic
def credential_entrust(
    *, actor: Actor, organization: Organization, name: str, hosts: Iterable[str] = (), inherited: bool = True
) -> CredentialGrant:
    """Give an organization the use of a credential. Giving the same again changes nothing.

    Args:
        actor: the installation itself.
        organization: whose root holds the name from now on.
        name: of the credential; whether the installation allows it and has a value is judged when it is used.
        hosts: where the control plane may send it: hosts, ``*.domain`` or ``*``. Without one it is never sent by the
            control plane, and only runtimes that may resolve credentials get it.
        inherited: whether every node below holds it too, or only the nodes to which the organization grants it.

    Raises:
        PermissionDenied: the actor is not the installation itself.
        InvalidInput: ``credential_name``, ``protected_credential`` (a variable of the process itself), ``hosts``.
        Conflict: ``too_many_grants``.
    """
    _require_operator(actor, organization)
    clean = _clean_name(name)
    if credential_protected(clean):
        detail = "This is a variable of the installation itself, which is never given out."
        raise invalid("/name", "protected_credential", detail)
    return _granted(actor, CredentialGrant(name=clean, hosts=_clean_hosts(hosts), inherited=inherited), organization)


@transaction.atomic
def credential_grant(
    *, actor: Actor, node: Node, name: str, hosts: Iterable[str] = (), inherited: bool = True
) -> CredentialGrant:
    """Grant a node the use of a credential that a node above it holds. Granting the same again changes nothing.

    Args:
        actor: an admin of a node that holds the name for all of ``hosts``: ``node`` itself or one above.
        node: who holds the name from now on, as long as the one it is given from does.
        name, hosts, inherited: as :func:`credential_entrust`.

    Raises:
        NotFound, PermissionDenied: the actor may not grant credentials on the node; ``credential_not_held`` and
            ``hosts_not_held`` where no node of which it is an admin holds the name, or not for these hosts.
        InvalidInput, Conflict: as :func:`credential_entrust`.
    """
    clean, patterns = _clean_name(name), _clean_hosts(hosts)
    _lock(node.organization)
    node_require(actor=actor, action=Action.CREDENTIAL_GRANT, node=node)
    held = grants_held(node.pk)
    giver = next((one for one in givers(held, clean, patterns) if _administers(actor, held, one)), None)
    if giver is None:
        if any(_administers(actor, held, one) for one in givers(held, clean, ())):
            detail = "You cannot grant a credential for hosts for which you do not hold it."
            raise PermissionDenied(detail, code="hosts_not_held")
        raise PermissionDenied("You cannot grant a credential you do not hold.", code="credential_not_held")
    grant = CredentialGrant(node=node, given_from_id=giver, name=clean, hosts=patterns, inherited=inherited)
    return _granted(actor, grant, node.organization)


@transaction.atomic
def credential_revoke(*, actor: Actor, grant: CredentialGrant) -> list[CredentialGrant]:
    """Take a grant back, in effect at the next use, with every grant that counted only because of it. Idempotent.

    Returns:
        The grants that ended, ``grant`` first; each has an audit row.

    Raises:
        NotFound, PermissionDenied: the actor may not grant credentials on the node; only the installation itself takes
            back what the operator gave.
    """
    _lock(grant.organization)
    if grant.node is None:
        _require_operator(actor, grant.organization)
    else:
        node_require(actor=actor, action=Action.CREDENTIAL_GRANT, node=grant.node)
    live = list(_live(grant.organization).filter(name=grant.name).select_related("node", "given_from", "organization"))
    if grant.pk not in {one.pk for one in live}:
        return []
    lineages = {node.pk: lineage for node, lineage in nodes_with_lineage({one.node for one in live if one.node})}
    before = set(lost(live, lineages))
    ended = {grant.pk}
    after = lost([one for one in live if one.pk not in ended], lineages)
    ended |= set(after) - before
    gone = sorted((one for one in live if one.pk in ended), key=lambda one: one.pk != grant.pk)
    CredentialGrant.objects.filter(pk__in=ended).update(revoked_at=clock.now())
    for one in gone:
        _audit(actor, "credential.revoke", one, before=_describe(one))
    return gone


def _granted(actor: Actor, grant: CredentialGrant, organization: Organization) -> CredentialGrant:
    _lock(organization)
    grant.organization = organization
    grant.granted_by, grant.granted_by_label = actor.principal[:128], actor.label[:200]
    same_place = _live(organization).filter(node=grant.node)
    for other in same_place.filter(name=grant.name, given_from_id=grant.given_from_id, inherited=grant.inherited):
        if other.hosts == grant.hosts:
            return other
    if same_place.count() >= MAX_GRANTS:
        raise Conflict(f"There are {MAX_GRANTS} grants here already; revoke some first.", code="too_many_grants")
    grant.save(force_insert=True)
    _audit(actor, "credential.grant", grant, after=_describe(grant))
    return grant


def _lock(organization: Organization) -> None:
    """Let nobody grant or revoke in the organization, or move its nodes, until the transaction ends."""
    if not Organization.objects.select_for_update(no_key=True).filter(pk=organization.pk).exists():
        raise NotFound


def _live(organization: Organization) -> QuerySet[CredentialGrant]:
    return CredentialGrant.objects.filter(organization=organization, revoked_at__isnull=True)


def _require_operator(actor: Actor, organization: Organization) -> None:
    if actor.kind != ActorKind.SYSTEM or actor.organization_id != organization.pk:
        raise PermissionDenied(
            "Only the installation's operator gives an organization credentials, and takes them back."
        )


def _administers(actor: Actor, held: Held, node_id: UUID) -> bool:
    depth = held.lineage.index(node_id)
    return allows(actor, Action.CREDENTIAL_GRANT, held.lineage[: depth + 1])


def _clean_name(name: str) -> str:
    if not is_name(name):
        detail = f"A name has letters, digits and _, begins with no digit, and has at most {MAX_NAME} characters."
        raise invalid("/name", "credential_name", detail)
    return name


def _clean_hosts(hosts: Iterable[str]) -> list[str]:
    listed: Sequence[str] = list(hosts)
    if len(listed) > MAX_HOSTS:
        raise invalid("/hosts", "hosts", f"There are {len(listed)} hosts; at most {MAX_HOSTS} are accepted.")
    patterns = [host_pattern(text) for text in listed]
    detail = "This is no host, *.domain or *; no scheme, port or path belongs here."
    errors = [FieldError(f"/hosts/{index}", "hosts", detail) for index, one in enumerate(patterns) if one is None]
    if errors:
        raise InvalidInput(detail, code="hosts", errors=errors)
    return sorted({one for one in patterns if one is not None})


def _describe(grant: CredentialGrant) -> dict[str, object]:
    return {
        "name": grant.name,
        "hosts": list(grant.hosts),
        "node": grant.node.slug if grant.node else None,
        "given_from": grant.given_from.slug if grant.given_from else None,
        "inherited": grant.inherited,
    }


def _audit(actor: Actor, action: str, grant: CredentialGrant, *, before: object = None, after: object = None) -> None:
    audit_record(
        actor=actor,
        organization_id=grant.organization_id,
        action=action,
        object_kind="credential_grant",
        object_id=str(grant.pk),
        node_id=grant.node_id,
        before=before,
        after=after,
    )

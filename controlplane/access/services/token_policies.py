"""What an organization asks of its tokens."""

from dataclasses import asdict, dataclass
from typing import Final

from django.db import transaction

from controlplane.access.models import TokenKind, TokenPolicy
from controlplane.audit.services import audit_record
from controlplane.core.actor import Actor
from controlplane.core.errors import FieldError, InvalidInput
from controlplane.core.permissions import Action, nodes_that_allow
from controlplane.orgs.models import Node
from controlplane.orgs.selectors import node_get, organization_get

#: Those whose lifetime is an organization's to decide; that of a team's view is fixed.
POLICY_KINDS: Final = (TokenKind.TEAM.value, TokenKind.ADMIN.value, TokenKind.USER.value)
LONGEST_DAYS: Final = 3650


@dataclass(frozen=True, slots=True)
class PolicyTerms:
    """The rules for tokens of one kind; as they stand here they ask nothing.

    Args:
        max_days: the longest life; with it no token is without end.
        default_days: the life of a token that is made without a word about it.
        endless_allowed: whether a token may be without end.
        revoke_unused_days: a token that nobody has used for so long is revoked.
    """

    max_days: int | None = None
    default_days: int | None = None
    endless_allowed: bool = True
    revoke_unused_days: int | None = None


def token_policy_get(*, actor: Actor, organization_slug: str) -> dict[str, PolicyTerms]:
    """Return the policy of an organization, by kind.

    Raises:
        NotFound, PermissionDenied: the actor may not read tokens of the organization's root.
    """
    return _terms_of(_root(actor, organization_slug, Action.TOKEN_READ))


def token_policy_permits(actor: Actor, action: Action) -> bool:
    """Return whether ``actor`` may read (``token.read``) or set (``token.write``) its organization's policy."""
    if actor.organization_id is None:
        return False
    root = Node.objects.filter(organization_id=actor.organization_id, parent__isnull=True).first()
    return root is not None and root.pk in nodes_that_allow(actor, action)


@transaction.atomic
def token_policy_set(
    *, actor: Actor, organization_slug: str, terms: dict[str, PolicyTerms], reason: str = ""
) -> dict[str, PolicyTerms]:
    """Set the policy of an organization whole: a kind that is left out is free. Tokens there are stay as they are.

    Raises:
        NotFound, PermissionDenied: the actor may not write tokens of the organization's root.
        InvalidInput: ``days``, ``default_beyond_maximum``, ``endless_and_maximum`` or ``kind``, each at its field.
    """
    root = _root(actor, organization_slug, Action.TOKEN_WRITE)
    faults = [fault for kind, wanted in terms.items() for fault in _faults(kind, wanted)]
    if faults:
        raise InvalidInput(faults[0].detail, code=faults[0].code, errors=faults)
    Node.objects.select_for_update().get(pk=root.pk)  # one writer at a time: the record says what was before
    before = _terms_of(root)
    wanted = {kind: terms.get(kind, PolicyTerms()) for kind in POLICY_KINDS}
    if wanted == before:
        return before
    for kind in POLICY_KINDS:
        if wanted[kind] == PolicyTerms():
            TokenPolicy.objects.filter(organization_id=root.organization_id, kind=kind).delete()
        else:
            TokenPolicy.objects.update_or_create(
                organization_id=root.organization_id, kind=kind, defaults=asdict(wanted[kind])
            )
    audit_record(
        actor=actor,
        organization_id=root.organization_id,
        action="token_policy.set",
        object_kind="token_policy",
        object_id=str(root.organization_id),
        node_id=root.pk,
        before={kind: asdict(one) for kind, one in before.items()},
        after={kind: asdict(one) for kind, one in wanted.items()},
        reason=reason,
    )
    return wanted


def _root(actor: Actor, organization_slug: str, action: Action) -> Node:
    organization = organization_get(actor, organization_slug)
    root = Node.objects.get(organization=organization, parent__isnull=True)
    return node_get(actor=actor, organization_slug=organization_slug, node_slug=root.slug, action=action)


def _terms_of(root: Node) -> dict[str, PolicyTerms]:
    rows = {row.kind: row for row in TokenPolicy.objects.filter(organization_id=root.organization_id)}
    return {kind: _terms(rows.get(kind)) for kind in POLICY_KINDS}


def _terms(row: TokenPolicy | None) -> PolicyTerms:
    if row is None:
        return PolicyTerms()
    return PolicyTerms(row.max_days, row.default_days, row.endless_allowed, row.revoke_unused_days)


def _faults(kind: str, wanted: PolicyTerms) -> list[FieldError]:
    if kind not in POLICY_KINDS:
        return [FieldError("", "kind", f"The kinds are: {', '.join(POLICY_KINDS)}.")]
    found = []
    for name in ("max_days", "default_days", "revoke_unused_days"):
        days = getattr(wanted, name)
        if days is not None and not 1 <= days <= LONGEST_DAYS:
            found.append(FieldError(f"/{kind}/{name}", "days", f"This must be from 1 to {LONGEST_DAYS} days."))
    if wanted.max_days is not None and wanted.endless_allowed:
        detail = "A longest life and tokens without end exclude each other."
        found.append(FieldError(f"/{kind}/endless_allowed", "endless_and_maximum", detail))
    if wanted.max_days is not None and wanted.default_days is not None and wanted.default_days > wanted.max_days:
        detail = "The usual life must not be longer than the longest."
        found.append(FieldError(f"/{kind}/default_days", "default_beyond_maximum", detail))
    return found

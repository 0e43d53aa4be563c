"""Setting and removing policies, and asking what they find."""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from controlplane.audit.services import audit_record
from controlplane.configs.locks import lock_document, lock_organization
from controlplane.configs.merge import merge_all
from controlplane.configs.models import ConfigDocument, ConfigPolicy, PolicyKind
from controlplane.configs.patterns import places, seen
from controlplane.configs.pointers import MISSING, Document, PointerSyntaxError, Tokens, decode
from controlplane.configs.policies import Policy, policies_judged, required_missing
from controlplane.configs.reach import touching
from controlplane.configs.validation import MAX_NESTING, check_form
from controlplane.core import clock
from controlplane.core.actor import Actor, ActorKind
from controlplane.core.errors import Conflict, InvalidInput, NotFound, PermissionDenied, invalid
from controlplane.core.permissions import Action
from controlplane.core.redaction import redact_json, redact_text
from controlplane.orgs.models import Node, NodeAncestor, NodeKind
from controlplane.orgs.selectors import node_descendants, node_require
from controlplane.reviews.services import clean_reason

MAX_POLICIES: Final = 500
MAX_POINTER: Final = 1000
MAX_VALUES: Final = 200
LISTED_SLUGS: Final = 50
#: Kinds that carry a value; the others carry none.
_WITH_VALUE: Final = (PolicyKind.MINIMUM, PolicyKind.MAXIMUM, PolicyKind.ALLOWED_VALUES)


@dataclass(frozen=True, slots=True)
class Overrides:
    """The descendants whose own documents hold values at a policy's places: how many, and the first fifty slugs."""

    count: int
    slugs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TeamMissing:
    """A team, and the required places that have no value there, each with the level that requires it."""

    node: Node
    missing: list[tuple[Policy, Tokens]]


@transaction.atomic
def policy_create(
    *, actor: Actor, node: Node, pointer: Any, kind: Any, value: Any = None, reason: str = ""
) -> tuple[ConfigPolicy, Overrides]:
    """Set a policy for everything below a node.

    What descendants hold already stays: a policy judges changes. The second answer says who holds something there.

    Args:
        actor: who sets it; needs ``config.write`` on the node, as an admin or by an admin token.
        node: whose descendants it binds; the node itself stays free to set what it locks or bounds for them.
        pointer: a JSON Pointer (RFC 6901), ≤ 1,000 characters; the segment ``*`` stands for any one segment.
        kind: of :class:`PolicyKind`.
        value: for ``minimum`` and ``maximum`` a number, for ``allowed_values`` 1 to 200 scalars, else ``None``.
        reason: one line, ≤ 500 characters; redacted.

    Raises:
        NotFound, PermissionDenied: the actor may not write the node's configuration.
        InvalidInput: ``malformed_pointer``, ``whole_document``, ``kind``, ``policy_value``, ``literal_secret``,
            ``too_many_policies`` or a rule of the reason.
        Conflict: ``policy_exists``.
    """
    path = _clean_pointer(pointer)
    if kind not in PolicyKind.values:
        raise invalid("/kind", "kind", f"This must be one of {', '.join(PolicyKind.values)}.")
    _check_value(kind, value, path)
    reason = clean_reason(reason)
    lock_organization(node)
    _require_admin(actor, node)
    lock_document(node)  # writers below hold it for share: none passes a policy that is being set
    if ConfigPolicy.objects.filter(node=node).count() >= MAX_POLICIES:
        raise invalid("", "too_many_policies", f"A node has at most {MAX_POLICIES} policies.")
    policy = ConfigPolicy(
        node=node,
        pointer=pointer,
        kind=kind,
        value=value,
        reason=reason,
        created_at=clock.now(),
        created_by=actor.principal,
        created_label=actor.label[:200],
    )
    try:
        with transaction.atomic():
            policy.save(force_insert=True)
    except IntegrityError:
        raise Conflict("The node has a policy of this kind at this pointer already.", code="policy_exists") from None
    _audit(actor, policy, "policy.create", after=_described(policy))
    return policy, _overrides(node, path)


@transaction.atomic
def policy_delete(*, actor: Actor, node: Node, policy_id: UUID) -> None:
    """Remove a policy of a node.

    Raises:
        NotFound: the node has no such policy, or the actor does not see the node.
        PermissionDenied: the actor may not write the node's configuration.
    """
    lock_organization(node)
    _require_admin(actor, node)
    lock_document(node)
    policy = ConfigPolicy.objects.select_related("node").filter(pk=policy_id, node=node).first()
    if policy is None:
        raise NotFound
    before = _described(policy)
    policy.delete()
    _audit(actor, policy, "policy.delete", policy_id=policy_id, before=before)


def policies_for(*, actor: Actor, node: Node, inherited: bool = False) -> QuerySet[ConfigPolicy]:
    """Return the policies that a node sets, with ``inherited`` also those that bind it.

    Raises:
        NotFound, PermissionDenied: the actor may not read the node's configuration.
    """
    node_require(actor=actor, action=Action.CONFIG_READ, node=node)
    rows = ConfigPolicy.objects.select_related("node")
    return rows.filter(node__below__descendant_id=node.pk) if inherited else rows.filter(node=node)


def teams_below(*, actor: Actor, node: Node) -> QuerySet[Node]:
    """Return the teams of a node's subtree, itself included, that are not archived.

    Raises:
        NotFound, PermissionDenied: the actor may not read the node's configuration.
    """
    node_require(actor=actor, action=Action.CONFIG_READ, node=node)
    return node_descendants(node.pk).filter(kind=NodeKind.TEAM, archived_at__isnull=True)


def missing_in(teams: Sequence[Node]) -> list[TeamMissing]:
    """Return what is missing in each of ``teams``. Two queries, or one when nothing is required of any of them."""
    required = ConfigPolicy.objects.filter(
        kind=PolicyKind.REQUIRED, node__below__descendant_id__in=[team.pk for team in teams], node__below__depth__gt=0
    ).distinct()
    by_level: dict[UUID, list[Policy]] = {}
    for policy in policies_judged(required.order_by("pointer")):
        by_level.setdefault(policy.node_id, []).append(policy)
    chains = _chains(teams) if by_level else {}
    return [TeamMissing(team, _missing(chains.get(team.pk, []), by_level)) for team in teams]


def _missing(chain: list[tuple[UUID, Document]], by_level: Mapping[UUID, list[Policy]]) -> list[tuple[Policy, Tokens]]:
    policies = [policy for node_id, _ in chain[:-1] for policy in by_level.get(node_id, ())]
    return required_missing(policies, merge_all(document for _, document in chain)) if policies else []


def _chains(teams: Sequence[Node]) -> dict[UUID, list[tuple[UUID, Document]]]:
    links = list(
        NodeAncestor.objects.filter(descendant_id__in=[team.pk for team in teams])
        .order_by("-depth")
        .values_list("descendant_id", "ancestor_id")
    )
    rows = ConfigDocument.objects.filter(pk__in={ancestor_id for _, ancestor_id in links})
    documents: dict[UUID, Document] = dict(rows.values_list("node_id", "document"))
    chains: dict[UUID, list[tuple[UUID, Document]]] = {}
    for descendant_id, ancestor_id in links:
        chains.setdefault(descendant_id, []).append((ancestor_id, documents.get(ancestor_id, {})))
    return chains


def _overrides(node: Node, pattern: Tokens) -> Overrides:
    rows = ConfigDocument.objects.filter(
        node__above__ancestor_id=node.pk, node__above__depth__gt=0, version__gt=0
    ).order_by("node__above__depth", "node__slug")
    if pattern[0] != "*":
        rows = rows.filter(touching([pattern[:1]]))
    slugs = [
        slug
        for slug, document in rows.values_list("node__slug", "document").iterator(chunk_size=200)
        if any(seen(document, path)[1] is not MISSING for path in places(pattern, document))
    ]
    return Overrides(len(slugs), tuple(slugs[:LISTED_SLUGS]))


def _clean_pointer(pointer: Any) -> Tokens:
    fault = "A policy's pointer is a JSON Pointer (RFC 6901) of at most 1,000 characters"
    try:
        path = decode(pointer) if isinstance(pointer, str) and len(pointer) <= MAX_POINTER else None
    except PointerSyntaxError as error:
        raise invalid("/pointer", "malformed_pointer", f"{fault}: {error}.") from None
    if path is None or len(path) > MAX_NESTING or any(unicodedata.category(one) in {"Cc", "Cs"} for one in pointer):
        raise invalid("/pointer", "malformed_pointer", f"{fault}.")
    if redact_text(pointer) != pointer:
        raise invalid("/pointer", "literal_secret", "This pointer looks like a secret.")
    if not path:
        raise invalid("/pointer", "whole_document", "A policy names a path, not the whole document.")
    return path


def _check_value(kind: str, value: Any, path: Tokens) -> None:
    if kind not in _WITH_VALUE:
        if value is not None:
            raise invalid("/value", "policy_value", "A policy of this kind has no value.")
        return
    if kind == PolicyKind.ALLOWED_VALUES:
        scalars = isinstance(value, list) and not any(isinstance(item, list | Mapping) for item in value)
        if not scalars or not 1 <= len(value) <= MAX_VALUES:
            raise invalid("/value", "policy_value", f"This must be a list of 1 to {MAX_VALUES} scalars.")
    elif isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise invalid("/value", "policy_value", "This must be a number.")
    try:
        check_form({"value": value}, what="policy")
    except InvalidInput as error:
        raise invalid("/value", error.code, error.detail) from None
    # Each as it would stand in a document: the name beside it may be what tells that it is a secret.
    if any(
        redact_json({path[-1]: item}) != {path[-1]: item} for item in (value if isinstance(value, list) else [value])
    ):
        raise invalid("/value", "literal_secret", "This looks like a secret; policies hold none.")


def _require_admin(actor: Actor, node: Node) -> None:
    """A team's token may write its configuration, not the rules that bind others: those take an admin, or its token."""
    node_require(actor=actor, action=Action.CONFIG_WRITE, node=node)
    if actor.kind == ActorKind.TEAM_TOKEN:
        raise PermissionDenied("Policies are set by admins and admin tokens, not by team tokens.")


def _described(policy: ConfigPolicy) -> dict[str, Any]:
    return {"pointer": policy.pointer, "kind": str(policy.kind), "value": policy.value}


def _audit(
    actor: Actor, policy: ConfigPolicy, action: str, *, policy_id: UUID | None = None, **states: dict[str, Any]
) -> None:
    audit_record(
        actor=actor,
        organization_id=policy.node.organization_id,
        action=action,
        object_kind="policy",
        object_id=str(policy_id or policy.pk),
        node_id=policy.node_id,
        before=states.get("before"),
        after=states.get("after"),
        reason=policy.reason if "after" in states else "",
    )

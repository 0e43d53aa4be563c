"""Which node owns a service, a channel, a repository: claims, unique within an organization, kept beside the documents.

A node owns what its own document names under ``routing``; a list inherited from above claims nothing for those below,
else every team of a group would own what the group does. The table is written in the transaction of the document.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Final
from unicodedata import normalize
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from controlplane.configs.models import RouteClaim
from controlplane.configs.pointers import Document, Operation
from controlplane.core.actor import Actor
from controlplane.core.errors import Conflict, FieldError, NotFound, invalid
from controlplane.core.permissions import Action
from controlplane.orgs.models import Node, NodeAncestor, Organization
from controlplane.orgs.selectors import nodes_visible

SECTION: Final = "routing"
LISTED_CONFLICTS: Final = 20


@dataclass(frozen=True, slots=True)
class RouteKind:
    """What can be routed. ``section`` is the list below ``routing``; ``folded``: its platform ignores the case."""

    name: str
    folded: bool = False

    @property
    def section(self) -> str:
        return f"{self.name}s"

    def normalised(self, key: str) -> str:
        """Return the form in which a key is stored and looked up: names that look the same are the same.

        Composed characters (NFC), and for folded kinds the canonical caseless match of Unicode 15, section 3.13, D145.
        """
        key = normalize("NFC", key.strip())
        return normalize("NFC", key.casefold()) if self.folded else key


#: In the order in which a lookup by several identifiers goes. GitHub compares owner and repository without regard to
#: case; the ids of Slack, Teams, PagerDuty and the others are opaque and exact; a service or a Coralogix team is a name
#: that people type, and two that differ only by case are never meant to be two.
ROUTE_KINDS: Final[tuple[RouteKind, ...]] = (
    RouteKind("incidentio_team_id"),
    RouteKind("pagerduty_service_id"),
    RouteKind("slack_channel_id"),
    RouteKind("slack_workspace_id"),
    RouteKind("teams_channel_id"),
    RouteKind("google_chat_space_id"),
    RouteKind("github_repo", folded=True),
    RouteKind("vercel_project_id"),
    RouteKind("coralogix_team_name", folded=True),
    RouteKind("incidentio_alert_source_id"),
    RouteKind("service", folded=True),
)
_BY_NAME: Final = {kind.name: kind for kind in ROUTE_KINDS} | {kind.section: kind for kind in ROUTE_KINDS}
Claim = tuple[str, str]


def route_kind(name: str) -> RouteKind | None:
    """Return a kind by its name or that of its list, or ``None``."""
    return _BY_NAME.get(name)


def claims_in(document: Mapping[str, Any]) -> dict[Claim, str]:
    """Return ``(kind, normalised key)`` → JSON Pointer of what a document claims; of a repeated one the first."""
    section = document.get(SECTION)
    if not isinstance(section, Mapping):
        return {}
    claims: dict[Claim, str] = {}
    for kind in ROUTE_KINDS:
        keys = section.get(kind.section)
        for index, key in enumerate(keys if isinstance(keys, list) else ()):
            if isinstance(key, str) and key.strip():
                claims.setdefault((kind.name, kind.normalised(key)), f"/{SECTION}/{kind.section}/{index}")
    return claims


def claims_check(*, actor: Actor, node: Node, document: Document, operations: Sequence[Operation]) -> None:
    """Refuse a document that claims what another node of the organization owns. No query unless ``routing`` changes.

    Raises:
        Conflict: ``route_taken``, with a pointer for each; the other node is named only to whoever may see it.
    """
    if touches_routing(operations):
        claims = claims_in(document)
        _refuse_taken(actor, node, claims, _owners(node, claims))


def claims_store(*, actor: Actor, node: Node, document: Document, operations: Sequence[Operation]) -> None:
    """Bring the claims of ``node`` to what its new document names, inside the write's transaction.

    Raises:
        Conflict: as :func:`claims_check`, also when another write took a claim a moment ago: the table's constraint
            decides, whoever commits first.
    """
    if touches_routing(operations):
        claims_renew(actor=actor, node=node, document=document)


def claims_renew(*, actor: Actor, node: Node, document: Document) -> None:
    """Bring the claims of ``node`` to what ``document`` names, whatever has changed. Errors as :func:`claims_store`."""
    claims = claims_in(document)
    own = RouteClaim.objects.filter(node=node)
    gone = [claim.pk for claim in own if (claim.kind, claim.key) not in claims]
    RouteClaim.objects.filter(pk__in=gone).delete()
    RouteClaim.objects.bulk_create(
        # In one order, so that two writers of the same keys do not wait for each other.
        [
            RouteClaim(organization_id=node.organization_id, kind=kind, key=key, node=node)
            for kind, key in sorted(claims)
        ],
        ignore_conflicts=True,
    )
    _refuse_taken(actor, node, claims, _owners(node, claims))


def claims_release(nodes: Iterable[Node]) -> None:
    """Drop the claims of nodes whose documents the same transaction is about to replace.

    So claims can change hands in any order, and even be swapped; :func:`claims_store` sets the new ones, and
    :func:`claims_renew` those of a document that is not replaced after all.
    """
    RouteClaim.objects.filter(node__in=[node.pk for node in nodes]).delete()


def touches_routing(operations: Sequence[Operation]) -> bool:
    """Return whether any difference lies in the section ``routing``."""
    return any(
        operation["pointer"] == f"/{SECTION}" or operation["pointer"].startswith(f"/{SECTION}/")
        for operation in operations
    )


def _owners(node: Node, claims: Mapping[Claim, str]) -> dict[Claim, UUID]:
    """Return which other node holds each of the claims that another one holds. At most one query."""
    if not claims:
        return {}
    kinds, keys = {kind for kind, _ in claims}, {key for _, key in claims}
    wanted = RouteClaim.objects.filter(organization_id=node.organization_id, kind__in=kinds, key__in=keys)
    rows = wanted.exclude(node=node)
    found = {(kind, key): owner for kind, key, owner in rows.values_list("kind", "key", "node_id")}
    return {claim: found[claim] for claim in claims if claim in found}


def _refuse_taken(actor: Actor, node: Node, claims: Mapping[Claim, str], owners: Mapping[Claim, UUID]) -> None:
    if not owners:
        return
    seen = nodes_visible(actor, Action.NODE_READ).filter(
        pk__in=set(owners.values()), organization_id=node.organization_id
    )
    slugs = dict(seen.values_list("pk", "slug"))
    errors = []
    for claim, owner in sorted(owners.items(), key=lambda item: claims[item[0]])[:LISTED_CONFLICTS]:
        who = f"{slugs[owner]} owns it" if owner in slugs else "another team of this organization owns it"
        errors.append(FieldError(claims[claim], "route_taken", f"This {claim[0]} is taken: {who}."))
    raise Conflict(errors[0].detail, code="route_taken", errors=errors)


@dataclass(frozen=True, slots=True)
class RouteOwner:
    """The node that owns a route. ``archived``: it or something above it is, so it takes no new runs."""

    kind: str
    key: str
    node: Node
    archived: bool


def route_owner(*, organization_id: UUID, identifiers: Mapping[str, str]) -> RouteOwner | None:
    """Return who owns the first of some identifiers that anybody owns, for code that was permitted to ask. One query.

    Args:
        organization_id: whose routes.
        identifiers: names of :data:`ROUTE_KINDS`, or of their lists, with a key each; unknown names count for nothing.
            They go by the order of :data:`ROUTE_KINDS`, the one in which OpenSRE's lookup goes.
    """
    return _first_owner(RouteClaim.objects.filter(organization_id=organization_id), identifiers)


def route_owner_for(*, actor: Actor, organization: Organization, kind: str, key: str) -> RouteOwner:
    """Return who owns one route, if ``actor`` may see that node. One query.

    Raises:
        InvalidInput: ``unknown_route_kind`` or ``blank``.
        NotFound: ``unclaimed``: nobody does, or a node that the actor does not see.
    """
    found_kind = route_kind(kind)
    if found_kind is None:
        names = ", ".join(one.name for one in ROUTE_KINDS)
        raise invalid("/kind", "unknown_route_kind", f"There is no such kind of route; there are: {names}.")
    if not key.strip() or "\x00" in key:
        raise invalid("/key", "blank", "This must be the id or name that is looked up.")
    visible = RouteClaim.objects.filter(organization=organization, node__in=nodes_visible(actor, Action.NODE_READ))
    owner = _first_owner(visible, {kind: key})
    if owner is None:
        raise NotFound("Nobody that you may see owns this.", code="unclaimed")
    return owner


def _first_owner(claims: QuerySet[RouteClaim], identifiers: Mapping[str, str]) -> RouteOwner | None:
    wanted: dict[RouteKind, str] = {}
    for name, key in identifiers.items():
        kind = route_kind(name)
        if kind is not None and key.strip() and "\x00" not in key:
            wanted.setdefault(kind, kind.normalised(key))
    if not wanted:
        return None
    condition = reduce(or_, (Q(kind=kind.name, key=key) for kind, key in wanted.items()))
    archived = NodeAncestor.objects.filter(descendant_id=OuterRef("node_id"), ancestor__archived_at__isnull=False)
    rows = claims.filter(condition).select_related("node").annotate(archived=Exists(archived))
    found = {row.kind: row for row in rows}
    row = next((found[kind.name] for kind in ROUTE_KINDS if kind.name in found), None)
    return None if row is None else RouteOwner(row.kind, row.key, row.node, row.archived)

"""Reading the tokens of an organization: lists with filters, and reports of what should go."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import Count, DurationField, Exists, ExpressionWrapper, F, OuterRef, Q, QuerySet

from controlplane.access import tokens
from controlplane.access.models import AccessToken, TokenKind, TokenPolicy, User
from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.core.errors import FieldError, MalformedRequest, NotFound
from controlplane.core.permissions import Action, nodes_that_allow
from controlplane.orgs.models import NodeAncestor, Organization
from controlplane.orgs.selectors import organization_get

STATES: Final = ("active", "expired", "revoked")
UNUSED_DAYS: Final = 90
EXPIRING_DAYS: Final = 14
LONGEST_DAYS: Final = 3650


@dataclass(frozen=True, slots=True)
class TokenFilter:
    """What a list of tokens is narrowed to; every field that is given must hold.

    Args:
        kind: one of :class:`TokenKind`.
        state: one of :data:`STATES`.
        node: slug; the tokens of its subtree.
        person: username; that person's own tokens, those that view as a team included.
        created_by: a username, or the public id of a token that made them.
        unused_days: not used for so long, counted from their making where they never were.
        expiring_days: end within so long.
        outside_policy: live longer than the organization's policy lets new ones.
        ids: public ids.
    """

    kind: str = ""
    state: str = ""
    node: str = ""
    person: str = ""
    created_by: str = ""
    unused_days: int | None = None
    expiring_days: int | None = None
    outside_policy: bool = False
    ids: tuple[str, ...] | None = None


def tokens_of_organization(
    *, actor: Actor, organization_slug: str, wanted: TokenFilter, action: Action = Action.TOKEN_READ
) -> QuerySet[AccessToken]:
    """Return the tokens on which ``actor`` may do ``action``, and the person's own.

    Raises:
        NotFound: not the actor's organization.
    """
    organization = organization_get(actor, organization_slug)
    permitted = Exists(
        NodeAncestor.objects.filter(descendant_id=OuterRef("node_id"), ancestor_id__in=nodes_that_allow(actor, action))
    )
    seen = Q(permitted)
    if actor.user_id is not None:
        seen |= Q(user_id=actor.user_id)
    found = AccessToken.objects.filter(seen, node__organization_id=organization.pk)
    return narrowed(found, wanted, organization.pk).select_related("node", "user")


def token_find(*, actor: Actor, organization_slug: str, public_id: str) -> AccessToken:
    """Return one of :func:`tokens_of_organization`.

    Raises:
        NotFound: it is none of them.
    """
    found = tokens_of_organization(
        actor=actor, organization_slug=organization_slug, wanted=TokenFilter(ids=(public_id,))
    ).first()
    if found is None:
        raise NotFound
    return found


def narrowed(rows: QuerySet[AccessToken], wanted: TokenFilter, organization_id: UUID) -> QuerySet[AccessToken]:
    """Return the rows, of one organization, that a filter wants."""
    now = clock.now()
    conditions = [*_by_state(wanted.state, now)]
    if wanted.kind:
        conditions.append(Q(kind=wanted.kind))
    if wanted.node:
        below = NodeAncestor.objects.filter(
            descendant_id=OuterRef("node_id"), ancestor__slug=wanted.node, ancestor__organization_id=organization_id
        )
        conditions.append(Q(Exists(below)))
    if wanted.person:
        conditions.append(Q(user__username=wanted.person, user__organization_id=organization_id))
    if wanted.created_by:
        conditions.append(Q(created_by__in=_principals(wanted.created_by, organization_id)))
    if wanted.unused_days is not None:
        conditions.append(unused_since(now - timedelta(days=wanted.unused_days)))
    if wanted.expiring_days is not None:
        conditions.append(Q(expires_at__gt=now, expires_at__lte=now + timedelta(days=wanted.expiring_days)))
    if wanted.ids is not None:
        # No other text is one; PostgreSQL is not even asked for some.
        conditions.append(Q(public_id__in=[one for one in wanted.ids if one.isascii() and one.isalnum()]))
    if wanted.outside_policy:
        rows = rows.annotate(life=ExpressionWrapper(F("expires_at") - F("created_at"), output_field=DurationField()))
        conditions.append(_outside(TokenPolicy.objects.filter(organization_id=organization_id)))
    for condition in conditions:
        rows = rows.filter(condition)
    return rows


def unused_since(moment: datetime) -> Q:
    """Return the condition that a token has not been used since; one never used counts from its making."""
    return Q(last_used_at__lt=moment) | Q(last_used_at__isnull=True, created_at__lt=moment)


def working(now: datetime) -> Q:
    """Return the condition that a token neither is revoked nor has expired."""
    return Q(revoked_at__isnull=True) & (Q(expires_at__isnull=True) | Q(expires_at__gt=now))


def filter_of(params: Mapping[str, str]) -> TokenFilter:
    """Return the filter that query parameters ask for; absent and empty ones ask for nothing.

    Raises:
        MalformedRequest: ``bad_filter``, naming the parameter.
    """
    return TokenFilter(
        kind=_choice(params, "kind", TokenKind.values),
        state=_choice(params, "state", STATES),
        node=_text(params, "node"),
        person=_text(params, "person"),
        created_by=_text(params, "created_by"),
        unused_days=_days(params, "unused_days"),
        expiring_days=_days(params, "expiring_days"),
        outside_policy=bool(_choice(params, "outside_policy", ("true",))),
    )


@dataclass(frozen=True, slots=True)
class TokenReport:
    """Counts over the working tokens that an actor sees."""

    working: int
    unused: int
    expiring: int
    endless: int
    outside_policy: int
    old_pepper: int


def token_report(
    *,
    actor: Actor,
    organization_slug: str,
    unused_days: int = UNUSED_DAYS,
    expiring_days: int = EXPIRING_DAYS,
) -> TokenReport:
    """Return the report of an organization. Three queries.

    Raises:
        NotFound: not the actor's organization.
    """
    organization = organization_get(actor, organization_slug)
    rows = tokens_of_organization(actor=actor, organization_slug=organization_slug, wanted=TokenFilter(state="active"))
    return report_of(rows, organization, unused_days=unused_days, expiring_days=expiring_days)


def report_of(
    rows: QuerySet[AccessToken], organization: Organization, *, unused_days: int, expiring_days: int
) -> TokenReport:
    """Return the counts of working tokens of one organization. Two queries."""
    now = clock.now()
    outside = _outside(list(TokenPolicy.objects.filter(organization=organization)))
    life = ExpressionWrapper(F("expires_at") - F("created_at"), output_field=DurationField())
    counts = (
        rows.select_related(None)
        .order_by()
        .annotate(life=life)
        .aggregate(
            working=Count("pk"),
            unused=Count("pk", filter=unused_since(now - timedelta(days=unused_days))),
            expiring=Count("pk", filter=Q(expires_at__lte=now + timedelta(days=expiring_days))),
            endless=Count("pk", filter=Q(expires_at__isnull=True)),
            outside_policy=Count("pk", filter=outside),
            old_pepper=Count("pk", filter=Q(pepper_version__lt=tokens.current_pepper())),
        )
    )
    return TokenReport(**counts)


def _outside(policies: "QuerySet[TokenPolicy] | list[TokenPolicy]") -> Q:
    """Return the condition that a token lives longer than the policy of its kind lets a new one."""
    condition = Q(pk__in=[])
    for policy in policies:
        if not policy.endless_allowed:
            condition |= Q(kind=policy.kind, expires_at__isnull=True)
        if policy.max_days is not None:
            # A second more: the policy is asked a moment before the row is made.
            condition |= Q(kind=policy.kind, life__gt=timedelta(days=policy.max_days, seconds=1))
    return condition


def _by_state(state: str, now: datetime) -> list[Q]:
    if state == "active":
        return [working(now)]
    if state == "expired":
        return [Q(revoked_at__isnull=True, expires_at__lte=now)]
    return [Q(revoked_at__isnull=False)] if state == "revoked" else []


def _principals(name: str, organization_id: UUID) -> list[str]:
    people = User.objects.filter(organization_id=organization_id, username=name).values_list("pk", flat=True)
    return [f"token:{name}", *(f"user:{person}" for person in people)]


def _choice(params: Mapping[str, str], name: str, choices: "tuple[str, ...] | list[str]") -> str:
    value = params.get(name, "")
    if value and value not in choices:
        raise _bad(f"{name} must be one of: {', '.join(choices)}.")
    return value


def _text(params: Mapping[str, str], name: str) -> str:
    value = params.get(name, "").strip()
    if len(value) > 150 or not value.isprintable():
        raise _bad(f"{name} must be a name of at most 150 characters.")
    return value


def _days(params: Mapping[str, str], name: str) -> int | None:
    text = params.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 0 <= int(text) <= LONGEST_DAYS):
        raise _bad(f"{name} must be a whole number of days, at most {LONGEST_DAYS}.")
    return int(text)


def _bad(detail: str) -> MalformedRequest:
    return MalformedRequest(detail, code="bad_filter", errors=[FieldError("", "bad_filter", detail)])

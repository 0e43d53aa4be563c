"""The audit log of one's organization: what was done, and beside it what was refused and who signed in."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.dateparse import parse_date
from django.views.decorators.http import require_safe

from controlplane.audit.security import SecurityKind
from controlplane.audit.selectors import audit_events, chain_state, security_events
from controlplane.core.actor import Actor
from controlplane.core.clock import rfc3339
from controlplane.core.errors import AppError, NotFound, PermissionDenied
from controlplane.core.pagination import page_of
from controlplane.core.permissions import Action
from controlplane.orgs.selectors import nodes_visible
from web.members_page import own_organization
from web.session import signed_in

PER_PAGE: Final = 50
SECURITY: Final = "security"
#: Nodes that the field proposes; others can be typed.
PROPOSED: Final = 500
_SHARED: Final = ("q", "actor", "address", "since", "until")
_OF_EVENTS: Final = (*_SHARED, "action", "node")
_OF_SECURITY: Final = (*_SHARED, "kind", "code")
#: Filters that are folded away until one of them is used.
_FOLDED: Final = ("actor", "address", "node", "code")


@require_safe
@signed_in
def audit(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Events newest first, with a search; ``show=security`` is the security stream."""
    organization = own_organization(actor)
    security = request.GET.get("show") == SECURITY
    names = _OF_SECURITY if security else _OF_EVENTS
    given = {name: request.GET.get(name, "").strip()[:200] for name in names}
    rows: Any = _security(actor, organization, given) if security else _events(actor, organization, given)
    cursor = request.GET.get("cursor", "")
    try:
        ordering = ["-id"] if security else ["-org_seq"]
        page = page_of(rows, ordering=ordering, params={"cursor": cursor, "limit": PER_PAGE})
    except AppError:
        return redirect("web:audit")  # a cursor that was cut or edited: begin again
    kept = {name: value for name, value in given.items() if value} | ({"show": SECURITY} if security else {})
    context = {
        "rows": page.results,
        "given": given,
        "security": security,
        "kinds": SecurityKind.choices,
        "nodes": [] if security else _nodes(actor),
        "chain": chain_state(actor, organization).found,
        "searched": any(given.values()),
        "unfolded": any(given.get(name) for name in _FOLDED),
        "older": urlencode(kept | {"cursor": page.next}) if page.next else "",
        "first": urlencode(kept) if cursor else None,
        "exports": [] if security else _exports(organization, given),
    }
    return render(request, "web/audit.html", context)


def _events(actor: Actor, organization: str, given: dict[str, str]) -> Any:
    since, until = _period(given)
    try:
        return audit_events(
            actor,
            organization,
            action=given["action"] or None,
            by=given["actor"] or None,
            address=given["address"] or None,
            node=given["node"] or None,
            since=since,
            until=until,
            text=given["q"],
        )
    except (NotFound, PermissionDenied):
        if not given["node"]:
            raise
        return audit_events(actor, organization).none()  # a node that was mistyped: nothing matches


def _security(actor: Actor, organization: str, given: dict[str, str]) -> Any:
    since, until = _period(given)
    return security_events(
        actor,
        organization,
        kind=given["kind"] if given["kind"] in SecurityKind.values else None,
        code=given["code"] or None,
        by=given["actor"] or None,
        address=given["address"] or None,
        since=since,
        until=until,
        text=given["q"],
    )


def _exports(organization: str, given: dict[str, str]) -> list[tuple[str, str]]:
    """Return the forms and addresses of what is listed as a file: the same search in the words of REST."""
    since, until = _period(given)
    asked = {name: value for name, value in given.items() if value and name not in {"since", "until"}}
    asked |= {name: rfc3339(moment) for name, moment in (("from", since), ("to", until)) if moment}
    path = f"/api/v1/orgs/{organization}/audit"
    return [(form.upper(), f"{path}?{urlencode({'format': form} | asked)}") for form in ("csv", "json")]


def _nodes(actor: Actor) -> list[str]:
    visible = nodes_visible(actor, Action.AUDIT_READ).order_by("slug")
    return list(visible.values_list("slug", flat=True)[:PROPOSED])


def _period(given: dict[str, str]) -> tuple[datetime | None, datetime | None]:
    """Return the beginning of the first day and the end of the last, as date fields send them, in UTC."""
    until = _day(given["until"])
    return _day(given["since"]), until + timedelta(days=1) if until else None


def _day(text: str) -> datetime | None:
    try:
        day = parse_date(text)
    except ValueError:
        day = None
    return None if day is None else datetime(day.year, day.month, day.day, tzinfo=UTC)

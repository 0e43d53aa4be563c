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
from controlplane.core.errors import AppError
from controlplane.core.pagination import page_of
from web.members_page import own_organization
from web.session import signed_in

PER_PAGE: Final = 50
SECURITY: Final = "security"


@require_safe
@signed_in
def audit(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Events newest first, with a search; ``show=security`` is the security stream."""
    organization = own_organization(actor)
    given = {name: request.GET.get(name, "").strip()[:200] for name in ("q", "action", "kind", "since", "until")}
    security = request.GET.get("show") == SECURITY
    cursor = request.GET.get("cursor", "")
    if security:
        kind = given["kind"] if given["kind"] in SecurityKind.values else ""
        rows: Any = security_events(actor, organization, kind=kind or None, text=given["q"])
    else:
        until = _day(given["until"])
        rows = audit_events(
            actor,
            organization,
            action=given["action"] or None,
            since=_day(given["since"]),
            until=until + timedelta(days=1) if until else None,
            text=given["q"],
        )
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
        "chain": chain_state(actor, organization),
        "searched": bool(any(given.values())),
        "older": urlencode(kept | {"cursor": page.next}) if page.next else "",
        "first": urlencode(kept) if cursor else None,
        "export": f"/api/v1/orgs/{organization}/audit?format=csv",
    }
    return render(request, "web/audit.html", context)


def _day(text: str) -> datetime | None:
    """Return the beginning of a day as a date field sends it, in UTC; ``None`` for anything else."""
    try:
        day = parse_date(text)
    except ValueError:
        day = None
    return None if day is None else datetime(day.year, day.month, day.day, tzinfo=UTC)

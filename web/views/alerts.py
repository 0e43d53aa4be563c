"""What alert sources delivered, and what became of each alert."""

from typing import Final
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from controlplane.alerts.selectors import FATES, SOURCES, STATUSES, alert_group_get, alert_groups_page
from controlplane.core.actor import Actor
from controlplane.core.errors import AppError
from controlplane.core.permissions import Action
from controlplane.orgs.selectors import teams_for
from web.session import signed_in

PER_PAGE: Final = 30


@require_safe
@signed_in
def alerts(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Groups of alerts the actor may see, the last delivered first, by team, fate, status and source."""
    allowed = {"fate": FATES, "status": STATUSES, "source": [name for name, _ in SOURCES]}
    chosen = {name: value if (value := request.GET.get(name, "")) in values else "" for name, values in allowed.items()}
    chosen["team"] = request.GET.get("team", "")
    filters = {name: value for name, value in chosen.items() if value}
    cursor = request.GET.get("cursor") or None
    try:
        page = alert_groups_page(actor, **filters, cursor=cursor, limit=PER_PAGE)
    except AppError as error:
        if error.status >= 500 or not (cursor or chosen["team"]):
            raise
        return redirect("web:alerts")  # a cursor that was cut or edited, a team that is gone: begin again
    context = {
        "groups": page.results,
        "older": urlencode(filters | {"cursor": page.next}) if page.next else "",
        "newest": urlencode(filters) if cursor else None,
        "filtered": bool(filters),
        "teams": list(teams_for(actor, Action.RUN_READ)),
        "fates": FATES,
        "statuses": STATUSES,
        "sources": SOURCES,
        **chosen,
    }
    return render(request, "web/alerts.html", context)


@require_safe
@signed_in
def alert(request: HttpRequest, actor: Actor, group_id: UUID) -> HttpResponseBase:
    """One group: each of its alerts, and what became of it."""
    detail = alert_group_get(actor, group_id)
    return render(request, "web/alert.html", {"group": detail.group, "alerts": detail.alerts, "total": detail.total})

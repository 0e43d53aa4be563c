"""The list of runs."""

from urllib.parse import urlencode

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from controlplane.core.actor import Actor
from controlplane.core.errors import AppError
from controlplane.core.permissions import Action
from controlplane.investigations.selectors import STATUSES, runs_page
from controlplane.orgs.selectors import teams_for
from web.session import signed_in

PER_PAGE = 30


@require_safe
@signed_in
def runs(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Runs the actor may see, newest first, filtered by team, status and "mine"."""
    team = request.GET.get("team", "")
    status = request.GET.get("status", "")
    mine = request.GET.get("mine") == "1"
    cursor = request.GET.get("cursor") or None
    if status and status not in STATUSES:
        status = ""
    try:
        page = runs_page(actor, team=team or None, status=status or None, mine=mine, cursor=cursor, limit=PER_PAGE)
    except AppError as error:
        if cursor is None or error.status >= 500:
            raise
        return redirect("web:runs")  # a cursor that was cut or edited: begin again
    filters = {
        name: value for name, value in {"team": team, "status": status, "mine": "1" if mine else ""}.items() if value
    }
    context = {
        "runs": page.results,
        "older": urlencode(filters | {"cursor": page.next}) if page.next else "",
        "newest": urlencode(filters) if cursor else None,
        "filtered": bool(filters),
        "teams": list(teams_for(actor, Action.RUN_READ)),
        "statuses": STATUSES,
        "team": team,
        "status": status,
        "mine": mine,
    }
    return render(request, "web/runs.html", context)

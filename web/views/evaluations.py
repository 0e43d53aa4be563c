"""How the runtimes did when they were measured last."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from controlplane.core.actor import Actor
from controlplane.runtimes.evaluation import SUITES
from controlplane.runtimes.selectors import evaluations_latest
from web.evaluation_page import shown
from web.session import signed_in


@require_safe
@signed_in
def evaluations(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """The last result of each suite and runtime, with its cases."""
    results = [shown(evaluation) for evaluation in evaluations_latest(actor)]
    return render(request, "web/evaluations.html", {"results": results, "suites": sorted(SUITES)})

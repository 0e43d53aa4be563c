"""The API's documentation, from our own schema and our own copy of the viewer."""

from csp.decorators import csp_update
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe


# The viewer sets style attributes and style elements as it draws; scripts stay ours alone.
@csp_update({"style-src": ["'unsafe-inline'"]})
@require_safe
def api_docs(request: HttpRequest) -> HttpResponseBase:
    """``/api/docs``: every endpoint of ``/api/v1/schema``, to read and to try with the session's own rights."""
    return render(request, "web/api_docs.html")

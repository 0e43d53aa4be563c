"""The content security policy of ``/admin/``.

django-unfold runs Alpine.js, which evaluates expressions of its templates (``'unsafe-eval'``), and sets style
attributes (``'unsafe-inline'``). That holds for the administration alone; every other page keeps the strict policy of
the settings.
"""

from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from typing_extensions import override

from controlplane.core.middleware import AnswerMiddleware

ADMIN_PREFIX: Final = "/admin/"
HEADER: Final = "Content-Security-Policy"
POLICY: Final = (
    "default-src 'none'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


class AdminContentSecurityPolicy(AnswerMiddleware):
    """Middleware: sets the policy on answers below ``/admin/`` that have none."""

    @override
    def answered(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if request.path_info.startswith(ADMIN_PREFIX):
            response.headers.setdefault(HEADER, POLICY)
        return response

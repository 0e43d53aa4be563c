"""The content security policy of ``/admin/``.

django-unfold runs Alpine.js, which evaluates expressions of its templates (``'unsafe-eval'``), and sets style
attributes (``'unsafe-inline'``). That holds for the administration alone; every other page keeps the strict policy of
the settings.
"""

from collections.abc import Callable
from typing import Any, Final

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

ADMIN_PREFIX: Final = "/admin/"
HEADER: Final = "Content-Security-Policy"
POLICY: Final = (
    "default-src 'none'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


class AdminContentSecurityPolicy:
    """Middleware: sets the policy on answers below ``/admin/`` that have none."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        if self._is_async:
            return self._call_async(request)
        return _with_policy(request, self.get_response(request))

    async def _call_async(self, request: HttpRequest) -> HttpResponseBase:
        return _with_policy(request, await self.get_response(request))


def _with_policy(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    if request.path_info.startswith(ADMIN_PREFIX):
        response.headers.setdefault(HEADER, POLICY)
    return response

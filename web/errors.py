"""Error pages. Programs (``/api/``) get problem documents; people get a page that says what to do next."""

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from controlplane.core.errors import AppError
from controlplane.core.middleware import is_api, problem_document
from controlplane.core.rest import error_of_status

_TITLES: Final = {
    400: "This request could not be read",
    401: "Sign in first",
    403: "You may not do this",
    404: "There is nothing here",
    410: "This is no longer kept",
    413: "That is too large",
    429: "That was too often",
    503: "The database is busy",
}
_FAILED: Final = "Something went wrong on our side"
_DETAILS: Final = {
    404: "The page does not exist, or it is not yours to see.",
    500: "It has been logged. Investigations that are running go on; reload the page in a moment.",
}


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 (passed by name)
    """Django's ``handler400``."""
    return _answer(request, error_of_status(400))


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 (passed by name)
    """Django's ``handler403``."""
    return _answer(request, error_of_status(403))


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 (passed by name)
    """Django's ``handler404``."""
    return _answer(request, error_of_status(404))


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's ``handler500``, and the page for every :class:`AppError` of a view (``request.problem``).

    It touches neither session nor database: they may be what failed.
    """
    problem: AppError | None = getattr(request, "problem", None)
    return _answer(request, problem or error_of_status(500))


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001 (passed by name)
    """Django's ``CSRF_FAILURE_VIEW``: most often a page that was open across a sign-in or sign-out."""
    error = error_of_status(403)
    error.code, error.detail = (
        "csrf_failed",
        "This page was out of date, so nothing was sent. Go back, reload, try again.",
    )
    return _answer(request, error)


def _answer(request: HttpRequest, error: AppError) -> HttpResponse:
    if is_api(request):
        return problem_document(error)
    detail = (
        error.detail if error.code not in {"internal_error", "not_found"} else _DETAILS.get(error.status, error.detail)
    )
    context = {
        "title": _TITLES.get(error.status, _FAILED if error.status >= 500 else "This did not work"),
        "detail": detail,
        "status": error.status,
        "request_id": getattr(request, "request_id", ""),
    }
    # Without the request there is no context processor, so nothing looks at the session.
    return HttpResponse(render_to_string("web/error.html", context), status=error.status)

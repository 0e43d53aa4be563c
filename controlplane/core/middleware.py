"""The two middlewares around every Django request: log context and timing, and one shape for every error.

Both are capable of sync and async, so that neither costs a change of thread.
"""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import orjson
import structlog
from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.core.signals import got_request_exception
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import get_resolver

from controlplane.core import metrics, refusals
from controlplane.core.actor import Channel
from controlplane.core.errors import AppError
from controlplane.core.ids import new_id
from controlplane.core.rest import PROBLEM, as_app_error, error_of_status, is_database_busy

log = structlog.get_logger(__name__)

GetResponse = Callable[[HttpRequest], Any]
QUIET_ROUTES = frozenset({"livez", "readyz", "metrics"})


class Middleware:
    """What all share: the choice between the sync and the async way, made once when the chain is built."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)  # type: ignore[type-var]  # annotated for functions, made for objects too


class AnswerMiddleware(Middleware, ABC):
    """One that only does something to answers: :meth:`answered`."""

    def __call__(self, request: HttpRequest) -> Any:
        if self._is_async:
            return self._call_async(request)
        return self.answered(request, self.get_response(request))

    async def _call_async(self, request: HttpRequest) -> HttpResponseBase:
        return self.answered(request, await self.get_response(request))

    @abstractmethod
    def answered(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Return the answer to give instead of ``response``, usually itself with something added."""


class RequestContextMiddleware(Middleware):
    """Gives each request an id of ours, binds it to every log line, and records duration and status by route name.

    Refusals of who is known go to the record of :mod:`controlplane.core.refusals` too. A client's own ``X-Request-ID``
    is not taken: an id in our log is one we made. It is ``request.request_id`` and the answer's ``X-Request-ID``.
    """

    def __call__(self, request: HttpRequest) -> Any:
        if self._is_async:
            return self._call_async(request)
        started = self._begin(request)
        try:
            response: HttpResponseBase = self.get_response(request)
            if write := refusals.note(_refusal(request, response)):
                write()
            return self._end(request, response, started)
        finally:
            structlog.contextvars.clear_contextvars()

    async def _call_async(self, request: HttpRequest) -> HttpResponseBase:
        started = self._begin(request)
        try:
            response: HttpResponseBase = await self.get_response(request)
            if write := refusals.note(_refusal(request, response)):
                await sync_to_async(write)()
            return self._end(request, response, started)
        finally:
            structlog.contextvars.clear_contextvars()

    def _begin(self, request: HttpRequest) -> float:
        request_id = str(new_id())
        setattr(request, "request_id", request_id)  # noqa: B010 (Django's class declares no such attribute)
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        return time.perf_counter()

    def _end(self, request: HttpRequest, response: HttpResponseBase, started: float) -> HttpResponseBase:
        duration_s = time.perf_counter() - started
        route = route_name(request)
        method = request.method or ""
        metrics.observe_request(method=method, route=route, status=response.status_code, duration_s=duration_s)
        if route not in QUIET_ROUTES:
            # The route, never the path: a path may hold a one-time sign-in link.
            fields = {"method": method[:16], "route": route, "status": response.status_code}
            log.info("http.request", **fields, duration_ms=round(duration_s * 1000, 1))
        response.headers["X-Request-ID"] = str(getattr(request, "request_id", ""))
        return response


class ProblemMiddleware(Middleware):
    """Answers errors in the form the caller reads: problem documents under ``/api/``, the error page elsewhere.

    It covers what REST framework does not see: unknown paths, errors of other middlewares, views that are plain Django,
    and a database that is locked or gone (503 ``database_busy`` on both sides). The page is the project's
    ``handler500`` with the error in ``request.problem`` and the error's status.
    """

    def __call__(self, request: HttpRequest) -> Any:
        if self._is_async:
            return self._call_async(request)
        response: HttpResponseBase = self.get_response(request)
        return self._end(request, response)

    async def _call_async(self, request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = await self.get_response(request)
        return self._end(request, response)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Answer the exception of a view; ``None`` leaves it to Django's handlers (404, 403, 500 of pages)."""
        if not (is_api(request) or isinstance(exception, AppError) or is_database_busy(exception)):
            return None
        error = as_app_error(exception)
        refusals.carry_error(request, error)
        return problem_document(error) if is_api(request) else error_page(request, error)

    def _end(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if not isinstance(response, HttpResponse) or response.status_code < 400:
            return response
        uncaught: Exception | None = getattr(request, "uncaught_exception", None)
        busy = as_app_error(uncaught) if uncaught is not None and is_database_busy(uncaught) else None
        if is_api(request) and response.get("Content-Type", "").startswith("text/html"):
            return _replace(response, problem_document(busy or error_of_status(response.status_code)))
        if busy is not None and not is_api(request):
            return _replace(response, error_page(request, busy))
        return response


@receiver(got_request_exception, dispatch_uid="controlplane.core.middleware")
def _remember_exception(request: HttpRequest | None = None, **_kwargs: Any) -> None:
    # Django turns an exception of any middleware into a 500 before the next one sees it; this keeps what it was.
    if request is not None:
        setattr(request, "uncaught_exception", sys.exc_info()[1])  # noqa: B010 (as above)


def _refusal(request: HttpRequest, response: HttpResponseBase) -> refusals.Refusal | None:
    if response.status_code not in refusals.NOTED:
        return None
    error: AppError | None = getattr(request, "app_error", None)
    if error is None or error.status != response.status_code:
        error = error_of_status(response.status_code)
    return refusals.refusal_of(
        status=response.status_code,
        route=route_name(request),
        actor=getattr(request, "actor", None),
        error=error,
        code=error.code,
        channel=Channel.API if is_api(request) else Channel.WEB,
        address=request.META.get("REMOTE_ADDR"),
    )


def is_api(request: HttpRequest) -> bool:
    """Return whether the caller is a program: errors of these paths are problem documents."""
    return request.path_info.startswith("/api/")


def route_name(request: HttpRequest) -> str:
    """Return the name of the request's route, else its pattern, else ``unmatched``: a closed set of labels."""
    match = getattr(request, "resolver_match", None)
    if match is None:
        return "unmatched"
    return str(match.view_name if match.url_name else match.route)


def problem_document(error: AppError) -> HttpResponse:
    """Return ``error`` as a plain Django response of type ``application/problem+json`` (RFC 9457)."""
    body = orjson.dumps(error.as_problem())
    return HttpResponse(body, status=error.status, headers=error.headers, content_type=PROBLEM)


def error_page(request: HttpRequest, error: AppError) -> HttpResponse:
    """Return the project's error page for ``error``, or a plain sentence when even that cannot be rendered."""
    setattr(request, "problem", error)  # noqa: B010 (as above)
    try:
        page: HttpResponse = get_resolver().resolve_error_handler(500)(request)
        page.status_code = error.status
    except Exception:  # the page may need the very database that is gone
        log.warning("http.error_page_failed", exc_info=True)
        page = HttpResponse(error.detail, status=error.status, content_type="text/plain; charset=utf-8")
    for name, value in error.headers.items():
        page.headers[name] = value
    return page


def _replace(response: HttpResponse, other: HttpResponse) -> HttpResponse:
    """Give ``response`` the body and status of ``other``; cookies and security headers already set stay."""
    response.content = other.content
    response.status_code = other.status_code
    for name, value in other.headers.items():
        response.headers[name] = value
    response.headers["Content-Length"] = str(len(other.content))
    return response

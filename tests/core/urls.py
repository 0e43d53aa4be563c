"""Routes of the middleware tests: every kind of view, and errors of every kind under both kinds of path."""

import asyncio
import threading
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import include, path
from django.views.decorators.csrf import csrf_protect
from rest_framework.decorators import api_view, authentication_classes, permission_classes
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.core import health
from controlplane.core.errors import Conflict

LOCKED = OperationalError("database is locked")


def ok(_request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok")


def context(_request: HttpRequest) -> HttpResponse:
    return HttpResponse(structlog.contextvars.get_contextvars().get("request_id", ""))


async def context_async(_request: HttpRequest) -> HttpResponse:
    await asyncio.sleep(0)
    return HttpResponse(structlog.contextvars.get_contextvars().get("request_id", ""))


async def thread(_request: HttpRequest) -> HttpResponse:
    return HttpResponse(threading.current_thread().name)


def fail(_request: HttpRequest, kind: str) -> HttpResponse:
    errors: dict[str, Exception] = {
        "busy": LOCKED,
        "app": Conflict("Taken.", code="slug_taken"),
        "missing": Http404("secret"),
        "denied": PermissionDenied("secret"),
        "bug": RuntimeError("secret"),
    }
    raise errors[kind]


class _LockedSession(dict[str, Any]):
    """A session whose store cannot be written, as the session middleware meets it after the view."""

    accessed = modified = True
    session_key = None

    def is_empty(self) -> bool:
        return False

    def get_expire_at_browser_close(self) -> bool:
        return True

    def save(self) -> None:
        raise LOCKED


def locked_session(request: HttpRequest) -> HttpResponse:
    setattr(request, "session", _LockedSession())  # noqa: B010 (the session middleware's own attribute)
    return HttpResponse("ok")


@api_view(["GET"])
@authentication_classes([])
@permission_classes([])
def unserializable(_request: Request) -> Response:
    return Response({"value": object()})


both = [
    path("ok", ok, name="ok"),
    path("unnamed/<int:number>", lambda _request, number: HttpResponse(str(number))),
    path("fail/<str:kind>", fail, name="fail"),
    path("locked-session", locked_session, name="locked-session"),
    path("protected", csrf_protect(ok), name="protected"),
]
urlpatterns = [
    path("api/", include((both, "api"))),
    path("api/unserializable", unserializable),
    path("app/", include((both, "app"))),
    path("context", context, name="context"),
    path("context-async", context_async, name="context-async"),
    path("thread", thread, name="thread"),
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
]


def handler500(request: HttpRequest) -> HttpResponse:
    problem = getattr(request, "problem", None)
    if request.GET.get("broken"):
        raise LOCKED
    return HttpResponse(f"<h1>page: {problem.code if problem else 'unknown'}</h1>", status=500)

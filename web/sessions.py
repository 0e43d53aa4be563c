"""Browsers that are signed in: the one place where a session begins, and the middleware that ends it."""

import time
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import login, logout
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from controlplane.access import sessions
from controlplane.access.accounts import Account
from controlplane.access.actors import actor_for_user
from controlplane.access.selectors import must_have_authenticator
from controlplane.access.services import session_begin, session_forget, session_seen
from controlplane.core.actor import Channel
from controlplane.core.errors import NotAuthenticated, PermissionDenied
from controlplane.core.middleware import Middleware, is_api, problem_document

_BACKEND: Final = "controlplane.access.backends.LocalPasswordBackend"
#: Where a person may go who has to add an authenticator app first.
_ENROLMENT: Final = frozenset(
    {"security", "security_authenticator_begin", "security_authenticator", "logout", "login", "root"}
)


def begin_session(request: HttpRequest, user: Account, *, method: str) -> None:
    """Sign ``user`` in on this browser. Every way of signing in ends here, whoever vouched for the person.

    The session gets a new key, so one that somebody has planted is worth nothing, and forgets what it held before.

    Raises:
        NotAuthenticated: the person has been deactivated meanwhile.
    """
    request.session.flush()  # whatever anybody put into it before this person was known
    login(request, user, backend=_BACKEND)
    now = time.time()
    sessions.begin(request.session, now)
    if must_have_authenticator(user, method=method):
        request.session[sessions.MUST_ENROL] = True
    request.session.save()
    actor = actor_for_user(user, channel=Channel.WEB, address=request.META.get("REMOTE_ADDR"))
    try:
        session_begin(
            actor=actor,
            user=user,
            session_key=request.session.session_key or "",
            method=method,
            user_agent=request.headers.get("User-Agent", ""),
        )
    except NotAuthenticated:
        logout(request)
        raise


def end_session(request: HttpRequest) -> None:
    """Sign this browser out."""
    key = request.session.session_key
    logout(request)
    if key:
        session_forget(session_key=key)


class SessionLimitMiddleware(Middleware):
    """Ends a session that is over, notes one in use, and holds one that lacks an authenticator app to adding it."""

    def __call__(self, request: HttpRequest) -> Any:
        if self._is_async:
            return self._call_async(request)
        if _has_session(request):
            _check(request)
        return self.get_response(request)

    async def _call_async(self, request: HttpRequest) -> HttpResponseBase:
        if _has_session(request):
            await sync_to_async(_check)(request)
        response: HttpResponseBase = await self.get_response(request)
        return response

    def process_view(self, request: HttpRequest, _view: Any, _args: Any, _kwargs: Any) -> HttpResponse | None:
        """Answer instead of the view while an authenticator app is missing."""
        if not _has_session(request) or not request.session.get(sessions.MUST_ENROL):
            return None
        match = request.resolver_match
        if match is not None and match.view_name.removeprefix("web:") in _ENROLMENT:
            return None
        if is_api(request):
            return problem_document(
                PermissionDenied("Add an authenticator app to your account first.", code="authenticator_required")
            )
        return redirect(reverse("web:security"))


def _has_session(request: HttpRequest) -> bool:
    # Requests with a token carry none: for them nothing is read.
    return settings.SESSION_COOKIE_NAME in request.COOKIES


def _check(request: HttpRequest) -> None:
    now = time.time()
    if sessions.is_over(request.session, now):
        end_session(request)
    elif sessions.is_seen_due(request.session, now):
        request.session[sessions.SEEN_AT] = int(now)
        if request.session.session_key:
            session_seen(session_key=request.session.session_key)

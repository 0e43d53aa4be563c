"""Who is looking at a page: the actor behind a signed-in request, and where to go after signing in."""

from collections.abc import Callable, Collection
from functools import wraps
from typing import Concatenate, ParamSpec
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache

from controlplane.access.actors import VIEW_AS, actor_for_session
from controlplane.access.authentication import require_reading
from controlplane.access.limits.guard import limit_actor
from controlplane.core.actor import Actor, Channel
from controlplane.core.errors import NotAuthenticated, PermissionDenied
from controlplane.core.refusals import carry_actor

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, Actor, P], HttpResponseBase]


def signed_in(view: View[P]) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """Give ``view`` the actor of the signed-in person as its second argument.

    Nobody signed in goes to the sign-in page and comes back; an operator, who is no member of any organization, goes to
    the administration. Answers are never kept by caches: pages of incidents stay with whom they were made for.
    """

    @never_cache
    @wraps(view)
    def wrapper(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        user = request.user
        if not user.is_authenticated:
            return to_sign_in(request)
        if user.organization_id is None:
            if user.is_staff:
                return redirect("admin:index")
            raise PermissionDenied("Your account belongs to no organization.", code="no_organization")
        try:
            address = request.META.get("REMOTE_ADDR")
            actor = actor_for_session(request.session, user, channel=Channel.WEB, address=address)
        except NotAuthenticated:
            return _viewing_over(request)
        carry_actor(request, actor)  # also for what every page shows, see web/context.py
        require_reading(actor, request.method)
        limit_actor("requests", actor)
        return view(request, actor, *args, **kwargs)

    return wrapper


def _viewing_over(request: HttpRequest) -> HttpResponse:
    """Return from the view of a team whose time is over to the home page, as the person itself."""
    request.session.pop(VIEW_AS, None)
    messages.info(request, "You no longer view as the team: the time is over, or you no longer administer it.")
    return redirect("web:home")


def limited(rule: str, *, methods: Collection[str] = ("POST",)) -> Callable[[View[P]], View[P]]:
    """Count the calls of a page that is expensive under ``rule``; stands below :func:`signed_in`.

    Raises:
        TooManyRequests: ``rate_limited``, from the view made by this.
    """

    def decorate(view: View[P]) -> View[P]:
        @wraps(view)
        def wrapper(request: HttpRequest, actor: Actor, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if request.method in methods:
                limit_actor(rule, actor)
            return view(request, actor, *args, **kwargs)

        return wrapper

    return decorate


def to_sign_in(request: HttpRequest) -> HttpResponse:
    """Return the redirect to the sign-in page that leads back here; a form sent meanwhile leads back to its page."""
    back = request.get_full_path() if request.method in {"GET", "HEAD"} else resolve_url("web:home")
    return redirect(f"{resolve_url('web:login')}?{urlencode({'next': back})}")


def safe_next(request: HttpRequest) -> str:
    """Return where to go after signing in: ``next`` of form or query if it is a path of ours, else the home page."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    ours = url_has_allowed_host_and_scheme(wanted, allowed_hosts=None, require_https=request.is_secure())
    return wanted if wanted.startswith("/") and ours else resolve_url("web:home")

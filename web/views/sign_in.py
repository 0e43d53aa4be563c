"""Signing in and out: password and one-time link."""

from typing import Final

from django.contrib.auth import authenticate, login, logout
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render, resolve_url
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from controlplane.access.services import sign_in_link_person, sign_in_link_redeem
from controlplane.core.errors import NotAuthenticated
from web.forms import SignInForm
from web.session import safe_next

#: The same words for an unknown name, a wrong password and a deactivated account.
REFUSED: Final = "That username and password do not match. Check both and try again."
_BACKEND: Final = "django.contrib.auth.backends.ModelBackend"


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponseBase:
    """Sign in by password; operators go on to the administration."""
    if request.method != "POST":
        visitor = request.user
        if visitor.is_authenticated and (visitor.organization_id is not None or visitor.is_staff):
            return redirect(_home_of(request))  # anybody else has no page to go to, and may sign in as somebody else
        return render(request, "web/login.html", {"next": safe_next(request)})
    form = SignInForm(request.POST)
    user = authenticate(request, **form.cleaned_data) if form.is_valid() else None
    if user is None:
        context = {"next": safe_next(request), "username": request.POST.get("username", "")[:150], "error": REFUSED}
        return render(request, "web/login.html", context, status=422)
    login(request, user)
    return redirect(_home_of(request))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_link(request: HttpRequest, secret: str) -> HttpResponseBase:
    """Show whom a one-time link signs in, and use it up only when the button is pressed: previews fetch links too."""
    if request.method != "POST":
        person = sign_in_link_person(secret=secret)
        if person is None:
            return _link_refused(request)
        return render(request, "web/login_link.html", {"person": person, "secret": secret})
    try:
        user = sign_in_link_redeem(secret=secret, address=request.META.get("REMOTE_ADDR"))
    except NotAuthenticated:
        return _link_refused(request)
    login(request, user, backend=_BACKEND)
    return redirect("web:home")


@never_cache
@require_POST
def sign_out(request: HttpRequest) -> HttpResponseBase:
    """End the session."""
    logout(request)
    return redirect("web:login")


def _link_refused(request: HttpRequest) -> HttpResponseBase:
    return render(request, "web/login_link.html", {"person": None}, status=410)


def _home_of(request: HttpRequest) -> str:
    user = request.user
    if user.is_authenticated and user.organization_id is None and user.is_staff:
        return resolve_url("admin:index")
    return safe_next(request)

"""Signing in and out: password, code of an authenticator app, and one-time link."""

from typing import Final

from django.contrib.auth import authenticate
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render, resolve_url
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from controlplane.access.accounts import Account, account_of
from controlplane.access.entra.selectors import provider_at_sign_in
from controlplane.access.limits.guard import limit_account, limit_address
from controlplane.access.lockout import is_locked, lock_rest_s
from controlplane.access.selectors import authenticator_of
from controlplane.access.services import (
    authenticator_check,
    recovery_code_redeem,
    sign_in_failed,
    sign_in_link_person,
    sign_in_link_redeem,
)
from controlplane.access.sessions import SignInMethod
from controlplane.core.errors import NotAuthenticated, TooManyRequests
from web import second_factor, sso
from web.forms import SignInForm
from web.session import safe_next
from web.sessions import begin_session, end_session

#: The same words for an unknown name, a wrong password, a deactivated account and one that may not use a password.
REFUSED: Final = "That username and password do not match. Check both and try again."
LOCKED: Final = (
    "Too many wrong passwords for this username from your network. Wait {wait} and try again, or ask an operator of "
    "this installation for a one-time link."
)
WRONG_CODE: Final = "That code is not right, or has been used already. Wait for the next one and try again."


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponseBase:
    """Sign in by password; operators go on to the administration."""
    if request.method != "POST":
        visitor = request.user
        if visitor.is_authenticated and (visitor.organization_id is not None or visitor.is_staff):
            return redirect(_home_of(visitor, safe_next(request)))  # anybody else may sign in as somebody else
        return render(request, "web/login.html", {"next": safe_next(request)})
    try:
        limit_address("sign_in", request.META.get("REMOTE_ADDR"))
    except TooManyRequests as error:
        return _refused(request, f"{error.detail}", status=429, retry_after_s=error.extra["retry_after_s"])
    form = SignInForm(request.POST)
    user = account_of(authenticate(request, **form.cleaned_data) if form.is_valid() else None)
    if user is not None:
        return _password_was_right(request, user)
    locked = is_locked(request)
    sign_in_failed(
        username=form.cleaned_data.get("username", ""),
        method=SignInMethod.PASSWORD,
        address=request.META.get("REMOTE_ADDR"),
        reason="locked" if locked else "wrong_password",
    )
    if locked:
        rest_s = lock_rest_s(request)
        return _refused(request, LOCKED.format(wait=_minutes(rest_s)), status=429, retry_after_s=rest_s)
    return _refused(request, REFUSED, status=422)


@never_cache
@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_code(request: HttpRequest) -> HttpResponseBase:
    """The second step: a code of the authenticator app, or a recovery code."""
    pending = second_factor.pending(request)
    if pending is None:
        return redirect("web:login")
    if request.method != "POST":
        return render(request, "web/login_code.html", {"pending": pending})
    address = request.META.get("REMOTE_ADDR")
    try:
        limit_address("second_factor", address, account=pending.user.pk)
        limit_account("second_factor_account", pending.user.pk)
    except TooManyRequests as error:
        return _code_refused(request, pending, error.detail, status=429, retry_after_s=error.extra["retry_after_s"])
    code = request.POST.get("code", "")[:64]
    if authenticator_check(user=pending.user, code=code):
        method = SignInMethod.PASSWORD_TOTP
    elif recovery_code_redeem(user=pending.user, code=code):
        method = SignInMethod.PASSWORD_RECOVERY
    else:
        sign_in_failed(
            username=pending.user.username, method=SignInMethod.PASSWORD_TOTP, address=address, reason="wrong_code"
        )
        return _code_refused(request, pending, WRONG_CODE, status=422)
    begin_session(request, pending.user, method=method)
    return redirect(_home_of(pending.user, pending.next))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_link(request: HttpRequest, secret: str) -> HttpResponseBase:
    """Show whom a one-time link signs in, and use it up only when the button is pressed: previews fetch links too."""
    limit_address("sign_in", request.META.get("REMOTE_ADDR"))
    if request.method != "POST":
        person = sign_in_link_person(secret=secret)
        if person is None:
            return _link_refused(request)
        return render(request, "web/login_link.html", {"person": person, "secret": secret})
    try:
        user = sign_in_link_redeem(secret=secret, address=request.META.get("REMOTE_ADDR"))
    except NotAuthenticated:
        return _link_refused(request)
    begin_session(request, user, method=SignInMethod.LINK)
    return redirect("web:home")


@never_cache
@require_POST
def sign_out(request: HttpRequest) -> HttpResponseBase:
    """End the session; where a provider began it, at the provider too."""
    organization, onward = sso.sign_out_address(request)
    end_session(request)
    if onward:
        return sso.leave(request, onward, heading="Signed out here")
    return redirect("web:organization_sign_in", organization) if organization else redirect("web:login")


def _password_was_right(request: HttpRequest, user: Account) -> HttpResponseBase:
    found = authenticator_of(user)
    if found is not None and found.confirmed_at is not None:
        second_factor.ask(request, user, next_path=safe_next(request))
        return redirect("web:login_code")
    goes = safe_next(request)
    begin_session(request, user, method=SignInMethod.PASSWORD)
    return redirect(_home_of(user, goes))


def _refused(request: HttpRequest, words: str, *, status: int, retry_after_s: int = 0) -> HttpResponseBase:
    organization = request.POST.get("organization", "")  # of whose sign-in page the form came, with its provider
    context = {
        "next": safe_next(request),
        "username": request.POST.get("username", "")[:150],
        "error": words,
        "organization": organization,
        "provider": provider_at_sign_in(organization),
    }
    answer = render(request, "web/login.html", context, status=status)
    if retry_after_s:
        answer["Retry-After"] = str(retry_after_s)
    return answer


def _code_refused(
    request: HttpRequest, pending: second_factor.Pending, words: str, *, status: int, retry_after_s: int = 0
) -> HttpResponseBase:
    answer = render(request, "web/login_code.html", {"pending": pending, "error": words}, status=status)
    if retry_after_s:
        answer["Retry-After"] = str(retry_after_s)
    return answer


def _link_refused(request: HttpRequest) -> HttpResponseBase:
    return render(request, "web/login_link.html", {"person": None}, status=410)


def _minutes(seconds: int) -> str:
    minutes = max(1, -(-seconds // 60))
    return "a minute" if minutes == 1 else f"{minutes} minutes"


def _home_of(user: Account, wanted: str) -> str:
    return resolve_url("admin:index") if user.organization_id is None and user.is_staff else wanted

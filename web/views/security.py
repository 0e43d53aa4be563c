"""The page of one's own account: password, authenticator app, signed-in browsers."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec
from uuid import UUID

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from controlplane.access import sessions, totp
from controlplane.access.accounts import Account, account_of
from controlplane.access.actors import VIEW_AS, actor_for_user
from controlplane.access.backends import passwords_allowed
from controlplane.access.entra.selectors import identities_of_own, provider_of_own
from controlplane.access.limits.guard import limit_actor, limit_address
from controlplane.access.selectors import authenticator_of, recovery_codes_left, signed_in_by_link
from controlplane.access.services import (
    authenticator_begin,
    authenticator_confirm,
    authenticator_remove,
    password_change,
    password_choose,
    recovery_codes_renew,
    session_end,
    sessions_end,
    sessions_open,
)
from controlplane.core import clock
from controlplane.core.actor import Actor, Channel
from controlplane.core.errors import AppError, FieldError, InvalidInput, PermissionDenied, invalid
from controlplane.core.refusals import carry_actor
from web.session import to_sign_in

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, Actor, Account, P], HttpResponseBase]


def _own_account(view: View[P]) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """Give ``view`` the signed-in person and its actor; operators have an account too, unlike other pages here."""

    @never_cache
    @wraps(view)
    def wrapper(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        user = account_of(request.user)
        if user is None:
            return to_sign_in(request)
        if VIEW_AS in request.session:
            raise PermissionDenied(
                "You are viewing as a team. End that before you open your account.", code="read_only"
            )
        actor = actor_for_user(user, channel=Channel.WEB, address=request.META.get("REMOTE_ADDR"))
        if user.organization_id is not None:
            carry_actor(request, actor)  # also for what every page shows, see web/context.py
        limit_actor("requests", actor)
        return view(request, actor, user, *args, **kwargs)

    return wrapper


@require_safe
@_own_account
def security(request: HttpRequest, _actor: Actor, user: Account) -> HttpResponseBase:
    """What protects the account, and where it is signed in."""
    return _page(request, user)


@sensitive_post_parameters()
@require_POST
@_own_account
def password(request: HttpRequest, actor: Actor, user: Account) -> HttpResponseBase:
    """Change the password. This browser stays signed in, under a new session key; every other one is signed out."""
    _count(request, user)
    try:
        if request.POST.get("password", "") != request.POST.get("again", ""):
            raise invalid("/again", "password_differs", "The two new passwords differ.")
        new, key = request.POST.get("password", "")[:4096], request.session.session_key or ""
        if user.has_usable_password():
            current = request.POST.get("current", "")[:4096]
            password_change(actor=actor, user=user, current=current, new=new, keep_session=key)
        else:
            password_choose(actor=actor, user=user, new=new, keep_session=key)
    except InvalidInput as error:
        return _page(request, user, error=error)
    user.refresh_from_db()
    _keep_signed_in(request, user)
    messages.success(request, "Your password has been set. Your other browsers have been signed out.")
    return redirect("web:security")


@sensitive_post_parameters()
@require_POST
@_own_account
def authenticator_start(request: HttpRequest, _actor: Actor, user: Account) -> HttpResponseBase:
    """Make a new secret, not in force yet."""
    if not passwords_allowed(user):
        raise invalid("", "no_local_sign_in", "Your organization's provider asks for the second factor, not we.")
    _count(request, user)
    if user.has_usable_password() and not user.check_password(request.POST.get("current", "")[:4096]):
        refused = FieldError("/authenticator", "wrong_password", "This is not your password.")
        return _page(request, user, error=InvalidInput(refused.detail, code=refused.code, errors=[refused]))
    authenticator_begin(user=user)
    return redirect("web:security_authenticator")


@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
@_own_account
def authenticator(request: HttpRequest, actor: Actor, user: Account) -> HttpResponseBase:
    """Show the secret as a QR code until it is confirmed by a first code; then the recovery codes, once."""
    found = authenticator_of(user)
    if found is None or found.confirmed_at is not None:
        return redirect("web:security")
    error = ""
    if request.method == "POST":
        _count(request, user)
        try:
            codes = authenticator_confirm(actor=actor, user=user, code=request.POST.get("code", "")[:64])
        except InvalidInput as refused:
            error = refused.detail
        else:
            request.session.pop(sessions.MUST_ENROL, None)
            return render(request, "web/security_codes.html", {"codes": codes})
    secret = totp.unseal(found.secret, found.pepper_version)
    context = {
        "image": totp.qr_image(totp.provisioning_uri(secret, user.username)),
        "secret": totp.readable_secret(secret),
        "error": error,
    }
    return render(request, "web/security_authenticator.html", context, status=422 if error else 200)


@sensitive_post_parameters("code")
@require_POST
@_own_account
def authenticator_drop(request: HttpRequest, actor: Actor, user: Account) -> HttpResponseBase:
    """Remove the authenticator app, on showing a code."""
    _count(request, user)
    try:
        authenticator_remove(actor=actor, user=user, code=request.POST.get("code", "")[:64])
    except InvalidInput as error:
        return _page(request, user, error=error)
    messages.success(request, "The authenticator app has been removed. From now on the password alone signs you in.")
    return redirect("web:security")


@sensitive_post_parameters("code")
@require_POST
@_own_account
def recovery_codes(request: HttpRequest, actor: Actor, user: Account) -> HttpResponseBase:
    """Make new recovery codes, on showing a code; the old ones stop working."""
    _count(request, user)
    try:
        codes = recovery_codes_renew(actor=actor, user=user, code=request.POST.get("code", "")[:64])
    except InvalidInput as error:
        return _page(request, user, error=error)
    return render(request, "web/security_codes.html", {"codes": codes})


@require_POST
@_own_account
def browser_end(request: HttpRequest, actor: Actor, user: Account, session_id: UUID) -> HttpResponseBase:
    """Sign one browser out."""
    session_end(actor=actor, user=user, session_id=session_id)
    messages.success(request, "That browser has been signed out.")
    return redirect("web:security")


@require_POST
@_own_account
def browsers_end(request: HttpRequest, actor: Actor, user: Account) -> HttpResponseBase:
    """Sign every other browser out."""
    ended = sessions_end(actor=actor, user=user, except_key=request.session.session_key)
    messages.success(request, f"Signed out everywhere else: {ended} browser{'' if ended == 1 else 's'}.")
    return redirect("web:security")


def _count(request: HttpRequest, user: Account) -> None:
    """Whoever has got hold of a session must not guess password or code from there."""
    limit_address("second_factor", request.META.get("REMOTE_ADDR"), account=user.pk)


def _keep_signed_in(request: HttpRequest, user: Account) -> None:
    old_key = request.session.session_key
    update_session_auth_hash(request, user)  # gives the session a new key
    user.browser_sessions.filter(session_key=old_key).update(session_key=request.session.session_key)


def _page(request: HttpRequest, user: Account, *, error: AppError | None = None) -> HttpResponseBase:
    found = authenticator_of(user)
    actor = actor_for_user(user, channel=Channel.WEB)
    context: dict[str, Any] = {
        "identities": identities_of_own(actor),
        "link_with": provider_of_own(actor),
        "has_password": user.has_usable_password(),
        "may_choose": not user.has_usable_password() and signed_in_by_link(user, request.session.session_key),
        "passwords_allowed": passwords_allowed(user),
        "authenticator": found if found is not None and found.confirmed_at is not None else None,
        "recovery_codes_left": recovery_codes_left(user),
        "browsers": [
            {"row": row, "own": row.session_key == request.session.session_key}
            for row in sessions_open(user, now=clock.now())
        ],
        "must_enrol": bool(request.session.get(sessions.MUST_ENROL)),
        "errors": {} if error is None else {item.pointer.strip("/"): item.detail for item in error.errors},
    }
    return render(request, "web/security.html", context, status=200 if error is None else error.status)

"""Signing in by the organization's identity provider: its page, the way there and the way back."""

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import structlog
from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_POST, require_safe

from controlplane.access.accounts import account_of
from controlplane.access.entra.mappings import external_identity_unlink
from controlplane.access.entra.refusals import SignInRefused
from controlplane.access.entra.selectors import provider_at_sign_in, provider_of_own
from controlplane.access.entra.sign_in import refusal_record, sign_in_begin, sign_in_finish
from controlplane.access.limits.guard import limit_address
from controlplane.access.services import account_confirm
from controlplane.core.actor import Actor
from controlplane.core.errors import Conflict, InvalidInput, NotFound
from web import sso
from web.session import safe_next, signed_in
from web.sessions import begin_session

log = structlog.get_logger(__name__)


@never_cache
@require_safe
def organization_sign_in(request: HttpRequest, org: str) -> HttpResponseBase:
    """The sign-in page of an organization. One that does not exist looks like one without a provider."""
    signed_in_already = _where_signed_in(request)
    if signed_in_already is not None:
        return signed_in_already
    provider = provider_at_sign_in(org)
    context = {"next": safe_next(request), "provider": provider, "organization": org}
    return render(request, "web/login.html", context)


@never_cache
@require_GET
def begin(request: HttpRequest, org: str) -> HttpResponseBase:
    """Send the browser to the provider, when its person has asked for that on a page of ours.

    Another site might name an organization of its own, whose provider signs in whomever it likes and asks nobody.
    """
    address = request.META.get("REMOTE_ADDR")
    limit_address("sign_in", address)
    provider = provider_at_sign_in(org)
    if provider is None:
        raise NotFound
    signed_in_already = _where_signed_in(request)
    if signed_in_already is not None:
        return signed_in_already
    # Set by browsers alone (Fetch Metadata Request Headers, section 2.4); an old browser that sets none may go on.
    if request.headers.get("Sec-Fetch-Site", "none") not in {"same-origin", "none"}:
        asked = urlencode({"next": safe_next(request)})
        return redirect(f"{reverse('web:organization_sign_in', args=[org])}?{asked}")
    try:
        begun = sign_in_begin(provider=provider, address=address)
    except SignInRefused:
        return _refused(request, org, status=503)
    sso.keep(request, begun, provider=provider.pk, goes=safe_next(request))
    answer = redirect(begun.url)
    answer["Referrer-Policy"] = "no-referrer"
    return answer


@never_cache
@sensitive_post_parameters("current")
@require_POST
@signed_in
def link(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Send the browser of a person to the provider of its organization, to link who it is there with the account."""
    address = request.META.get("REMOTE_ADDR")
    limit_address("sign_in", address)
    provider, user = provider_of_own(actor), account_of(request.user)
    if provider is None or user is None:
        raise NotFound
    limit_address("second_factor", address, account=user.pk)
    try:
        current = request.POST.get("current", "")[:4096]
        account_confirm(user=user, current=current, session_key=request.session.session_key or "")
    except InvalidInput as error:
        messages.error(request, error.detail)
        return redirect("web:security")
    org = provider.organization.slug
    try:
        begun = sign_in_begin(provider=provider, address=address)
    except SignInRefused:
        return _refused(request, org, status=503)
    sso.keep(request, begun, provider=provider.pk, goes="/app/security", link_to=actor.user_id)
    return sso.leave(request, begun.url, heading=f"Going on to {provider.name}")


@never_cache
@require_GET
def callback(request: HttpRequest, org: str) -> HttpResponseBase:
    """Where the provider sends the browser back to."""
    answer = _callback(request, org)
    answer["Referrer-Policy"] = "no-referrer"  # the address of this page has the code in it
    return answer


def _callback(request: HttpRequest, org: str) -> HttpResponseBase:
    address = request.META.get("REMOTE_ADDR")
    limit_address("sign_in", address)
    given = {name: values[0] for name, values in request.GET.lists() if len(values) == 1}
    kept = sso.take(request, given.get("state", ""))
    provider = provider_at_sign_in(org)
    if kept is None or provider is None or kept.provider != str(provider.pk):
        # Anybody can send anybody here: what no browser of ours began is nobody's sign-in, and nothing to record.
        log.warning("sign_in.refused", reason="flow_unknown")
        return _refused(request, org, status=400)
    if kept.link_to is not None and kept.link_to != str(request.user.pk):
        refusal_record(provider=provider, refused=SignInRefused("link_session"), address=address)
        return _refused(request, org, status=403)
    link_to = request.user.pk if kept.link_to is not None else None
    try:
        signed = sign_in_finish(provider=provider, flow=kept.flow, answer=given, link_to=link_to, address=address)
    except SignInRefused as refused:
        return _refused(request, org, status=403, reason=refused.reason)
    begin_session(request, signed.user, method=provider.kind)
    sso.remember_provider(request, organization=org, client_id=provider.client_id, end_session=signed.end_session)
    if signed.notice:
        messages.warning(request, signed.notice)
    if link_to is not None:
        messages.success(request, f"Your account is linked with {provider.name}.")
    return redirect(kept.next)


def _where_signed_in(request: HttpRequest) -> HttpResponseBase | None:
    """Return where somebody signed in goes on, ``None`` for who may sign in."""
    visitor = request.user
    if not visitor.is_authenticated or (visitor.organization_id is None and not visitor.is_staff):
        return None
    return redirect(safe_next(request) if visitor.organization_id is not None else "admin:index")


@require_POST
@signed_in
def unlink(request: HttpRequest, actor: Actor, identity_id: UUID) -> HttpResponseBase:
    """Take an identity off one's own account."""
    try:
        external_identity_unlink(actor=actor, identity_id=identity_id)
    except Conflict as error:
        messages.error(request, error.detail)
    else:
        messages.success(request, "The identity is no longer linked with your account.")
    return redirect("web:security")


def _refused(request: HttpRequest, org: str, *, status: int, reason: str = "") -> HttpResponseBase:
    """Return the page of a refused sign-in: the same words for every rule that somebody might be probing."""
    shown = reason if reason in {"no_role", "groups_unavailable"} else ""
    context: dict[str, Any] = {
        "organization": org,
        "unreachable": status == 503,
        "unknown": status == 400,
        "reason": shown,
        "request_id": getattr(request, "request_id", ""),
    }
    return render(request, "web/sign_in_refused.html", context, status=status)

"""How people of the organization sign in: its identity provider, what roles and groups there give here, a test."""

import re
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from controlplane.access.entra.checks import Check, identity_provider_test
from controlplane.access.entra.flow import callback_url
from controlplane.access.entra.mappings import role_mapping_remove, role_mapping_set
from controlplane.access.entra.refusals import SignInRefused
from controlplane.access.entra.selectors import (
    credential_state,
    has_owner_by_hand,
    identity_provider_get,
    mapping_get,
    mappings_of,
    may_write_provider,
    organization_for,
    provider_set_up,
)
from controlplane.access.entra.services import describe, identity_provider_remove, identity_provider_set
from controlplane.core.actor import Actor
from controlplane.core.errors import AppError, Conflict, InvalidInput
from controlplane.core.permissions import Action
from web.members_page import Places, own_organization
from web.session import limited, signed_in

#: Clouds in words. One that the operator has added is called by its name.
_CLOUDS: Final = {
    "global": "Microsoft, worldwide",
    "us-government": "Microsoft for US government",
    "china": "Microsoft in China, by 21Vianet",
}
_GUESTS: Final = (("deny", "Refuse them"), ("viewer", "Viewer at most"), ("responder", "Responder at most"))
_TEXTS: Final = (
    "name", "cloud", "tenant", "authority", "client_id", "client_secret", "client_certificate", "guests",
)  # fmt: skip
_LISTS: Final = ("allowed_tenants", "email_domains")
_NEW: Final[dict[str, Any]] = {
    "kind": "entra",
    "enabled": True,
    "cloud": "global",
    "guests": "deny",
    "password_sign_in": True,
}


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def sign_in_settings(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Show the provider; by form, set it."""
    if request.method != "POST":
        return _page(request, actor)
    typed = _typed(request)
    try:
        provider = identity_provider_set(actor=actor, organization_slug=own_organization(actor), **_fields(typed))
    except (InvalidInput, Conflict) as error:
        return _page(request, actor, typed=typed, error=error)
    messages.success(request, f"{provider.name} is set. Test the connection before you rely on it.")
    return redirect("web:sign_in_settings")


@require_POST
@signed_in
@limited("connection_tests")
def provider_test(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Try the provider out as it is set, and show each step."""
    checks = identity_provider_test(actor=actor, organization_slug=own_organization(actor))
    return _page(request, actor, checks=checks)


@require_POST
@signed_in
def provider_remove(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Take the provider away."""
    try:
        identity_provider_remove(actor=actor, organization_slug=own_organization(actor))
    except Conflict as error:
        messages.error(request, error.detail)
    else:
        messages.success(request, "The identity provider is removed, and with it every role that came by it.")
    return redirect("web:sign_in_settings")


@require_POST
@signed_in
def mapping_add(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Let a role of the application or a group give a role here."""
    provider = identity_provider_get(
        actor=actor, organization_slug=own_organization(actor), action=Action.IDENTITY_PROVIDER_WRITE
    )
    typed = {name: request.POST.get(name, "").strip()[:300] for name in ("kind", "value", "node", "role")}
    try:
        role_mapping_set(actor=actor, provider=provider, **typed)
    except (InvalidInput, Conflict) as error:
        return _page(request, actor, mapping=typed, mapping_error=error)
    messages.success(request, "The mapping counts from each person's next sign-in on.")
    return redirect("web:sign_in_settings")


@require_POST
@signed_in
def mapping_remove(request: HttpRequest, actor: Actor, mapping_id: UUID) -> HttpResponseBase:
    """Take a mapping away."""
    mapping = mapping_get(actor=actor, organization_slug=own_organization(actor), mapping_id=mapping_id)
    role_mapping_remove(actor=actor, mapping=mapping)
    messages.success(request, "The mapping is removed. Roles that came by it end at each person's next sign-in.")
    return redirect("web:sign_in_settings")


def _typed(request: HttpRequest) -> dict[str, Any]:
    post = request.POST
    typed: dict[str, Any] = {"kind": post.get("kind", "")}
    typed |= {name: post.get(name, "").strip()[:1000] for name in _TEXTS}
    typed |= {name: post.get(name, "")[:5000] for name in _LISTS}
    return typed | {name: post.get(name) == "1" for name in ("enabled", "password_sign_in")}


def _fields(typed: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the kind that was chosen: the form shows those of both."""
    fields = dict(typed)
    for name in _LISTS:
        fields[name] = [one for one in re.split(r"[\s,;]+", typed[name]) if one]
    others = ("authority",) if typed["kind"] == "entra" else ("cloud", "tenant", "allowed_tenants", "guests")
    return {name: value for name, value in fields.items() if name not in others}


def _page(
    request: HttpRequest,
    actor: Actor,
    *,
    typed: dict[str, Any] | None = None,
    error: AppError | None = None,
    checks: list[Check] | None = None,
    mapping: dict[str, str] | None = None,
    mapping_error: AppError | None = None,
) -> HttpResponseBase:
    organization, root = organization_for(
        actor=actor, organization_slug=own_organization(actor), action=Action.IDENTITY_PROVIDER_READ
    )
    provider = provider_set_up(organization)
    may_write, places = may_write_provider(actor), Places(actor)
    context = {
        "provider": provider,
        "typed": typed or (_shown(describe(provider)) if provider else _NEW),
        "errors": _by_field(error),
        "general": "" if error is None or error.errors else error.detail,
        "credential": credential_state(provider) if provider else None,
        "mappings": mappings_of(provider) if provider else [],
        "mapping": mapping or {"kind": "group", "role": "responder", "node": root.slug},
        "mapping_errors": _by_field(mapping_error),
        "mapping_general": "" if mapping_error is None or mapping_error.errors else mapping_error.detail,
        "checks": checks,
        "owner_by_hand": provider is None or has_owner_by_hand(organization),
        "may_write": may_write,
        "places": places.choices if may_write and provider else [],
        "roles": places.roles_grantable if may_write and provider else [],
        "clouds": [(name, _CLOUDS.get(name, name)) for name in settings.ENTRA_CLOUDS],
        "guests": _GUESTS,
        "callback": _callback(organization.slug),
        "sign_in_page": f"{settings.PUBLIC_URL}/login/{organization.slug}",
    }
    failed = error or mapping_error
    return render(request, "web/settings_sign_in.html", context, status=failed.status if failed else 200)


def _shown(fields: dict[str, Any]) -> dict[str, Any]:
    return fields | {name: "\n".join(fields[name]) for name in _LISTS}


def _by_field(error: AppError | None) -> dict[str, str]:
    errors: dict[str, str] = {}
    for item in error.errors if error else ():
        errors.setdefault(item.pointer.removeprefix("/").partition("/")[0], item.detail)
    return errors


def _callback(slug: str) -> str:
    try:
        return callback_url(slug)
    except SignInRefused:
        return ""

"""Access tokens: the list, making, rotating and revoking them."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from controlplane.access.selectors import person_of
from controlplane.access.services import (
    IssuedToken,
    token_create,
    token_revoke,
    token_rotate,
    tokens_revoke,
)
from controlplane.access.services.token_policies import token_policy_permits
from controlplane.access.token_selectors import (
    STATES,
    TokenFilter,
    filter_of,
    token_find,
    token_report,
    tokens_of_organization,
)
from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.core.errors import AppError, NotFound
from controlplane.core.pagination import page_of
from controlplane.core.permissions import Action, nodes_that_allow
from controlplane.orgs.selectors import node_get, nodes_visible, organization_of
from web.session import signed_in
from web.token_words import KIND_WORDS, LIFETIMES, SCOPE_GROUPS, scopes_offered

PER_PAGE: Final = 30
_FILTERS: Final = ("kind", "state", "node", "person", "unused_days", "expiring_days", "outside_policy")
_OVERLAPS: Final = {"0": timedelta(), "1h": timedelta(hours=1), "1d": timedelta(days=1), "7d": timedelta(days=7)}


@require_safe
@signed_in
def tokens(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """The tokens the person may read and its own, newest first; those that work unless another state is asked for."""
    params = {name: request.GET.get(name, "") for name in _FILTERS}
    params["state"] = request.GET.get("state", "active")
    cursor = request.GET.get("cursor", "")
    slug = _organization_slug(actor)
    try:
        found = tokens_of_organization(actor=actor, organization_slug=slug, wanted=filter_of(params))
        page = page_of(
            found, ordering=["-created_at", "-id"], params={"cursor": cursor, "limit": PER_PAGE}, default=PER_PAGE
        )
    except AppError as error:
        if error.status >= 500 or error.status == 404:
            raise
        return redirect("web:tokens")  # a filter or cursor that was cut or edited: begin again
    chosen = {name: value for name, value in params.items() if value}
    context = tab_context(actor, "list") | {
        "rows": [_row(token, actor) for token in page.results],
        "report": token_report(actor=actor, organization_slug=slug),
        "params": params,
        "filtered": chosen != {"state": "active"},
        "older": urlencode(params | {"cursor": page.next}) if page.next else "",
        "newest": urlencode(params) if cursor else "",
        "kinds": KIND_WORDS,
        "states": STATES,
        "unused_choices": ("30", "90", "180", "365"),
        "expiring_choices": ("7", "14", "30", "90"),
        "may_create": bool(_places(actor)),
    }
    return render(request, "web/tokens.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def token_new(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Make a token; its text is in this one answer."""
    if request.method != "POST":
        personal = not nodes_that_allow(actor, Action.TOKEN_WRITE)
        typed = {
            "kind": "user" if personal else "team",
            "life": "",
            "scopes": None,
            "node": request.GET.get("node", ""),
        }
        return _form(request, actor, typed)
    fields = ("kind", "node", "name", "life", "addresses")
    sent: dict[str, str] = {name: request.POST.get(name, "").strip() for name in fields}
    wanted: dict[str, Any] = sent | {"scopes": request.POST.getlist("scopes") or None}
    try:
        node = node_get(actor=actor, organization_slug=_organization_slug(actor), node_slug=sent["node"])
        issued = token_create(
            actor=actor,
            kind=sent["kind"],
            node=node,
            name=sent["name"],
            scopes=wanted["scopes"],
            allowed_addresses=sent["addresses"].replace(",", " ").split() or None,
            user=person_of(actor) if sent["kind"] == "user" else None,
            **_life(sent["life"]),
        )
    except AppError as error:
        if error.status >= 500 or (error.status == 404 and sent["node"]) or error.status == 403:
            raise
        return _form(request, actor, wanted, error)
    return _issued(request, actor, issued)


@require_POST
@signed_in
def token_renew(request: HttpRequest, actor: Actor, public_id: str) -> HttpResponseBase:
    """Rotate a token."""
    token = _token(actor, public_id)
    overlap = _OVERLAPS.get(request.POST.get("overlap", ""), _OVERLAPS["1d"])
    try:
        issued = token_rotate(actor=actor, token=token, overlap=overlap)
    except AppError as error:
        if error.status not in {409, 422}:
            raise
        messages.error(request, error.detail)
        return redirect("web:tokens")
    return _issued(request, actor, issued, replaced=token, overlap=overlap)


@require_POST
@signed_in
def token_end(request: HttpRequest, actor: Actor, public_id: str) -> HttpResponseBase:
    """Revoke a token."""
    token = token_revoke(actor=actor, token=_token(actor, public_id))
    messages.success(request, f"{token.name} is revoked. It works no longer.")
    return redirect("web:tokens")


@require_POST
@signed_in
def tokens_end(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Revoke the tokens that are ticked, or all that the filter names: a page says how many, its button does it."""
    wanted, hidden = _chosen(request)
    confirmed = request.POST.get("confirmed") == "1"
    slug = _organization_slug(actor)
    try:
        done = tokens_revoke(
            actor=actor,
            organization_slug=slug,
            wanted=wanted,
            dry_run=not confirmed,
            reason=request.POST.get("reason", ""),
        )
    except AppError as error:
        if error.status != 422:
            raise
        messages.error(request, "Tick the tokens to revoke first." if error.code == "nothing_named" else error.detail)
        return redirect("web:tokens")
    if confirmed:
        more = f" {done.left} more match: revoke again." if done.left else ""
        messages.success(request, f"{len(done.ids)} token{'' if len(done.ids) == 1 else 's'} revoked.{more}")
        return redirect("web:tokens")
    listed = tokens_of_organization(
        actor=actor, organization_slug=slug, wanted=TokenFilter(ids=done.ids[:PER_PAGE]), action=Action.TOKEN_WRITE
    )
    context = tab_context(actor, "list") | {"done": done, "rows": listed, "hidden": hidden}
    return render(request, "web/tokens_revoke.html", context)


def tab_context(actor: Actor, tab: str) -> dict[str, Any]:
    """Return what the tabs of these pages need. One query."""
    reads = token_policy_permits(actor, Action.TOKEN_READ)
    return {"tab": tab, "reads_policy": reads, "may_view": bool(nodes_that_allow(actor, Action.IMPERSONATE))}


def _organization_slug(actor: Actor) -> str:
    organization = organization_of(actor)
    if organization is None:
        raise NotFound
    return organization.slug


def _token(actor: Actor, public_id: str) -> Any:
    return token_find(actor=actor, organization_slug=_organization_slug(actor), public_id=public_id)


def _row(token: Any, actor: Actor) -> dict[str, Any]:
    now = clock.now()
    soon = token.expires_at is not None and token.expires_at <= now + timedelta(days=14)
    state = "revoked" if token.revoked_at else "expired" if token.expires_at and token.expires_at <= now else "active"
    return {
        "token": token,
        "state": state,
        "soon": soon and state == "active",
        "own": token.user_id is not None and token.user_id == actor.user_id,
        "kind": KIND_WORDS[token.kind],
        "rotatable": state == "active" and token.kind != "view",
    }


def _places(actor: Actor) -> list[Any]:
    """Return the nodes a token may be made on: where the person writes tokens, first; else where its own is listed."""
    writing = list(nodes_visible(actor, Action.TOKEN_WRITE).order_by("slug"))
    return writing or list(nodes_visible(actor).order_by("slug"))


def _life(choice: str) -> dict[str, Any]:
    if choice == "endless":
        return {"endless": True}
    days = LIFETIMES.get(choice)
    if days is not None:
        return {"expires_at": clock.now() + timedelta(days=days)}
    try:
        day = datetime.strptime(choice, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return {}
    last = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)  # the day after 9999-12-31 is none
    return {"expires_at": min(day, last) + timedelta(days=1)}


def _form(request: HttpRequest, actor: Actor, typed: dict[str, Any], error: AppError | None = None) -> HttpResponseBase:
    errors: dict[str, str] = {}
    for item in error.errors if error else ():
        name = item.pointer.removeprefix("/").partition("/")[0]
        errors.setdefault({"expires_at": "life", "allowed_addresses": "addresses"}.get(name, name), item.detail)
    if error and not errors:
        errors["node" if error.status == 404 else "name"] = error.detail
    context = tab_context(actor, "new") | {
        "typed": typed,
        "errors": errors,
        "places": _places(actor),
        "may_write": bool(nodes_that_allow(actor, Action.TOKEN_WRITE)),
        "groups": scopes_offered(SCOPE_GROUPS, typed["scopes"]),
        "lifetimes": LIFETIMES,
    }
    return render(request, "web/token_new.html", context, status=error.status if error else 200)


def _issued(
    request: HttpRequest,
    actor: Actor,
    issued: IssuedToken,
    *,
    replaced: Any = None,
    overlap: timedelta | None = None,
) -> HttpResponseBase:
    context = tab_context(actor, "new") | {
        "issued": issued,
        "replaced": replaced,
        "old_until": clock.now() + overlap if overlap else None,
        "kind": KIND_WORDS[issued.token.kind],
    }
    return render(request, "web/token_issued.html", context, status=201)


def _chosen(request: HttpRequest) -> tuple[TokenFilter, list[tuple[str, str]]]:
    """Return what a form of the list names: the ticked ones, or with ``all`` whatever the filter shows."""
    if request.POST.get("all") == "1":
        params = {name: request.POST.get(name, "") for name in _FILTERS}
        try:
            wanted = filter_of(params)
        except AppError:
            return TokenFilter(), []
        return wanted, [("all", "1"), *((name, value) for name, value in params.items() if value)]
    ids = tuple(request.POST.getlist("ids")[:500])
    return TokenFilter(ids=ids) if ids else TokenFilter(), [("ids", one) for one in ids]

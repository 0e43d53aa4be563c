"""People of the organization: the list, an invitation, one person's roles and what they come to."""

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from controlplane.access.member_selectors import people_of, person_get, roles_of_person
from controlplane.access.selectors import membership_get
from controlplane.access.services import (
    INVITATION_LIFETIME,
    InvitedBy,
    invitation_renew,
    membership_grant,
    membership_revoke,
    person_deactivate,
    person_invite,
    person_reactivate,
    person_remove,
)
from controlplane.core.actor import Actor
from controlplane.core.errors import AppError, MalformedRequest, NotFound, PermissionDenied
from controlplane.core.pagination import page_of
from controlplane.core.permissions import Action
from controlplane.orgs.selectors import node_get
from web.members_page import (
    Places,
    field_errors,
    own_organization,
    person_context,
)
from web.session import signed_in

PER_PAGE: Final = 50
_FIELDS: Final = ("username", "name", "email", "node", "role", "by", "subject", "tenant")
_SHOWN: Final = {"active": True, "inactive": False}


@require_safe
@signed_in
def members(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """The people whom one may see, with a search."""
    query, show = request.GET.get("q", "").strip()[:200], request.GET.get("show", "")
    cursor = request.GET.get("cursor", "")
    try:
        people = people_of(
            actor=actor, organization_slug=own_organization(actor), query=query, active=_SHOWN.get(show)
        ).prefetch_related("memberships__node")
        page = page_of(people, ordering=["username"], params={"cursor": cursor, "limit": PER_PAGE})
    except MalformedRequest:
        return redirect("web:members")  # a search or cursor that was cut or edited: begin again
    places = Places(actor)
    context = {
        "people": [places.row(person) for person in page.results],
        "query": query,
        "show": show if show in _SHOWN else "",
        "older": page.next,
        "first": bool(cursor),
        "may_invite": places.may_invite,
    }
    return render(request, "web/members.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def member_invite(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Invite somebody. The link is shown in the answer to the form and nowhere else."""
    places = Places(actor)
    if not places.may_invite:
        raise PermissionDenied(f"You may not do this here (it needs {Action.MEMBER_WRITE.value}).")
    if request.method != "POST":
        typed = {"node": places.root_slug, "role": "responder", "by": InvitedBy.LINK.value}
        return _invitation_form(request, places, typed)
    typed = {name: request.POST.get(name, "").strip() for name in _FIELDS}
    binding = {} if typed["by"] != InvitedBy.PROVIDER else {"subject": typed["subject"], "tenant": typed["tenant"]}
    fields = {name: typed[name] for name in ("role", "username", "name", "email", "by")} | binding
    try:
        node = node_get(
            actor=actor,
            organization_slug=own_organization(actor),
            node_slug=typed["node"],
            action=Action.MEMBER_WRITE,
        )
        person, secret = person_invite(actor=actor, node=node, **fields)
    except AppError as error:
        if error.status >= 500:
            raise
        return _invitation_form(request, places, typed, error)
    if not secret:
        messages.success(request, f"{person.display_name} may sign in through the identity provider from now on.")
        return redirect("web:member", person.pk)
    return _invited(request, person, secret)


@require_safe
@signed_in
def member(request: HttpRequest, actor: Actor, person_id: UUID) -> HttpResponseBase:
    """One person: roles, what they allow where, and what one may change about it."""
    return _person_page(request, actor, person_id)


@require_POST
@signed_in
def member_role_add(request: HttpRequest, actor: Actor, person_id: UUID) -> HttpResponseBase:
    """Give a person a role on a node."""
    organization = own_organization(actor)
    person = person_get(actor=actor, organization_slug=organization, user_id=person_id)
    typed = {"node": request.POST.get("node", ""), "role": request.POST.get("role", "")}
    try:
        node = node_get(
            actor=actor, organization_slug=organization, node_slug=typed["node"], action=Action.MEMBER_WRITE
        )
        membership_grant(actor=actor, user=person, node=node, role=typed["role"])
    except AppError as error:
        if error.status >= 500:
            raise
        return _person_page(request, actor, person_id, typed=typed, error=error)
    messages.success(request, f"{person.display_name} is {typed['role']} of {node.name} from now on.")
    return redirect("web:member", person_id)


@require_POST
@signed_in
def member_role_remove(request: HttpRequest, actor: Actor, person_id: UUID, membership_id: int) -> HttpResponseBase:
    """Take one role back."""
    organization = own_organization(actor)
    person = person_get(actor=actor, organization_slug=organization, user_id=person_id)
    shown = next((row for row in roles_of_person(actor=actor, user=person) if row.pk == membership_id), None)
    if shown is None:
        raise NotFound
    found = membership_get(
        actor=actor, organization_slug=organization, node_slug=shown.node.slug, membership_id=membership_id
    )
    return _done(
        request,
        person_id,
        lambda: membership_revoke(actor=actor, membership=found),
        f"{person.display_name} is no longer {found.role} of {found.node.name}.",
    )


@require_POST
@signed_in
def member_change(request: HttpRequest, actor: Actor, person_id: UUID) -> HttpResponseBase:
    """Deactivate, reactivate, remove, or give a new invitation."""
    person = person_get(actor=actor, organization_slug=own_organization(actor), user_id=person_id)
    name, reason = person.display_name, request.POST.get("reason", "").strip()[:500]
    match request.POST.get("act", ""):
        case "deactivate":
            act, said = _bound(person_deactivate, actor, person, reason=reason), f"{name} is signed out everywhere."
        case "reactivate":
            act, said = _bound(person_reactivate, actor, person), f"{name} may sign in again."
        case "remove":
            act, said = _bound(person_remove, actor, person, reason=reason), f"{name} is removed, with every role."
        case "invite":
            return _renewed(request, actor, person)
        case _:
            raise NotFound
    return _done(request, person_id, act, said)


def _renewed(request: HttpRequest, actor: Actor, person: Any) -> HttpResponseBase:
    try:
        secret = invitation_renew(actor=actor, user=person)
    except AppError as error:
        if error.status >= 500 or error.status == 404:
            raise
        messages.error(request, error.detail)
        return redirect("web:member", person.pk)
    return _invited(request, person, secret)


def _bound(service: Callable[..., None], actor: Actor, person: Any, **fields: str) -> Callable[[], None]:
    return lambda: service(actor=actor, user=person, **fields)


def _done(request: HttpRequest, person_id: UUID, act: Callable[[], None], said: str) -> HttpResponseBase:
    """Do it; what a rule forbids is said on the person's page."""
    try:
        act()
    except AppError as error:
        if error.status != 409 and error.code != "role_not_held":
            raise
        messages.error(request, error.detail)
    else:
        messages.success(request, said)
    return redirect("web:member", person_id)


def _invitation_form(
    request: HttpRequest, places: Places, typed: dict[str, str], error: AppError | None = None
) -> HttpResponseBase:
    context = {
        "places": places.choices,
        "roles": places.roles_grantable,
        "ways": places.ways_in,
        "typed": typed,
        "errors": field_errors(error, fallback="role"),
    }
    return render(request, "web/member_invite.html", context, status=_status(error))


def _invited(request: HttpRequest, person: Any, secret: str) -> HttpResponseBase:
    hours = int(INVITATION_LIFETIME.total_seconds() // 3600)
    path = reverse("web:login_link", args=[secret])
    link = f"{settings.PUBLIC_URL}{path}" if settings.PUBLIC_URL else request.build_absolute_uri(path)
    return render(request, "web/member_invited.html", {"person": person, "link": link, "hours": hours})


def _person_page(
    request: HttpRequest,
    actor: Actor,
    person_id: UUID,
    *,
    typed: dict[str, str] | None = None,
    error: AppError | None = None,
) -> HttpResponseBase:
    person = person_get(actor=actor, organization_slug=own_organization(actor), user_id=person_id)
    context = person_context(actor, person, cursor=request.GET.get("cursor", ""))
    context |= {"typed": typed or {"role": "responder"}, "errors": field_errors(error, fallback="role")}
    return render(request, "web/member.html", context, status=_status(error))


def _status(error: AppError | None) -> int:
    if error is None:
        return 200
    return 422 if error.status == 404 else error.status  # the node typed is not there; the page is

"""Credentials by name: the references of a node's configuration with their states, and who grants it what. No value."""

import re
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from controlplane.access.selectors import grant_get, grants_held, grants_of_node
from controlplane.access.services import credential_grant, credential_revoke
from controlplane.configs.credentials import credential_report
from controlplane.configs.pointers import encode
from controlplane.configs.selectors import config_effective_for
from controlplane.core.actor import Actor
from controlplane.core.errors import AppError, PermissionDenied
from controlplane.core.permissions import Action
from web.config_page import Place, credential_states
from web.session import signed_in

#: Refusals that name no field, and the field that they are about.
_FIELD_OF: Final = {"credential_not_held": "name", "hosts_not_held": "hosts", "too_many_grants": "name"}


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def credentials(request: HttpRequest, actor: Actor, slug: str) -> HttpResponseBase:
    """List references and grants; by form, grant the node a name that a node above holds."""
    place = Place(actor, slug)
    if request.method != "POST":
        return _page(request, actor, place, {"name": request.GET.get("name", ""), "hosts": "", "inherited": True})
    if not place.may_grant:
        raise PermissionDenied(f"You may not do this here (it needs {Action.CREDENTIAL_GRANT.value}).")
    name, hosts = request.POST.get("name", "").strip(), request.POST.get("hosts", "")
    inherited = request.POST.get("inherited") == "1"
    try:
        credential_grant(
            actor=actor,
            node=place.node,
            name=name,
            hosts=[host for host in re.split(r"[\s,]+", hosts) if host],
            inherited=inherited,
        )
    except AppError as error:
        if error.code not in _FIELD_OF and (error.status >= 500 or error.status in {403, 404}):
            raise
        return _page(request, actor, place, {"name": name, "hosts": hosts, "inherited": inherited}, error)
    messages.success(request, f"{place.node.name} may use {name} from now on.")
    return redirect("web:config_credentials", slug)


@require_POST
@signed_in
def grant_revoke(request: HttpRequest, actor: Actor, slug: str, grant_id: UUID) -> HttpResponseBase:
    """Take a grant on this node back, with those below that count only because of it."""
    place = Place(actor, slug)
    grant = grant_get(actor=actor, organization_slug=place.node.organization.slug, node_slug=slug, grant_id=grant_id)
    ended = credential_revoke(actor=actor, grant=grant)
    more = f" {len(ended) - 1} below ended with it." if len(ended) > 1 else ""
    messages.success(request, f"The grant of {grant.name} is taken back.{more}")
    return redirect("web:config_credentials", slug)


def _page(
    request: HttpRequest, actor: Actor, place: Place, typed: dict[str, Any], error: AppError | None = None
) -> HttpResponseBase:
    node = place.node
    effective = config_effective_for(actor=actor, node_id=node.pk)
    held = grants_held(node.pk, place.lineage)
    rows = grants_of_node(actor=actor, organization_slug=node.organization.slug, node_slug=node.slug)
    errors: dict[str, str] = {}
    for item in error.errors if error else ():
        errors.setdefault(item.pointer.removeprefix("/").partition("/")[0], item.detail)
    if error and not errors:
        errors[_FIELD_OF.get(error.code, "name")] = error.detail
    context = place.context("credentials") | {
        "references": [
            (encode(path), state, _source(effective, path))
            for path, state in credential_states(credential_report(effective))
        ],
        "grants": [_grant(grant, held, place) for grant in rows.order_by("name", "created_at", "id")],
        "held": sorted(held.names()),
        "typed": typed,
        "errors": errors,
    }
    return render(request, "web/config_credentials.html", context, status=error.status if error else 200)


def _grant(grant: Any, held: Any, place: Place) -> dict[str, Any]:
    own = grant.node_id == place.node.pk
    here = grant.inherited or place.node.pk == (grant.node_id or place.lineage[0])
    return {
        "grant": grant,
        "counts": here and held.counts(grant),
        "revocable": own and place.may_grant,
    }


def _source(effective: Any, path: tuple[str, ...]) -> Any:
    """Return who set the leaf that a reference stands in: the leaf itself, or the list around it."""
    for end in range(len(path), 0, -1):
        source = effective.sources.get(encode(path[:end]))
        if source is not None:
            return source
    return None

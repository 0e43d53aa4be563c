"""Policies: those a node sets for everything below it, those that bind it, and what they find missing."""

from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from controlplane.configs.policies import shown_pointer
from controlplane.configs.policy_services import missing_in, policies_for, policy_create, policy_delete, teams_below
from controlplane.core.actor import Actor
from controlplane.core.errors import AppError, PermissionDenied
from controlplane.core.permissions import Action
from web.config_page import POLICY_WORDS, Place, policy_words
from web.config_schema import known_settings
from web.json_text import parse_typed
from web.session import signed_in

#: How many teams the list of missing values looks at.
_TEAMS: Final = 100
_FIELDS: Final = ("pointer", "kind", "value", "reason")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def policies(request: HttpRequest, actor: Actor, slug: str) -> HttpResponseBase:
    """List the policies; by form, set one."""
    place = Place(actor, slug)
    if request.method != "POST":
        return _page(request, actor, place, {"pointer": request.GET.get("pointer", ""), "kind": "locked"})
    if not place.may_write:
        raise PermissionDenied(f"You may not do this here (it needs {Action.CONFIG_WRITE.value}).")
    typed = {name: request.POST.get(name, "").strip() for name in _FIELDS}
    try:
        value = parse_typed(typed["value"], field="value") if typed["value"] else None
        policy, held = policy_create(
            actor=actor,
            node=place.node,
            pointer=typed["pointer"],
            kind=typed["kind"],
            value=value,
            reason=typed["reason"],
        )
    except AppError as error:
        if error.status >= 500 or error.status in {403, 404}:
            raise
        return _page(request, actor, place, typed, error)
    below = ""
    if held.count:
        listed = ", ".join(held.slugs[:5]) + (" and more" if held.count > 5 else "")
        below = f" Values that are set there already stay: {listed}."
    messages.success(request, f"The policy on {policy.pointer} holds from now on.{below}")
    return redirect("web:config_policies", slug)


@require_POST
@signed_in
def policy_remove(request: HttpRequest, actor: Actor, slug: str, policy_id: UUID) -> HttpResponseBase:
    """Remove one of the node's own policies."""
    place = Place(actor, slug)
    policy_delete(actor=actor, node=place.node, policy_id=policy_id)
    messages.success(request, "The policy is removed.")
    return redirect("web:config_policies", slug)


def _page(
    request: HttpRequest, actor: Actor, place: Place, typed: dict[str, str], error: AppError | None = None
) -> HttpResponseBase:
    rows = list(policies_for(actor=actor, node=place.node, inherited=True).order_by("pointer", "kind", "id"))
    listed = [(policy, policy_words(policy.kind, policy.value, policy.node.slug)) for policy in rows]
    teams = teams_below(actor=actor, node=place.node).order_by("slug")[:_TEAMS]
    errors: dict[str, str] = {}
    for item in error.errors if error else ():
        name = item.pointer.removeprefix("/").partition("/")[0]
        errors.setdefault(name if name in _FIELDS else "pointer", item.detail)
    if error and not errors:
        errors["pointer"] = error.detail
    context = place.context("policies") | {
        "own": [pair for pair in listed if pair[0].node_id == place.node.pk],
        "inherited": [pair for pair in listed if pair[0].node_id != place.node.pk],
        "missing": [_missing(found) for found in missing_in(list(teams)) if found.missing],
        "kinds": [(kind, words, meaning) for kind, (words, _, meaning) in POLICY_WORDS.items()],
        "pointers": [setting.pointer for setting in known_settings()],
        "typed": typed,
        "errors": errors,
    }
    return render(request, "web/config_policies.html", context, status=error.status if error else 200)


def _missing(found: Any) -> tuple[Any, list[tuple[str, str]]]:
    return found.node, [(shown_pointer(path), policy.node) for policy, path in found.missing]

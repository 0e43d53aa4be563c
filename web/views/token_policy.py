"""What an organization asks of its tokens, and looking at things as a team does."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from controlplane.access.actors import VIEW_AS, actor_for_user
from controlplane.access.services import (
    PolicyTerms,
    impersonation_begin,
    impersonation_end,
    token_policy_get,
    token_policy_set,
)
from controlplane.access.services.impersonation import DEFAULT_MINUTES
from controlplane.access.services.token_policies import POLICY_KINDS, token_policy_permits
from controlplane.access.token_selectors import token_report
from controlplane.core.actor import Actor, Channel
from controlplane.core.errors import FieldError, InvalidInput, NotFound
from controlplane.core.permissions import Action
from controlplane.orgs.selectors import organization_of, team_for, teams_for
from web.session import signed_in, to_sign_in
from web.token_words import KIND_WORDS
from web.views.tokens import tab_context

_DAYS: Final = ("max_days", "default_days", "revoke_unused_days")
_MINUTES: Final = (5, 15, 30, 60)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def token_policy(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Show the policy; by form, set it."""
    organization = organization_of(actor)
    if organization is None:
        raise NotFound
    policy = token_policy_get(actor=actor, organization_slug=organization.slug)
    errors: dict[str, str] = {}
    typed = {kind: _typed_terms(terms) for kind, terms in policy.items()}
    status = 200
    if request.method == "POST":
        typed = {kind: _typed_form(request, kind) for kind in POLICY_KINDS}
        try:
            terms = _terms(typed)
            token_policy_set(
                actor=actor, organization_slug=organization.slug, terms=terms, reason=request.POST.get("reason", "")
            )
        except InvalidInput as error:
            status = error.status
            errors = {item.pointer.removeprefix("/").replace("/", "."): item.detail for item in error.errors}
        else:
            messages.success(request, "The policy holds for tokens made from now on.")
            return redirect("web:token_policy")
    report = token_report(actor=actor, organization_slug=organization.slug)
    context = tab_context(actor, "policy") | {
        "kinds": [(kind, KIND_WORDS[kind], typed[kind], _errors_of(kind, errors)) for kind in POLICY_KINDS],
        "errors": errors,
        "report": report,
        "may_write": token_policy_permits(actor, Action.TOKEN_WRITE),
    }
    return render(request, "web/token_policy.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def view_as(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Choose a team to look at things as; by form, begin."""
    teams = list(teams_for(actor, Action.IMPERSONATE))
    errors: dict[str, str] = {}
    typed = {"team": request.GET.get("team", ""), "minutes": str(DEFAULT_MINUTES), "reason": ""}
    if request.method == "POST":
        typed = {name: request.POST.get(name, "").strip() for name in typed}
        try:
            team = team_for(actor, typed["team"], Action.IMPERSONATE)
            minutes = int(typed["minutes"]) if typed["minutes"].isdecimal() and len(typed["minutes"]) < 5 else 0
            issued = impersonation_begin(actor=actor, node=team, minutes=minutes, reason=typed["reason"])
        except InvalidInput as error:
            errors = {item.pointer.removeprefix("/"): item.detail for item in error.errors}
        else:
            # The text of the token is thrown away: the session names it, and nobody else ever can.
            request.session[VIEW_AS] = issued.token.public_id
            return redirect("web:home")
    context = tab_context(actor, "view") | {"teams": teams, "typed": typed, "errors": errors, "minutes": _MINUTES}
    return render(request, "web/view_as.html", context, status=422 if errors else 200)


@never_cache
@require_POST
def view_as_end(request: HttpRequest) -> HttpResponseBase:
    """Stop looking at things as a team: the person acts as itself again."""
    user = request.user
    if not user.is_authenticated:
        return to_sign_in(request)
    public_id = request.session.pop(VIEW_AS, None)
    actor = actor_for_user(user, channel=Channel.WEB, address=request.META.get("REMOTE_ADDR"))
    if public_id and impersonation_end(actor=actor, public_id=public_id):
        messages.success(request, "You no longer view as the team.")
    return redirect("web:home")


def _typed_terms(terms: PolicyTerms) -> dict[str, Any]:
    days = {name: getattr(terms, name) for name in _DAYS}
    return {name: "" if value is None else str(value) for name, value in days.items()} | {
        "endless_allowed": terms.endless_allowed
    }


def _typed_form(request: HttpRequest, kind: str) -> dict[str, Any]:
    typed: dict[str, Any] = {name: request.POST.get(f"{kind}.{name}", "").strip() for name in _DAYS}
    return typed | {"endless_allowed": request.POST.get(f"{kind}.endless_allowed") == "1"}


def _terms(typed: dict[str, dict[str, Any]]) -> dict[str, PolicyTerms]:
    faults = [
        FieldError(f"/{kind}/{name}", "days", "This must be a whole number of days, or empty.")
        for kind, fields in typed.items()
        for name in _DAYS
        if fields[name] and not (fields[name].isascii() and fields[name].isdigit() and len(fields[name]) < 7)
    ]
    if faults:
        raise InvalidInput(faults[0].detail, errors=faults)
    return {
        kind: PolicyTerms(
            **{name: int(fields[name]) if fields[name] else None for name in _DAYS},
            endless_allowed=fields["endless_allowed"],
        )
        for kind, fields in typed.items()
    }


def _errors_of(kind: str, errors: dict[str, str]) -> dict[str, str]:
    return {name.partition(".")[2]: detail for name, detail in errors.items() if name.partition(".")[0] == kind}

"""The reviews inbox: what waits, what one has asked for, what is decided; one review, and deciding it."""

from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from controlplane.configs.approvals import change_fault
from controlplane.configs.changes import KIND
from controlplane.configs.patterns import replayed
from controlplane.configs.selectors import config_document
from controlplane.core.actor import Actor
from controlplane.core.errors import AppError, Conflict, NotFound, PermissionDenied
from controlplane.core.pagination import page_of
from controlplane.core.permissions import Action, nodes_that_allow
from controlplane.investigations.approvals import KIND as ACTION
from controlplane.investigations.selectors import thread_get
from controlplane.reviews.selectors import review_actions, review_get, reviews_for, reviews_waiting
from controlplane.reviews.services import review_approve, review_reject, review_withdraw, reviews_expire
from web.change_rows import change_rows, plain_rows
from web.config_draft import Draft
from web.config_page import Place, pretty_json
from web.session import signed_in
from web.views.config_edit import config_preview

PER_PAGE: Final = 30
_TABS: Final = ("waiting", "mine", "decided")
#: States after which an author may ask for the same once more.
_AGAIN: Final = frozenset({"needs_rebase", "expired", "withdrawn", "rejected"})


@require_safe
@signed_in
def reviews(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """The inbox; who decides nothing begins with what one has asked for."""
    reviews_expire(organization_id=actor.organization_id)
    decides = bool(nodes_that_allow(actor, Action.REVIEW_DECIDE))
    tab = request.GET.get("show", "")
    if tab not in _TABS or (tab == "waiting" and not decides):
        tab = "waiting" if decides else "mine"
    if tab == "waiting":
        rows = reviews_waiting(actor)
    elif tab == "mine":
        rows = reviews_for(actor).filter(requested_by=actor.principal)
    else:
        rows = reviews_for(actor).exclude(state="pending")
    rows = rows.select_related("node").defer("snapshot", "evidence", "base", "result")
    cursor = request.GET.get("cursor", "")
    try:
        page = page_of(rows, ordering=["-created_at", "-id"], params={"cursor": cursor, "limit": PER_PAGE})
    except AppError:
        return redirect("web:reviews")  # a cursor that was cut or edited: begin again
    context = {
        "tab": tab,
        "decides": decides,
        "reviews": page.results,
        "older": page.next,
        "first": bool(cursor),
    }
    return render(request, "web/reviews.html", context)


@require_safe
@signed_in
def review(request: HttpRequest, actor: Actor, review_id: UUID) -> HttpResponseBase:
    """What would happen, who asks for it and why, and the decision."""
    reviews_expire(organization_id=actor.organization_id)
    return _page(request, actor, review_get(actor=actor, review_id=review_id))


@require_POST
@signed_in
def review_decide(request: HttpRequest, actor: Actor, review_id: UUID) -> HttpResponseBase:
    """Approve, reject or withdraw by form; or, as its author, ask for it again on what is there now."""
    found = review_get(actor=actor, review_id=review_id)
    decision, reason = request.POST.get("decision", ""), request.POST.get("reason", "")
    if decision == "again":
        return _again(request, actor, found)
    if decision == "reject" and not reason.strip():
        return _page(request, actor, found, problem="Say why: the author reads it.")
    try:
        match decision:
            case "approve":
                done = review_approve(actor=actor, review=found, reason=reason)
                messages.success(request, _approved(done))
            case "reject":
                review_reject(actor=actor, review=found, reason=reason)
                messages.success(request, "The request is rejected. Nothing was changed.")
            case "withdraw":
                review_withdraw(actor=actor, review=found, reason=reason)
                messages.success(request, "Your request is withdrawn.")
    except AppError as error:
        if error.status >= 500 or error.code in {"permission_denied", "not_found", "own_request", "not_own_request"}:
            raise
        if isinstance(error, Conflict):  # the page says how things stand now
            messages.error(request, error.detail)
        else:
            return _page(request, actor, found, reason=reason, error=error)
    return redirect("web:review", review_id)


def _again(request: HttpRequest, actor: Actor, found: Any) -> HttpResponseBase:
    if found.kind != KIND or found.requested_by != actor.principal or found.state not in _AGAIN:
        raise PermissionDenied("Only who asked for it, once it has ended without being applied, asks again.")
    place = Place(actor, found.node.slug)
    if not place.may_write:
        raise PermissionDenied(f"You may not do this here (it needs {Action.CONFIG_WRITE.value}).")
    stored = config_document(actor=actor, node=place.node)
    text = pretty_json(replayed(stored.document, found.diff))
    draft = Draft(version=stored.version, text=text, reason=found.reason)
    try:
        return config_preview(request, actor, place, stored, draft)
    except AppError as error:
        if error.status >= 500 or not error.errors:
            raise
        messages.error(request, f"This may not be asked for as things are now: {error.detail}")
        return redirect("web:review", found.pk)


def _page(
    request: HttpRequest,
    actor: Actor,
    found: Any,
    *,
    problem: str = "",
    reason: str = "",
    error: AppError | None = None,
) -> HttpResponseBase:
    change = found.kind == KIND
    refused_reason = next((item.detail for item in error.errors if item.pointer == "/reason"), "") if error else ""
    context = {
        "review": found,
        "change": change,
        "action": found.kind == ACTION,
        "thread": _thread_of(actor, found),
        "actions": review_actions(actor, found),
        "own": found.requested_by == actor.principal,
        "again": change and found.requested_by == actor.principal and found.state in _AGAIN,
        "rows": change_rows(found.diff, found.snapshot.get("effective", ())) if change else [],
        "new_rows": plain_rows(found.result.get("diff", ())) if found.state == "needs_rebase" else [],
        "reason": reason,
        "reason_problem": problem or refused_reason,
        "author_fault": change_fault(found) if change and found.state == "pending" else "",
        "error": error if error and not refused_reason else None,
    }
    status = error.status if error else 422 if problem else 200
    return render(request, "web/review.html", context, status=status)


def _thread_of(actor: Actor, found: Any) -> UUID | None:
    """Return the thread of an action, for a link, where the actor may read it."""
    if found.kind != ACTION:
        return None
    try:
        return thread_get(actor, UUID(found.snapshot["thread"])).pk
    except NotFound:
        return None


def _approved(done: Any) -> str:
    if done.kind == ACTION:
        return "Approved: the run goes on with it."
    version = done.result.get("version")
    if version is None:
        return "Approved and done."
    return f"Approved: {done.node.slug} is at version {version} now."

"""Changing a node's own document: edit → preview → save, or request approval. Every step is a plain form."""

from dataclasses import replace
from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from controlplane.configs.catalogue.integrations import INTEGRATIONS
from controlplane.configs.foreseeing import progress_response
from controlplane.configs.impact import ImpactSearch
from controlplane.configs.judging import effective_pair
from controlplane.configs.pointers import MISSING, PointerSyntaxError, decode, diff, get
from controlplane.configs.policies import policies_above
from controlplane.configs.selectors import StoredDocument, config_document, config_effective_for
from controlplane.configs.services import WriteResult
from controlplane.core.actor import Actor
from controlplane.core.errors import AppError, PermissionDenied, PreconditionFailed
from controlplane.core.permissions import Action
from web.change_rows import change_rows, touches
from web.config_draft import (
    Draft,
    Fault,
    Problem,
    TypedWrongly,
    draft_base,
    draft_rebased,
    draft_typed,
    draft_write,
    problem_of,
)
from web.config_form import Typed, form_of, form_page_of
from web.config_page import Place, policy_words, pretty_json
from web.config_schema import known_settings, setting_at
from web.config_typed import form_shown, typed_of, typed_page
from web.session import limited, signed_in

#: How long a preview may count the affected nodes before the page is shown without the rest.
IMPACT_PATIENCE_S: Final = 2.0


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
@limited("previews")
def config_edit(request: HttpRequest, actor: Actor, slug: str) -> HttpResponseBase:
    """The own document to read and to change; what was typed survives every refusal."""
    place = Place(actor, slug)
    stored = config_document(actor=actor, node=place.node)
    if request.method != "POST":
        return _edit(request, actor, place, stored, _fresh(request, actor, stored))
    if not place.may_write:
        raise PermissionDenied(f"You may not do this here (it needs {Action.CONFIG_WRITE.value}).")
    draft = draft_typed(request)
    try:
        if draft.mode == "form" and "text" not in request.POST:
            draft = _form_typed(request, actor, stored, draft)
        match request.POST.get("step"):
            case "edit":
                return _edit(request, actor, place, stored, draft)
            case "impact":
                return _impact_told(actor, stored, draft)
            case "save":
                return _save(request, actor, place, stored, draft)
            case "rebase":
                draft = draft_rebased(actor=actor, stored=stored, draft=draft)
        return config_preview(request, actor, place, stored, draft)
    except AppError as error:
        return _refused(request, actor, place, stored, draft, error)


def config_preview(
    request: HttpRequest, actor: Actor, place: Place, stored: StoredDocument, draft: Draft, problem: str = ""
) -> HttpResponseBase:
    """Show what a draft would change, for whom, and what it needs; writes nothing.

    Raises:
        AppError: the draft is refused, see :func:`web.config_draft.draft_write`.
    """
    result = draft_write(actor=actor, stored=stored, draft=replace(draft, reason=""), dry_run=True)
    search = result.search or ImpactSearch(place.node, {}, {})
    # The page counts on while it is looked at; without a script it is asked to count to the end.
    search.run(None if request.POST.get("step") == "count" else IMPACT_PATIENCE_S)
    effective = config_effective_for(actor=actor, node_id=place.node.pk)
    pair = effective_pair(place.node, stored.document, result.stored.document)
    rows = change_rows(result.operations, diff(*pair), effective.sources)
    approvals = [warning for warning in result.warnings if warning.code == "requires_approval"]
    policies = [
        policy for policy in policies_above(place.node.pk) if any(touches(policy.pattern, row.pointer) for row in rows)
    ]
    context = place.context("document") | {
        "draft": draft,
        "stored": stored,
        "rows": rows,
        "counts": _counts([row.sign for row in rows if not row.effect]),
        "impact": search.found,
        "search": search,
        "approvals": approvals,
        "warnings": [warning for warning in result.warnings if warning.code != "requires_approval"],
        "policies": [
            (policy.pointer, policy_words(policy.kind, policy.value, policy.node), policy.node) for policy in policies
        ],
        "approves": any(policy.kind == "requires_approval" for policy in policies),
        "reason_problem": problem,
    }
    return render(request, "web/config_preview.html", context, status=422 if problem else 200)


def _impact_told(actor: Actor, stored: StoredDocument, draft: Draft) -> HttpResponseBase:
    """Answer how many are affected, with lines before that say how far the count is; see ``impact.js``."""
    result = draft_write(actor=actor, stored=stored, draft=replace(draft, reason=""), dry_run=True)
    search = result.search or ImpactSearch(stored.node, {}, {})
    return progress_response(search, lambda: {"affected": search.found.as_dict()})


def _save(request: HttpRequest, actor: Actor, place: Place, stored: StoredDocument, draft: Draft) -> HttpResponseBase:
    if request.POST.get("approval") and not draft.reason.strip():
        return config_preview(request, actor, place, stored, draft, "Say why: the reviewer decides by it.")
    try:
        result = draft_write(actor=actor, stored=stored, draft=draft, dry_run=False)
    except TypedWrongly as error:
        if not any(item.pointer == "/reason" for item in error.errors):
            raise
        return config_preview(request, actor, place, stored, draft, error.detail)
    return _done(request, place, result)


def _done(request: HttpRequest, place: Place, result: WriteResult) -> HttpResponseBase:
    if result.review is not None:
        messages.success(request, "Approval is requested. Nothing has changed yet; a reviewer decides.")
        return redirect("web:review", result.review.pk)
    if result.changed:
        places = len(result.operations)
        words = "1 place" if places == 1 else f"{places} places"
        messages.success(request, f"Saved as version {result.stored.version}: {words} changed.")
    else:
        messages.info(request, "Nothing differs from what is stored, so nothing was saved.")
    return redirect("web:config_node", place.node.slug)


def _refused(
    request: HttpRequest, actor: Actor, place: Place, stored: StoredDocument, draft: Draft, error: AppError
) -> HttpResponseBase:
    if error.status >= 500 or (error.status in {403, 404} and not error.errors):
        raise error
    if draft.mode == "rollback":
        stale = "The document has changed meanwhile; look at its history again."
        messages.error(request, stale if isinstance(error, PreconditionFailed) else error.detail)
        return redirect("web:config_history", place.node.slug)
    problem = problem_of(actor=actor, stored=stored, draft=draft, error=error)
    return _edit(request, actor, place, stored, draft, problem, status=error.status)


def _edit(
    request: HttpRequest,
    actor: Actor,
    place: Place,
    stored: StoredDocument,
    draft: Draft,
    problem: Problem | None = None,
    *,
    status: int = 200,
) -> HttpResponseBase:
    if draft.mode == "form" and place.may_write:
        context = _form_context(request, actor, place, stored, draft, problem or Problem())
        return render(request, "web/config_edit.html", context | {"refused": problem is not None}, status=status)
    effective = config_effective_for(actor=actor, node_id=place.node.pk)
    document = draft if draft.mode == "document" else Draft(version=stored.version, text=pretty_json(stored.document))
    # A single value is set on what is there now: what changed meanwhile is shown, and the next preview counts.
    single = draft if draft.mode != "document" else Draft(mode="value")
    pointers = dict.fromkeys([*effective.sources, *(setting.pointer for setting in known_settings())])
    context = place.context("document") | {
        "stored": stored,
        "document": document,
        "single": replace(single, version=stored.version),
        "draft": draft,
        "problem": problem or Problem(),
        "refused": problem is not None,
        "settings": known_settings(),
        "pointers": list(pointers),
        "setting": setting_at(single.pointer),
        "inherited": _inherited(effective, single.pointer),
        "set_here": _value_at(stored.document, single.pointer) is not MISSING,
    }
    return render(request, "web/config_edit.html", context, status=status)


def _form_context(
    request: HttpRequest, actor: Actor, place: Place, stored: StoredDocument, draft: Draft, problem: Problem
) -> dict[str, Any]:
    typed = Typed.from_text(draft.text)
    errors = [(fault.pointer, fault.detail) for fault in problem.faults]
    form, others = form_shown(actor=actor, stored=stored, typed=typed, errors=errors)
    return place.context("document") | {
        "stored": stored,
        "draft": draft,
        "form": form,
        "kinds": [(one.kind, one.title) for one in INTEGRATIONS.values()] if typed.section == "integrations" else [],
        "problem": replace(problem, faults=[Fault(pointer, detail, None) for pointer, detail in others]),
        "focus": request.GET.get("pointer", ""),
    }


def _form_typed(request: HttpRequest, actor: Actor, stored: StoredDocument, draft: Draft) -> Draft:
    own = draft_base(actor=actor, stored=stored, version=draft.version)
    typed = typed_of(actor=actor, stored=stored, own=own, post=request.POST)
    return replace(draft, text=typed.as_text())


def _fresh(request: HttpRequest, actor: Actor, stored: StoredDocument) -> Draft:
    """Return the draft of a page that is opened: a page of the form, or JSON where that is asked for.

    With a pointer it is the page with that place, or JSON of the value in force there when the form has no such field.
    """
    pointer = request.GET.get("pointer", "")
    if request.GET.get("as") == "json" and not pointer:
        return Draft(version=stored.version, text=pretty_json(stored.document))
    page = form_page_of(pointer) if pointer else typed_page(request.GET)
    if page is not None and request.GET.get("as") != "json":
        inputs = form_of(actor=actor, stored=stored, own=stored.document, typed=page).inputs if pointer else ()
        if not pointer or any(one.pointer == pointer for one in inputs):
            return Draft(mode="form", version=stored.version, text=page.as_text())
    value = _value_at(config_effective_for(actor=actor, node_id=stored.node.pk).document, pointer)
    text = "" if value is MISSING else pretty_json(value)
    return Draft(mode="value", version=stored.version, pointer=pointer[:1000], value=text)


def _inherited(effective: Any, pointer: str) -> str:
    source = effective.sources.get(pointer)
    return source.node if source is not None and source.node_id != effective.node_id else ""


def _value_at(document: Any, pointer: str) -> Any:
    try:
        path = decode(pointer)
    except PointerSyntaxError:
        return MISSING
    return get(document, path) if path else MISSING


def _counts(signs: list[str]) -> list[tuple[int, str]]:
    words = {"+": "set here", "~": "changed", "−": "no longer set here"}
    return [(signs.count(sign), word) for sign, word in words.items() if sign in signs]

"""Starting an investigation, and the home page around it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from controlplane.core.actor import Actor
from controlplane.core.errors import AppError, invalid
from controlplane.core.permissions import Action
from controlplane.investigations.files import MAX_FILES, file_limit, file_name, file_upload
from controlplane.investigations.idempotency import call_once
from controlplane.investigations.selectors import runs_page
from controlplane.investigations.starting import investigation_draft, investigation_queue
from controlplane.orgs.selectors import team_for, teams_for
from web.forms import Composer, composer_documents, composer_typed, errors_by_field
from web.session import limited, signed_in

#: How many runs the home page reads, and how many threads it shows of them.
_READ: Final = 40
_SHOWN: Final = 10
EXAMPLES: Final = (
    "Why is checkout slow since the last deploy?",
    "Replica lag on the payments database is growing. What is writing so much?",
    "Pods of the search service restart every few minutes. Find out why.",
)


@require_safe
@signed_in
def home(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """The composer, what runs now, what ran last."""
    runs = runs_page(actor, limit=_READ).results
    newest: dict[object, Any] = {}
    for run in runs:
        newest.setdefault(run.thread_id, run)
    shown = list(newest.values())
    context = _composer_context(
        actor, Composer(), [run.thread.node_id for run in runs if run.requested_by == actor.principal]
    ) | {
        "active": [run for run in shown if run.is_active],
        "recent": [run for run in shown if not run.is_active][:_SHOWN],
        "newcomer": all(run.thread.sample for run in shown),
    }
    return render(request, "web/home.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
@limited("investigations")
def investigation_new(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """The composer on a page of its own; a refused form comes back as typed, each error at its field."""
    if request.method != "POST":
        composer = Composer(prompt=request.GET.get("prompt", "")[:32_000], team=request.GET.get("team", ""))
        return render(request, "web/new.html", _composer_context(actor, composer))
    composer = composer_typed(request)
    try:
        thread_id = _start(request, actor, composer)
    except AppError as error:
        if error.status >= 500:
            raise
        by_field, general = errors_by_field(error)
        refused = replace(composer, errors=by_field, general=general)
        return render(request, "web/new.html", _composer_context(actor, refused), status=error.status)
    return redirect("web:thread", thread_id)


def _start(request: HttpRequest, actor: Actor, composer: Composer) -> str:
    """Start what was typed; a second press of the button leads to the investigation that the first one started."""
    alert, evidence = composer_documents(request)
    draft = investigation_draft(
        actor=actor,
        team=team_for(actor, composer.team or None, Action.RUN_CREATE),
        prompt=composer.prompt,
        alert=alert,
        evidence=evidence,
        visibility=composer.visibility,
        attachments=_uploaded(request, actor),
    )
    key = f"form {composer.key}"
    answer = call_once(actor=actor, key=key, asked=key, act=lambda: {"thread_id": investigation_queue(draft).thread.pk})
    return str(answer.value["thread_id"])


def _uploaded(request: HttpRequest, actor: Actor) -> list[UUID]:
    """Keep the files of the form and return their ids.

    Raises:
        InvalidInput: there are too many, or one is refused; the words say which.
    """
    sent = [file for file in request.FILES.getlist("attachments") if file.name]
    if len(sent) > MAX_FILES:
        raise invalid("/attachments", "too_many_files", f"At most {MAX_FILES} files are taken along.")
    kept: list[UUID] = []
    for file in sent:
        try:
            limit = file_limit()
            kept.append(file_upload(actor=actor, name=file.name, content=file.read(limit + 1)).pk)
        except AppError as error:
            if error.status >= 500:
                raise
            raise invalid("/attachments", error.code, f"{file_name(file.name)}: {error.detail}") from None
    return kept


def _composer_context(actor: Actor, composer: Composer, asked: Sequence[UUID] = ()) -> dict[str, Any]:
    """Return what the form shows, and as its team the one this person asked last.

    Args:
        asked: the teams of this person's newest runs, newest first, where they were read already.
    """
    teams = list(teams_for(actor, Action.RUN_CREATE))
    if not composer.team and not composer.errors and len(teams) > 1:
        newest = asked or [run.thread.node_id for run in runs_page(actor, mine=True, limit=1).results]
        composer = replace(composer, team=next((team.slug for team in teams if team.pk in newest[:1]), ""))
    return {"composer": composer, "teams": teams, "examples": EXAMPLES}

"""One investigation: its page, the fragments that page fetches, and its forms for browsers without scripts."""

from collections.abc import Callable
from uuid import UUID

import orjson
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render, resolve_url
from django.views.decorators.http import require_POST, require_safe

from controlplane.access.selectors import principal_name
from controlplane.alerts.sources import PRINCIPAL
from controlplane.core import clock
from controlplane.core.actor import Actor, Channel
from controlplane.core.errors import AppError, NotFound, PermissionDenied
from controlplane.investigations.approvals import approval_decide
from controlplane.investigations.feedback import feedback_give, may_rate, ratings_of
from controlplane.investigations.files import files_of_thread
from controlplane.investigations.recording import run_recording
from controlplane.investigations.selectors import approval_pending, question_pending, run_view, thread_detail
from controlplane.investigations.services import message_post, question_answer, run_interrupt
from web.export import report_filename, report_markdown
from web.reports import turn_of
from web.session import limited, signed_in


@require_safe
@signed_in
def thread(request: HttpRequest, actor: Actor, thread_id: UUID) -> HttpResponseBase:
    """The thread with the reports of its finished runs; the page's script adds the live activity from the event log."""
    return _page(request, actor, thread_id)


def _page(
    request: HttpRequest, actor: Actor, thread_id: UUID, *, draft: str = "", status: int = 200
) -> HttpResponseBase:
    detail = thread_detail(actor, thread_id)
    said = ratings_of(actor, [view.run.pk for view in detail.runs])
    files = files_of_thread(thread_id)
    context = {
        "detail": detail,
        "thread": detail.thread,
        "turns": [
            turn_of(view, said.get(view.run.pk), may_rate=detail.can_control, files=files) for view in detail.runs
        ],
        "last_run": detail.runs[-1].run if detail.runs else None,
        "active_run": detail.active_run,
        "question": detail.pending_question if detail.can_control else None,
        "approval": detail.pending_approval,
        "draft": draft,
        "credential": _credential(detail.thread.started_by) if detail.thread.channel == Channel.ALERT else "",
        "now": clock.rfc3339(clock.now()),
    }
    return render(request, "web/thread.html", context, status=status)


def _credential(principal: str) -> str:
    """Return with what an alert's source delivered, in words; ``""`` if that is gone."""
    kind, _, source = principal.partition(":")
    if kind == PRINCIPAL:
        return f"the source {source}"
    name = principal_name(principal)
    return name and (f"token {name}" if principal.startswith("token:") else f"a token of {name}")


@require_safe
@signed_in
def run_report(request: HttpRequest, actor: Actor, thread_id: UUID, run_id: UUID) -> HttpResponseBase:
    """The outcome of one run as a fragment."""
    view = run_view(actor, thread_id, run_id)
    rated = ratings_of(actor, [run_id]).get(run_id)
    turn = turn_of(view, rated, may_rate=may_rate(actor, thread_id), files=files_of_thread(thread_id))
    return render(request, "web/partials/outcome.html", {"turn": turn})


@require_POST
@signed_in
def feedback(request: HttpRequest, actor: Actor, thread_id: UUID, run_id: UUID) -> HttpResponseBase:
    """Rate a run by plain form, or change one's rating of it."""
    verdict, reason = request.POST.get("verdict", ""), request.POST.get("reason", "")
    try:
        feedback_give(actor=actor, thread_id=thread_id, run_id=run_id, verdict=verdict, reason=reason)
    except AppError as error:
        if error.status in {403, 404} or error.status >= 500:
            raise
        messages.error(request, error.detail)
    else:
        messages.success(request, "Your rating is kept.")
    return redirect(f"{resolve_url('web:thread', thread_id)}#feedback-{run_id}")


@require_safe
@signed_in
@limited("exports", methods=("GET",))
def report_file(_request: HttpRequest, actor: Actor, thread_id: UUID, run_id: UUID) -> HttpResponseBase:
    """The report of one run as a markdown file; not found while there is none."""
    view = run_view(actor, thread_id, run_id)
    if view.report is None:
        raise NotFound
    answer = HttpResponse(report_markdown(view, view.report), content_type="text/markdown; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{report_filename(view)}"'
    return answer


@require_safe
@signed_in
@limited("exports", methods=("GET",))
def recording_file(_request: HttpRequest, actor: Actor, thread_id: UUID, run_id: UUID) -> HttpResponseBase:
    """One finished run as a recording (``replay/1``)."""
    recording = run_recording(actor=actor, thread_id=thread_id, run_id=run_id)
    answer = HttpResponse(orjson.dumps(recording), content_type="application/json")
    answer["Content-Disposition"] = f'attachment; filename="run-{run_id}.replay.json"'
    return answer


@require_safe
@signed_in
def question(request: HttpRequest, actor: Actor, thread_id: UUID) -> HttpResponseBase:
    """The form of the question the thread waits with, as a fragment; 204 while there is none this person may answer."""
    try:
        thread, pending = question_pending(actor, thread_id)
    except PermissionDenied:
        pending = None
    if pending is None:
        return HttpResponse(status=204)
    context = {"question": pending, "thread": thread}
    return render(request, "web/partials/question.html", context)


@require_safe
@signed_in
def approval(request: HttpRequest, actor: Actor, thread_id: UUID) -> HttpResponseBase:
    """What the thread waits with for a decision, as a fragment, with buttons for who decides; 204 while none is due."""
    thread, pending = approval_pending(actor, thread_id)
    if pending is None:
        return HttpResponse(status=204)
    return render(request, "web/partials/approval.html", {"approval": pending, "thread": thread})


@require_POST
@signed_in
def decide(request: HttpRequest, actor: Actor, thread_id: UUID) -> HttpResponseBase:
    """Approve or reject what the thread waits with, by plain form."""
    post = request.POST
    return _act(
        request,
        thread_id,
        lambda: approval_decide(
            actor=actor,
            thread_id=thread_id,
            request_id=post.get("request_id", ""),
            decision=post.get("decision", ""),
            reason=post.get("reason", ""),
        ),
    )


@require_POST
@signed_in
@limited("investigations")
def message(request: HttpRequest, actor: Actor, thread_id: UUID) -> HttpResponseBase:
    """A follow-up by plain form; a refused text is there again on the page."""
    text = request.POST.get("text", "")
    try:
        message_post(actor=actor, thread_id=thread_id, text=text)
    except AppError as error:
        if error.status in {403, 404} or error.status >= 500:
            raise
        messages.error(request, error.detail)
        # Answered with the page itself: the text goes back to who typed it and is kept nowhere.
        return _page(request, actor, thread_id, draft=text, status=error.status)
    return redirect("web:thread", thread_id)


@require_POST
@signed_in
def stop(request: HttpRequest, actor: Actor, thread_id: UUID) -> HttpResponseBase:
    """Stop the active run by plain form."""
    return _act(request, thread_id, lambda: run_interrupt(actor=actor, thread_id=thread_id))


@require_POST
@signed_in
def answer(request: HttpRequest, actor: Actor, thread_id: UUID) -> HttpResponseBase:
    """Answer the pending question by plain form: choices and a comment for each of its questions."""
    post = request.POST
    answers: dict[str, str] = {}
    for name in post:
        stem, _, part = name.rpartition(".")
        if part in {"choice", "comment"} and stem and stem not in answers:
            chosen = ", ".join(post.getlist(f"{stem}.choice"))
            text = " // ".join(filter(None, [chosen, post.get(f"{stem}.comment", "").strip()]))
            if text:
                answers[stem] = text
    request_id = post.get("request_id", "")
    return _act(
        request,
        thread_id,
        lambda: question_answer(actor=actor, thread_id=thread_id, request_id=request_id, answers=answers),
    )


def _act(request: HttpRequest, thread_id: UUID, act: Callable[[], object]) -> HttpResponseBase:
    try:
        act()
    except AppError as error:
        if error.status in {403, 404} or error.status >= 500:
            raise
        messages.error(request, error.detail)
    return redirect("web:thread", thread_id)

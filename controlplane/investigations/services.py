"""Writes of people and machines on open threads: message, interrupt, answer."""

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction
from django.db.models import QuerySet

from controlplane.audit.services import audit_record
from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.core.errors import Conflict, NotFound, invalid
from controlplane.core.permissions import Action
from controlplane.investigations import bus, selectors
from controlplane.investigations.approvals import approvals_cancel, is_approval
from controlplane.investigations.files import file_refs, files_attach, uploads_of
from controlplane.investigations.inputs import MAX_PROMPT_CHARS, clean_alert, clean_answers, clean_text
from controlplane.investigations.lifecycle import Outcome, run_end_unclaimed, run_resume
from controlplane.investigations.log import append, new_event
from controlplane.investigations.models import Artifact, Message, Run, RunStatus, StoredFile, Thread
from controlplane.investigations.queueing import next_run
from controlplane.orgs.selectors import node_is_archived
from controlplane.runtimes import events
from controlplane.runtimes.events import EventType

MAX_REQUEST_ID = 64
MAX_PENDING_MESSAGES = 50
MAX_LINE_CHARS = 2_000
MAX_MESSAGE_LINES = 10
NOTHING_RUNS = "Nothing is running on this thread."


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message was stored; ``run`` is the run it started, ``None`` when a running one will take it up."""

    message: Message
    run: Run | None
    pending_count: int


@dataclass(frozen=True, slots=True)
class News:
    """What a machine has to say to a thread, whatever the thread is doing.

    ``line`` is for the active run (``None``: it knows); where ``starts_run``, the next run starts from it if that one
    ends without it. ``prompt`` starts an idle thread's next run (``None``: nothing to look at), if the last one ended
    at least ``quiet`` ago. ``alert`` is what that next run is about.
    """

    line: str | None
    prompt: str | None
    starts_run: bool
    alert: Mapping[str, Any]
    quiet: timedelta = timedelta()


class When(StrEnum):
    """In which state of the thread a message is wanted: in any, while nothing runs, or while something does."""

    ALWAYS = "always"
    IDLE = "idle"
    BUSY = "busy"


class Telling(StrEnum):
    """What became of news: the active run was told, knew, or has no room for it; a run was started, or none was."""

    TOLD = "told"
    KNOWN = "known"
    NO_ROOM = "no_room"
    STARTED = "started"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Told:
    """``run_id`` is the active, the started or the last run; ``idle_since`` when a started one's forerunner ended."""

    outcome: Telling
    run_id: UUID
    message_id: UUID | None = None
    idle_since: datetime | None = None


def message_post(
    *,
    actor: Actor,
    thread_id: UUID,
    text: str,
    alert: Mapping[str, Any] | None = None,
    when: When = When.ALWAYS,
    attachments: object = (),
) -> Accepted:
    """Say something to a thread: a running turn takes it up (or the next one does), an idle thread starts its next run.

    Two callers at once are serialised on the thread's row: one starts a run, the other's message joins it.

    Args:
        actor: needs ``run.create`` on the thread's team.
        thread_id: the thread.
        text: 1 to 32,000 characters after trimming.
        alert: what the next run is about, instead of the alert of the run before; at most 1 MiB.
        when: refuse the message in another state of the thread.
        attachments: ids of the actor's uploads that go with the message.

    Raises:
        NotFound, PermissionDenied: the thread is not the actor's to steer.
        InvalidInput: ``text`` is empty or longer than 32,000 characters, or an attachment is none.
        Conflict: ``too_many_messages`` wait already, ``team_archived``, or, as ``when`` says, ``thread_busy`` or
            ``nothing_running``.
    """
    thread = selectors.thread_get(actor, thread_id, Action.RUN_CREATE)
    cleaned = clean_text(text, pointer="/text", limit=MAX_PROMPT_CHARS)
    kept = clean_alert(alert)
    files = uploads_of(actor, attachments)
    with transaction.atomic():
        thread = _thread_locked(thread)
        if when is When.IDLE and thread.active_run is not None:
            raise Conflict("A run of this thread is not over yet.", code="thread_busy")
        if when is When.BUSY and thread.active_run is None:
            raise Conflict(NOTHING_RUNS, code="nothing_running")
        waiting = _waiting(thread).count()
        if waiting >= MAX_PENDING_MESSAGES:
            detail = f"{waiting} messages wait for the agent already; stop the run or wait."
            raise Conflict(detail, code="too_many_messages")
        return _message_create(actor, thread, cleaned, alert=kept, pending=waiting + 1, files=files)


def thread_tell(*, actor: Actor, thread_id: UUID, news: News, message_id: UUID | None = None) -> Told:
    """Tell the thread's active run or start the next one: decided under the lock of the thread's row.

    Args:
        actor: needs ``run.create`` on the thread's team.
        thread_id: the thread.
        news: what to say in either case.
        message_id: the message of the time before, whichever credential of the caller posted it. While no run has taken
            it up it grows by the line instead of a second one being posted: the first and the last lines are kept, ten
            in all. A turn that took up the shorter text gets the longer one too.

    Raises:
        NotFound, PermissionDenied: the thread is not the actor's to steer.
        InvalidInput: ``line`` or ``prompt`` is empty or longer than 2,000 characters, ``alert`` larger than 1 MiB.
        Conflict: ``team_archived``.
    """
    thread = selectors.thread_get(actor, thread_id, Action.RUN_CREATE)
    line = None if news.line is None else clean_text(news.line, pointer="/line", limit=MAX_LINE_CHARS)
    prompt = None if news.prompt is None else clean_text(news.prompt, pointer="/prompt", limit=MAX_LINE_CHARS)
    alert = clean_alert(news.alert)
    with transaction.atomic():
        thread = _thread_locked(thread)
        if thread.active_run is not None:
            message = None if line is None else _line_add(actor, thread, message_id, line, news.starts_run, alert)
            outcome = Telling.KNOWN if line is None else Telling.NO_ROOM if message is None else Telling.TOLD
            return Told(outcome, thread.active_run, message)
        last = Run.objects.filter(thread=thread).order_by("-number").only("pk", "ended_at")[0]
        if prompt is None or (last.ended_at is not None and last.ended_at + news.quiet > clock.now()):
            return Told(Telling.IDLE, last.pk)
        run = _message_create(actor, thread, prompt, alert=alert, pending=1).run
        return Told(Telling.STARTED, run.pk if run else last.pk, idle_since=last.ended_at)


def _thread_locked(thread: Thread) -> Thread:
    if node_is_archived(thread.node_id):
        raise Conflict("The team of this thread is archived; it takes no new messages.", code="team_archived")
    return _locked(thread)


def _locked(thread: Thread) -> Thread:
    """Return the thread with its row locked; retention may have removed it since it was looked up."""
    found = Thread.objects.select_for_update().filter(pk=thread.pk).first()
    if found is None:
        raise NotFound
    return found


def _waiting(thread: Thread) -> QuerySet[Message]:
    return Message.objects.filter(thread=thread, delivered_at__isnull=True)


def _line_add(
    actor: Actor, thread: Thread, message_id: UUID | None, line: str, starts_run: bool, alert: Any
) -> UUID | None:
    """Add a line to a message that waits, or post it as one; ``None`` when there is no room for another."""
    message = _waiting(thread).filter(pk=message_id).defer("alert").first() if message_id else None
    waiting = _waiting(thread).count()
    if message is None:
        if waiting >= MAX_PENDING_MESSAGES:
            return None
        return _message_create(actor, thread, line, starts_run=starts_run, alert=alert, pending=waiting + 1).message.pk
    first, *lines = [*message.text.splitlines(), *line.splitlines()]
    message.text = "\n".join([first, *lines[1 - MAX_MESSAGE_LINES :]])
    message.starts_run = message.starts_run or starts_run
    message.alert = alert
    message.save(update_fields=["text", "starts_run", "alert"])
    _message_announce(actor, thread, message, said=line, pending=waiting)
    return message.pk


def _message_create(
    actor: Actor,
    thread: Thread,
    text: str,
    *,
    pending: int,
    starts_run: bool = True,
    alert: Any = None,
    files: Sequence[StoredFile] = (),
) -> Accepted:
    message = Message.objects.create(
        thread=thread, text=text, by=actor.principal, by_label=actor.label[:200], starts_run=starts_run, alert=alert
    )
    run = _message_announce(actor, thread, message, said=text, pending=pending, files=files)
    files_attach(files, thread_id=thread.pk, run_id=run.pk if run else thread.active_run, message_id=message.pk)
    return Accepted(message, run, 0 if run else pending)


def _message_announce(
    actor: Actor, thread: Thread, message: Message, *, said: str, pending: int, files: Sequence[StoredFile] = ()
) -> Run | None:
    """Say to everybody what was said to a thread, for the active run to take up, or start the next run from it."""
    queued = events.MessageQueued(
        message_id=str(message.pk),
        text=said,
        by=actor.label[:200],
        pending_count=pending,
        attachments=tuple(file_refs(files)),
    )
    append(thread_id=thread.pk, events=[new_event(EventType.MESSAGE_QUEUED, queued, run_id=thread.active_run)])
    run = None
    if thread.active_run is None:
        run = next_run(
            thread_id=thread.pk,
            previous=Run.objects.filter(thread=thread).order_by("-number")[0],
            prompt=said,
            requested_by=actor.principal,
            requested_by_label=actor.label[:200],
            messages=[message],
        )
    else:
        transaction.on_commit(bus.work.tell)
    audit_record(
        actor=actor,
        organization_id=thread.organization_id,
        action="thread.message",
        object_kind="thread",
        object_id=str(thread.pk),
        node_id=thread.node_id,
        after={"message": str(message.pk), "run": str(run.pk) if run else None},
    )
    return run


def run_interrupt(*, actor: Actor, thread_id: UUID) -> Run:
    """Ask the thread's active run to stop. One that no worker holds ends at once; a running one within seconds.

    Asking again changes nothing.

    Raises:
        NotFound, PermissionDenied: the thread is not the actor's to control.
        Conflict: ``nothing_running``.
    """
    thread = selectors.thread_get(actor, thread_id, Action.RUN_CONTROL)
    with transaction.atomic():
        thread = _locked(thread)
        if thread.active_run is None:
            raise Conflict(NOTHING_RUNS, code="nothing_running")
        run = Run.objects.get(pk=thread.active_run)
        first = Run.objects.filter(pk=run.pk, interrupt_requested_at__isnull=True).update(
            interrupt_requested_at=clock.now(), interrupt_requested_by=actor.label[:200]
        )
        if first and run.status in (RunStatus.QUEUED, RunStatus.WAITING):
            approvals_cancel(run.pk)
            run_end_unclaimed(thread, run, Outcome("interrupted", reason="stopped"))
        elif first:
            transaction.on_commit(bus.work.tell)
        if first:
            audit_record(
                actor=actor,
                organization_id=thread.organization_id,
                action="run.interrupt",
                object_kind="run",
                object_id=str(run.pk),
                node_id=thread.node_id,
            )
        run.refresh_from_db()
    return run


def question_answer(*, actor: Actor, thread_id: UUID, request_id: str, answers: Mapping[str, str]) -> Run:
    """Answer the question the thread's run waits for; the run is queued again with the answers. The first answer wins.

    Raises:
        NotFound, PermissionDenied: the thread is not the actor's to control.
        InvalidInput: ``answers`` is empty, or not short texts by short names.
        Conflict: ``already_answered``, with who did as ``by``, ``not_waiting``: the run does not wait for this request
            (any more), or ``not_a_question``: it waits for a decision.
    """
    thread = selectors.thread_get(actor, thread_id, Action.RUN_CONTROL)
    if not 1 <= len(request_id) <= MAX_REQUEST_ID or "\x00" in request_id:
        raise invalid("/request_id", "bad_request_id", f"This must have 1 to {MAX_REQUEST_ID} characters.")
    cleaned = clean_answers(answers)
    with transaction.atomic():
        thread = _locked(thread)
        resume = {"request_id": request_id, "outcome": "answered", "answers": cleaned}
        run_id = thread.active_run
        if run_id is not None and is_approval(run_id, request_id):
            raise Conflict("This waits for a decision, not for an answer.", code="not_a_question")
        if run_id is None or not run_resume(run_id, request_id=request_id, resume=resume):
            raise _not_waiting(thread, request_id)
        answered = events.QuestionAnswered(request_id=request_id, answers=cleaned, by=actor.label[:200])
        append(thread_id=thread.pk, events=[new_event(EventType.QUESTION_ANSWERED, answered, run_id=run_id)])
        audit_record(
            actor=actor,
            organization_id=thread.organization_id,
            action="run.answer",
            object_kind="run",
            object_id=str(run_id),
            node_id=thread.node_id,
            after={"request": request_id},
        )
        return Run.objects.get(pk=run_id)


def _not_waiting(thread: Thread, request_id: str) -> Conflict:
    by = selectors.answered_by(thread, request_id)
    if by is None:
        return Conflict("The run does not wait for this answer (any more).", code="not_waiting")
    return Conflict(f"{by} was faster: this is answered already.", code="already_answered", extra={"by": by})


def artifact_content(artifact: Artifact) -> Any:
    """Return the JSON value of an artifact.

    Raises:
        NotFound: its bytes are not the ones that were stored.
    """
    raw = zlib.decompress(bytes(artifact.content))
    if hashlib.sha256(raw).hexdigest() != artifact.sha256:
        raise NotFound("The stored evidence is damaged.", code="artifact_damaged")
    return orjson.loads(raw)

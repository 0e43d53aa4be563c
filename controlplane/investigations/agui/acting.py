"""What an AG-UI client asks for, done with the services of investigations."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, transaction

from controlplane.core.actor import Actor
from controlplane.core.errors import Conflict, NotFound, Unavailable, invalid
from controlplane.core.permissions import Action
from controlplane.investigations.agui.inputs import Resumed, RunInput
from controlplane.investigations.agui.projection import VERSION
from controlplane.investigations.agui.snapshot import Snapshot, snapshot_of
from controlplane.investigations.idempotency import call_once
from controlplane.investigations.models import AguiThread, Thread
from controlplane.investigations.selectors import is_starter, question_pending, thread_get
from controlplane.investigations.services import message_post, question_answer, run_interrupt
from controlplane.investigations.starting import investigation_draft, investigation_queue
from controlplane.orgs.selectors import team_for, teams_for

#: The agent of a caller that can reach exactly one team; every team is an agent of its own besides.
DEFAULT_AGENT: Final = "default"
MAX_AGENTS: Final = 200


@dataclass(frozen=True, slots=True)
class Followed:
    """A run to follow: from the event after ``after`` on. ``awaited`` is what was said to one under way."""

    thread_id: UUID
    run_id: UUID
    after: int
    awaited: str = ""


@dataclass(frozen=True, slots=True)
class Joined:
    """A thread to join, with what it holds so far; ``active`` is the run under way."""

    thread_id: UUID
    snapshot: Snapshot
    active: UUID | None


def agents_info(actor: Actor) -> dict[str, Any]:
    """Return what is served: an agent for each team in which the actor may start investigations."""
    teams = list(teams_for(actor, Action.RUN_CREATE)[:MAX_AGENTS])
    agents = {
        team.slug: {"name": team.slug, "description": f"Investigates incidents for {team.name}."} for team in teams
    }
    if len(teams) == 1:
        agents[DEFAULT_AGENT] = {"name": DEFAULT_AGENT, "description": agents[teams[0].slug]["description"]}
    return {"version": VERSION, "protocolVersion": VERSION, "agents": agents}


def run_begin(actor: Actor, agent: str, wanted: RunInput) -> Followed:
    """Start a run, or say what was said to the one under way; asked again with the same ``runId``, follow that one.

    Raises:
        InvalidInput, NotFound, PermissionDenied, Conflict: as starting, saying and answering do.
    """
    asked = [agent, wanted.thread, wanted.text, wanted.resumed.interrupt_id if wanted.resumed else None]

    def act() -> dict[str, Any]:
        followed = _begin(actor, agent, wanted)
        return {
            "thread_id": str(followed.thread_id),
            "run_id": str(followed.run_id),
            "after": followed.after,
            "awaited": followed.awaited,
        }

    kept = call_once(actor=actor, key=f"agui:{wanted.run}", asked=asked, act=act).value
    return Followed(UUID(kept["thread_id"]), UUID(kept["run_id"]), kept["after"], kept["awaited"])


def _begin(actor: Actor, agent: str, wanted: RunInput) -> Followed:
    thread = _thread(actor, wanted.thread)
    if thread is None:
        if wanted.resumed is not None:
            raise invalid("/threadId", "unknown_thread", "There is no thread of yours of this id to resume.")
        return _start(actor, agent, wanted)
    if wanted.resumed is not None:
        return _resume(actor, thread, wanted.resumed)
    accepted = message_post(actor=actor, thread_id=thread.pk, text=wanted.text)
    if accepted.run is not None:
        return Followed(thread.pk, accepted.run.pk, thread.last_seq)
    active = Thread.objects.values_list("active_run", flat=True).get(pk=thread.pk)
    if active is None:
        raise Unavailable("The run has just ended; ask again.", code="run_just_ended")
    return Followed(thread.pk, active, thread.last_seq, awaited=accepted.message.text)


def _start(actor: Actor, agent: str, wanted: RunInput) -> Followed:
    team = team_for(actor, wanted.team if agent == DEFAULT_AGENT else agent, Action.RUN_CREATE)
    draft = investigation_draft(actor=actor, team=team, prompt=wanted.text, visibility=wanted.visibility)
    started = investigation_queue(draft)
    try:
        with transaction.atomic():
            AguiThread.objects.create(principal=actor.principal, name=wanted.thread, thread=started.thread)
    except IntegrityError:
        raise Conflict("This thread was started by another request just now; ask again.", code="thread_taken") from None
    return Followed(started.thread.pk, started.run.pk, 0)


def _resume(actor: Actor, thread: Thread, resumed: Resumed) -> Followed:
    if resumed.answers is None:
        run = run_interrupt(actor=actor, thread_id=thread.pk)
        return Followed(thread.pk, run.pk, thread.last_seq)
    _, pending = question_pending(actor, thread.pk)
    if pending is None or pending["request_id"] != resumed.interrupt_id:
        raise Conflict("The run does not wait for this answer (any more).", code="not_waiting")
    run = question_answer(
        actor=actor, thread_id=thread.pk, request_id=resumed.interrupt_id, answers=dict(resumed.answers)
    )
    return Followed(thread.pk, run.pk, thread.last_seq)


def thread_join(actor: Actor, wanted: RunInput) -> Joined:
    """Return a thread with what its log holds.

    Raises:
        NotFound: the actor sees no thread of that id.
    """
    thread = _thread(actor, wanted.thread)
    if thread is None:
        raise NotFound
    snapshot = snapshot_of(thread.pk, starter=is_starter(actor, thread))
    active = Thread.objects.values_list("active_run", flat=True).get(pk=thread.pk)
    return Joined(thread.pk, snapshot, active)


def run_stop(actor: Actor, name: str) -> dict[str, Any]:
    """Stop the run of a thread; nothing to stop is no error: it may have ended just now.

    Raises:
        NotFound, PermissionDenied: the thread is not the actor's to control.
    """
    thread = _thread(actor, name)
    if thread is None:
        raise NotFound
    try:
        run = run_interrupt(actor=actor, thread_id=thread.pk)
    except Conflict:
        return {"stopped": False}
    return {"stopped": True, "runId": str(run.pk)}


def _thread(actor: Actor, name: str) -> Thread | None:
    """Return the thread that a client names by its own id for it or by ours; ``None`` where there is none it sees.

    Raises:
        Gone: ``thread_removed``.
    """
    known = AguiThread.objects.filter(principal=actor.principal, name=name).values_list("thread_id", flat=True).first()
    thread_id = known or _uuid(name)
    if thread_id is None:
        return None
    try:
        return thread_get(actor, thread_id)
    except NotFound:
        return None


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text) if len(text) == 36 else None
    except ValueError:
        return None

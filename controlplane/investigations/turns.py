"""Building the turn that a runtime is handed, from the rows of its run."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import orjson
from django.db.models import Q

from controlplane.configs.credentials import credentials_of
from controlplane.configs.limits import limits_for
from controlplane.configs.pinned import config_pinned
from controlplane.investigations.lifecycle import Claim
from controlplane.investigations.models import Event, Message, Run
from controlplane.investigations.queueing import merged_text
from controlplane.investigations.services import artifact_content
from controlplane.runtimes.actions import action_tools
from controlplane.runtimes.events import EventType
from controlplane.runtimes.interface import HistoryTurn, Resume, TurnContext
from controlplane.runtimes.remote.server import server_in
from controlplane.runtimes.replay import FORMAT as REPLAY
from controlplane.runtimes.sources.live.endpoint import Resolve
from controlplane.runtimes.sources.live.integrations import live_sources
from controlplane.runtimes.sources.recorded import RecordedSource
from controlplane.runtimes.sources.source import Source
from controlplane.runtimes.sources.tools import toolbox_for
from controlplane.runtimes.toolbox import ActionGate

MAX_HISTORY_TURNS = 20
#: How long messages of a running turn are held back for more to join them, and how long at most.
DEBOUNCE_SECONDS: Final = 0.3
MOST_HELD_SECONDS: Final = 2.0


class RunControl:
    """The outside's hand on one running turn: filled by the worker's keeper thread, read by the runtime.

    ``stopped`` is set, on the worker's loop, when somebody asked the run to stop or its lease is gone.

    Args:
        loop: the worker's.
        quiet_s: how long nothing more must arrive before the runtime gets what did: who writes three lines in a row
            means one thing. What a turn ends without starts the next one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, quiet_s: float = DEBOUNCE_SECONDS) -> None:
        self.stopped = asyncio.Event()
        self.lease_lost = False
        self._interrupted = False
        self._loop = loop
        self._quiet_s = quiet_s
        self._first_at = self._last_at = 0.0
        self._inbox: dict[UUID, str] = {}
        self._taken: list[tuple[UUID, str]] = []
        self._seen: dict[UUID, str] = {}

    @property
    def interrupted(self) -> bool:
        return self._interrupted

    def take_messages(self) -> Sequence[str]:
        """Return what arrived as one text, several messages as a numbered list; nothing while more may follow."""
        now = self._loop.time()
        settled = now >= min(self._last_at + self._quiet_s, self._first_at + MOST_HELD_SECONDS)
        if not self._inbox or not settled:
            return ()
        texts = [merged_text(list(self._inbox.values()))]
        self._taken += self._inbox.items()
        self._inbox.clear()
        return texts

    def taken(self) -> list[tuple[UUID, str]]:
        """Return, once, the messages the runtime took since the last call, each with its words, to be recorded."""
        taken, self._taken = self._taken, []
        return taken

    def deliver(self, messages: Sequence[tuple[UUID, str]]) -> None:
        """Offer messages to the runtime; called from any thread, each message counts once while its words stay."""
        self._loop.call_soon_threadsafe(self._deliver, messages)

    def _deliver(self, messages: Sequence[tuple[UUID, str]]) -> None:
        for id_, text in messages:
            if self._seen.get(id_) != text:
                self._last_at = self._loop.time()
                self._first_at = self._first_at if self._inbox else self._last_at
                self._seen[id_] = text
                self._inbox[id_] = text

    def interrupt(self) -> None:
        """Ask the runtime to stop; called from any thread."""
        self._interrupted = True
        self._loop.call_soon_threadsafe(self.stopped.set)

    def lose(self) -> None:
        """Say that the lease is gone; called from any thread."""
        self.lease_lost = True
        self._loop.call_soon_threadsafe(self.stopped.set)


@dataclass(frozen=True, slots=True)
class TurnRow:
    """What the worker itself needs of the run beside the turn."""

    runtime: str
    last_seq: int
    worked_seconds: float


def turn_build(claim: Claim, control: RunControl, gate: ActionGate) -> tuple[TurnContext, TurnRow]:
    """Return the turn of a claimed run; approved calls pass ``gate``. Reads only."""
    run = Run.objects.select_related("thread__node", "thread__organization", "artifact").get(pk=claim.run_id)
    thread = run.thread
    config = config_pinned([(UUID(node_id), version) for node_id, version in run.config_chain])
    limits = limits_for(config)
    # What the node holds now, not when the run began: a grant taken back meanwhile sends nothing more.
    resolve = credentials_of(thread.node_id).resolve
    recording = _recording(run)
    turn = TurnContext(
        run_id=run.pk,
        thread_id=thread.pk,
        turn=run.number,
        attempt=claim.attempt,
        team=f"{thread.organization.slug}/{thread.node.slug}",
        prompt=run.prompt,
        alert=run.alert,
        history=_history(run),
        config=config,
        limits=limits,
        toolbox=toolbox_for(
            [] if recording is not None else _sources(run, config, resolve),
            turn=run.number,
            limits=limits,
            actions=() if thread.sample or recording is not None else action_tools(config, resolve),
            gate=gate,
        ),
        control=control,
        resume=None if run.resume is None else Resume(**run.resume),
        events=_own_events(run) if claim.attempt > 1 else (),
        sample=thread.sample,
        recording=recording,
        by_person=_by_one_person(run),
        server=server_in(config, resolve) if run.runtime == "remote" else None,
    )
    return turn, TurnRow(run.runtime, thread.last_seq, run.worked_seconds)


def _by_one_person(run: Run) -> bool:
    """Return whether the prompt is the words of the person in whose name the run goes, and of nobody else.

    A run that follows another takes up all that waited, other people's and alerts' words too, in the name of who spoke
    last. What a turn takes up later has been delivered after its start and is no part of its prompt.
    """
    if not run.requested_by.startswith("user:"):
        return False
    told = Message.objects.filter(run=run).exclude(by=run.requested_by)
    return not told.filter(Q(delivered_at__lte=run.started_at) if run.started_at else Q()).exists()


def messages_pending(thread_id: UUID) -> list[tuple[UUID, str]]:
    """Return the thread's messages no run has taken up, oldest first."""
    rows = Message.objects.filter(thread_id=thread_id, delivered_at__isnull=True).order_by("created_at", "id")
    return list(rows.values_list("pk", "text"))


def _recording(run: Run) -> Mapping[str, Any] | None:
    if run.artifact is None or run.artifact.format != REPLAY:
        return None
    recording: Mapping[str, Any] = artifact_content(run.artifact)
    return recording


def _sources(run: Run, config: Mapping[str, Any], resolve: Resolve) -> list[Source]:
    """Return where the run reads: recorded evidence alone where it has some, else what its configuration connects."""
    if run.artifact is not None:
        return [RecordedSource(artifact_content(run.artifact), alert=run.alert)]
    live = live_sources(config, alert=run.alert, words=run.prompt, resolve=resolve)
    return [RecordedSource(None, alert=run.alert), *live]


def _history(run: Run) -> list[HistoryTurn]:
    earlier = list(
        Run.objects.filter(thread_id=run.thread_id, number__lt=run.number).order_by("-number")[:MAX_HISTORY_TURNS]
    )
    answers = Event.objects.filter(
        thread_id=run.thread_id, run_id__in=[item.pk for item in earlier], type=EventType.RESULT
    ).order_by("seq")
    texts: dict[UUID | None, str] = {
        run_id: orjson.loads(data).get("text", "") for run_id, data in answers.values_list("run_id", "data")
    }
    return [HistoryTurn(item.prompt, texts.get(item.pk, ""), item.status) for item in reversed(earlier)]


def _own_events(run: Run) -> list[tuple[str, dict[str, Any]]]:
    rows = Event.objects.filter(thread_id=run.thread_id, run_id=run.pk).order_by("seq")
    return [(type_, orjson.loads(data)) for type_, data in rows.values_list("type", "data")]

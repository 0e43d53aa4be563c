"""What was said in a run, for memory: each span with its speaker and author, from the log and from nothing else.

Fills :mod:`controlplane.memory.transcripts`. Who speaks is told by the kind of event and the record of the message,
never by the words.
"""

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

import orjson

from controlplane.investigations.models import Event, Message, Run, Thread, Visibility
from controlplane.memory.transcripts import Said, Speaker, Transcript
from controlplane.runtimes.events import EventType
from controlplane.runtimes.replay import FORMAT as REPLAY

#: Tools whose results repeat what is remembered; they are no source of memories.
RECALLING_TOOLS: Final = frozenset({"memory_recall", "recall_incident_context", "search_episodes"})
_READ: Final = (EventType.RUN_STARTED, EventType.TOOL_END, EventType.THOUGHT, EventType.RESULT)
_MOST_EVENTS: Final = 2_000


class RunTranscripts:
    """Transcripts of the runs of this installation."""

    def transcript(self, run_id: UUID) -> Transcript | None:
        """See :class:`controlplane.memory.transcripts.TranscriptSource`. Three queries.

        Of a log of more than 2,000 such events the latest are read.
        """
        run = Run.objects.select_related("thread", "artifact").defer("artifact__content").filter(pk=run_id).first()
        if run is None:
            return None
        thread = run.thread
        messages = {str(row.pk): row for row in Message.objects.filter(run=run)}
        rows = Event.objects.filter(thread=thread, run_id=run.pk, type__in=_READ).order_by("-seq")[:_MOST_EVENTS]
        events = [*rows, *_queued(thread, messages)]
        told_at_start = any(_delivered_before(message, run) for message in messages.values())
        said = [
            span
            for event in sorted(events, key=lambda row: row.seq)
            for span in _said(event, run, messages, prompt=not told_at_start)
        ]
        return Transcript(
            run_id=run.pk,
            thread_id=thread.pk,
            organization_id=thread.organization_id,
            node_id=thread.node_id,
            sample=thread.sample or (run.artifact is not None and run.artifact.format == REPLAY),
            private=thread.visibility == Visibility.PRIVATE,
            person=run.requested_by if run.requested_by.startswith("user:") else "",
            said=said,
        )


def _queued(thread: Thread, messages: dict[str, Message]) -> list[Event]:
    """The events of the messages this run took up; some were said before it began and have no run of their own."""
    if not messages:
        return []
    since = min(message.created_at for message in messages.values())
    rows = Event.objects.filter(thread=thread, type=EventType.MESSAGE_QUEUED, at__gte=since).order_by("-seq")
    return [row for row in rows[:_MOST_EVENTS] if orjson.loads(row.data).get("message_id") in messages]


def _delivered_before(message: Message, run: Run) -> bool:
    """Whether the run's prompt is made of this message: then the message is read, which has an author of its own."""
    return message.delivered_at is not None and (run.started_at is None or message.delivered_at <= run.started_at)


def _said(event: Event, run: Run, messages: dict[str, Message], *, prompt: bool) -> Iterator[Said]:
    data: dict[str, Any] = orjson.loads(event.data)
    speaker: Speaker = "assistant"
    author, text, tool = "", data.get("text") or "", ""
    match event.type:
        case EventType.RUN_STARTED:
            if not prompt:
                return
            (speaker, author), text = _voice(run.requested_by), data["prompt"]
        case EventType.MESSAGE_QUEUED:
            speaker, author = _voice(messages[data["message_id"]].by)
        case EventType.TOOL_END:
            tool = data["name"]
            speaker = "recalled" if tool.rsplit("__", 1)[-1] in RECALLING_TOOLS else "tool"
            text = data.get("output") or data.get("summary") or ""
    if text:
        yield Said(event.seq, speaker, author, text, event.at, tool)


def _voice(principal: str) -> tuple[Speaker, str]:
    """A person speaks as themselves. What an alert source or another machine sends is a tool's word."""
    return ("user", principal) if principal.startswith("user:") else ("tool", "")

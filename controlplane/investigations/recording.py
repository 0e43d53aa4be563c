"""A run as a file that can be played again: what its reader may see, and nothing of anybody else's."""

from typing import Any
from uuid import UUID

import orjson

from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.core.errors import Conflict, NotFound, PayloadTooLarge
from controlplane.investigations.models import Event, Run
from controlplane.investigations.selectors import is_starter, thread_get
from controlplane.runtimes.events import EventType
from controlplane.runtimes.replay import FORMAT, MAX_BYTES
from controlplane.runtimes.replay.recording import MAX_AT_MS, MAX_EVENTS, WITHHELD

_BESIDE = (EventType.RUN_STARTED, EventType.RUN_ENDED)


def run_recording(*, actor: Actor, thread_id: UUID, run_id: UUID) -> dict[str, Any]:
    """Return a finished run as ``replay/1``, in the order of its log. Two queries and those of the permission.

    Everything in it was redacted before it was stored. What is addressed to the thread's starter alone is
    ``{"withheld": true}`` for everybody else.

    Raises:
        NotFound: no such thread or run that the actor sees.
        Conflict: ``run_active``: it has not ended yet.
        PayloadTooLarge: ``recording_too_large``: it has more than 20,000 events or 8 MiB.
    """
    thread = thread_get(actor, thread_id)
    run = Run.objects.filter(thread=thread, pk=run_id).first()
    if run is None:
        raise NotFound
    if run.is_active:
        raise Conflict("The run has not ended yet; it is recorded when it has.", code="run_active")
    log = Event.objects.filter(thread=thread, run_id=run.pk).exclude(type__in=_BESIDE).order_by("seq")
    rows = log.values_list("type", "at", "audience", "data")
    starter = is_starter(actor, thread)
    events: list[dict[str, Any]] = []
    size = 0
    for type_, at, audience, data in rows.iterator(chunk_size=500):
        size += len(data)
        if size > MAX_BYTES or len(events) == MAX_EVENTS:
            detail = f"A recording has at most {MAX_EVENTS:,} events and {MAX_BYTES:,} bytes; this run has more."
            raise PayloadTooLarge(detail, code="recording_too_large")
        shown = orjson.loads(data) if starter or audience == "thread" else WITHHELD
        at_ms = min(max(int((at - run.created_at).total_seconds() * 1000), 0), MAX_AT_MS)
        events.append({"type": type_, "at_ms": at_ms, "data": shown})
    return {
        "format": FORMAT,
        "prompt": run.prompt,
        "alert": run.alert,
        "runtime": run.runtime,
        "turn": run.number,
        "started_at": clock.rfc3339(run.created_at),
        "status": run.status,
        "reason": run.reason,
        "speed": 1.0,
        "events": events,
    }

"""Queueing runs: a thread's first one, and the next one from what was said to it meanwhile."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from controlplane.configs.selectors import config_effective
from controlplane.core import clock
from controlplane.core.actor import Channel
from controlplane.investigations import bus
from controlplane.investigations.log import append, new_event
from controlplane.investigations.models import Message, Priority, Run, Thread
from controlplane.runtimes import events
from controlplane.runtimes.events import EventType


def messages_settle(*, thread_id: UUID, ended: Run) -> None:
    """Start the next run from the messages the ended one did not take up, so that none is ever dropped.

    Notices alone start none: they are settled with the ended run. The caller's transaction holds the thread's row.
    """
    pending = Message.objects.filter(thread_id=thread_id, delivered_at__isnull=True)
    waiting = list(pending.order_by("created_at", "id").defer("alert"))
    starting = [message for message in waiting if message.starts_run]
    if not starting:
        pending.filter(pk__in=[message.pk for message in waiting]).update(run=ended, delivered_at=clock.now())
        return
    next_run(
        thread_id=thread_id,
        previous=ended,
        prompt=merged_text([message.text for message in waiting]),
        requested_by=starting[-1].by,
        requested_by_label=starting[-1].by_label,
        messages=waiting,
    )


def merged_text(texts: Sequence[str]) -> str:
    """Return several messages as one: a single one as it is, more as a numbered list under a heading line."""
    if len(texts) == 1:
        return texts[0]
    listed = "\n".join(f"{index}. {text}" for index, text in enumerate(texts, start=1))
    return f"Several messages arrived:\n{listed}"


def next_run(
    *,
    thread_id: UUID,
    previous: Run,
    prompt: str,
    requested_by: str,
    requested_by_label: str,
    messages: Sequence[Message] = (),
) -> Run:
    """Queue the thread's next turn, inside the caller's transaction, which holds the (idle) thread's row.

    The turn keeps the evidence and the runtime of the one before; its configuration is pinned anew. Its alert is the
    newest that came with a message that waits or that the run before took up, or else that run's own.
    """
    node_id, channel = Thread.objects.values_list("node_id", "channel").get(pk=thread_id)
    run = Run(
        thread_id=thread_id,
        number=previous.number + 1,
        priority=priority_of(channel=channel, requested_by=requested_by),
        prompt=prompt,
        alert=_newest_alert(thread_id, previous),
        artifact_id=previous.artifact_id,
        runtime=previous.runtime,
        requested_by=requested_by,
        requested_by_label=requested_by_label,
        config_chain=pinned_chain(node_id),
    )
    run_queue(run)
    Message.objects.filter(pk__in=[message.pk for message in messages]).update(run=run, delivered_at=clock.now())
    return run


def _newest_alert(thread_id: UUID, previous: Run) -> Any:
    told = Message.objects.filter(
        Q(delivered_at__isnull=True) | Q(run=previous), thread_id=thread_id, alert__isnull=False
    )
    newest = told.order_by("-created_at", "-id").values_list("alert", flat=True).first()
    return previous.alert if newest is None else newest


def pinned_chain(node_id: UUID) -> list[list[Any]]:
    """Return the versions of the node's configuration chain, root first, as they are stored on a run."""
    return [[str(node), version] for node, version in config_effective(node_id=node_id).chain]


def priority_of(*, channel: str, requested_by: str) -> Priority:
    """Return what a run is claimed before: an alert's own run waits for what people ask, also in an alert's thread.

    Args:
        channel: of the thread.
        requested_by: the principal who asked for the run.
    """
    by_alert = channel == Channel.ALERT and not requested_by.startswith("user:")
    return Priority.ALERT if by_alert else Priority.INTERACTIVE


def run_queue(run: Run, *, sample: bool = False, attachments: Sequence[events.FileRef] = ()) -> None:
    """Insert a new run, make it its thread's active one, append its ``run_started``, wake workers at commit."""
    run.save(force_insert=True)
    Thread.objects.filter(pk=run.thread_id).update(active_run=run.pk)
    started = events.RunStarted(
        run_id=str(run.pk),
        prompt=run.prompt,
        by=run.requested_by_label,
        runtime=run.runtime,
        sample=sample,
        attachments=tuple(attachments),
    )
    append(thread_id=run.thread_id, events=[new_event(EventType.RUN_STARTED, started, run_id=run.pk)])
    transaction.on_commit(bus.work.tell)

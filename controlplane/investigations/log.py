"""The event log: the only truth about a thread.

Every append takes the thread's row (its counter, its fence) by one conditional UPDATE, so commit order equals ``seq``
order, a rollback leaves no hole, and a writer that lost its lease writes nothing. Redaction happens here, before the
row exists: no raw copy of an event is ever stored.
"""

from collections.abc import Iterable, Sequence
from functools import partial, reduce
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson
from django.db import connection, transaction
from pydantic import BaseModel, ValidationError

from controlplane.core import clock
from controlplane.core.redaction import redact_json
from controlplane.investigations import bus, metrics
from controlplane.investigations.appending import Fence, NewEvent, insert_events
from controlplane.investigations.envelope import LoggedEvent
from controlplane.investigations.models import Audience, Event, Thread
from controlplane.runtimes.events import EVENT_DATA, EventType

__all__ = [
    "Fence",
    "LeaseLost",
    "LogPage",
    "NewEvent",
    "append",
    "new_event",
    "read_heads",
    "read_page",
    "read_text"
]  # fmt: skip

MAX_DATA_BYTES: Final = 512 * 1024
"""The largest data of one event in bytes; of a larger one the long texts are cut, and each cut says so."""
PAGE_BYTES: Final = 4 * 1024 * 1024
"""About how much one page of the log holds at most, whatever number of events was asked for."""
_PIECE_EVENTS: Final = 100
_CUT_TEXT: Final = 1_500
_CUT_ITEMS: Final = 200


class LeaseLost(Exception):
    """The writer's lease was taken over or ended: it must stop and write nothing more."""


def new_event(
    type_: EventType, data: BaseModel, *, run_id: UUID | None, audience: Audience = Audience.THREAD
) -> NewEvent:
    """Return an event ready to append: checked against its type's schema, redacted, encoded.

    Raises:
        TypeError: when ``data`` is not the model of ``type_``.
    """
    if not isinstance(data, EVENT_DATA[type_]):
        raise TypeError(f"{type_} needs data of type {EVENT_DATA[type_].__name__}")
    value = _fitted(type(data), redact_json(data.model_dump(mode="json")))
    encoded = _encode(value)
    if len(encoded) > MAX_DATA_BYTES:
        encoded = _encode(_oversized(type(data), value, len(encoded)))
    return NewEvent(type_, run_id, encoded.decode(), audience)


def append(*, thread_id: UUID, events: Sequence[NewEvent], fence: Fence | None = None) -> list[LoggedEvent]:
    """Append ``events`` in order and return them with their ``seq``; streams learn of them at commit.

    Args:
        thread_id: the thread.
        events: at least one; they get consecutive numbers.
        fence: the claim under which a runtime writes; ``None`` for writes of people and services.

    Raises:
        LeaseLost: the fence no longer holds (or the thread is gone); nothing was written.
    """
    at = clock.now()
    last_seq = insert_events(thread_id, events, fence, at)
    if last_seq is None:
        raise LeaseLost(str(thread_id))
    first = last_seq - len(events) + 1
    logged = [
        LoggedEvent(thread_id, first + index, event.run_id, event.type, at, event.audience, event.data)
        for index, event in enumerate(events)
    ]
    transaction.on_commit(partial(_announce, logged))
    return logged


class LogPage(NamedTuple):
    """Consecutive events, and whether there are more after them."""

    events: list[LoggedEvent]
    more: bool


def read_page(thread_id: UUID, *, after: int, limit: int) -> LogPage:
    """Return up to ``limit`` events with ``seq`` greater than ``after``, in order, about 4 MiB of them at most.

    One indexed query for every hundred events.
    """
    events: list[LoggedEvent] = []
    size = 0
    while True:
        wanted = min(_PIECE_EVENTS, limit - len(events)) + 1
        rows = (
            Event.objects.filter(thread_id=thread_id, seq__gt=events[-1].seq if events else after)
            .order_by("seq")
            .values_list("seq", "run_id", "type", "at", "audience", "data")[:wanted]
        )
        piece = [LoggedEvent(thread_id, *row) for row in rows]
        events += piece[: wanted - 1]
        size += sum(len(event.data) for event in piece)
        if len(piece) < wanted:
            return LogPage(events, more=False)
        if len(events) >= limit or size >= PAGE_BYTES:
            return LogPage(events, more=True)


class TextRow(NamedTuple):
    """A row of the log as text, for readers that only pass it on."""

    seq: int
    run_id: str | None
    type: str
    at: str
    audience: str
    data: str


def read_text(thread_id: UUID, *, after: int, limit: int) -> tuple[list[TextRow], bool]:
    """Return what :func:`read_page` does, and whether there is more, at a third of its cost: no value is converted."""
    rows: list[TextRow] = []
    size = 0
    postgres = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        while True:
            wanted = min(_PIECE_EVENTS, limit - len(rows)) + 1
            key = thread_id if postgres else thread_id.hex
            cursor.execute(_POSTGRES_TEXT if postgres else _SQLITE_TEXT, [key, rows[-1].seq if rows else after, wanted])
            found = cursor.fetchall()
            piece = [TextRow(*row) for row in found] if postgres else [_text_row(*row) for row in found]
            rows += piece[: wanted - 1]
            size += sum(len(row.data) for row in piece)
            if len(piece) < wanted:
                return rows, False
            if len(rows) >= limit or size >= PAGE_BYTES:
                return rows, True


# An expression, unlike a column, is not made a datetime by Django's converters of the driver.
_SQLITE_TEXT: Final = (
    "SELECT seq, run_id, type, substr(at, 1), audience, data FROM investigations_event"
    " WHERE thread_id = %s AND seq > %s ORDER BY seq LIMIT %s"
)
# to_char cuts the time to milliseconds, as clock.rfc3339 does.
_POSTGRES_TEXT: Final = (
    """SELECT seq, run_id::text, type, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),"""
    " audience, data FROM investigations_event WHERE thread_id = %s AND seq > %s ORDER BY seq LIMIT %s"
)


def _text_row(seq: int, run_id: str | None, type_: str, at: str, audience: str, data: str) -> TextRow:
    """Return a row of SQLite, where Django keeps identifiers as 32 digits and times as ``2026-01-31 12:00:00.123456``,
    without the fraction where it is zero."""
    if run_id is not None:
        run_id = f"{run_id[:8]}-{run_id[8:12]}-{run_id[12:16]}-{run_id[16:20]}-{run_id[20:]}"
    return TextRow(seq, run_id, type_, f"{at[:10]}T{at[11:19]}.{at[20:23]:0<3}Z", audience, data)


def read_heads(thread_ids: Iterable[UUID]) -> dict[UUID, int]:
    """Return the last ``seq`` of each thread that exists. One query."""
    return dict(Thread.objects.filter(pk__in=list(thread_ids)).values_list("pk", "last_seq"))


def _announce(logged: list[LoggedEvent]) -> None:
    for event in logged:
        metrics.events_appended_total.labels(type=event.type).inc()
    bus.events.tell(logged)


def _encode(value: Any) -> bytes:
    return orjson.dumps(value, default=str)


def _fitted(model: type[BaseModel], value: Any) -> Any:
    """Return redacted ``value`` as the model accepts it: a marker may have made a text longer than its field allows.

    What is stored must be readable again, or one odd event would make a whole thread unreadable.
    """
    try:
        model.model_validate(value)
    except ValidationError as error:
        for problem in error.errors():
            if problem["type"] != "string_too_long":
                raise
            *path, last = problem["loc"]
            holder = reduce(lambda held, key: held[key], path, value)
            holder[last] = holder[last][: problem["ctx"]["max_length"]]
    return value


def _oversized(model: type[BaseModel], value: Any, size: int) -> Any:
    """Return ``value`` with its long texts and lists cut; as a last resort only its required fields."""
    note = f" … [cut: the event had {size} bytes, at most {MAX_DATA_BYTES} are kept]"
    short = _cut(value, _CUT_TEXT, note)
    if len(_encode(short)) <= MAX_DATA_BYTES:
        return short
    required = {name for name, field in model.model_fields.items() if field.is_required()}
    return {name: item for name, item in short.items() if name in required}


def _cut(value: Any, limit: int, note: str) -> Any:
    if isinstance(value, str):
        return value if len(value) <= limit else value[:limit] + note
    if isinstance(value, dict):
        return {key: _cut(item, limit, note) for key, item in list(value.items())[:_CUT_ITEMS]}
    if isinstance(value, list):
        return [_cut(item, limit, note) for item in value[:_CUT_ITEMS]]
    return value

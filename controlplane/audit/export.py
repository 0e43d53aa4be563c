"""The audit log as a file: CSV that no spreadsheet executes, JSON, or a line of JSON for each event. In any size."""

import csv
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Final

import orjson
from asgiref.sync import sync_to_async
from django.db.models import QuerySet

from controlplane.audit.models import AuditEvent
from controlplane.core.clock import rfc3339
from controlplane.core.db import run_job

#: Characters with which spreadsheets begin a formula. Source: OWASP, "CSV Injection".
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
COLUMNS: Final = (
    "seq", "at", "action", "actor", "actor_label", "credential_id", "impersonator", "channel", "address",
    "object_kind", "object_id", "node_id", "before", "after", "reason", "mac",
)  # fmt: skip
#: Events in memory at a time.
PAGE: Final = 500

Pages = Iterable[list[AuditEvent]]


class _Echo:
    """A file whose ``write`` returns the text: what lets :mod:`csv` produce rows one by one."""

    def write(self, text: str) -> str:
        return text


def event_pages(events: QuerySet[AuditEvent], *, through: int) -> Iterator[list[AuditEvent]]:
    """Yield the events up to position ``through``, newest first, a page for each query.

    No transaction and no cursor stays open between pages: who reads slowly holds nothing of the database.
    """
    rows, last = events.order_by("-org_seq"), through
    while page := list(rows.filter(org_seq__lte=last)[:PAGE]):
        yield page
        last = page[-1].org_seq - 1


def neutralised(text: str) -> str:
    """Return ``text``, with an apostrophe in front where a spreadsheet would take it for a formula."""
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def as_csv(pages: Pages) -> Iterator[bytes]:
    """Yield a header line and one CSV line (RFC 4180) for each event; every field is quoted."""
    writer: Any = csv.writer(_Echo(), quoting=csv.QUOTE_ALL)
    yield writer.writerow(COLUMNS).encode()
    for page in pages:
        yield "".join(writer.writerow([neutralised(str(value)) for value in _fields(event)]) for event in page).encode()


def as_json(pages: Pages) -> Iterator[bytes]:
    """Yield one JSON document in the shape of a list's page: ``{"results": […], "next": null}``."""
    yield b'{"results":['
    for number, page in enumerate(pages):
        yield (b"," if number else b"") + b",".join(orjson.dumps(event_json(event)) for event in page)
    yield b'],"next":null}'


def as_ndjson(pages: Pages) -> Iterator[bytes]:
    """Yield a line of JSON for each event (https://github.com/ndjson/ndjson-spec)."""
    for page in pages:
        yield b"".join(orjson.dumps(event_json(event), option=orjson.OPT_APPEND_NEWLINE) for event in page)


#: Form → media type and what writes it.
FORMS: Final[dict[str, tuple[str, Callable[[Pages], Iterator[bytes]]]]] = {
    "csv": ("text/csv; charset=utf-8", as_csv),
    "json": ("application/json", as_json),
    "ndjson": ("application/x-ndjson", as_ndjson),
}


async def off_the_loop(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield what ``parts`` yields, each made in a thread: an ASGI server would collect all of a plain iterator first.

    The database connection is given back between parts.
    """
    make = sync_to_async(run_job)
    while (part := await make(next, parts, None)) is not None:
        yield part


def event_json(event: AuditEvent) -> dict[str, Any]:
    """Return an event as REST and exports have it."""
    return {
        "id": event.id,
        "seq": event.org_seq,
        "at": rfc3339(event.at),
        "action": event.action,
        "actor": event.actor,
        "actor_label": event.actor_label,
        "credential_id": event.credential_id,
        "impersonator": event.impersonator,
        "channel": event.channel,
        "address": event.address,
        "object_kind": event.object_kind,
        "object_id": event.object_id,
        "node_id": event.node_id,
        "before": event.before,
        "after": event.after,
        "reason": event.reason,
        "mac": event.mac,
    }


def _fields(event: AuditEvent) -> tuple[object, ...]:
    return (
        event.org_seq,
        rfc3339(event.at),
        event.action,
        event.actor,
        event.actor_label,
        event.credential_id,
        event.impersonator,
        event.channel,
        event.address,
        event.object_kind,
        event.object_id,
        event.node_id or "",
        event.before_json if event.before_json != "null" else "",
        event.after_json if event.after_json != "null" else "",
        event.reason,
        event.mac,
    )

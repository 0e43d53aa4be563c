"""The audit log as CSV that no spreadsheet executes."""

import csv
from collections.abc import Iterable, Iterator
from typing import Any, Final

from controlplane.audit.models import AuditEvent
from controlplane.core.clock import rfc3339

#: Characters with which spreadsheets begin a formula. Source: OWASP, "CSV Injection".
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
COLUMNS: Final = (
    "seq", "at", "action", "actor", "actor_label", "credential_id", "channel", "address", "object_kind", "object_id",
    "node_id", "before", "after", "reason", "mac",
)  # fmt: skip


class _Echo:
    """A file whose ``write`` returns the text: what lets :mod:`csv` produce rows one by one."""

    def write(self, text: str) -> str:
        return text


def neutralised(text: str) -> str:
    """Return ``text``, with an apostrophe in front where a spreadsheet would take it for a formula."""
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def csv_rows(events: Iterable[AuditEvent]) -> Iterator[str]:
    """Yield a header line and one CSV line (RFC 4180) for each event; every field is quoted."""
    writer: Any = csv.writer(_Echo(), quoting=csv.QUOTE_ALL)
    yield writer.writerow(COLUMNS)
    for event in events:
        yield writer.writerow([neutralised(str(value)) for value in _fields(event)])


def _fields(event: AuditEvent) -> tuple[object, ...]:
    return (
        event.org_seq,
        rfc3339(event.at),
        event.action,
        event.actor,
        event.actor_label,
        event.credential_id,
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

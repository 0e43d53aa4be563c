"""What somebody wants remembered, and the words that show it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class MemoryDraft:
    """A memory before any check.

    Args:
        type: ``user``, ``preference``, ``infrastructure`` or ``investigation_learning``.
        subject: at most 200 characters; with ``attribute`` it is what the memory is about.
        attribute: at most 100 characters.
        statement: one sentence of at most 500 characters.
        body: markdown of at most 10,000 characters.
        valid_from, valid_to, expires_at: aware times, where known.
    """

    type: str
    subject: str
    attribute: str
    statement: str
    body: str = ""
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Quote:
    """Exact words, and where they were said: by ``speaker`` (``user`` or ``tool``) in the events ``seqs`` of a run."""

    speaker: str
    text: str
    run_id: UUID | None = None
    thread_id: UUID | None = None
    seqs: Sequence[int] = ()
    author: str = ""
    at: datetime | None = None

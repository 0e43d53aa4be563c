"""Events as they are sent: encoded once, whoever watches."""

from dataclasses import dataclass, field
from typing import Self
from uuid import UUID

from controlplane.investigations.envelope import WITHHELD, LoggedEvent, envelope_text
from controlplane.investigations.log import read_text
from controlplane.investigations.models import Audience


@dataclass(slots=True)
class Frame:
    """One event, encoded as a server-sent event; ``withheld`` is what readers outside its audience get."""

    seq: int
    full: bytes
    withheld: bytes | None
    _envelope: str | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, event: LoggedEvent) -> Self:
        withheld = None if event.is_for(starter=False) else _sse(event.seq, event.type, event.envelope(starter=False))
        return cls(event.seq, _sse(event.seq, event.type, event.envelope()), withheld)

    def bytes_for(self, *, starter: bool) -> bytes:
        return self.full if starter or self.withheld is None else self.withheld

    def envelope_for(self, *, starter: bool) -> str:
        """Return the JSON of the ``data`` line. That of the whole event is kept: many viewers are sent the same."""
        body = self.bytes_for(starter=starter)
        if body is not self.full:
            return _data_of(body)
        if self._envelope is None:
            self._envelope = _data_of(body)
        return self._envelope


def read_frames(thread_id: UUID, *, after: int, limit: int) -> tuple[list[Frame], bool]:
    """Return up to ``limit`` frames after ``after``, about 4 MiB of them at most, and whether there are more."""
    rows, more = read_text(thread_id, after=after, limit=limit)
    thread = str(thread_id)
    frames = []
    for seq, run_id, type_, at, audience, data in rows:
        full = _sse(seq, type_, envelope_text(seq, type_, thread, run_id, at, data).encode())
        withheld = None
        if audience != Audience.THREAD:
            withheld = _sse(seq, type_, envelope_text(seq, type_, thread, run_id, at, WITHHELD).encode())
        frames.append(Frame(seq, full, withheld))
    return frames, more


def _sse(seq: int, type_: str, envelope: bytes) -> bytes:
    """Return the frame of WHATWG HTML, section 9.2.6: ``id`` moves the client's cursor, ``data`` is one line."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (seq, type_.encode(), envelope)


def _data_of(frame: bytes) -> str:
    return frame[frame.index(b"\ndata: ") + 7 : -2].decode()

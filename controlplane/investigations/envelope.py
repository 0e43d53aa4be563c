"""An event as everybody reads it: pages, streams, the bus."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from controlplane.core import clock
from controlplane.investigations.models import Audience


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event of the log, in the form that streams and pages serve."""

    thread_id: UUID
    seq: int
    run_id: UUID | None
    type: str
    at: datetime
    audience: str
    data: str

    def is_for(self, *, starter: bool) -> bool:
        """Return whether a reader (the thread's starter or anybody else who may read it) gets the data."""
        return starter or self.audience == Audience.THREAD

    def envelope(self, *, starter: bool = True) -> bytes:
        """Return the encoded envelope ``{"seq","type","thread_id","run_id","at","data"}`` for a reader.

        A reader outside the audience gets ``{"withheld": true}`` as data; the ``seq`` stays: nobody sees a hole.
        """
        data = self.data if self.is_for(starter=starter) else WITHHELD
        run_id = str(self.run_id) if self.run_id else None
        return envelope_text(self.seq, self.type, str(self.thread_id), run_id, clock.rfc3339(self.at), data).encode()


#: The data of an event for readers outside its audience.
WITHHELD: Final = '{"withheld":true}'


def envelope_text(seq: int, type_: str, thread_id: str, run_id: str | None, at: str, data: str) -> str:
    """Return the envelope of an event whose parts are text already; ``data`` is JSON."""
    run = f'"{run_id}"' if run_id else "null"
    return f'{{"seq":{seq},"type":"{type_}","thread_id":"{thread_id}","run_id":{run},"at":"{at}","data":{data}}}'

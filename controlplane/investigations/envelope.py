"""An event as everybody reads it: pages, streams, the bus."""

from dataclasses import dataclass
from datetime import datetime
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
        data = self.data if self.is_for(starter=starter) else '{"withheld":true}'
        run_id = f'"{self.run_id}"' if self.run_id else "null"
        return (
            f'{{"seq":{self.seq},"type":"{self.type}","thread_id":"{self.thread_id}","run_id":{run_id},'
            f'"at":"{clock.rfc3339(self.at)}","data":{data}}}'
        ).encode()

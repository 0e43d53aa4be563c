"""An event as everybody reads it: pages, streams, the bus."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from controlplane.core import clock


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

    def envelope(self, *, withheld: bool = False) -> bytes:
        """Return the encoded envelope ``{"seq","type","thread_id","run_id","at","data"}``.

        ``withheld`` replaces the data for a reader outside the event's audience; the ``seq`` stays: nobody sees a hole.
        """
        data = '{"withheld":true}' if withheld else self.data
        run_id = f'"{self.run_id}"' if self.run_id else "null"
        return (
            f'{{"seq":{self.seq},"type":"{self.type}","thread_id":"{self.thread_id}","run_id":{run_id},'
            f'"at":"{clock.rfc3339(self.at)}","data":{data}}}'
        ).encode()

"""How several processes share a number of permits without asking each other for every one: pure, no clock, no database.

Time is cut into windows of a rule's length. A common count says how many permits of a window have been given out. A
process takes permits from it in chunks and hands them to requests by itself; what it has not used ends with the window.
The first chunk of a window is taken on credit and written down when it is used up, so that a caller who stays below it
costs no query at all.

With a limit of ``n``, chunks of ``c`` and ``p`` processes, one window admits at most ``n + (p - 1) * c`` requests, and
exactly ``n`` at most where ``c`` is 1: then nothing is given on credit. A process that dies takes at most one chunk
with it.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

#: A chunk is this part of the limit: the surplus of a second process stays within 5 %.
CHUNKS: Final = 20


def chunk_of(limit: int) -> int:
    """Return how many permits a process takes at once."""
    return max(1, limit // CHUNKS)


class Answer(Enum):
    """What a share says to one request."""

    TAKEN = "taken"
    REFUSED = "refused"
    ASK = "ask"


@dataclass(slots=True)
class Share:
    """One process's share of one window."""

    limit: int
    chunk: int = field(init=False)
    _spare: int = field(init=False)
    _unwritten: int = field(init=False)
    _used_up: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.chunk = chunk_of(self.limit)
        self._spare = self._unwritten = self.chunk if self.chunk > 1 else 0

    def take(self) -> Answer:
        """Take one permit; ``ASK`` when the common count has to be asked first."""
        if self._spare > 0:
            self._spare -= 1
            return Answer.TAKEN
        return Answer.REFUSED if self._used_up else Answer.ASK

    @property
    def is_used_up(self) -> bool:
        """Whether the next request is refused."""
        return self._used_up and self._spare == 0

    def asking(self) -> int:
        """Return what to add to the common count: a chunk, and what was taken on credit before."""
        amount = self._unwritten + self.chunk
        self._unwritten = 0
        return amount

    def told(self, total: int) -> None:
        """Note that the common count is ``total`` with what :meth:`asking` said added to it."""
        before = total - self.chunk
        granted = min(max(self.limit - before, 0), self.chunk)
        self._spare += granted
        self._used_up = granted < self.chunk

    def grant_unasked(self) -> None:
        """Go on with a chunk although the common count cannot be reached: a limit must not become an outage."""
        self._spare += self.chunk
        self._unwritten += self.chunk

"""The port to what was said in a run: who said it decides whether it can be evidence.

Whoever keeps runs fills it in ``AppConfig.ready()``; this app reads no run by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, Protocol
from uuid import UUID

Speaker = Literal["user", "tool", "assistant", "recalled"]
#: Whose words can be evidence. What the agent said, and what was recalled from memory, never is.
EVIDENCE_SPEAKERS: Final[frozenset[Speaker]] = frozenset({"user", "tool"})


@dataclass(frozen=True, slots=True)
class Said:
    """One span of a run's log, redacted as the log is.

    Args:
        seq: the number of its event in the thread's log.
        speaker: ``user``, ``tool``, ``assistant``, or ``recalled`` for a tool's result that repeats memories.
        author: the principal who wrote it; empty where no person did.
        text: the words.
        at: when.
        tool: the tool's name, where one spoke.
    """

    seq: int
    speaker: Speaker
    author: str
    text: str
    at: datetime
    tool: str = ""


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was said in one run, in the order of its log.

    ``sample`` comes from the run's record, never from a text: a shipped sample, a demonstration, a recording played
    again or an evaluation. ``person`` is the principal in whose name the run goes; empty where it is no person.
    """

    run_id: UUID
    thread_id: UUID
    organization_id: UUID
    node_id: UUID
    sample: bool
    private: bool
    person: str
    said: Sequence[Said]


class TranscriptSource(Protocol):
    """Where transcripts come from."""

    def transcript(self, run_id: UUID) -> Transcript | None:
        """Return what was said in a run; ``None`` when there is no such run."""
        ...


class _Source:
    current: TranscriptSource | None = None


def register_transcripts(source: TranscriptSource) -> None:
    """Fill the port, once for each process."""
    _Source.current = source


def transcript_of(run_id: UUID) -> Transcript | None:
    """Return what was said in a run; ``None`` when there is no such run or nobody keeps any."""
    return None if _Source.current is None else _Source.current.transcript(run_id)

"""What an extractor proposes, and the port that extractors fill, by name."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from controlplane.memory.drafts import MemoryDraft, Quote
from controlplane.memory.transcripts import Transcript

#: How many things one pass may propose at most.
MOST_CANDIDATES: Final = 5


@dataclass(frozen=True, slots=True)
class Candidate:
    """A draft with the words it rests on. ``explicit``: the person asked for this very statement to be remembered."""

    draft: MemoryDraft
    quotes: tuple[Quote, ...]
    explicit: bool = False


class Extractor(Protocol):
    """One way of finding what is worth remembering."""

    def __call__(self, transcript: Transcript, known: Sequence[str], /) -> Sequence[Candidate]:
        """Return at most :data:`MOST_CANDIDATES` candidates, each quoting ``transcript``.

        Args:
            transcript: a window of what was said, redacted.
            known: statements that are remembered already.
        """
        ...


_extractors: Final[dict[str, Extractor]] = {}


def register_extractor(name: str, extractor: Extractor) -> None:
    """Add an extractor under the name of the runtime it serves, in ``AppConfig.ready()``."""
    _extractors[name] = extractor


def extractor_named(name: str) -> Extractor:
    """Return the extractor of a runtime; the rules where it has none of its own."""
    from controlplane.memory.extraction.rules import extract_by_rules

    return _extractors.get(name, extract_by_rules)

"""Finding what is worth remembering in what was said: after a turn, on redacted text, never in the way of a run."""

from controlplane.memory.extraction.candidates import (
    MOST_CANDIDATES,
    Candidate,
    Extractor,
    extractor_named,
    register_extractor,
)
from controlplane.memory.extraction.passes import extract, window

__all__ = ["MOST_CANDIDATES", "Candidate", "Extractor", "extract", "extractor_named", "register_extractor", "window"]

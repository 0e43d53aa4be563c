"""One pass of an extractor over a run: a bounded window, redacted before it leaves, and nothing raised."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import structlog

from controlplane.core.redaction import PERSONAL_KINDS, Personal, redact_personal, redact_text
from controlplane.memory.drafts import Quote
from controlplane.memory.extraction.candidates import MOST_CANDIDATES, Candidate, Extractor
from controlplane.memory.transcripts import EVIDENCE_SPEAKERS, Said, Transcript

log = structlog.get_logger(__name__)

MAX_SPANS: Final = 60
MAX_CHARS: Final = 24_000
_MAX_SPAN_CHARS: Final = 6_000


def window(
    transcript: Transcript,
    *,
    kinds: Collection[Personal] = PERSONAL_KINDS,
    own: Collection[str] = (),
    spent: Collection[int] = (),
) -> Transcript:
    """Return the latest part of a transcript as an extractor may see it.

    Args:
        transcript: what was said.
        kinds: which personal data of others is replaced; credentials always are.
        own: personal data that is the person's own and stays.
        spent: numbers of events that were evidence of something forgotten; they are left out.

    The window has at most 60 spans and 24,000 characters, the latest; of a longer span the first 6,000 are taken.
    """
    kept: list[Said] = []
    left = MAX_CHARS
    for said in reversed(transcript.said):
        if said.seq in spent:
            continue
        # Redacted whole, then cut: a cut through a credential would leave a piece that no rule knows.
        text = redact_personal(redact_text(said.text), kinds, own=own)[: min(left, _MAX_SPAN_CHARS)]
        kept.append(replace(said, text=text))
        left -= len(text)
        if left <= 0 or len(kept) == MAX_SPANS:
            break
    return replace(transcript, said=tuple(reversed(kept)))


def extract(
    transcript: Transcript,
    *,
    extractor: Extractor,
    known: Sequence[str] = (),
    kinds: Collection[Personal] = PERSONAL_KINDS,
    own: Collection[str] = (),
    spent: Collection[int] = (),
) -> list[Candidate]:
    """Return what is worth remembering of a run, at most five things. Never raises: a pass that fails finds nothing.

    A run that is a sample, or goes in nobody's name, is not read at all. A candidate whose quote nobody said in the
    window, or the wrong speaker, is dropped whatever the extractor holds. The write gate checks all again.
    """
    if transcript.sample or not transcript.person:
        return []
    seen = window(transcript, kinds=kinds, own=own, spent=spent)
    try:
        found = list(extractor(seen, known))
    except Exception as error:  # noqa: BLE001 (it may be a model's client; the run has long ended)
        log.warning("memory.extraction_failed", run=str(transcript.run_id), error=type(error).__name__)
        return []
    quoted = [item for item in found if item.quotes and all(_was_said(seen, quote) for quote in item.quotes)]
    if len(quoted) < len(found):
        log.info("memory.extraction_ungrounded", run=str(transcript.run_id), dropped=len(found) - len(quoted))
    return quoted[:MOST_CANDIDATES]


def _was_said(seen: Transcript, quote: Quote) -> bool:
    return any(
        said.seq in quote.seqs and said.speaker == quote.speaker and quote.text in said.text
        for said in seen.said
        if said.speaker in EVIDENCE_SPEAKERS
    )

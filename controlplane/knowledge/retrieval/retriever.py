"""Ranking the texts that may be seen: words and meaning, half each, over the best of both."""

import math
import threading
from array import array
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

import numpy as np
import structlog
from numpy.typing import NDArray

from controlplane.core import clock
from controlplane.knowledge.retrieval.embedding import Embedder
from controlplane.knowledge.retrieval.postings import Floats, Mask, Postings
from controlplane.knowledge.retrieval.vectors import Passages
from controlplane.knowledge.retrieval.words import TOKENIZER, passages_of, spoken, terms_of

log = structlog.get_logger(__name__)

#: How much the words of a title count beside those of the text.
TITLE_WEIGHT: Final = 0.5
#: How much meaning counts beside words, where there is an embedder.
MEANING_WEIGHT: Final = 0.5
#: Of each way of ranking so many are looked at together.
CANDIDATES: Final = 50
#: Below this cosine a text that shares no word with the query has nothing to do with it.
MIN_COSINE: Final = 0.15
#: An index is packed anew when so many of its slots, and a half of all, are taken out.
PACK_FROM: Final = 1_000

Retrieval = Literal["hybrid", "keyword"]
Nothing = Literal["", "nothing_visible", "nothing_matched"]


@dataclass(frozen=True, slots=True)
class Document:
    """A text to be found. ``key`` is unique in the index; ``scope`` says among whose texts it is.

    Outside ``valid_from`` ≤ t < ``valid_to`` it is not there at all.
    """

    key: str
    title: str
    text: str
    scope: Hashable = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A text that was found; the higher ``score`` (0 to 1) the better. ``keyword`` and ``meaning`` are its halves."""

    key: str
    score: float
    keyword: float
    meaning: float


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to a query. ``total_visible`` is how many texts were looked at, ``reason`` why ``hits`` is empty."""

    hits: tuple[Hit, ...]
    retrieval: Retrieval
    total_visible: int
    reason: Nothing = ""


@dataclass(frozen=True, slots=True)
class Provenance:
    """By what an index was made, and when."""

    tokenizer: str
    embedder: str
    built_at: datetime


@dataclass(slots=True)
class _Slots:
    """What an index knows of each slot beside its words."""

    keys: list[str] = field(default_factory=list)
    alive: "array[int]" = field(default_factory=lambda: array("B"))
    opens: "array[float]" = field(default_factory=lambda: array("d"))
    closes: "array[float]" = field(default_factory=lambda: array("d"))
    of_scope: "dict[Hashable, array[int]]" = field(default_factory=dict)

    def add(self, document: Document) -> None:
        self.of_scope.setdefault(document.scope, array("I")).append(len(self.keys))
        self.keys.append(document.key)
        self.alive.append(1)
        self.opens.append(-math.inf if document.valid_from is None else document.valid_from.timestamp())
        self.closes.append(math.inf if document.valid_to is None else document.valid_to.timestamp())

    def visible(self, scopes: Collection[Hashable], at: float) -> Mask:
        """Return which slots are of one of ``scopes``, there, and valid at a time."""
        mask: Mask = np.zeros(len(self.keys), np.bool_)
        for slots in filter(None, (self.of_scope.get(scope) for scope in scopes)):
            mine = np.frombuffer(slots, np.uint32)
            opens, closes = np.frombuffer(self.opens)[mine], np.frombuffer(self.closes)[mine]
            mask[mine] = np.frombuffer(self.alive, np.bool_)[mine] & (opens <= at) & (at < closes)
        return mask


class Retriever:
    """An index of texts in the memory of this process. Any thread may use it.

    Putting a text costs what it holds, not what is there already. Ties are broken by key, so that the same query on the
    same texts is answered in the same order everywhere.
    """

    def __init__(self, embedder: Embedder | None = None) -> None:
        self._embedder = embedder
        self._lock = threading.RLock()
        self._clear()

    def __len__(self) -> int:
        return len(self._documents)

    @property
    def provenance(self) -> Provenance:
        """By what this index was made; one made by anything else must not be asked instead."""
        return Provenance(TOKENIZER, "" if self._embedder is None else self._embedder.id, self._built_at)

    def put(self, document: Document) -> None:
        """Put a text in, instead of the one with the same key."""
        vectors = None
        if self._embedder is not None:
            vectors = self._embed(list(passages_of(document.title, document.text)))
        title, text = terms_of(document.title), terms_of(f"{document.title}\n{document.text}")
        with self._lock:
            self.drop(document.key)
            slot = self._texts.add(text)
            self._titles.add(title)
            self._slots.add(document)
            if vectors is not None and self._passages is not None:
                self._passages.add(slot, vectors)
            self._documents[document.key] = (slot, document)

    def drop(self, key: str) -> None:
        """Take a text out; nothing happens when there is none."""
        with self._lock:
            found = self._documents.pop(key, None)
            if found is not None:
                self._slots.alive[found[0]] = 0
                self._gone += 1
            if self._gone >= PACK_FROM and self._gone * 2 > len(self._texts):
                self._pack()

    def search(
        self, query: str, *, scopes: Collection[Hashable] = (None,), limit: int = 8, at: datetime | None = None
    ) -> Found:
        """Return the texts that are about ``query``, the best first.

        What may not be seen is left out before anything is counted or ranked.

        Args:
            query: words of a person, an alert, a name.
            scopes: whose texts may be seen; of none, nothing is found.
            limit: how many at most.
            at: as of when; now when left out.
        """
        moment = (at or clock.now()).astimezone(UTC).timestamp()
        terms = terms_of(query)
        vector = None if self._passages is None else self._embed([spoken_query(query)])
        with self._lock:
            among = self._slots.visible(scopes, moment)
            total = int(np.count_nonzero(among))
            retrieval: Retrieval = "keyword" if vector is None else "hybrid"
            if not total:
                return Found((), retrieval, 0, "nothing_visible")
            words = self._texts.scores(terms, among) + TITLE_WEIGHT * self._titles.scores(terms, among)
            meaning = self._passages.nearest(vector[0], among) if vector is not None and self._passages else None
            hits = self._ranked(words, meaning, among)[:limit]
        return Found(tuple(hits), retrieval, total, "" if hits else "nothing_matched")

    def _ranked(self, words: Floats, meaning: Floats | None, among: Mask) -> list[Hit]:
        candidates = set(self._best(words, among, above=0.0))
        if meaning is not None:
            candidates |= set(self._best(meaning, among, above=MIN_COSINE))
        if not candidates:
            return []
        slots = np.fromiter(sorted(candidates), np.intp)
        keyword = _scaled(words[slots])
        near = np.zeros(len(slots)) if meaning is None else _scaled(np.maximum(meaning[slots], 0.0))
        weight = 0.0 if meaning is None else MEANING_WEIGHT
        scores = (1 - weight) * keyword + weight * near
        hits = [
            Hit(self._slots.keys[slot], round(float(score), 6), round(float(one), 6), round(float(other), 6))
            for slot, score, one, other in zip(slots, scores, keyword, near, strict=True)
        ]
        return sorted(hits, key=lambda hit: (-hit.score, hit.key))

    def _best(self, scores: Floats, among: Mask, *, above: float) -> NDArray[np.intp]:
        slots = np.flatnonzero(among & (scores > above))
        if len(slots) <= CANDIDATES:
            return slots
        # All that score like the last one are taken, so that which of them is looked at does not depend on their order.
        least = np.partition(scores[slots], -CANDIDATES)[-CANDIDATES]
        best: NDArray[np.intp] = slots[scores[slots] >= least]
        return best

    def _embed(self, texts: list[str]) -> NDArray[np.float32] | None:
        if self._embedder is None:
            return None
        try:
            return self._embedder.embed(texts)
        except Exception:  # a broken embedder costs quality, never an answer
            log.warning("retrieval.embedder_failed", exc_info=True)
            return None

    def _clear(self) -> None:
        self._documents: dict[str, tuple[int, Document]] = {}
        self._texts, self._titles, self._slots = Postings(), Postings(), _Slots()
        self._passages = None if self._embedder is None else Passages(self._embedder.dimensions)
        self._gone = 0
        self._built_at = clock.now()

    def _pack(self) -> None:
        """Make the index anew of what is there, so that what was taken out costs nothing any more."""
        documents = [document for _, document in self._documents.values()]
        self._clear()
        for document in documents:
            self.put(document)


def spoken_query(query: str) -> str:
    """Return a query as an embedder knows its words: names are split as titles are."""
    return " ".join(spoken(word) if not word.islower() else word for word in query.split()) or query


def _scaled(scores: Floats) -> Floats:
    """Return scores scaled to 0-1 within the candidates; all alike are all 1, of nothing 0."""
    low, high = float(scores.min()), float(scores.max())
    if high <= 0:
        return np.zeros(len(scores))
    if high == low:
        return np.ones(len(scores))
    return (scores - low) / (high - low)

"""An inverted index that grows by a text at a time, ranked by BM25 among the texts that may be seen."""

import math
from array import array
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

#: Anserini's, which hold up over many collections: https://github.com/castorini/anserini (BM25 baselines).
K1: Final = 0.9
B: Final = 0.4

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Postings:
    """Which slots hold which term, how often.

    A slot is filled once; what is taken out is left out by the caller's mask. Growing costs what the new text
    holds, whatever is there already. Not safe for threads: the caller locks.
    """

    def __init__(self) -> None:
        self._slots: dict[str, array[int]] = {}
        self._counts: dict[str, array[int]] = {}
        self._lengths = array("I")

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, terms: Iterable[str]) -> int:
        """Fill the next slot and return its number."""
        slot = len(self._lengths)
        counted = Counter(terms)
        for term, count in counted.items():
            if term not in self._slots:
                self._slots[term], self._counts[term] = array("I"), array("I")
            self._slots[term].append(slot)
            self._counts[term].append(count)
        self._lengths.append(counted.total())
        return slot

    def scores(self, terms: Iterable[str], among: Mask) -> Floats:
        """Return the score of every slot for a query, 0 where ``among`` is false.

        How rare a term is and how long a text usually is are counted among the slots that may be seen, so that what
        others wrote changes nobody's ranking.

        Args:
            terms: of the query; each counts once.
            among: one flag for each slot.

        Source: Robertson and Zaragoza, The Probabilistic Relevance Framework (2009); the non-negative form of Lucene.
        """
        scores: Floats = np.zeros(len(self._lengths))
        lengths = np.frombuffer(self._lengths, dtype=np.uint32) if self._lengths else np.zeros(0, np.uint32)
        seen = int(np.count_nonzero(among))
        if not seen:
            return scores
        norms = K1 * (1 - B + B * lengths / max(float(lengths[among].mean()), 1.0))
        for term in sorted(set(terms)):
            if term in self._slots:
                _add_term(scores, self._view(self._slots[term]), self._view(self._counts[term]), among, norms, seen)
        return scores

    @staticmethod
    def _view(numbers: "array[int]") -> NDArray[np.uint32]:
        return np.frombuffer(numbers, dtype=np.uint32)


def _add_term(
    scores: Floats, slots: NDArray[np.uint32], counts: NDArray[np.uint32], among: Mask, norms: Any, seen: int
) -> None:
    visible = among[slots]
    slots, counts = slots[visible], counts[visible]
    if not len(slots):
        return
    rarity = math.log(1 + (seen - len(slots) + 0.5) / (len(slots) + 0.5))
    scores[slots] += rarity * counts * (K1 + 1) / (counts + norms[slots])

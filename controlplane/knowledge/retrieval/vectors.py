"""The vectors of passages, each with the slot of the text it is of."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from controlplane.knowledge.retrieval.embedding import Vectors
from controlplane.knowledge.retrieval.postings import Floats, Mask

_FIRST_ROWS: Final = 64


class Passages:
    """Rows of half precision that grow by doubling. Not safe for threads: the caller locks."""

    def __init__(self, dimensions: int) -> None:
        self._rows: NDArray[np.float16] = np.zeros((_FIRST_ROWS, dimensions), np.float16)
        self._slots: NDArray[np.uint32] = np.zeros(_FIRST_ROWS, np.uint32)
        self._used = 0

    def add(self, slot: int, vectors: Vectors) -> None:
        """Keep the vectors of a text's passages."""
        needed = self._used + len(vectors)
        while needed > len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
            self._slots = np.concatenate([self._slots, np.zeros_like(self._slots)])
        self._rows[self._used : needed] = vectors
        self._slots[self._used : needed] = slot
        self._used = needed

    def nearest(self, vector: NDArray[np.float32], among: Mask) -> Floats:
        """Return for every slot the cosine of its nearest passage, -1 where ``among`` is false or it has none."""
        best: Floats = np.full(len(among), -1.0)
        slots = self._slots[: self._used]
        visible = np.flatnonzero(among[slots]) if self._used else np.zeros(0, np.intp)
        if len(visible):
            cosines = self._rows[visible].astype(np.float32) @ vector
            np.maximum.at(best, slots[visible], cosines)
        return best

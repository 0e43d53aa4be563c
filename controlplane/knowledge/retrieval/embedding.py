"""Embedders: texts as vectors of what they are about. One is optional; without it, words alone find.

The installed one is WordLlama: a static table of 16 MB inside its package, no network, no model server.
"""

import hashlib
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import numpy as np
import structlog
from numpy.typing import NDArray

log = structlog.get_logger(__name__)

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Makes vectors of unit length, so that their inner product is the cosine."""

    #: Name and digest of its weights: an index made with another one is made anew.
    id: str
    dimensions: int

    def embed(self, texts: list[str]) -> Vectors:
        """Return one row for each text, ``(len(texts), dimensions)``; zeros for a text without a known word.

        Raises:
            Exception: whatever goes wrong; callers fall back to words.
        """


class WordLlamaEmbedder:
    """WordLlama's table of token vectors, averaged. Source: https://github.com/dleemiller/WordLlama."""

    dimensions: int = 256

    def __init__(self) -> None:
        import wordllama  # optional, and half a second to load

        folder = Path(wordllama.__file__).parent
        self._model: Any = wordllama.WordLlama.load(dim=self.dimensions, cache_dir=folder, disable_download=True)
        self._lock = Lock()
        weights = hashlib.sha256(np.ascontiguousarray(self._model.embedding).tobytes()).hexdigest()
        self.id = f"wordllama-{wordllama.__version__}-{self.dimensions}-{weights[:12]}"

    def embed(self, texts: list[str]) -> Vectors:
        """See :meth:`Embedder.embed`."""
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        with self._lock:
            vectors: Vectors = np.asarray(self._model.embed(texts), dtype=np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
        return unit


@cache
def default_embedder() -> Embedder | None:
    """Return the installed embedder, ``None`` (logged once) where there is none for this platform."""
    try:
        return WordLlamaEmbedder()
    except Exception:  # an optional part must not take the rest down, however it is broken
        log.warning("retrieval.no_embedder", exc_info=True)
        return None

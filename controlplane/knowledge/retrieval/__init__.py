"""Finding texts again: by their words and, where an embedder is installed, by what they are about.

One index for each kind of text of an organization, in the memory of the process, under a hard filter of scope and time
that comes before any ranking. See :class:`~controlplane.knowledge.retrieval.retriever.Retriever`.
"""

from controlplane.knowledge.retrieval.embedding import Embedder, default_embedder
from controlplane.knowledge.retrieval.retriever import Document, Found, Hit, Retriever

__all__ = ["Document", "Embedder", "Found", "Hit", "Retriever", "default_embedder"]

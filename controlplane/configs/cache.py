"""The effective configurations that this process has computed, bounded in bytes."""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from threading import Lock
from uuid import UUID

from controlplane.configs.merge import Source
from controlplane.configs.references import Occurrence

#: A rough size of one entry of ``sources`` in memory, beside its pointer.
SOURCE_BYTES = 400


@dataclass(frozen=True, slots=True)
class Computed:
    """A merged chain. ``body`` is the document as JSON with sorted keys; every reader decodes a copy of its own."""

    chain: Hashable
    body: bytes
    sources: Mapping[str, Source]
    references: tuple[Occurrence, ...] = ()

    @property
    def size_bytes(self) -> int:
        entries = sum(len(pointer) + SOURCE_BYTES for pointer in self.sources)
        return len(self.body) + entries + SOURCE_BYTES * len(self.references)


class EffectiveCache:
    """One entry per node, valid only for exactly the chain it was computed from; the least recently used go first.

    The caller reads the chain's versions from the database each time, so an entry is never older than the database,
    whichever process wrote.
    """

    def __init__(self, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[UUID, tuple[Computed, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, node_id: UUID, chain: Hashable) -> Computed | None:
        """Return the entry of a node if it was computed from ``chain``."""
        with self._lock:
            found = self._entries.get(node_id)
            if found is None or found[0].chain != chain:
                return None
            self._entries.move_to_end(node_id)
            return found[0]

    def put(self, node_id: UUID, computed: Computed) -> None:
        """Keep ``computed`` in place of what was there for the node."""
        size = computed.size_bytes
        with self._lock:
            _, replaced = self._entries.pop(node_id, (None, 0))
            self._entries[node_id] = (computed, size)
            self._bytes += size - replaced
            while self._bytes > self._max_bytes and self._entries:
                _, (_, dropped) = self._entries.popitem(last=False)
                self._bytes -= dropped

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0


effective_cache = EffectiveCache()

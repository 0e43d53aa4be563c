"""What a metric measures, told from the words of its name, whoever the vendor."""

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final


class Measure(StrEnum):
    """What is measured. ``OTHER`` is judged by its changes only."""

    FREE_STORAGE = "free storage"
    STORAGE_USED = "storage use"
    CPU = "CPU"
    FREE_MEMORY = "free memory"
    MEMORY_USED = "memory use"
    SWAP = "swap use"
    CONNECTIONS = "connections"
    REPLICA_LAG = "replication lag"
    WAL_RATE = "WAL generation"
    WAL_SIZE = "WAL on disk"
    SLOT_LAG = "replication slot lag"
    WRITES = "writes"
    READS = "reads"
    LATENCY = "latency"
    ERRORS = "errors"
    AVAILABILITY = "availability"
    QUEUE = "queue"
    CREDIT = "burst credit"
    LOAD = "load"
    TRANSACTION_IDS = "transaction ids"
    TRAFFIC = "traffic"
    OTHER = "other"


_WORD: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")

# The first rule whose alternatives all find one of their words decides; "!" words must be absent.
_RULES: Final[tuple[tuple[Measure, tuple[str, ...]], ...]] = (
    (Measure.SLOT_LAG, ("slot", "lag retained behind")),
    (Measure.REPLICA_LAG, ("lag behind delay", "replica replication replay standby")),
    (Measure.QUEUE, ("lag", "consumer group offset")),
    (Measure.TRANSACTION_IDS, ("transaction xid txid", "ids id age wraparound", "!log !logs")),
    (Measure.CREDIT, ("balance credit credits",)),
    (Measure.WAL_SIZE, ("wal xlog log logs binlog bin", "disk size usage used retained", "!error !errors")),
    (Measure.WAL_RATE, ("wal xlog log logs binlog", "generation generated written rate bytes", "!error !errors")),
    (Measure.SWAP, ("swap",)),
    (Measure.FREE_MEMORY, ("memory mem ram heap", "free freeable available avail")),
    (Measure.MEMORY_USED, ("memory mem ram heap rss", "used usage utilization working rss percent limit")),
    (Measure.FREE_STORAGE, ("storage disk space filesystem volume", "free avail available remaining")),
    (Measure.STORAGE_USED, ("storage disk space filesystem volume", "used usage utilization percent")),
    (Measure.CPU, ("cpu", "utilization usage util percent used total load")),
    (
        Measure.ERRORS,
        ("error errors failed failures failure exceptions rejected refused faults deadlocks aborted 5 xx",),
    ),
    (Measure.AVAILABILITY, ("availability uptime success successes", "!zone !replicas !replica")),
    (Measure.LATENCY, ("latency duration response wait", "!throughput")),
    (Measure.CONNECTIONS, ("connections connection conns sessions clients backends",)),
    (Measure.QUEUE, ("queue backlog pending queued",)),
    (Measure.WRITES, ("write writes commit commits insert inserts update updates written",)),
    (Measure.READS, ("read reads select selects fetched",)),
    (Measure.LOAD, ("load",)),
    (Measure.TRAFFIC, ("request requests throughput traffic rps qps hits receive transmit count invocations",)),
)


@lru_cache(maxsize=4096)
def measure_of(metric: str) -> Measure:
    """Return what a metric measures, from its name: ``FreeStorageSpace``, ``node_filesystem_avail_bytes``."""
    words = frozenset(name_words(metric))
    for measure, groups in _RULES:
        if all(_fits(words, group) for group in groups):
            return measure
    return Measure.OTHER


def name_words(name: str) -> list[str]:
    """Return the words of a name in any case style, lower case."""
    return [word.lower() for word in _WORD.findall(name.replace("IDs", "Ids"))]


def _fits(words: frozenset[str], group: str) -> bool:
    listed = group.split()
    if listed[0].startswith("!"):
        return not any(word.removeprefix("!") in words for word in listed)
    return any(word in words for word in listed)

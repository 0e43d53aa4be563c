"""Signs: what evidence shows to be out of order, each with the observations it rests on."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class SignKind(StrEnum):
    """Kinds of disorder. The first group are causes in themselves, the second symptoms, the third mere changes."""

    STORAGE_FULL = "storage_full"
    CONNECTIONS_FULL = "connections_full"
    CPU_SATURATED = "cpu_saturated"
    MEMORY_LOW = "memory_low"
    CREDIT_EMPTY = "credit_empty"
    TRANSACTION_IDS_HIGH = "transaction_ids_high"
    REPLICA_LAG = "replica_lag"
    LOCK_WAITS = "lock_waits"
    FAILOVER = "failover"
    OOM_KILLED = "oom_killed"
    IMAGE_PULL = "image_pull"
    BAD_CONFIG = "bad_config"
    UNSCHEDULABLE = "unschedulable"
    NODE_DOWN = "node_down"
    NODE_PRESSURE = "node_pressure"
    PROBE_FAILING = "probe_failing"
    CRASHING = "crashing"
    SANDBOX = "sandbox"
    DEPENDENCY = "dependency"
    CODE_FAULT = "code_fault"
    BAD_DATA = "bad_data"

    LATENCY_UP = "latency_up"
    ERRORS_UP = "errors_up"
    QUEUE_UP = "queue_up"
    REPLICAS_MISSING = "replicas_missing"
    MONITOR_ALERT = "monitor_alert"
    LOG_ERRORS = "log_errors"

    WRITES_UP = "writes_up"
    READS_UP = "reads_up"
    WAL_UP = "wal_up"
    WAL_RETAINED = "wal_retained"
    CPU_UP = "cpu_up"
    CONNECTIONS_UP = "connections_up"
    LOAD_UP = "load_up"
    TRAFFIC_DOWN = "traffic_down"
    CHANGED = "changed"


SYMPTOMS = frozenset(
    {
        SignKind.LATENCY_UP,
        SignKind.ERRORS_UP,
        SignKind.QUEUE_UP,
        SignKind.REPLICAS_MISSING,
        SignKind.MONITOR_ALERT,
        SignKind.LOG_ERRORS,
        SignKind.TRAFFIC_DOWN,
    }
)


@dataclass(frozen=True, slots=True)
class Sign:
    """``strength`` is 0 to 1; ``current`` whether it still holds at the end of the evidence; ``at`` when it began."""

    kind: SignKind
    object: str
    text: str
    citations: tuple[str, ...]
    strength: float
    current: bool = True
    at: datetime | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class Signs:
    """The signs of a case, strongest first."""

    def __init__(self, signs: Iterable[Sign]) -> None:
        self._signs = sorted(signs, key=lambda sign: (not sign.current, -sign.strength))

    def __iter__(self) -> Iterator[Sign]:
        return iter(self._signs)

    def of(
        self, *kinds: SignKind, current: bool | None = None, where: Callable[[Sign], bool] | None = None
    ) -> list[Sign]:
        """Return the signs of some kinds, strongest first; ``current`` limits them to what (no longer) holds."""
        return [
            sign
            for sign in self._signs
            if sign.kind in kinds and (current is None or sign.current is current) and (where is None or where(sign))
        ]

    def first(self, *kinds: SignKind, current: bool | None = None) -> Sign | None:
        """Return the strongest sign of some kinds."""
        return next(iter(self.of(*kinds, current=current)), None)

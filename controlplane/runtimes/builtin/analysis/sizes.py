"""What a database instance can take, from its class."""

import re
from dataclasses import dataclass
from typing import Final

_GIB: Final = 1 << 30
_CLASS: Final = re.compile(
    r"^db\.(?P<family>[a-z]+)\d+[a-z]*\.(?:(?P<times>\d*)x)?(?P<size>large|medium|small|micro|nano)$"
)

# GiB of memory for one virtual CPU, by family ("Amazon RDS DB instance classes", Amazon RDS User Guide).
_MEMORY_PER_CPU: Final = {"m": 4, "c": 2, "r": 8, "x": 16, "z": 8}
_BURSTABLE_MEMORY: Final = {"nano": 0.5, "micro": 1, "small": 2, "medium": 4, "large": 8}


@dataclass(frozen=True, slots=True)
class InstanceSize:
    """``memory_bytes`` and virtual CPUs of an instance class."""

    name: str
    cpus: int
    memory_bytes: int

    def postgres_connections(self) -> int:
        """Return PostgreSQL's default ``max_connections``: ``LEAST(DBInstanceClassMemory / 9531392, 5000)``.

        Source: "Quotas and constraints for Amazon RDS", maximum number of database connections.
        """
        return min(self.memory_bytes // 9_531_392, 5_000)

    def mysql_connections(self) -> int:
        """Return MySQL's default ``max_connections``: ``DBInstanceClassMemory / 12582880``, at most 16,000."""
        return min(self.memory_bytes // 12_582_880, 16_000)


def instance_size(name: str) -> InstanceSize | None:
    """Return the size of an RDS instance class (``db.r6g.2xlarge``), or ``None`` for one that is not understood."""
    match = _CLASS.match(name.strip().lower())
    if match is None:
        return None
    family, size = match["family"], match["size"]
    times = int(match["times"] or 1) if "xlarge" in name.lower() else 0
    cpus = 4 * times if times else 2
    if family == "t":
        memory = (
            _BURSTABLE_MEMORY["large"] * (2 * times if times else 1) if size == "large" else _BURSTABLE_MEMORY[size]
        )
    elif family[:1] in _MEMORY_PER_CPU and size == "large":
        memory = _MEMORY_PER_CPU[family[:1]] * cpus
    else:
        return None
    return InstanceSize(name.strip().lower(), cpus, int(memory * _GIB))

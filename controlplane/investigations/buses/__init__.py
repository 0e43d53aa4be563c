"""Buses between processes, behind one interface: none, PostgreSQL's LISTEN/NOTIFY, Redis pub/sub (``EVENT_BUS``).

Whoever lives as long as a process (the ASGI lifespan, a worker) calls :func:`join`; the process has one relay however
many do. Drivers are imported only by the bus that uses them.
"""

import threading
from collections.abc import Callable
from typing import Final, Literal, cast

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections

from controlplane.investigations.buses.messages import bus_key, channel_name
from controlplane.investigations.buses.relay import Relay
from controlplane.investigations.buses.transport import Transport

Kind = Literal["process", "postgres", "redis"]

_lock: Final = threading.Lock()
_relay: Relay | None = None
_joined = 0


def bus_kind() -> Kind:
    """Return the bus in use: ``EVENT_BUS``, of which ``auto`` is ``postgres`` on PostgreSQL, else ``process``."""
    kind: str = settings.EVENT_BUS
    if kind == "auto":
        return "postgres" if connections[DEFAULT_DB_ALIAS].vendor == "postgresql" else "process"
    return cast("Kind", kind)


def is_connected() -> bool:
    """Return whether other processes are heard at once; never true for the bus of one process."""
    relay = _relay
    return relay is not None and relay.is_connected


def join() -> Callable[[], None]:
    """Tie this process to the bus until the returned function is called, which waits for what is still to be sent."""
    global _relay, _joined  # noqa: PLW0603 (one relay per process is the point)
    with _lock:
        _joined += 1
        if _relay is None and bus_kind() != "process":
            key = bus_key()
            _relay = Relay(_transport(bus_kind(), channel_name(key)), key)
            _relay.start()
    return _leave


def _leave() -> None:
    global _relay, _joined  # noqa: PLW0603 (as above)
    with _lock:
        _joined -= 1
        if _joined or _relay is None:
            return
        relay, _relay = _relay, None
    relay.end()


def _transport(kind: Kind, channel: str) -> Transport:
    if kind == "redis":
        from controlplane.investigations.buses.redis import RedisTransport

        return RedisTransport(settings.REDIS_URL, channel)
    from controlplane.investigations.buses.postgres import PostgresTransport, conninfo_of

    conninfo = settings.BUS_DATABASE_URL or conninfo_of(connections[DEFAULT_DB_ALIAS])
    return PostgresTransport(conninfo, channel)

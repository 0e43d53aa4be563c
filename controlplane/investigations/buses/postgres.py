"""The bus over PostgreSQL's LISTEN and NOTIFY.

LISTEN belongs to a session: through PgBouncer in transaction mode nothing ever arrives, hence a setting of its own for
the connection (``BUS_DATABASE_URL``). Source: https://www.postgresql.org/docs/15/sql-notify.html
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import sql
from psycopg.conninfo import make_conninfo

#: PostgreSQL refuses payloads of 8,000 bytes and more.
LIMIT: Final = 7_500
#: A dead peer is noticed within about 25 seconds also where nothing is sent (libpq, "Parameter Key Words").
_KEEPALIVES: Final[dict[str, Any]] = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


class PostgresLink:
    """Two sessions: the generator of notifications holds its connection's lock, so nothing is sent over that one."""

    def __init__(
        self, channel: str, listening: "psycopg.AsyncConnection[Any]", sending: "psycopg.AsyncConnection[Any]"
    ) -> None:
        self._channel = channel
        self._listening = listening
        self._sending = sending

    async def send(self, payloads: Sequence[bytes]) -> None:
        # One transaction for the batch: a commit with notifications takes a lock of the whole database cluster.
        await self._sending.execute(
            "SELECT pg_notify(%s, payload) FROM unnest(%s::text[]) AS payload",
            [self._channel, [payload.decode() for payload in payloads]],
        )

    async def receive(self, timeout_s: float) -> list[bytes]:
        notifications = self._listening.notifies(timeout=timeout_s, stop_after=1)
        return [notification.payload.encode() async for notification in notifications]


class PostgresTransport:
    """Sessions of their own outside Django's pool, in autocommit: a listener in a transaction holds up the queue.

    Args:
        conninfo: a ``postgres://`` URL or libpq keywords.
        channel: the installation's channel.
    """

    limit = LIMIT

    def __init__(self, conninfo: str, channel: str) -> None:
        self._conninfo = conninfo
        self._channel = channel

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[PostgresLink]:
        listening, sending = await self._session("listen"), None
        try:
            await listening.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
            sending = await self._session("send")
            # A notification need not survive a crash of the database, so its commit need not wait for the disk.
            await sending.execute("SET synchronous_commit = off")
            yield PostgresLink(self._channel, listening, sending)
        finally:
            await listening.close()
            if sending is not None:
                await sending.close()

    async def _session(self, purpose: str) -> "psycopg.AsyncConnection[Any]":
        return await psycopg.AsyncConnection.connect(
            self._conninfo, autocommit=True, application_name=f"opensre bus ({purpose})", **_KEEPALIVES
        )


def conninfo_of(connection: BaseDatabaseWrapper) -> str:
    """Return how Django's connection is made, in libpq's terms; what only Django or psycopg understands is left out."""
    known = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}
    parameters = connection.get_connection_params()
    return make_conninfo(**{name: value for name, value in parameters.items() if name in known})

"""One fixed query for a hot route, asked from the event loop.

On PostgreSQL it runs on an asynchronous pool of its own, without a thread; on SQLite, whose driver blocks, in a thread.
The statement is made once from a queryset, so that the ORM stays its only author.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import QuerySet
from psycopg_pool import AsyncConnectionPool

from controlplane.core.db import DatabaseThreads

MOST_CONNECTIONS: Final = 4
MOST_WAIT_S: Final = 10.0

Build = Callable[[Sequence[str]], "QuerySet[Any, Any]"]
Row = tuple[Any, ...]


class HotQuery:
    """A query with text parameters, whose rows come as tuples of Python values.

    Args:
        build: returns the queryset (a ``values_list``) for the parameters; its statement must not depend on them.
        parameters: how many there are.

    The object belongs to the event loop that first uses it.
    """

    def __init__(self, build: Build, *, parameters: int, name: str) -> None:
        self._build = build
        self._markers = tuple(f"\x01{number}\x01" for number in range(parameters))
        self._name = name
        self._threads: DatabaseThreads | None = None
        self._pool: AsyncConnectionPool[Any] | None = None
        self._opening = asyncio.Lock()
        self._sql = ""
        self._order: tuple[int, ...] = ()

    async def rows(self, *parameters: str) -> list[Row]:
        """Return the rows for the parameters.

        Raises:
            django.db.OperationalError, psycopg.Error: the database does not answer.
        """
        if connections[DEFAULT_DB_ALIAS].vendor != "postgresql":
            if self._threads is None:
                self._threads = DatabaseThreads(threads=2, name=self._name)
            return await self._threads.call(lambda: list(self._build(parameters)))
        pool = await self._opened()
        async with pool.connection(MOST_WAIT_S) as connection:
            cursor = await connection.execute(self._sql, [parameters[place] for place in self._order], prepare=True)
            return list(await cursor.fetchall())

    async def call(self, job: Callable[..., Any], *arguments: Any) -> Any:
        """Run a job that queries through the ORM in a thread: what is too rare to be asked asynchronously."""
        if self._threads is None:
            self._threads = DatabaseThreads(threads=2, name=self._name)
        return await self._threads.call(job, *arguments)

    async def close(self) -> None:
        """Close every connection."""
        if self._pool is not None:
            await self._pool.close()
            self._pool = None
        if self._threads is not None:
            await asyncio.to_thread(self._threads.close)
            self._threads = None

    async def _opened(self) -> "AsyncConnectionPool[Any]":
        if self._pool is not None:
            return self._pool
        async with self._opening:
            if self._pool is None:
                self._prepare()
                pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
                    kwargs=_parameters(), min_size=1, max_size=MOST_CONNECTIONS, open=False, name=self._name
                )
                await pool.open(wait=True, timeout=MOST_WAIT_S)
                self._pool = pool
        return self._pool

    def _prepare(self) -> None:
        """Take the statement, and the order in which it wants the parameters, from the queryset."""
        sql, values = self._build(self._markers).query.sql_with_params()
        if sorted(set(values)) != sorted(self._markers):
            raise ValueError("the statement has other parameters than the query's own")
        self._sql, self._order = sql, tuple(self._markers.index(value) for value in values)


def _parameters() -> dict[str, Any]:
    settings = connections[DEFAULT_DB_ALIAS].settings_dict
    wanted = {
        "dbname": settings["NAME"],
        "user": settings["USER"],
        "password": settings["PASSWORD"],
        "host": settings["HOST"],
        "port": settings["PORT"],
    }
    options = {
        key: value for key, value in settings["OPTIONS"].items() if key in ("connect_timeout", "sslmode", "options")
    }
    return {"autocommit": True, **{key: value for key, value in wanted.items() if value}, **options}

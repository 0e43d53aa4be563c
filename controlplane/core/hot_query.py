"""One look-up by a text key for a hot route, asked from the event loop, for many callers at a time.

Callers that come while a query is under way are answered together by the next one: under load the cost of a round trip
is shared, and nobody gets rows that were read before it asked. On PostgreSQL the query runs on an asynchronous
connection of its own, without a thread; on SQLite, whose driver blocks, in a thread. The statement is made from a
queryset, so that the ORM stays its only author.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import CharField, Lookup, QuerySet
from typing_extensions import override

from controlplane.core.db import DatabaseThreads

if TYPE_CHECKING:  # on SQLite the driver of PostgreSQL is never loaded
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

MOST_WAIT_S: Final = 10.0
#: Keys of one statement. More wait for the next.
MOST_KEYS: Final = 200

Row = tuple[Any, ...]
#: Makes from a field's name the keyword of ``filter()`` that holds for the wanted keys.
Match = Callable[[str], Mapping[str, Any]]
Build = Callable[[Match], "QuerySet[Any, Any]"]
_KEYS: Final = "\x01keys\x01"


class NoAnswer(Exception):
    """The asynchronous connection failed or none was free in time."""


class HotLookup:
    """Rows by key, as tuples of Python values.

    Args:
        build: returns the queryset, a ``values_list`` whose first column is the key; it is filtered by
            ``**match(<field>)`` and by nothing else that has a parameter.

    The object belongs to the event loop that first uses it.
    """

    def __init__(self, build: Build, *, name: str) -> None:
        self._build = build
        self._name = name
        self._waiting: dict[str, list[asyncio.Future[list[Row]]]] = {}
        self._asking: asyncio.Task[None] | None = None
        self._threads: DatabaseThreads | None = None
        self._pool: AsyncConnectionPool[Any] | None = None
        self._sql = ""

    async def rows(self, key: str) -> list[Row]:
        """Return the rows of a key, in the queryset's order, as they are now or later.

        Raises:
            django.db.DatabaseError, NoAnswer, TimeoutError: no answer from the database.
        """
        loop = asyncio.get_running_loop()
        # A future for each caller: one that goes away takes nothing from the others.
        answer: asyncio.Future[list[Row]] = loop.create_future()
        self._waiting.setdefault(key, []).append(answer)
        if self._asking is None:
            self._asking = loop.create_task(self._ask())
        return await answer

    async def call(self, job: Callable[..., Any], *arguments: Any) -> Any:
        """Run a job that queries through the ORM in a thread: what is too rare to be asked asynchronously."""
        return await self._database_threads().call(job, *arguments)

    async def close(self) -> None:
        """Close every connection; who still waits is cancelled."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])
        if self._pool is not None:
            await self._pool.close()
            self._pool = None
        if self._threads is not None:
            await asyncio.to_thread(self._threads.close)
            self._threads = None

    async def _ask(self) -> None:
        """Ask for everybody who waits, until nobody does."""
        try:
            while self._waiting:
                asked = self._taken()
                try:
                    async with asyncio.timeout(MOST_WAIT_S):
                        found = await self._found(list(asked))
                except Exception as error:  # noqa: BLE001 (whatever it is, it is the callers', who wait for it)
                    for answer in _open(asked):
                        answer.set_exception(error)
                else:
                    for key, answers in asked.items():
                        rows = found.get(key, [])
                        for answer in _open({key: answers}):
                            answer.set_result(rows)
                finally:
                    for answer in _open(asked):
                        answer.cancel()
        finally:
            self._asking = None

    def _taken(self) -> dict[str, list["asyncio.Future[list[Row]]"]]:
        """Return those who wait, at most so many keys, and let the others go on waiting."""
        if len(self._waiting) <= MOST_KEYS:
            taken, self._waiting = self._waiting, {}
        else:
            taken = {key: self._waiting.pop(key) for key in list(self._waiting)[:MOST_KEYS]}
        return taken

    async def _found(self, keys: list[str]) -> dict[str, list[Row]]:
        if connections[DEFAULT_DB_ALIAS].vendor != "postgresql":
            rows = await self._database_threads().call(lambda: list(self._build(lambda field: {f"{field}__in": keys})))
        else:
            rows = await self._asked(keys)
        found: dict[str, list[Row]] = {}
        for row in rows:
            found.setdefault(row[0], []).append(row)
        return found

    async def _asked(self, keys: list[str]) -> list[Row]:
        """Ask PostgreSQL without a thread."""
        import psycopg
        from psycopg_pool import PoolTimeout

        try:
            pool = self._pool or await self._opened()
            async with pool.connection() as connection:
                cursor = await connection.execute(self._sql, [keys], prepare=True)
                rows: list[Row] = await cursor.fetchall()
                return rows
        except (psycopg.Error, PoolTimeout) as error:
            raise NoAnswer from error

    def _database_threads(self) -> DatabaseThreads:
        if self._threads is None:
            self._threads = DatabaseThreads(threads=2, name=self._name)
        return self._threads

    async def _opened(self) -> "AsyncConnectionPool[Any]":
        from psycopg_pool import AsyncConnectionPool

        self._sql = statement(self._build)
        pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
            kwargs=_parameters(), configure=_configure, min_size=1, max_size=1, open=False, name=self._name
        )
        try:
            await pool.open(wait=True, timeout=MOST_WAIT_S / 2)
        except BaseException:
            await pool.close()
            raise
        self._pool = pool
        return pool


@CharField.register_lookup
class EqualsAny(Lookup[Any]):
    """``field = ANY(array)``: one parameter however many keys, so that one prepared statement serves (PostgreSQL)."""

    lookup_name = "equals_any"

    @override
    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        left, values = self.process_lhs(compiler, connection)
        right, more = self.process_rhs(compiler, connection)
        return f"{left} = ANY({right})", (*values, *more)


def statement(build: Build) -> str:
    """Return the statement for PostgreSQL, with one parameter: the list of keys.

    Raises:
        ValueError: the queryset has parameters besides the keys.
    """
    sql, values = build(lambda field: {f"{field}__{EqualsAny.lookup_name}": _KEYS}).query.sql_with_params()
    if list(values) != [_KEYS]:
        raise ValueError("the statement has other parameters than the keys")
    return sql


def _open(asked: Mapping[str, Sequence["asyncio.Future[list[Row]]"]]) -> list["asyncio.Future[list[Row]]"]:
    return [answer for answers in asked.values() for answer in answers if not answer.done()]


async def _configure(connection: "AsyncConnection[Any]") -> None:
    from psycopg.types.json import set_json_loads

    set_json_loads(orjson.loads, connection)


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

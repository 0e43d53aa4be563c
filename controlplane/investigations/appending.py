"""The statements that append to the log, one way for each database.

They go to the driver directly. Django's cursors would cost as much again as the statements, and on PostgreSQL would
have the statement planned anew for every event. Whoever counts or wraps queries gets Django's cursors, with the same
outcome.
"""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from controlplane.investigations.models import Audience
from controlplane.runtimes.events import EventType

#: Times a statement is sent as text before it is prepared. Through PgBouncer prepared statements need its version 1.21.
PREPARE_AFTER: Final = 2


@dataclass(frozen=True, slots=True)
class Fence:
    """The right of one claim to write: checked in the statement that writes."""

    run_id: UUID
    epoch: int


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to append; ``data`` is already redacted and encoded (see :func:`new_event`)."""

    type: EventType
    run_id: UUID | None
    data: str
    audience: Audience = Audience.THREAD


def insert_events(thread_id: UUID, events: Sequence[NewEvent], fence: Fence | None, at: datetime) -> int | None:
    """Insert ``events`` with the next numbers and return the last one; ``None``, changing nothing, without the fence.

    Counter, fence and rows are one transaction: the caller's, or one of its own.
    """
    if connection.vendor == "postgresql":
        return _insert_postgres(thread_id, events, fence, at)
    return _insert_sqlite(thread_id, events, fence, at)


def _is_watched() -> bool:
    return bool(connection.queries_logged or connection.execute_wrappers)


# ---- PostgreSQL ------------------------------------------------------------------------------------------------------


def _insert_postgres(thread_id: UUID, events: Sequence[NewEvent], fence: Fence | None, at: datetime) -> int | None:
    """One statement: the counter's UPDATE (with the fence) feeds the INSERT, so both or neither happen."""
    parameters: list[Any] = [len(events), thread_id]
    if fence:
        parameters += [fence.epoch, fence.run_id]
    parameters += [thread_id, at]
    for index, event in enumerate(events):
        parameters += [len(events) - 1 - index, event.run_id, str(event.type), str(event.audience), event.data]
    sql = _postgres_statement(len(events), fenced=fence is not None)
    if _is_watched():
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            rows = cursor.fetchall()
    else:
        rows = _prepared(sql, parameters)
    return max((seq for (seq,) in rows), default=None)


@lru_cache
def _postgres_statement(count: int, *, fenced: bool) -> str:
    fence = " AND epoch = %s AND active_run = %s AND lease_until IS NOT NULL" if fenced else ""
    values = ", ".join(["(%s::bigint, %s::uuid, %s::text, %s::text, %s::text)"] * count)
    return (
        "WITH head AS (UPDATE investigations_thread SET last_seq = last_seq + %s"  # noqa: S608 (only placeholders)
        f" WHERE id = %s{fence} RETURNING last_seq)"
        " INSERT INTO investigations_event (thread_id, at, seq, run_id, type, audience, data)"
        " SELECT %s, %s, head.last_seq - fresh.back, fresh.run_id, fresh.type, fresh.audience, fresh.data"
        f" FROM head, (VALUES {values}) AS fresh (back, run_id, type, audience, data) RETURNING seq"
    )


def _prepared(sql: str, parameters: list[Any]) -> list[Any]:
    """Execute with parameters bound by the server, so that it plans the statement once for each connection."""
    import psycopg

    connection.ensure_connection()
    connection.validate_no_broken_transaction()
    driver = connection.connection
    if driver.prepare_threshold is None:
        driver.prepare_threshold = PREPARE_AFTER
    with connection.wrap_database_errors, psycopg.Cursor(driver) as cursor:
        return cursor.execute(sql, parameters).fetchall()


# ---- SQLite ----------------------------------------------------------------------------------------------------------


def _insert_sqlite(thread_id: UUID, events: Sequence[NewEvent], fence: Fence | None, at: datetime) -> int | None:
    """SQLite has no UPDATE inside a CTE: two statements in one IMMEDIATE transaction, under its one write lock."""
    if connection.in_atomic_block or _is_watched():
        with transaction.atomic(savepoint=False), connection.cursor() as cursor:
            return _insert_with(cursor.execute, cursor.executemany, "%s", thread_id, events, fence, at)
    connection.ensure_connection()
    driver: sqlite3.Connection = connection.connection
    with connection.wrap_database_errors:
        driver.execute("BEGIN IMMEDIATE")
        try:
            last_seq = _insert_with(driver.execute, driver.executemany, "?", thread_id, events, fence, at)
            driver.execute("COMMIT" if last_seq is not None else "ROLLBACK")
        except BaseException:
            if driver.in_transaction:
                driver.execute("ROLLBACK")
            raise
    return last_seq


def _insert_with(
    execute: Callable[[str, list[Any]], Any],
    executemany: Callable[[str, list[tuple[Any, ...]]], Any],
    mark: str,
    thread_id: UUID,
    events: Sequence[NewEvent],
    fence: Fence | None,
    at: datetime,
) -> int | None:
    fenced = f" AND epoch = {mark} AND active_run = {mark} AND lease_until IS NOT NULL" if fence else ""
    parameters: list[Any] = [len(events), thread_id.hex]
    if fence:
        parameters += [fence.epoch, fence.run_id.hex]
    rows = execute(
        f"UPDATE investigations_thread SET last_seq = last_seq + {mark} WHERE id = {mark}{fenced} RETURNING last_seq",  # noqa: S608
        parameters,
    ).fetchall()
    if not rows:
        return None
    last_seq: int = rows[0][0]
    first = last_seq - len(events) + 1
    thread, stamp = thread_id.hex, connection.ops.adapt_datetimefield_value(at)
    executemany(
        "INSERT INTO investigations_event (thread_id, seq, run_id, type, at, audience, data)"  # noqa: S608
        f" VALUES ({', '.join([mark] * 7)})",
        [
            (
                thread,
                first + index,
                event.run_id.hex if event.run_id else None,
                str(event.type),
                stamp,
                str(event.audience),
                event.data,
            )
            for index, event in enumerate(events)
        ],
    )
    return last_seq

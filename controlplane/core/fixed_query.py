"""A query that is asked on every request: its SQL is made once, not each time, which costs more than asking it.

For code that may wait; :mod:`controlplane.core.hot_query` is the same for event loops.
"""

from collections.abc import Callable
from typing import Any, Final

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import QuerySet
from django.db.models.sql.compiler import SQLCompiler

Row = tuple[Any, ...]
_KEY: Final = "\x01key\x01"


class FixedQuery:
    """Rows by one key, as tuples of Python values.

    Args:
        build: returns, for a key, the queryset, a ``values_list`` that has no other parameter.
    """

    def __init__(self, build: "Callable[[str], QuerySet[Any, Any]]") -> None:
        self._build = build
        self._compiled: dict[str, tuple[str, list[tuple[int, list[Any], Any]]]] = {}

    def rows(self, key: str) -> list[Row]:
        """Return the rows of ``key``. One query.

        Raises:
            django.db.DatabaseError: as any query.
        """
        connection = connections[DEFAULT_DB_ALIAS]
        sql, converters = self._compiled.get(connection.vendor) or self._compile(connection)
        with connection.cursor() as cursor:
            cursor.execute(sql, (key,))
            rows: list[Row] = cursor.fetchall()
        return [_converted(row, converters, connection) for row in rows] if converters else rows

    def _compile(self, connection: Any) -> tuple[str, list[tuple[int, list[Any], Any]]]:
        compiler: SQLCompiler = self._build(_KEY).query.get_compiler(connection=connection)
        sql, values = compiler.as_sql()
        if tuple(values) != (_KEY,):
            raise ValueError("the statement has other parameters than the key")
        found = compiler.get_converters([column[0] for column in compiler.select[0 : compiler.col_count]])
        made = (sql, [(index, list(convert), expression) for index, (convert, expression) in found.items()])
        self._compiled[connection.vendor] = made
        return made


def _converted(row: Row, converters: list[tuple[int, list[Any], Any]], connection: Any) -> Row:
    values = list(row)
    for index, convert, expression in converters:
        value = values[index]
        for one in convert:
            value = one(value, expression, connection)
        values[index] = value
    return tuple(values)

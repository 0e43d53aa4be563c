"""Recordings of many services: a table of metrics around an incident, one of normal operation, and a call graph.

A folder holds ``alert.json`` and ``metrics.csv``. ``graph.csv`` and ``noissue/metrics.csv`` belong to all recordings of
the same system, so they are looked for beside them and up to two folders above.

``metrics.csv`` has three header rows (object, metric, statistic), may have one that only names the time column, and
then a row for each time in Unix seconds; an empty cell is a gap. ``graph.csv`` is an adjacency matrix: a 1 in row A and
column B says that A calls B.
"""

import csv
import io
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Final

from controlplane.runtimes.sources.folders.files import (
    OPEN_FLAGS,
    Folder,
    UnreadableError,
    read_bytes,
    read_object,
)

TABLE: Final = "metrics.csv"
GRAPH: Final = "graph.csv"
NORMAL: Final = ("noissue", TABLE)

_HEADER_ROWS: Final = 3
_MOST_COLUMNS: Final = 2_000
_MOST_ROWS: Final = 20_000
_MOST_CELLS: Final = 2_000_000  # short rows count in full: each column holds a value, or a gap, for each row
_MOST_CALLS: Final = 50_000
_UP: Final = 2  # folders above, in which what belongs to the whole system is looked for


@dataclass(frozen=True, slots=True)
class MetricTable:
    """``times`` in Unix seconds, ascending; ``columns`` by object, metric and statistic, each with as many values."""

    times: Sequence[float]
    columns: Mapping[tuple[str, str, str], Sequence[float | None]]

    def split(self, row: int) -> tuple["MetricTable", "MetricTable"]:
        """Return the table before a row and from it on."""
        first = {key: values[:row] for key, values in self.columns.items()}
        second = {key: values[row:] for key, values in self.columns.items()}
        return MetricTable(self.times[:row], first), MetricTable(self.times[row:], second)

    def as_source(self, normal: "MetricTable | None") -> dict[str, Any]:
        """Return the table, beside one of normal operation, as the source that the ``metric_table`` reader knows."""
        source = self.as_json()
        return source if normal is None else {**source, "normal": normal.as_json()}

    def as_json(self) -> dict[str, Any]:
        """Return the table as JSON: its times, and its columns each with its names."""
        columns = [
            {"object": object_, "metric": metric, "statistic": statistic, "values": values}
            for (object_, metric, statistic), values in self.columns.items()
        ]
        return {"times": self.times, "columns": columns}


def read_metric_tables(folder: Folder, root: int, room: list[int]) -> None:
    """Read a recording of the folder opened as ``root``."""
    folder.alert = read_object(folder, root, "alert.json", room)
    table = _table(folder, root, (TABLE,), room, above=0)
    normal = _table(folder, root, NORMAL, room, above=_UP)
    if table is not None:
        folder.sources["metrics"] = table.as_source(normal)
    text = _text(folder, root, (GRAPH,), room, above=_UP)
    if text is not None:
        _take_graph(folder, text)


def parse_table(text: str) -> MetricTable:
    """Return the table in the text of a ``metrics.csv``.

    Raises:
        UnreadableError: it is none, or larger than 2,000 columns, 20,000 rows or 2,000,000 cells.
    """
    rows = _rows(text)
    if len(rows) <= _HEADER_ROWS:
        raise UnreadableError("has no rows below its three header rows")
    keys = list(zip(*(row[1:] for row in rows[:_HEADER_ROWS]), strict=False))
    body = [row for row in rows[_HEADER_ROWS:] if row and _finite(row[0]) is not None]
    if len(keys) > _MOST_COLUMNS or len(body) > _MOST_ROWS or len(keys) * len(body) > _MOST_CELLS:
        sizes = f"{_MOST_COLUMNS:,} columns, {_MOST_ROWS:,} rows or {_MOST_CELLS:,} cells"
        raise UnreadableError(f"is larger than {sizes}")
    if not keys or not body:
        raise UnreadableError("has no column or no row that begins with a time")
    times = [_finite(row[0]) or 0.0 for row in body]
    if any(later <= earlier for earlier, later in pairwise(times)):
        raise UnreadableError("has times that do not ascend")
    cells = [[_finite(cell) for cell in row[1:]] for row in body]
    columns = {
        (object_, metric, statistic): [row[place] if place < len(row) else None for row in cells]
        for place, (object_, metric, statistic) in enumerate(keys)
        if object_ and metric
    }
    return MetricTable(times, columns)


def parse_graph(text: str) -> list[dict[str, str]]:
    """Return the calls in the text of a ``graph.csv``, as ``{"caller", "callee"}``.

    Raises:
        UnreadableError: it is no matrix, or larger than 2,000 columns or 50,000 calls.
    """
    rows = _rows(text)
    names = rows[0][1:] if rows else []
    if not names or len(names) > _MOST_COLUMNS or len(rows) > _MOST_COLUMNS + 1:
        raise UnreadableError("is no adjacency matrix of at most 2,000 objects")
    calls = (
        {"caller": row[0], "callee": name}
        for row in rows[1:]
        if row and row[0]
        for name, cell in zip(names, row[1:], strict=False)
        if name and (_finite(cell) or 0.0) > 0
    )
    found = list(islice(calls, _MOST_CALLS + 1))
    if len(found) > _MOST_CALLS:
        raise UnreadableError(f"has more than {_MOST_CALLS:,} calls")
    return found


def _take_graph(folder: Folder, text: str) -> None:
    try:
        folder.sources["topology"] = {"calls": parse_graph(text)}
    except UnreadableError as error:
        folder.refuse(GRAPH, str(error))


def _table(folder: Folder, root: int, way: Sequence[str], room: list[int], *, above: int) -> MetricTable | None:
    text = _text(folder, root, way, room, above=above)
    try:
        return None if text is None else parse_table(text)
    except UnreadableError as error:
        folder.refuse("/".join(way), str(error))
        return None


def _text(folder: Folder, root: int, way: Sequence[str], room: list[int], *, above: int) -> str | None:
    """Return the text of a file in the folder, or in one of those above it; ``None``, and why, if it cannot be read."""
    name = "/".join(way)
    for level in range(above + 1):
        try:
            raw = _bytes(root, (*(".." for _ in range(level)), *way), room)
            return raw.decode("utf-8")
        except FileNotFoundError:
            continue
        except UnicodeDecodeError:
            folder.refuse(name, "is not text in UTF-8")
            return None
        except UnreadableError as error:
            folder.refuse(name, str(error))
            return None
    folder.refuse(name, "does not exist")
    return None


def _bytes(root: int, way: Sequence[str], room: list[int]) -> bytes:
    *folders, name = way
    opened = [os.dup(root)]
    try:
        for step in folders:
            opened.append(_step(opened[-1], step))
        raw = read_bytes(opened[-1], name, room[0])
    finally:
        for descriptor in opened:
            os.close(descriptor)
    room[0] -= len(raw)
    return raw


def _step(parent: int, name: str) -> int:
    try:
        return os.open(name, OPEN_FLAGS | os.O_DIRECTORY, dir_fd=parent)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError from None
    except OSError:
        raise UnreadableError("may not be read") from None


def _rows(text: str) -> list[list[str]]:
    if "\x00" in text:
        raise UnreadableError("has a NUL character, which no text has")
    try:
        return list(_limited(csv.reader(io.StringIO(text, newline=""), strict=True)))
    except csv.Error:
        raise UnreadableError("is not valid CSV") from None


def _limited(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    for number, row in enumerate(rows):
        if number > _MOST_ROWS + _HEADER_ROWS + 1:
            raise UnreadableError(f"has more than {_MOST_ROWS:,} rows")
        yield row


def _finite(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None

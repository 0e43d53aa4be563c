"""Loki as a source of log lines.

Source: "Loki HTTP API", https://grafana.com/docs/loki/latest/reference/loki-http-api/.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from heapq import nlargest
from typing import Any, ClassVar, Final

import orjson
from typing_extensions import override

from controlplane.core import clock
from controlplane.runtimes.loose_json import items, mapping, objects, text, whole
from controlplane.runtimes.sources.formats.kubernetes import level_of
from controlplane.runtimes.sources.live.bounds import MOST_NAMED, labels_of, texts_of
from controlplane.runtimes.sources.live.endpoint import Endpoint
from controlplane.runtimes.sources.live.http import JsonApi, SourceError, without
from controlplane.runtimes.sources.live.matrix import version_in
from controlplane.runtimes.sources.live.prometheus import data_of
from controlplane.runtimes.sources.live.scope import OBJECT_LABELS, Window, quoted, scope_of, window_at
from controlplane.runtimes.sources.live.source import TIME_S, LiveSource, Reading
from controlplane.runtimes.sources.records import Level, LogLine

MOST_LINES: Final = 1000
_LINE_CHARS: Final = 4_000
_LOUD: Final = "(?i)error|warn|fatal|panic|exception"
#: Labels that name what a line is about, the most telling first; the last are of agents that know only files.
_OBJECT_LABELS: Final = tuple(
    dict.fromkeys((*OBJECT_LABELS[:3], "pod", "container", "deployment", *OBJECT_LABELS, "host", "filename"))
)
_LEVEL_LABELS: Final = ("level", "detected_level", "severity", "severity_text")
#: Labels that collectors give their streams, the most common first; Loki itself adds ``service_name`` from 3.0 on.
_COMMON_LABELS: Final = ("service_name", "job", "namespace", "app", "container", "host", "instance", "filename")
_MOST_SELECTORS: Final = 5
_LABEL: Final = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_LEVELS: Final = {
    "trace": Level.DEBUG, "debug": Level.DEBUG, "info": Level.INFO, "notice": Level.INFO, "warn": Level.WARNING,
    "warning": Level.WARNING, "error": Level.ERROR, "err": Level.ERROR, "critical": Level.ERROR, "crit": Level.ERROR,
    "fatal": Level.ERROR, "panic": Level.ERROR, "emerg": Level.ERROR, "alert": Level.ERROR,
}  # fmt: skip
_LOGFMT_LEVEL: Final = re.compile(r'\b(?:level|lvl|severity)="?([a-zA-Z]+)')
_MESSAGE_KEYS: Final = ("message", "msg", "log", "body", "event")


class LokiSource(LiveSource):
    """Lines of the alert's objects; where it names none that have logs, the loud lines of all streams.

    All streams are those with one of the first five labels, by how common a label is: Loki wants a matcher that no
    empty value fits, and no label is on every stream.
    """

    kinds: ClassVar[tuple[type, ...]] = (LogLine,)

    def __init__(self, endpoint: Endpoint, *, alert: Mapping[str, Any] | None = None, time_s: float = TIME_S) -> None:
        super().__init__(endpoint, time_s=time_s)
        self._alert = alert

    @override
    async def collect(self, api: JsonApi, reading: Reading) -> None:
        window = window_at(clock.now(), self._alert)
        span = _span(window)
        named = data_of(await api.get("/loki/api/v1/labels", span))
        texts = await asyncio.to_thread(texts_of, named, MOST_NAMED, "label", reading)
        labels = [name for name in texts if _LABEL.fullmatch(name)]
        if not labels:
            reading.problem("the server has no log streams of the time asked about")
            return
        values = await self._values(api, reading, [name for name in self._naming() if name in labels], span)
        selector = await asyncio.to_thread(self._selector, labels, values)
        covering = _covering(labels)
        queries = [selector] if selector else [f"{part} |~ `{_LOUD}`" for part in _partition(covering)]
        full = await self._read(api, reading, queries, span)
        if full:
            reading.problem(f"only the newest {MOST_LINES:,} lines were read, by {' and by '.join(queries)[:300]}")
        if selector:
            return
        words = "the alert names no object that has logs: read are lines that speak of errors, of all streams"
        left = len(labels) - len(covering)
        reading.problem(f"{words} with a label {' or '.join(covering)}" if left else words)

    async def _read(self, api: JsonApi, reading: Reading, queries: Sequence[str], span: list[tuple[str, str]]) -> bool:
        """Read the newest lines that any of the queries gives, and return whether there may be more.

        Raises:
            SourceError: all of them failed.
        """
        failures: list[SourceError] = []
        full = False

        async def ask(query: str) -> None:
            nonlocal full
            params = [("query", query), *span, ("limit", str(MOST_LINES)), ("direction", "backward")]
            try:
                data = data_of(await api.get("/loki/api/v1/query_range", params))
            except SourceError as error:
                failures.append(error)
                return
            fresh = await asyncio.to_thread(self._lines, data, reading)
            # From here on without a pause: another query's lines must not be put back to what they were before.
            lines = [*reading.records[LogLine], *fresh]
            full = full or len(lines) >= MOST_LINES
            reading.records[LogLine] = sorted(lines, key=lambda line: line.at or _LONG_AGO)[-MOST_LINES:]

        await asyncio.gather(*(ask(query) for query in queries))
        if len(failures) == len(queries):
            raise failures[0]
        for failure in failures:
            reading.problem(str(failure))
        return full

    def _naming(self) -> tuple[str, ...]:
        own = self._endpoint.object_label
        return tuple(dict.fromkeys((own, *_OBJECT_LABELS))) if own else _OBJECT_LABELS

    async def _values(
        self, api: JsonApi, reading: Reading, labels: Sequence[str], span: list[tuple[str, str]]
    ) -> dict[str, list[str]]:
        async def values_of(label: str) -> list[str]:
            data = data_of(await api.get(f"/loki/api/v1/label/{label}/values", span))
            return await asyncio.to_thread(texts_of, data, MOST_NAMED, f"value of the label {label}", reading)

        found = await asyncio.gather(*(reading.optional(values_of(label), []) for label in labels))
        return dict(zip(labels, found, strict=True))

    def _selector(self, labels: Sequence[str], values: Mapping[str, Sequence[str]]) -> str:
        """Return a selector of the streams of the alert's objects, ``""`` where none has logs."""
        scope = scope_of(self._alert, object_label=self._endpoint.object_label)
        for label, there in values.items():
            fitting = [value for value in there if scope.names(value)]
            if fitting:
                within = scope.labels.get("namespace", "")
                space = f', namespace="{quoted(within)}"' if within and "namespace" in labels else ""
                listed = quoted("|".join(re.escape(value) for value in fitting[:20]))
                return f'{{{label}=~"{listed}"{space}}}'
        return ""

    def _lines(self, data: Any, reading: Reading) -> list[LogLine]:
        """Return the newest 1,000 lines of an answer, whatever limit the server keeps to."""
        streams = [(stream, items(stream.get("values"))) for stream in objects(mapping(data).get("result"))]
        entries = (
            (at if (at := _at(entry[0])) else _LONG_AGO, place, entry[1])
            for place, (_, values) in enumerate(streams)
            for entry in values
            if isinstance(entry, list) and len(entry) >= 2 and isinstance(entry[1], str) and entry[1].strip()
        )
        newest = nlargest(MOST_LINES, entries, key=lambda entry: entry[0])
        known = {
            place: self._about(streams[place][0].get("stream"), reading) for place in {place for _, place, _ in newest}
        }
        return [self._line(at, known[place], line) for at, place, line in newest]

    def _about(self, raw: Any, reading: Reading) -> tuple[str, Level | None]:
        """Return what the lines of a stream are about, and how loud they are where its labels say so."""
        labels = labels_of(raw, reading, first=(*self._naming(), *_LEVEL_LABELS))
        stated = (_LEVELS[labels[name].lower()] for name in _LEVEL_LABELS if _known(labels, name))
        return next((labels[name] for name in self._naming() if labels.get(name)), ""), next(stated, None)

    def _line(self, at: datetime, stream: tuple[str, Level | None], line: str) -> LogLine:
        about, stated = stream
        message, level = _read(line[:_LINE_CHARS], stated)
        # A line that is JSON itself may spell a secret in escapes of its own.
        message = without(message, self._endpoint.secrets)
        return LogLine(self.name, about, message, None if at == _LONG_AGO else at, level)


def _covering(labels: Sequence[str]) -> list[str]:
    """Return at most five labels of which most streams have one."""
    common = [name for name in _COMMON_LABELS if name in labels]
    others = sorted(set(labels) - set(common), key=lambda name: (name in _LEVEL_LABELS, name))
    return [*common, *others][:_MOST_SELECTORS]


def _partition(labels: Sequence[str]) -> Iterator[str]:
    """Yield selectors that no two share a stream of: those with the first label, those with the second alone, …"""
    for place, label in enumerate(labels):
        without = [f'{name}=""' for name in labels[:place]]
        yield "{" + ", ".join([*without, f'{label}=~".+"']) + "}"


def _known(labels: Mapping[str, str], name: str) -> bool:
    return labels.get(name, "").lower() in _LEVELS


def _read(line: str, stated: Level | None) -> tuple[str, Level]:
    """Return a line's message and level: from its JSON or logfmt where it is one, else the stream's, else its words."""
    line = line.strip()
    said = ""
    if line.startswith("{"):
        try:
            entry = mapping(orjson.loads(line))
        except orjson.JSONDecodeError:
            entry = {}
        said = next((text(entry.get(key)) for key in _LEVEL_LABELS if text(entry.get(key))), "")
        message = next((text(entry.get(key)) for key in _MESSAGE_KEYS if text(entry.get(key))), "")
        error = text(entry.get("error")) or text(entry.get("err"))
        line = f"{message}: {error}" if message and error else message or line
    elif match := _LOGFMT_LEVEL.search(line[:500]):
        said = match.group(1)
    return line, _LEVELS.get(said.lower()) or stated or level_of(line)


def _at(nanoseconds: Any) -> datetime | None:
    moment = whole(nanoseconds)
    try:
        return datetime.fromtimestamp(moment / 1e9, UTC) if moment > 0 else None
    except (ValueError, OverflowError, OSError):
        return None


def _span(window: Window) -> list[tuple[str, str]]:
    """Return the window as Loki takes it (Unix nanoseconds)."""
    return [
        ("start", str(int(window.start.timestamp() * 1e6) * 1000)),
        ("end", str(int(window.end.timestamp() * 1e6) * 1000)),
    ]


async def loki_version(api: JsonApi) -> str:
    """Return the server's version, ``""`` where it does not say; used to test a connection.

    Raises:
        SourceError: the server does not answer as a Loki does.
    """
    version = ""
    try:
        version = version_in(await api.get("/loki/api/v1/status/buildinfo"))
    except SourceError as error:
        if error.code not in ("not_found", "http_error", "not_permitted"):
            raise
    data_of(await api.get("/loki/api/v1/labels"))
    return version

"""What all live sources share: everything is collected once a turn, bounded in time, and answered from there."""

import asyncio
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

from typing_extensions import override

from controlplane.runtimes.sources.live.endpoint import Endpoint
from controlplane.runtimes.sources.live.http import JsonApi, SourceError, client_for
from controlplane.runtimes.sources.recorded import Part, part_info
from controlplane.runtimes.sources.records import Happening, Link, LogLine, Record, Series, State
from controlplane.runtimes.sources.source import Found, Query, Source, SourceInfo

logger = logging.getLogger(__name__)

#: Seconds for everything a source is asked in a turn; what was read by then is kept.
TIME_S: Final = 20.0
_MOST_PROBLEMS: Final = 20
_SHARE: Final = 0.5  # of the time that is left, for a question that can do without an answer
R = TypeVar("R", Series, Happening, LogLine, State, Link)
T = TypeVar("T")


class Reading:
    """What a source has brought so far, what went wrong with parts of it, and when its time ends.

    Args:
        kinds: of records it brings, also when there are none.
        time_s: seconds from now until the collection ends.
    """

    def __init__(self, kinds: Sequence[type], *, time_s: float = TIME_S) -> None:
        self._ends = time.monotonic() + time_s
        self.records: dict[type, list[Any]] = {kind: [] for kind in kinds}
        self._problems: dict[str, int] = {}
        self._noting = threading.Lock()  # answers are read in threads

    def add(self, *records: Record) -> None:
        for record in records:
            self.records.setdefault(type(record), []).append(record)

    async def optional(self, wanted: Awaitable[T], default: T) -> T:
        """Return what is wanted, or ``default`` with a problem noted when it fails or takes half the time left."""
        try:
            async with asyncio.timeout(_SHARE * (self._ends - time.monotonic())):
                return await wanted
        except SourceError as error:
            self.problem(str(error))
        except TimeoutError:
            self.problem("query was not answered in time")
        return default

    def problem(self, text: str, count: int = 1) -> None:
        """Note a problem; the same one ``count`` more times is noted once, with the sum."""
        with self._noting:
            self._problems[text] = self._problems.get(text, 0) + count

    def problems(self) -> tuple[str, ...]:
        with self._noting:
            noted = list(self._problems.items())
        shown = [text + (f" ({count:,} times)" if count > 1 else "") for text, count in noted]
        more = len(shown) - _MOST_PROBLEMS
        return (*shown[:_MOST_PROBLEMS], f"{more} further problems") if more > 0 else tuple(shown)


class LiveSource(Source, ABC):
    """A live system behind an endpoint.

    The first question of a turn makes the source collect what belongs to the alert; all answers are taken from that,
    so that what ``describe`` counts is what the queries give. A source that fails has no records and says why.
    """

    #: Records this source gives, also when there are none.
    kinds: ClassVar[tuple[type, ...]]

    def __init__(self, endpoint: Endpoint, *, time_s: float = TIME_S) -> None:
        self._endpoint = endpoint
        self._time_s = time_s
        self._part: Part | None = None
        self._missing: dict[str, str] = {}
        self._collecting = asyncio.Lock()

    @abstractmethod
    async def collect(self, api: JsonApi, reading: Reading) -> None:
        """Read everything into ``reading``, the most telling first, since time may run out.

        Raises:
            SourceError: the source as a whole cannot be read.
        """

    @property
    def name(self) -> str:
        """The integration's id, which is the ``source`` of every record."""
        return self._endpoint.name

    @override
    def context(self) -> Mapping[str, Any]:
        return {"alert": None, "scenario": None, "missing": dict(self._missing)}

    @override
    async def describe(self) -> Sequence[SourceInfo]:
        return [await asyncio.to_thread(part_info, await self._all())]

    @override
    async def series(self, query: Query) -> Found[Series]:
        return await self._find(Series, query)

    @override
    async def happenings(self, query: Query) -> Found[Happening]:
        return await self._find(Happening, query)

    @override
    async def log_lines(self, query: Query) -> Found[LogLine]:
        return await self._find(LogLine, query)

    @override
    async def states(self, query: Query) -> Found[State]:
        return await self._find(State, query)

    @override
    async def links(self, query: Query) -> Found[Link]:
        return await self._find(Link, query)

    async def _find(self, kind: type[R], query: Query) -> Found[R]:
        if query.source and query.source.lower() not in self.name.lower():
            return Found([], ())
        part = await self._all()
        if kind not in part.records:
            return Found([], ())

        def select() -> list[R]:
            return [record for record in part.records[kind] if query.admits(record)]

        return Found(await asyncio.to_thread(select), (self.name,))

    async def _all(self) -> Part:
        async with self._collecting:
            if self._part is None:
                self._part = await self._collected()
            return self._part

    async def _collected(self) -> Part:
        reading = Reading(self.kinds, time_s=self._time_s)
        failure = ""
        try:
            async with asyncio.timeout(self._time_s), client_for(self._endpoint) as client:
                await self.collect(JsonApi(self._endpoint, client), reading)
        except TimeoutError:
            failure = f"Not everything was answered within {self._time_s:g} s."
        except SourceError as error:
            failure = str(error)
        except Exception as error:  # noqa: BLE001 (whatever a server answers, the turn goes on without it)
            logger.warning("source.failed source=%s error=%s", self._endpoint.kind, type(error).__name__)
            failure = "The server's answers have another form than this API's."
        if failure and not any(reading.records.values()):
            self._missing = {self.name: f"could not be read: {failure}"}
            return Part(self.name, self._endpoint.kind, {}, (f"could not be read: {failure}",))
        if failure:
            reading.problem(failure)
        return Part(self.name, self._endpoint.kind, reading.records, reading.problems())


class UnreadSource(LiveSource):
    """A source that is configured and cannot be asked, which the turn has to know."""

    kinds: ClassVar[tuple[type, ...]] = ()

    def __init__(self, name: str, kind: str, problem: str) -> None:
        super().__init__(Endpoint(name, kind, ""))
        self._missing = {name: problem}
        self._part = Part(name, kind, {}, (problem,))

    @override
    async def collect(self, api: JsonApi, reading: Reading) -> None:
        return

"""A Prometheus (or anything with its HTTP API: Thanos, Mimir, VictoriaMetrics) as a source of metrics.

Source: "HTTP API", https://prometheus.io/docs/prometheus/latest/querying/api/.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, ClassVar, Final

from typing_extensions import override

from controlplane.core import clock
from controlplane.runtimes.loose_json import items, mapping, objects, text
from controlplane.runtimes.signals.alert import read_alert
from controlplane.runtimes.sources.live import cluster
from controlplane.runtimes.sources.live.bounds import (
    LABEL_CHARS,
    MOST_LINKS,
    MOST_NAMED,
    MOST_NAMES,
    MOST_SERIES_KEPT,
    MOST_STATES,
    MOST_WARNINGS,
    first_of,
    labels_of,
    texts_of,
)
from controlplane.runtimes.sources.live.endpoint import Endpoint
from controlplane.runtimes.sources.live.http import JsonApi, SourceError
from controlplane.runtimes.sources.live.matrix import (
    Key,
    Sampled,
    as_series,
    chosen,
    moment_at,
    ranked,
    read_matrix,
    scalar_of,
    vector_of,
    version_in,
)
from controlplane.runtimes.sources.live.monitors import NAMING, monitor_state
from controlplane.runtimes.sources.live.plan import Catalogue, planned
from controlplane.runtimes.sources.live.promql import Expression, RequestFamily, duration
from controlplane.runtimes.sources.live.scope import Scope, Window, scope_of, scope_of_words, window_at
from controlplane.runtimes.sources.live.source import TIME_S, LiveSource, Reading
from controlplane.runtimes.sources.records import Baseline, Link, Series, State, baseline_of

MOST_QUERIES: Final = 40
MOST_SKEW: Final = timedelta(seconds=60)
_DAY: Final = timedelta(days=1)
_DAY_STEP_S: Final = 900
_SERIES_LIMIT: Final = 500  # of one answer over time, for servers that know the parameter
_SAMPLES_LIMIT: Final = 2_000  # of one answer at a time
_RATE_LEAST_S, _RATE_MOST_S = 60, 600
_CLASSIC_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_NAMING: Final = ("service", "app", "job")
_LINKS: Final = {
    "traces_service_graph_request_total": ("client", "server"),
    "istio_requests_total": ("source_workload", "destination_workload"),
}


@dataclass(slots=True)
class _Turn:
    """One collection: the API, what it brings, what it is about, and how many queries are left."""

    api: JsonApi
    reading: Reading
    window: Window
    scope: Scope
    queries: int = MOST_QUERIES

    @property
    def span_s(self) -> int:
        """Return the seconds over which increases are taken."""
        return max(round(self.window.seconds), 60)

    async def query(self, expression: str) -> Any:
        """Return the data of an instant query at the end of the window.

        Raises:
            SourceError: the query failed, or none are left.
        """
        self._count()
        at = f"{self.window.end.timestamp():.3f}"
        params = [("query", expression), ("time", at), ("limit", str(_SAMPLES_LIMIT))]
        return await self._data(await self.api.get("/api/v1/query", params))

    async def query_range(self, expression: str, window: Window) -> Any:
        """Return the data of a range query; see :meth:`query`."""
        self._count()
        params = [("query", expression), *window.params(), ("step", str(window.step_s)), ("limit", str(_SERIES_LIMIT))]
        return await self._data(await self.api.get("/api/v1/query_range", params))

    async def _data(self, body: Any) -> Any:
        def warn(warnings: Sequence[Any]) -> None:
            for warning in first_of(warnings, MOST_WARNINGS, "warning of the server", self.reading):
                self.reading.problem(f"the server warns: {self.api.clean(text(warning))}")

        if warnings := items(mapping(body).get("warnings")):
            await asyncio.to_thread(warn, warnings)
        return data_of(body)

    def _count(self) -> None:
        if self.queries <= 0:
            raise SourceError("budget", f"query not asked: at most {MOST_QUERIES} are asked in a turn")
        self.queries -= 1


def data_of(body: Any) -> Any:
    """Return the ``data`` of an answer, whose ``status`` says that it succeeded.

    Raises:
        SourceError: ``not_json``: the answer has another form.
    """
    if mapping(body).get("status") != "success" or "data" not in body:
        raise SourceError("not_json", "The server's answers have another form than this API's.")
    return body["data"]


class PrometheusSource(LiveSource):
    """Metrics around an alert, firing alerts, the cluster's state and calls between services.

    Args:
        endpoint: where it is asked.
        alert: of the run; decides what is asked first, and about which time.
        words: of the question; objects that they name are asked about first.
        time_s: seconds for everything.
    """

    kinds: ClassVar[tuple[type, ...]] = (Series, State)

    def __init__(
        self, endpoint: Endpoint, *, alert: Mapping[str, Any] | None = None, words: str = "", time_s: float = TIME_S
    ) -> None:
        super().__init__(endpoint, time_s=time_s)
        self._alert = alert
        self._words = words

    @override
    async def collect(self, api: JsonApi, reading: Reading) -> None:
        now = await self._now(api, reading)
        scope = scope_of(self._alert, object_label=self._endpoint.object_label)
        turn = _Turn(api, reading, window_at(now, self._alert), scope)
        await turn.reading.optional(self._read_alerts(turn), None)
        catalogue = await self._catalogue(turn)
        names = catalogue.names[""]
        if not names:
            reading.problem("the server has no series of the time asked about")
            return
        await asyncio.gather(self._read_states(turn, names), self._read_links(turn, names))
        await self._read_series(turn, catalogue)

    async def _now(self, api: JsonApi, reading: Reading) -> datetime:
        """Return the present by the server's clock where it differs from ours, since its samples bear its times."""
        reply = await api.reply("/api/v1/query", [("query", "time()")])
        stated = scalar_of(data_of(reply.body))
        ours = clock.now()
        theirs = moment_at(stated) or reply.date or ours
        if not 1970 <= theirs.year < 9999:  # at the ends of time there is no day before and no hour after
            theirs = ours
        skew = theirs - ours + timedelta(seconds=reply.seconds / 2)
        if abs(skew) <= MOST_SKEW:
            return ours
        ahead = "ahead of" if skew > timedelta() else "behind"
        reading.problem(f"the server's clock is {abs(skew).total_seconds():,.0f} s {ahead} ours; its time is used")
        return theirs

    async def _read_alerts(self, turn: _Turn) -> None:
        data = data_of(await turn.api.get("/api/v1/alerts"))

        def read() -> list[State]:
            listed = [(text(one.get("state"), "firing"), one) for one in objects(mapping(data).get("alerts"))]
            listed.sort(key=lambda one: one[0] != "firing")
            states = []
            for status, alert in first_of(listed, MOST_STATES, "alert", turn.reading):
                labels = labels_of(alert.get("labels"), turn.reading, first=NAMING)
                notes, since = mapping(alert.get("annotations")), alert.get("activeAt")
                states.append(monitor_state(self.name, labels, notes, state=status[:LABEL_CHARS], since=since))
            return [state for state in states if state is not None]

        turn.reading.add(*await asyncio.to_thread(read))

    async def _catalogue(self, turn: _Turn) -> Catalogue:
        """Return what the server has; objects that the question names come into the turn's scope first."""
        everything, kinds, rate_s = await asyncio.gather(
            self._names(turn, ""),
            turn.reading.optional(_metadata(turn.api), {}),
            turn.reading.optional(_rate_window(turn), 300),
        )
        turn.scope = turn.scope.after(await self._scope_of_words(turn))
        found = await asyncio.gather(
            *(turn.reading.optional(self._names(turn, one), frozenset()) for one in turn.scope.selectors)
        )
        names = {"": everything} | dict(zip(turn.scope.selectors, found, strict=True))
        types = {name: kind for name, (kind, _) in kinds.items()}
        units = {name: unit for name, (_, unit) in kinds.items()}
        return Catalogue(names, types, units, self._endpoint.object_label, rate_s)

    async def _names(self, turn: _Turn, selector: str) -> frozenset[str]:
        match = [("match[]", f"{{{selector}}}")] if selector else []
        data = data_of(await turn.api.get("/api/v1/label/__name__/values", [*match, *turn.window.params()]))

        def read() -> frozenset[str]:
            names = texts_of(data, MOST_NAMES, "family", turn.reading)
            classic = frozenset(name for name in names if _CLASSIC_NAME.fullmatch(name))
            if not selector and len(classic) < len(names):
                problem = f"{len(names) - len(classic):,} families left out whose names PromQL has to quote"
                turn.reading.problem(problem)
            return classic

        return await asyncio.to_thread(read)

    async def _scope_of_words(self, turn: _Turn) -> Scope:
        view = read_alert(self._alert)
        said = view.words if view is not None and not turn.scope.selectors else ""
        if not (self._words or said).strip():
            return Scope({}, (), ())
        values = await asyncio.gather(*(self._values(turn, label) for label in _NAMING))
        named = dict(zip(_NAMING, values, strict=True))
        return await asyncio.to_thread(scope_of_words, f"{self._words} {said}", named)

    async def _values(self, turn: _Turn, label: str) -> Sequence[str]:
        wanted = turn.api.get(f"/api/v1/label/{label}/values", turn.window.params())
        data = mapping(await turn.reading.optional(wanted, {})).get("data")
        return await asyncio.to_thread(texts_of, data, MOST_NAMED, f"value of the label {label}", turn.reading)

    async def _read_states(self, turn: _Turn, names: frozenset[str]) -> None:
        turn.queries += cluster.MOST_QUERIES  # beside those for series

        async def ask(query: str) -> cluster.Samples:
            data = await turn.reading.optional(turn.query(query), None)
            return await asyncio.to_thread(vector_of, data, turn.reading)

        states = await cluster.read_cluster(
            self.name, names, turn.scope, span_s=turn.span_s, ask=ask, reading=turn.reading
        )
        turn.reading.add(*states)

    async def _read_links(self, turn: _Turn, names: frozenset[str]) -> None:
        for family, (caller, callee) in _LINKS.items():
            if family not in names:
                continue
            expression = f"sum by ({caller}, {callee}) (increase({family}[{duration(turn.span_s)}])) > 0"
            data = await turn.reading.optional(turn.query(expression), None)
            found = await asyncio.to_thread(self._links, data, caller, callee, turn.reading)
            room = MOST_LINKS - len(turn.reading.records.get(Link, ()))
            turn.reading.add(*first_of(found, room, "call between services", turn.reading))

    def _links(self, data: Any, caller: str, callee: str, reading: Reading) -> list[Link]:
        samples = vector_of(data, reading, most=MOST_LINKS)
        pairs = dict.fromkeys((labels.get(caller, ""), labels.get(callee, "")) for labels, _ in samples)
        wanted = (pair for pair in pairs if all(pair) and pair[0] != pair[1] and "unknown" not in pair)
        return [Link(self.name, one, other) for one, other in wanted]

    async def _read_series(self, turn: _Turn, catalogue: Catalogue) -> None:
        families = await asyncio.to_thread(catalogue.request_families)
        labels = await asyncio.gather(*(turn.reading.optional(self._labels(turn, *one), ()) for one in families))
        requests = [(selector, family, found) for (selector, family), found in zip(families, labels, strict=True)]
        expressions, left_out = await asyncio.to_thread(planned, catalogue, requests)
        if left_out:
            turn.reading.problem(
                f"{left_out} further expressions were not asked, at most {MOST_QUERIES} queries a turn"
            )
        answers: dict[int, list[Sampled]] = {}

        async def ask(place: int, expression: Expression) -> None:
            answers[place] = await turn.reading.optional(self._range(turn, expression), [])

        try:
            await asyncio.gather(*(ask(place, one) for place, one in enumerate(expressions)))
        finally:  # what was answered is kept, also when the time is over
            kept, left_out = await asyncio.to_thread(chosen, [answers[place] for place in sorted(answers)])
            turn.reading.add(*await asyncio.to_thread(as_series, self.name, kept, {}))
            if left_out:
                turn.reading.problem(
                    f"{left_out:,} further series left out; those kept are of the alert's objects or moved most"
                )
        baselines = await self._baselines(turn, kept)
        turn.reading.records[Series] = await asyncio.to_thread(as_series, self.name, kept, baselines)

    async def _labels(self, turn: _Turn, selector: str, family: RequestFamily) -> Sequence[str]:
        match = f"{family.counter or family.histogram}{{{selector}}}"
        data = data_of(await turn.api.get("/api/v1/labels", [("match[]", match), *turn.window.params()]))
        return await asyncio.to_thread(texts_of, data, MOST_NAMED, "label of a family", turn.reading)

    async def _range(self, turn: _Turn, expression: Expression) -> list[Sampled]:
        data = await turn.query_range(expression.query, turn.window)

        def read() -> list[Sampled]:
            every = ranked(read_matrix(data, expression, turn.window, turn.reading), turn.scope)
            return list(first_of(every, MOST_SERIES_KEPT, "series of one answer", turn.reading))

        return await asyncio.to_thread(read)

    async def _baselines(self, turn: _Turn, kept: Sequence[Sampled]) -> dict[Key, Baseline]:
        """Return how each series ran the day before the window, as far as queries are left."""
        day = Window(turn.window.start - _DAY, turn.window.start, _DAY_STEP_S)
        expressions = list({one.expression.query: one.expression for one in kept}.values())

        async def past(expression: Expression) -> list[Sampled]:
            data = await turn.query_range(expression.query, day)
            return await asyncio.to_thread(read_matrix, data, expression, day, None)

        answers = await asyncio.gather(*(turn.reading.optional(past(one), []) for one in expressions))
        wanted = {one.key for one in kept}

        def read() -> dict[Key, Baseline]:
            found = {one.key: baseline_of(one.values) for answer in answers for one in answer if one.key in wanted}
            return {key: baseline for key, baseline in found.items() if baseline is not None}

        return await asyncio.to_thread(read)


async def _metadata(api: JsonApi) -> Mapping[str, tuple[str, str]]:
    """Return type and unit of families, as exporters describe them."""
    data = data_of(await api.get("/api/v1/metadata", [("limit_per_metric", "1")]))

    def read() -> dict[str, tuple[str, str]]:
        listed = islice(mapping(data).items(), MOST_NAMES)
        first = {name: next(objects(entries), {}) for name, entries in listed}
        return {
            name: (text(entry.get("type"))[:LABEL_CHARS], text(entry.get("unit"))[:LABEL_CHARS])
            for name, entry in first.items()
        }

    return await asyncio.to_thread(read)


async def _rate_window(turn: _Turn) -> int:
    """Return over how many seconds rates are taken: four scrapes of the usual target, told from how often it is up."""
    found = vector_of(await turn.query("quantile(0.5, count_over_time(up[10m]))"))
    samples = found[0][1] if found else 0.0
    if samples < 1:
        return 300
    wanted = max(4 * 600 / samples, turn.window.step_s, _RATE_LEAST_S)
    return min(-(-round(wanted) // 60) * 60, _RATE_MOST_S)


async def prometheus_version(api: JsonApi) -> str:
    """Return the server's version, ``""`` where it does not say; used to test a connection.

    Raises:
        SourceError: the server does not answer as a Prometheus does.
    """
    try:
        return version_in(data_of(await api.get("/api/v1/status/buildinfo")))
    except SourceError as error:
        if error.code not in ("not_found", "http_error", "not_permitted"):
            raise
    data_of(await api.get("/api/v1/query", [("query", "time()")]))  # Thanos and others build without build information
    return ""

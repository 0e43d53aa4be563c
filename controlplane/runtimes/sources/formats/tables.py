"""Readers of tables of metrics and of call graphs: the shapes that recordings of many services come in.

A table has one column of times and a column for each metric of each object; a part recorded in normal operation may
come beside it and gives each column its baseline.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from controlplane.runtimes.loose_json import items, mapping, moment, number, objects, text
from controlplane.runtimes.sources.records import Link, Series, Skipped, baseline_of

#: What the values of a column are in, by words of its name, where the recording does not say.
_UNITS: Final = (("latency", "Seconds"), ("duration", "Seconds"), ("availability", "Percent"), ("request", "Count"))
_MOST_SAMPLES: Final = 100_000


def read_metric_table(source: str, value: Mapping[str, Any]) -> Iterator[Series | Skipped]:
    """Yield a series for each column of ``{"times", "columns": [{"object", "metric", "statistic", "values"}]}``.

    ``"normal"``, of the same shape, holds normal operation. A gap is ``null``.
    """
    normal = mapping(value.get("normal"))
    usual = {_key(column): _numbers(column) for column in objects(normal.get("columns"))}
    times = [moment(item) for item in items(value.get("times"))[:_MOST_SAMPLES]]
    for column in objects(value.get("columns")):
        object_, metric, statistic = _key(column)
        samples = _samples(times, items(column.get("values")))
        if not metric:
            yield Skipped("columns without a metric's name")
            continue
        if not samples:
            continue  # of an object that was not in use
        yield Series(
            source,
            object_,
            metric,
            tuple(at for at, _ in samples),
            tuple(sample for _, sample in samples),
            unit=text(column.get("unit")) or _unit(metric),
            statistic=statistic,
            baseline=baseline_of(usual.get((object_, metric, statistic), ())),
        )


def read_call_graph(source: str, value: Mapping[str, Any]) -> Iterator[Link | Skipped]:
    """Yield a link for each pair of ``{"calls": [{"caller", "callee"}]}``."""
    for call in objects(value.get("calls")):
        caller, callee = text(call.get("caller")), text(call.get("callee"))
        if caller and callee:
            yield Link(source, caller, callee)
        else:
            yield Skipped("calls without a caller or a callee")


def _key(column: Mapping[str, Any]) -> tuple[str, str, str]:
    return text(column.get("object")), text(column.get("metric")), text(column.get("statistic"))


def _numbers(column: Mapping[str, Any]) -> list[float]:
    samples = (number(item) for item in items(column.get("values"))[:_MOST_SAMPLES])
    return [sample for sample in samples if sample is not None]


def _samples(times: Sequence[datetime | None], values: Sequence[Any]) -> list[tuple[datetime, float]]:
    pairs = ((at, number(value)) for at, value in zip(times, values, strict=False))
    known = [(at, sample) for at, sample in pairs if at is not None and sample is not None]
    return sorted(known, key=lambda pair: pair[0])


def _unit(metric: str) -> str:
    return next((unit for word, unit in _UNITS if word in metric.lower()), "")

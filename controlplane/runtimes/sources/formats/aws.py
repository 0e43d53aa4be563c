"""Amazon Web Services: CloudWatch metric data, RDS events, Performance Insights.

Shapes: the answers of CloudWatch ``GetMetricData``, RDS ``DescribeEvents`` and Performance Insights
``GetResourceMetrics``/``DescribeDimensionKeys`` (AWS API references), in snake or Pascal case.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from controlplane.runtimes.loose_json import between, items, mapping, moment, number, objects, text
from controlplane.runtimes.sources.records import Happening, Level, Record, Series, Skipped, State

#: Event categories of RDS that report trouble rather than routine ("RDS event categories", Amazon RDS User Guide).
TROUBLE_CATEGORIES: Final = frozenset({"failure", "availability", "failover", "low storage", "recovery", "security"})


def read_cloudwatch(source: str, value: Mapping[str, Any]) -> Iterator[Record | Skipped]:
    """Yield a series for each result of ``GetMetricData``; incomplete samples are skipped and counted."""
    for result in items(value.get("metric_data_results", value.get("MetricDataResults"))):
        part = mapping(result)
        metric = text(part.get("metric_name")) or text(part.get("label", part.get("Label"))) or text(part.get("id"))
        times = items(part.get("timestamps", part.get("Timestamps")))
        values = items(part.get("values", part.get("Values")))
        if not metric or not isinstance(result, Mapping):
            yield Skipped("a metric without a name")
            continue
        samples = _samples(times, values)
        lost = max(len(times), len(values)) - len(samples)
        if lost:
            yield Skipped(f"samples of {metric[:80]} without a time or a number", lost)
        dimensions = [text(item.get("Value", item.get("value"))) for item in objects(part.get("dimensions"))]
        if samples:
            yield Series(
                source=source,
                object=dimensions[0] if dimensions and dimensions[0] else text(value.get("db_instance_identifier")),
                metric=metric,
                times=tuple(at for at, _ in samples),
                values=tuple(sample for _, sample in samples),
                unit=text(part.get("unit")),
                statistic=text(part.get("stat")),
            )
        elif not lost:
            yield Skipped(f"{metric[:80]} has no samples")


def read_rds_events(source: str, value: Mapping[str, Any]) -> Iterator[Record | Skipped]:
    """Yield a happening for each event."""
    for item in items(value.get("events", value.get("Events"))):
        event = mapping(item)
        message = text(event.get("message", event.get("Message")))
        if not message:
            yield Skipped("an event without a message")
            continue
        categories = [text(name) for name in items(event.get("event_categories", event.get("EventCategories")))]
        yield Happening(
            source=source,
            object=text(event.get("source_identifier", event.get("SourceIdentifier"))),
            message=message,
            at=between(event.get("date", event.get("Date"))),
            reason=", ".join(categories),
            level=Level.ERROR if TROUBLE_CATEGORIES.intersection(categories) else Level.INFO,
        )


def read_performance_insights(source: str, value: Mapping[str, Any]) -> Iterator[Record | Skipped]:
    """Yield the load of the database as a series, its top statements, waits, users and hosts as states."""
    database = text(value.get("db_instance_identifier"))
    at = between(value.get("start_time"), value.get("end_time"))
    load = mapping(value.get("db_load"))
    samples = _samples(items(load.get("timestamps")), items(load.get("values")))
    lost = len(items(load.get("values"))) - len(samples)
    if lost > 0:
        yield Skipped("samples of the database load without a time or a number", lost)
    if samples:
        times, values = (tuple(part) for part in zip(*samples, strict=True))
        yield Series(source, database, "DBLoad", times, values, unit="Average Active Sessions", statistic="Average")
    for item in items(value.get("top_sql")):
        query = mapping(item)
        statement, weight = text(query.get("statement")), number(query.get("db_load_avg"))
        if not statement or weight is None:
            yield Skipped("a statement without its text or load")
            continue
        facts = {
            "statement": statement,
            "load": weight,
            "waits": _loads(query.get("wait_events"), "name"),
            "calls_per_s": number(query.get("calls_per_sec")),
        }
        yield State(source, database, "query", facts, f"load {weight:g}: {statement}", at)
    waits = _loads(value.get("top_wait_events"), "name")
    if waits:
        shown = ", ".join(f"{name} {weight:g}" for name, weight in waits.items())
        yield State(source, database, "waits", {"waits": waits}, f"top wait events by load: {shown}", at)
    for member, key, what in (("top_users", "name", "users"), ("top_hosts", "id", "hosts")):
        shares = _loads(value.get(member), key)
        if shares:
            shown = ", ".join(f"{name} {weight:g}" for name, weight in shares.items())
            yield State(
                source, database, "load_share", {"by": what, "loads": shares}, f"top {what} by load: {shown}", at
            )


def _samples(times: Any, values: Any) -> list[tuple[datetime, float]]:
    pairs = ((moment(at), number(value)) for at, value in zip(times, values, strict=False))
    samples = [(at, value) for at, value in pairs if at is not None and value is not None]
    return sorted(samples, key=lambda sample: sample[0])


def _loads(value: Any, key: str) -> dict[str, float]:
    """Return the loads by name, heaviest first."""
    pairs = ((text(item.get(key)), number(item.get("db_load_avg"))) for item in objects(value))
    loads = {name: weight for name, weight in pairs if name and weight is not None}
    return dict(sorted(loads.items(), key=lambda pair: -pair[1]))

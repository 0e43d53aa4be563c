"""Readers of recorded evidence, chosen by the shape of a source first and by its name second."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.runtimes.sources.formats import aws, datadog, kubernetes, operations, tables
from controlplane.runtimes.sources.records import Happening, Link, LogLine, Record, Series, Skipped, State

Reader = Callable[[str, Mapping[str, Any]], Iterator[Record | Skipped]]


@dataclass(frozen=True, slots=True)
class Format:
    """A format and the ``kinds`` of records it gives, also when there are none.

    ``members`` are the keys of which one marks the shape, ``item_keys`` those its items have.
    """

    name: str
    read: Reader
    kinds: tuple[type, ...]
    members: tuple[str, ...]
    item_keys: tuple[str, ...] = ()


FORMATS: tuple[Format, ...] = (
    Format("aws_cloudwatch_metrics", aws.read_cloudwatch, (Series,), ("metric_data_results", "MetricDataResults")),
    Format(
        "aws_performance_insights",
        aws.read_performance_insights,
        (Series, State),
        ("db_load", "top_sql", "top_wait_events"),
    ),
    Format("eks_pod_logs", kubernetes.read_pod_logs, (LogLine,), ("pod_logs",)),
    Format("eks_pod_logs", kubernetes.read_pod_logs, (LogLine,), ("logs",), ("pod_name",)),
    Format("eks_pod_logs", kubernetes.read_pod_logs, (LogLine,), ("pods",), ("logs",)),
    Format("eks_pods", kubernetes.read_pods, (State,), ("pods",)),
    Format("eks_events", kubernetes.read_events, (Happening,), ("warning_events",)),
    Format(
        "aws_rds_events",
        aws.read_rds_events,
        (Happening,),
        ("events", "Events"),
        ("source_identifier", "SourceIdentifier"),
    ),
    Format(
        "eks_events", kubernetes.read_events, (Happening,), ("events", "items"), ("involved_object", "involvedObject")
    ),
    Format("eks_deployments", kubernetes.read_deployments, (State,), ("deployments",)),
    Format("eks_node_health", kubernetes.read_nodes, (State,), ("nodes",)),
    Format("datadog_monitors", datadog.read_monitors, (State,), ("monitors",)),
    Format("datadog_logs", datadog.read_logs, (LogLine,), ("logs",)),
    Format("service_catalogue", operations.read_services, (State,), ("services",)),
    Format("incident_list", operations.read_incidents, (State,), ("incidents",)),
    Format("text_logs", operations.read_text_logs, (LogLine,), ("log_files",)),
    Format("metric_table", tables.read_metric_table, (Series,), ("columns",)),
    Format("call_graph", tables.read_call_graph, (Link,), ("calls",)),
)


def format_of(name: str, value: Any) -> Format | None:
    """Return the format of a source called ``name`` with the content ``value``, or ``None`` if it has no known one.

    The shape decides. Where an empty list leaves it open (``{"events": []}``), the name does.
    """
    if not isinstance(value, Mapping):
        return None
    fitting = [known for known in FORMATS if any(member in value for member in known.members)]
    shaped = [known for known in fitting if _items_have(value, known)]
    named = [known for known in fitting if known.name == name]
    plain = [known for known in fitting if not known.item_keys]
    return next(iter((*shaped, *named, *plain, *fitting)), None)


def _items_have(value: Mapping[str, Any], known: Format) -> bool:
    """Return whether the shape is marked beyond doubt: by keys of the items, or by a member only this format has."""
    if not known.item_keys:
        return sum(member in other.members for other in FORMATS for member in known.members if member in value) == 1
    if any(key in value for key in known.item_keys):
        return True
    for member in known.members:
        listed = value.get(member)
        first = next((item for item in listed if isinstance(item, Mapping)), {}) if isinstance(listed, list) else {}
        if any(key in first for key in known.item_keys):
            return True
    return False

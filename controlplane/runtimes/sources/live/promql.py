"""Recipes: which expressions tell something about the metric families a server has.

Families and labels as their exporters document them: node_exporter, cAdvisor, kube-state-metrics, postgres_exporter,
redis_exporter, kafka_exporter; request metrics as Prometheus' naming practice and OpenTelemetry's HTTP conventions
name them.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Final

from controlplane.runtimes.signals.measures import Measure, measure_of
from controlplane.runtimes.sources.live.scope import OBJECT_LABELS

PERCENT, COUNT, RATE, BYTES, BYTES_RATE, SECONDS = (
    "Percent", "Count", "Count/Second", "Bytes", "Bytes/Second", "Seconds",
)  # fmt: skip
#: Labels that hold the answer's status, as client libraries name them.
STATUS_LABELS: Final = (
    "code",
    "status",
    "status_code",
    "response_code",
    "http_status_code",
    "http_response_status_code",
)
SERVICE_LABELS: Final = OBJECT_LABELS[:5]


@dataclass(frozen=True, slots=True)
class Expression:
    """A PromQL expression to evaluate over time, and what its series are called.

    ``objects`` are labels of which the first a series has names its object; ``details`` are labels that tell series of
    the same object apart. An empty ``name`` means that each series bears the metric's own (``__name__``).
    """

    query: str
    name: str
    unit: str
    statistic: str
    objects: tuple[str, ...]
    details: tuple[str, ...] = ()
    units: Mapping[str, str] | None = None
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Recipe:
    """``query`` has ``$S`` where the scope's matchers go, ``$W`` for the window of a rate, ``$BY`` for grouping."""

    needs: tuple[str, ...]
    name: str
    unit: str
    statistic: str
    query: str
    objects: tuple[str, ...]
    details: tuple[str, ...] = ()
    scoped_details: tuple[str, ...] = ()  # further ones when few series are asked for


_HOST: Final = ("node", "nodename", "instance")
_POD: Final = ("pod",)
_SERVER: Final = ("service", "server", "instance")
_REAL_FS: Final = 'fstype!~"tmpfs|overlay|squashfs|ramfs|nsfs|fuse.*|iso9660",$S'
_REAL_NIC: Final = 'device!~"lo|veth.*|docker.*|cni.*|cali.*|br-.*|virbr.*",$S'

RECIPES: Final[tuple[Recipe, ...]] = (
    # the targets themselves
    Recipe(
        ("up",), "up", COUNT, "Minimum", "min by ($BY) (up{$S})", ("job", "service", "app"),
        scoped_details=("instance",),
    ),
    # node_exporter
    Recipe(
        ("node_cpu_seconds_total",), "node_cpu_usage_percent", PERCENT, "Average",
        '100 * (1 - avg by ($BY) (rate(node_cpu_seconds_total{mode="idle",$S}[$W])))', _HOST,
    ),
    Recipe(
        ("node_memory_MemAvailable_bytes", "node_memory_MemTotal_bytes"), "node_memory_available_percent", PERCENT,
        "Average", "100 * min by ($BY) (node_memory_MemAvailable_bytes{$S} / node_memory_MemTotal_bytes{$S})", _HOST,
    ),
    Recipe(
        ("node_filesystem_avail_bytes", "node_filesystem_size_bytes"), "node_filesystem_avail_percent", PERCENT,
        "Minimum",
        f"100 * min by ($BY) (node_filesystem_avail_bytes{{{_REAL_FS}}} / node_filesystem_size_bytes{{{_REAL_FS}}})",
        _HOST, ("mountpoint",),
    ),
    Recipe(("node_load1",), "node_load1", COUNT, "Average", "max by ($BY) (node_load1{$S})", _HOST),
    Recipe(
        ("node_disk_io_time_seconds_total",), "node_disk_io_time", PERCENT, "Maximum",
        "100 * max by ($BY) (rate(node_disk_io_time_seconds_total{$S}[$W]))", _HOST,
    ),
    Recipe(
        ("node_network_receive_errs_total", "node_network_transmit_errs_total"), "node_network_errors", RATE, "Sum",
        f"sum by ($BY) (rate(node_network_receive_errs_total{{{_REAL_NIC}}}[$W]) + "
        f"rate(node_network_transmit_errs_total{{{_REAL_NIC}}}[$W]))", _HOST,
    ),
    # cAdvisor and kube-state-metrics
    Recipe(
        ("container_memory_working_set_bytes", "kube_pod_container_resource_limits"),
        "container_memory_working_set_percent_of_limit", PERCENT, "Maximum",
        '100 * max by ($BY) (sum by (namespace, pod, container) (container_memory_working_set_bytes{container!="",$S}) '
        '/ sum by (namespace, pod, container) (kube_pod_container_resource_limits{resource="memory",$S} > 0))', _POD,
    ),
    Recipe(
        ("container_cpu_usage_seconds_total",), "container_cpu_usage", "cores", "Sum",
        'sum by ($BY) (rate(container_cpu_usage_seconds_total{container!="",$S}[$W]))', _POD,
    ),
    Recipe(
        ("container_cpu_cfs_throttled_periods_total", "container_cpu_cfs_periods_total"), "container_cpu_throttling",
        PERCENT, "Average",
        "100 * sum by ($BY) (rate(container_cpu_cfs_throttled_periods_total{$S}[$W])) / "
        "(sum by ($BY) (rate(container_cpu_cfs_periods_total{$S}[$W])) > 0)", _POD,
    ),
    Recipe(
        ("container_memory_working_set_bytes",), "container_memory_working_set", BYTES, "Sum",
        'sum by ($BY) (container_memory_working_set_bytes{container!="",$S})', _POD,
    ),
    Recipe(
        ("kube_pod_container_status_restarts_total",), "container_restarts", COUNT, "Sum",
        "sum by ($BY) (kube_pod_container_status_restarts_total{$S})", _POD,
    ),
    Recipe(
        ("kube_deployment_status_replicas_available", "kube_deployment_spec_replicas"),
        "deployment_replicas_missing", COUNT, "Maximum",
        "sum by ($BY) (kube_deployment_spec_replicas{$S}) - "
        "sum by ($BY) (kube_deployment_status_replicas_available{$S})",
        ("deployment",),
    ),
    # postgres_exporter
    Recipe(
        ("pg_stat_activity_count", "pg_settings_max_connections"), "pg_connections_percent_of_max", PERCENT, "Sum",
        "100 * sum by ($BY) (pg_stat_activity_count{$S}) / max by ($BY) (pg_settings_max_connections{$S})", _SERVER,
    ),
    Recipe(
        ("pg_replication_lag_seconds",), "pg_replication_lag_seconds", SECONDS, "Maximum",
        "max by ($BY) (pg_replication_lag_seconds{$S})", _SERVER,
    ),
    Recipe(
        ("pg_stat_database_xact_commit",), "pg_commits", RATE, "Sum",
        "sum by ($BY) (rate(pg_stat_database_xact_commit{$S}[$W]))", _SERVER,
    ),
    Recipe(
        ("pg_stat_database_deadlocks",), "pg_deadlocks", RATE, "Sum",
        "sum by ($BY) (rate(pg_stat_database_deadlocks{$S}[$W]))", _SERVER,
    ),
    Recipe(
        ("pg_database_size_bytes",), "pg_database_size", BYTES, "Sum",
        "sum by ($BY) (pg_database_size_bytes{$S})", _SERVER,
    ),
    # redis_exporter
    Recipe(
        ("redis_memory_used_bytes", "redis_memory_max_bytes"), "redis_memory_used_percent", PERCENT, "Maximum",
        "100 * max by ($BY) (redis_memory_used_bytes{$S}) / (max by ($BY) (redis_memory_max_bytes{$S}) > 0)", _SERVER,
    ),
    Recipe(
        ("redis_connected_clients",), "redis_connected_clients", COUNT, "Sum",
        "sum by ($BY) (redis_connected_clients{$S})", _SERVER,
    ),
    Recipe(
        ("redis_evicted_keys_total",), "redis_evicted_keys", RATE, "Sum",
        "sum by ($BY) (rate(redis_evicted_keys_total{$S}[$W]))", _SERVER,
    ),
    Recipe(
        ("redis_rejected_connections_total",), "redis_rejected_connections", RATE, "Sum",
        "sum by ($BY) (rate(redis_rejected_connections_total{$S}[$W]))", _SERVER,
    ),
    # kafka_exporter
    Recipe(
        ("kafka_consumergroup_lag",), "kafka_consumer_group_lag", COUNT, "Sum",
        "sum by ($BY) (kafka_consumergroup_lag{$S})", ("consumergroup",), ("topic",),
    ),
    Recipe(
        ("kafka_topic_partition_under_replicated_partition",), "kafka_under_replicated_partitions", COUNT, "Sum",
        "sum by ($BY) (kafka_topic_partition_under_replicated_partition{$S})", ("topic",),
    ),
)  # fmt: skip

_REQUESTS: Final = re.compile(r"(?:^|_)(?:requests|calls|handled)_total$")
_DURATIONS: Final = re.compile(
    r"_requests?_duration(?:_(?:seconds|milliseconds))?_bucket$|(?:^|_)duration_(?:seconds|milliseconds)_bucket$"
)
#: Families that say how programs run rather than what they do, and those that recipes or states cover.
_INNER: Final = re.compile(
    r"^(?:go_|promhttp_|scrape_|net_conntrack_|ALERTS|up$|node_|container_|kube_|machine_|kubelet_|apiserver_|"
    r"python_|jvm_buffer|process_(?:virtual|start|max)|traces_service_graph|istio_)"
)
_NO_VALUE: Final = re.compile(r"_(?:bucket|sum|created|info|timestamp(?:_seconds)?|start_time_seconds)$|^target_info$")
_OWN: Final = re.compile(r"^(?:prometheus_|alertmanager_)")


def grouping(objects: Sequence[str], details: Sequence[str] = ()) -> str:
    """Return labels as the inside of ``by (…)``."""
    return ", ".join(dict.fromkeys([*objects, *details]))


def filled(query: str, *, scope: str, rate_s: int, by: str) -> str:
    """Return a recipe's query with its scope, the window of its rates in seconds and its grouping."""
    if not scope:
        query = query.replace(",$S", "").replace("{$S}", "")
    return Template(query).substitute(S=scope, W=duration(rate_s), BY=by)


def duration(seconds: int) -> str:
    """Return seconds as PromQL writes them."""
    return f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"


def recipe_expressions(
    names: Collection[str], *, scope: str, rate_s: int, object_label: str = ""
) -> Iterator[Expression]:
    """Yield the expression of each recipe whose families are all among ``names``."""
    for recipe in RECIPES:
        if all(need in names for need in recipe.needs):
            objects = tuple(dict.fromkeys([object_label, *recipe.objects])) if object_label else recipe.objects
            details = (*recipe.details, *(recipe.scoped_details if scope else ()))
            query = filled(recipe.query, scope=scope, rate_s=rate_s, by=grouping(objects, details))
            yield Expression(query, recipe.name, recipe.unit, recipe.statistic, objects, details, scope=scope)


@dataclass(frozen=True, slots=True)
class RequestFamily:
    """Metrics of requests served: ``counter`` counts them, ``histogram`` times them; one of both may be empty."""

    counter: str
    histogram: str


def request_families(names: Collection[str], *, scope: str) -> list[RequestFamily]:
    """Return the families of request metrics among ``names``, which are of a scope."""
    usable = sorted(name for name in names if _is_usable(name, scope) or name.startswith("istio_"))
    counters = [name for name in usable if _REQUESTS.search(name)]
    histograms = [name for name in usable if _DURATIONS.search(name)]
    families: list[RequestFamily] = []
    for histogram in histograms:
        stem = _stem(histogram)
        counter = next((name for name in counters if _stem(name) == stem), "")
        count = f"{histogram.removesuffix('_bucket')}_count"
        families.append(RequestFamily(counter or (count if count in names else ""), histogram))
    taken = {family.counter for family in families}
    return [*families, *(RequestFamily(name, "") for name in counters if name not in taken)]


def request_expressions(
    family: RequestFamily, labels: Collection[str], *, scope: str, rate_s: int, object_label: str = ""
) -> Iterator[Expression]:
    """Yield rate, share of server errors, mean and 99th percentile of a family, as far as its ``labels`` allow."""
    wanted = (object_label, *OBJECT_LABELS, "destination_workload")
    objects = tuple(name for name in wanted if name and name in labels)[:1]
    by = grouping(objects)
    stem = (family.counter or family.histogram).removesuffix("_total").removesuffix("_bucket").removesuffix("_count")
    name = stem.removesuffix("_seconds").removesuffix("_milliseconds").removesuffix("_duration")

    def expression(query: str, name: str, unit: str, statistic: str) -> Expression:
        return Expression(filled(query, scope=scope, rate_s=rate_s, by=by), name, unit, statistic, objects, scope=scope)

    if family.counter:
        total = f"sum by ($BY) (rate({family.counter}{{$S}}[$W]))"
        yield expression(total, f"{name}_rate", RATE, "Sum")
        status = next((label for label in STATUS_LABELS if label in labels), None)
        if status is not None:
            failed = f'sum by ($BY) (rate({family.counter}{{{status}=~"5..",$S}}[$W]))'
            share = f"100 * ({failed} or 0 * {total}) / ({total} > 0)"
            yield expression(share, f"{name}_error_percent", PERCENT, "Share of 5xx answers")
    if family.histogram:
        unit = "Milliseconds" if "milliseconds" in family.histogram else SECONDS
        base = family.histogram.removesuffix("_bucket")
        mean = f"sum by ($BY) (rate({base}_sum{{$S}}[$W])) / (sum by ($BY) (rate({base}_count{{$S}}[$W])) > 0)"
        # Of caller and callee only means can be set off against each other.
        yield expression(mean, f"{name}_duration", unit, "Average")
        by_le = f"sum by ({', '.join([*objects, 'le'])}) (rate({family.histogram}{{$S}}[$W]))"
        yield expression(f"histogram_quantile(0.99, {by_le})", f"{name}_duration_p99", unit, "99th percentile")


@dataclass(frozen=True, slots=True)
class Generic:
    """What no recipe knows, each the most telling first.

    ``counters`` are read as rates, ``gauges`` as they are, ``summaries`` (names without ``_sum`` and ``_count``) as
    averages.
    """

    counters: tuple[str, ...]
    gauges: tuple[str, ...]
    summaries: tuple[str, ...]


def generic_families(
    names: Collection[str], types: Mapping[str, str], *, known: Collection[str], scope: str
) -> Generic:
    """Return the families left for the fallback.

    Args:
        names: of series there are in the scope.
        types: of families, from the server's metadata; where it has none, the name's suffix decides.
        known: families that other expressions use.
        scope: decides whether the monitoring's own families count.
    """
    left = {name for name in names if name not in known and not _NO_VALUE.search(name) and _is_usable(name, scope)}
    summaries = {name.removesuffix("_count") for name in left if f"{name.removesuffix('_count')}_sum" in names}
    summaries = {name for name in summaries if f"{name}_count" in names and f"{name}_bucket" not in names}
    counts = {name for name in left if name.endswith("_count") and f"{name.removesuffix('_count')}_sum" in names}
    single = left - counts - summaries
    counters = {name for name in single if _is_counter(name, types)}
    return Generic(_ranked(counters), _ranked(single - counters), _ranked(summaries))


def _ranked(names: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda name: (measure_of(name) is Measure.OTHER, name)))


def _is_usable(name: str, scope: str) -> bool:
    if _OWN.match(name):  # of the monitoring itself: only when it is what is asked about
        return "prometheus" in scope or "alertmanager" in scope
    return _INNER.match(name) is None


def summary_expression(name: str, *, scope: str, rate_s: int, object_label: str = "") -> Expression:
    """Return the average of a summary's observations, by the labels that name services."""
    objects = _service_labels(scope, object_label)
    query = "sum by ($BY) (rate(NAME_sum{$S}[$W])) / (sum by ($BY) (rate(NAME_count{$S}[$W])) > 0)".replace(
        "NAME", name
    )
    query = filled(query, scope=scope, rate_s=rate_s, by=grouping(objects))
    return Expression(query, name, gauge_unit(name), "Average", objects, scope=scope)


def counter_expression(name: str, *, scope: str, rate_s: int, object_label: str = "") -> Expression:
    """Return the rate of a counter, by the labels that name services."""
    objects = _service_labels(scope, object_label)
    unit = BYTES_RATE if name.endswith(("_bytes_total", "_bytes")) else RATE
    unit = "seconds/second" if name.endswith("_seconds_total") else unit
    query = filled(f"sum by ($BY) (rate({name}{{$S}}[$W]))", scope=scope, rate_s=rate_s, by=grouping(objects))
    return Expression(query, name, unit, "Rate per second", objects, scope=scope)


def _service_labels(scope: str, object_label: str) -> tuple[str, ...]:
    """Return the labels a service goes by, with the one the scope selects by."""
    matched = re.match(r"[a-zA-Z_][a-zA-Z0-9_]*", scope)
    extra = [matched.group()] if matched and matched.group() in OBJECT_LABELS else []
    return tuple(dict.fromkeys([*([object_label] if object_label else []), *SERVICE_LABELS, *extra]))


def gauge_expressions(
    names: Sequence[str], units: Mapping[str, str], *, scope: str, object_label: str = "", most: int = 12
) -> Iterator[Expression]:
    """Yield selectors that read gauges as they are, several families at once."""
    objects = tuple(dict.fromkeys([*([object_label] if object_label else []), *OBJECT_LABELS]))
    for start in range(0, len(names), most):
        part = names[start : start + most]
        matcher = f'__name__=~"{"|".join(part)}"' if len(part) > 1 else f'__name__="{part[0]}"'
        query = f"{{{matcher}{',' if scope else ''}{scope}}}"
        known = {name: gauge_unit(name, units.get(name, "")) for name in part}
        yield Expression(query, "", "", "", objects, units=known, scope=scope)


def gauge_unit(name: str, unit: str = "") -> str:
    """Return a gauge's unit from its name, else as the server's metadata has it."""
    suffixes = {
        "_bytes": BYTES, "_seconds": SECONDS, "_milliseconds": "Milliseconds", "_ms": "Milliseconds",
        "_percent": PERCENT, "_ratio": "ratio", "_celsius": "°C",
    }  # fmt: skip
    return next((value for suffix, value in suffixes.items() if name.endswith(suffix)), unit)


def families_in(query: str, names: Collection[str]) -> set[str]:
    """Return which of ``names`` an expression reads."""
    return {word for word in re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", query) if word in names}


def _is_counter(name: str, types: Mapping[str, str]) -> bool:
    kind = types.get(name) or types.get(name.removesuffix("_total"))
    return kind == "counter" if kind in ("counter", "gauge") else name.endswith(("_total", "_count"))


def _stem(name: str) -> str:
    return re.sub(r"(?:_total|_bucket|_duration|_seconds|_milliseconds|_latency)+$", "", name).removesuffix("s")

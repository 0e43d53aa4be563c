"""A shop's metrics as a Prometheus would have recorded them, with a fault at the end, and the configuration around it.

``python -m tests.support.shop DIR`` writes all of it into a folder, to be tried by hand (docs/connect-prometheus.md).
"""

import argparse
import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp
from pathlib import Path
from typing import Any

STEP_S = 60
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
RULES: dict[str, Any] = {
    "groups": [
        {
            "name": "shop",
            "rules": [
                {
                    "alert": "FrontendErrors",
                    "expr": (
                        'sum by (service) (rate(http_requests_total{service="frontend",code=~"5.."}[5m]))'
                        ' / sum by (service) (rate(http_requests_total{service="frontend"}[5m])) > 0.05'
                    ),
                    "labels": {"severity": "critical"},
                    "annotations": {
                        "summary": "{{ $labels.service }} fails {{ $value | humanizePercentage }} of its requests"
                    },
                }
            ],
        }
    ]
}


@dataclass(frozen=True)
class Service:
    """How a service is used and does: requests per second, seconds of one, the share that fails, what it calls."""

    name: str
    rate: float
    seconds: float
    calls: tuple[str, ...] = ()
    failing: float = 0.001


@dataclass(frozen=True)
class Disturbance:
    """From ``minutes`` before the end on, a service fails and slows; its callers do as much as they depend on it."""

    minutes: int
    failing: Mapping[str, float] = field(default_factory=dict)
    slower: Mapping[str, float] = field(default_factory=dict)


SHOP = (
    Service("frontend", 40.0, 0.12, ("checkout", "catalog")),
    Service("checkout", 10.0, 0.09, ("payments", "inventory")),
    Service("catalog", 30.0, 0.03),
    Service("payments", 9.0, 0.05),
    Service("inventory", 10.0, 0.02),
)
#: ``payments`` breaks; ``checkout``, which calls it for each order, and ``frontend`` feel it.
PAYMENTS_DOWN = Disturbance(
    25,
    failing={"payments": 0.35, "checkout": 0.31, "frontend": 0.08},
    slower={"payments": 0.9, "checkout": 0.8, "frontend": 0.2},
)


def openmetrics(
    services: Sequence[Service], disturbance: Disturbance, *, hours: float, until: float, seed: int = 7
) -> str:
    """Return request metrics and the calls between services as OpenMetrics text, a sample a minute.

    Args:
        services: what runs.
        disturbance: what happens at the end.
        hours: how long, up to ``until`` (Unix seconds). The fault lasts on for a few minutes beyond it, so that a
            server that starts a little later still sees it.
        seed: of the noise.

    Source: https://prometheus.io/docs/specs/om/open_metrics_spec/
    """
    start, end = until - hours * 3600, until + 10 * 60
    times = [start + STEP_S * step for step in range(int((end - start) / STEP_S) + 1)]
    noise = random.Random(seed)  # noqa: S311 (noise of made-up traffic)
    requests: list[str] = []
    durations: list[str] = []
    calls: list[str] = []
    for service in services:
        history = _history(service, disturbance, times, until, noise)
        for code in ("200", "500"):
            labels = f'service="{service.name}",code="{code}"'
            requests += [f"http_requests_total{{{labels}}} {one[code]:.3f} {at:.0f}" for at, one in history]
        for bound in (*BUCKETS, float("inf")):
            le = "+Inf" if bound == float("inf") else f"{bound}"
            labels = f'service="{service.name}",le="{le}"'
            key = f"le{le}"
            durations += [
                f"http_request_duration_seconds_bucket{{{labels}}} {one[key]:.3f} {at:.0f}" for at, one in history
            ]
        for part in ("sum", "count"):
            name = f'http_request_duration_seconds_{part}{{service="{service.name}"}}'
            durations += [f"{name} {one[part]:.3f} {at:.0f}" for at, one in history]
        for callee in service.calls:
            labels = f'client="{service.name}",server="{callee}"'
            calls += [
                f"traces_service_graph_request_total{{{labels}}} {one['count']:.3f} {at:.0f}" for at, one in history
            ]
    blocks = [
        "# TYPE http_requests counter",
        *requests,
        "# TYPE http_request_duration_seconds histogram",
        *durations,
        "# TYPE traces_service_graph_request counter",
        *calls,
        "# EOF",
    ]
    return "\n".join(blocks) + "\n"


def _history(
    service: Service, disturbance: Disturbance, times: Sequence[float], until: float, noise: random.Random
) -> list[tuple[float, dict[str, float]]]:
    """Return the counters of a service at each time."""
    begin = until - disturbance.minutes * 60
    counters = dict.fromkeys(("200", "500", "sum", "count", *(f"le{bound}" for bound in BUCKETS), "le+Inf"), 0.0)
    history = []
    for at in times:
        during = at >= begin
        failing = disturbance.failing.get(service.name, service.failing) if during else service.failing
        seconds = service.seconds + (disturbance.slower.get(service.name, 0.0) if during else 0.0)
        seconds *= noise.uniform(0.93, 1.07)
        count = service.rate * STEP_S * noise.uniform(0.95, 1.05)
        counters["200"] += count * (1 - failing)
        counters["500"] += count * failing
        counters["count"] += count
        counters["sum"] += count * seconds
        for bound in BUCKETS:
            # An exponential distribution around the mean: most requests are faster, a few much slower.
            counters[f"le{bound}"] += count * (1 - exp(-bound / seconds))
        counters["le+Inf"] += count
        history.append((at, dict(counters)))
    return history


def prometheus_config(
    *, alertmanager: str = "", targets: Sequence[str] = (), rule_file: str = "rules.yml"
) -> dict[str, Any]:
    """Return the configuration of a Prometheus that scrapes ``targets`` and evaluates its rules each second."""
    static = [{"static_configs": [{"targets": [alertmanager.removeprefix("http://")]}]}]
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "scrape_configs": [{"job_name": "node", "static_configs": [{"targets": list(targets)}]}] if targets else [],
        "rule_files": [rule_file] if rule_file else [],
        "alerting": {"alertmanagers": static if alertmanager else []},
    }


def alertmanager_config(webhook: str, token_file: Path) -> dict[str, Any]:
    """Return the configuration of an Alertmanager that sends each group of alerts to ``webhook``."""
    authorization = {"type": "Bearer", "credentials_file": str(token_file)}
    hook = {"url": webhook, "send_resolved": True, "http_config": {"authorization": authorization}}
    return {
        "route": {
            "receiver": "opensre",
            "group_by": ["alertname", "service"],
            "group_wait": "0s",
            "group_interval": "1s",
            "repeat_interval": "1h",
        },
        "receivers": [{"name": "opensre", "webhook_configs": [hook]}],
    }


def main() -> None:
    """Write ``recorded.om`` and the configuration of Prometheus and Alertmanager into a folder."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--webhook", default="http://127.0.0.1:8000/api/v1/alerts/alertmanager")
    parser.add_argument("--alertmanager", default="127.0.0.1:9093", help="where the Alertmanager will listen")
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "recorded.om": openmetrics(SHOP, PAYMENTS_DOWN, hours=26, until=time.time()),
        "rules.yml": json.dumps(RULES, indent=2),  # JSON is YAML
        "prometheus.yml": json.dumps(prometheus_config(alertmanager=options.alertmanager), indent=2),
        "alertmanager.yml": json.dumps(alertmanager_config(options.webhook, folder / "token"), indent=2),
    }
    for name, content in files.items():
        (folder / name).write_text(content)


if __name__ == "__main__":
    main()

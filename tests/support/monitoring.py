"""Real Prometheus, Alertmanager and node_exporter on loopback, with metrics recorded beforehand."""

import json
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.support.runs import wait_until

PROGRAMS = ("prometheus", "promtool", "prometheus-alertmanager", "prometheus-node-exporter")
STEP_S = 60
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


def missing_programs() -> list[str]:
    """Return which of the programs are not installed."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


def free_port() -> int:
    """Return a port nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Program:
    """A running program: its address, and the file it writes its output to."""

    url: str
    process: "subprocess.Popen[bytes]"
    output: Path

    def said(self) -> str:
        return self.output.read_text("utf-8", "replace")[-4000:]


@contextmanager
def running(folder: Path, name: str, arguments: Sequence[str], *, port: int, ready: str) -> Iterator[Program]:
    """Run a program for the length of the block; ``ready`` is the path that answers 200 once it serves."""
    output = folder / f"{name}.log"
    with output.open("wb") as log:
        process = subprocess.Popen([name, *arguments], cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        program = Program(f"http://127.0.0.1:{port}", process, output)
        try:
            wait_until(lambda: process.poll() is not None or answers(f"{program.url}{ready}"), what=f"{name} to serve")
            assert process.poll() is None, program.said()
            yield program
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


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
            counters[f"le{bound}"] += count * (1 - 2.718281828 ** (-bound / seconds))
        counters["le+Inf"] += count
        history.append((at, dict(counters)))
    return history


def load_blocks(folder: Path, text: str) -> None:
    """Put OpenMetrics text into the data of a Prometheus that is yet to start, by its own tool."""
    recorded, data = folder / "recorded.om", folder / "data"
    recorded.write_text(text)
    made = subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(recorded), str(data)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert made.returncode == 0, made.stderr[-2000:]


@contextmanager
def prometheus(
    folder: Path, *, rules: Mapping[str, object] | None = None, alertmanager: str = "", targets: Sequence[str] = ()
) -> Iterator[Program]:
    """Run a Prometheus on the data in ``folder``; it scrapes ``targets`` and evaluates ``rules`` each second."""
    config: dict[str, object] = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "scrape_configs": [{"job_name": "node", "static_configs": [{"targets": list(targets)}]}] if targets else [],
    }
    if rules is not None:
        (folder / "rules.yml").write_text(json.dumps(rules))  # JSON is YAML
        config["rule_files"] = ["rules.yml"]
    if alertmanager:
        static = [{"static_configs": [{"targets": [alertmanager.removeprefix("http://")]}]}]
        config["alerting"] = {"alertmanagers": static}
    (folder / "prometheus.yml").write_text(json.dumps(config))
    port = free_port()
    arguments = [
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        "--storage.tsdb.retention.time=30d",
        # The first evaluation may come before the Alertmanager is known; the next second tells it again.
        "--rules.alert.resend-delay=1s",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with running(folder, "prometheus", arguments, port=port, ready="/-/ready") as program:
        yield program


@contextmanager
def alertmanager(folder: Path, *, webhook: str, token_file: Path) -> Iterator[Program]:
    """Run an Alertmanager that sends each group of alerts to ``webhook``, with the token in a file."""
    config = {
        "route": {
            "receiver": "opensre",
            "group_by": ["alertname", "service"],
            "group_wait": "0s",
            "group_interval": "1s",
            "repeat_interval": "1h",
        },
        "receivers": [
            {
                "name": "opensre",
                "webhook_configs": [
                    {
                        "url": webhook,
                        "send_resolved": True,
                        "http_config": {
                            "authorization": {"type": "Bearer", "credentials_file": str(token_file)},
                        },
                    }
                ],
            }
        ],
    }
    (folder / "alertmanager.yml").write_text(json.dumps(config))
    port = free_port()
    arguments = [
        "--config.file=alertmanager.yml",
        f"--storage.path={folder / 'alertmanager-data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with running(folder, "prometheus-alertmanager", arguments, port=port, ready="/-/ready") as program:
        yield program


@contextmanager
def node_exporter(folder: Path) -> Iterator[Program]:
    """Run a node_exporter of this machine."""
    port = free_port()
    arguments = [f"--web.listen-address=127.0.0.1:{port}"]
    with running(folder, "prometheus-node-exporter", arguments, port=port, ready="/metrics") as program:
        yield program


def now() -> float:
    """Return the present in Unix seconds."""
    return time.time()

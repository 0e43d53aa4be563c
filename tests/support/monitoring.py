"""Real Prometheus, Alertmanager and node_exporter on loopback."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.runs import wait_until
from tests.support.shop import alertmanager_config, prometheus_config

PROGRAMS = ("prometheus", "promtool", "prometheus-alertmanager", "prometheus-node-exporter")


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
    config = prometheus_config(alertmanager=alertmanager, targets=targets, rule_file="rules.yml" if rules else "")
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    if rules is not None:
        (folder / "rules.yml").write_text(json.dumps(rules))
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
    (folder / "alertmanager.yml").write_text(json.dumps(alertmanager_config(webhook, token_file)))
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

"""What benchmarks share: servers in processes of their own, their CPU time, and requests to them."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.run import POSTGRES_URL

ROOT = Path(__file__).resolve().parent.parent.parent


def cpu_s(pid: int) -> float:
    """Return the CPU seconds a process has used (Linux: fields 14 and 15 of /proc/<pid>/stat, see proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def uvicorn(application: str, env: Mapping[str, str], *arguments: str) -> Iterator[tuple[int, int]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", application, "--port", str(port), "--log-level", "warning"]
    command += arguments
    # Requests are counted as always; one token asks more often here than any limit for one token would let it.
    process = subprocess.Popen(command, cwd=ROOT, env={"RATE_LIMITS": "requests=100000000/minute", **env})
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield process.pid, port
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def fresh_database(name: str) -> Iterator[str]:
    """Make an empty PostgreSQL database for the length of the block, and yield its URL."""
    server = (os.environ.get("TEST_DATABASE_URL") or POSTGRES_URL).rpartition("/")[0]
    admin = f"{server}/postgres".replace("postgres://", "postgresql://", 1)
    drop = f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(drop.encode())
        connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield f"{server}/{name}"
        finally:
            connection.execute(drop.encode())


def get(url: str) -> None:
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 (loopback)
        answer.read()


def request(url: str, headers: Mapping[str, str], *, method: str = "GET", body: Any = None) -> Any:
    """Make a request and return its open answer."""
    content = None if body is None else json.dumps(body).encode()
    sent = {**headers, "Content-Type": "application/json"} if content else dict(headers)
    asked = urllib.request.Request(url, content, sent, method=method)  # noqa: S310 (loopback)
    return urllib.request.urlopen(asked, timeout=60)  # noqa: S310


def get_json(url: str, headers: Mapping[str, str]) -> Any:
    with request(url, headers) as answer:
        return json.load(answer)


def post(url: str, headers: Mapping[str, str], body: dict[str, Any]) -> Any:
    with request(url, headers, method="POST", body=body) as answer:
        return json.load(answer)

"""``make test``: the suite on SQLite, the same suite on PostgreSQL, then the browser tests; a table.

What is missing here (PostgreSQL, a browser) is skipped with the reason; with ``CI`` set or ``--require-services`` it is
a failure, and so is a missing Redis. Other arguments go to pytest.
"""

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

import psycopg

ROOT = Path(__file__).resolve().parent.parent
POSTGRES_URL = "postgres://postgres@127.0.0.1:5432/opensre"
REDIS_URL = "redis://127.0.0.1:6379"
POSTGRES_MIN = 150000
MONITORING = ("prometheus", "promtool", "prometheus-alertmanager", "prometheus-node-exporter")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PROBE_TIMEOUT_S = 5
NO_TESTS = 5
INTERRUPTED = 130


@dataclass(frozen=True)
class Service:
    """One thing tests need besides Python. ``problem`` is ``""`` when it is there; ``value`` is its URL or path."""

    name: str
    value: str
    problem: str = ""

    @property
    def ready(self) -> bool:
        return not self.problem


@dataclass(frozen=True)
class Outcome:
    """What a phase did. ``note`` says why it was skipped or failed as a whole."""

    phase: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    note: str = ""


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments ask for and return the exit code: 0 when nothing failed."""
    options, pytest_arguments = parse_arguments(arguments)
    required = options.require_services or bool(os.environ.get("CI"))
    services = [
        find_postgres(os.environ), find_redis(os.environ), find_browser(os.environ), find_monitoring(os.environ),
    ]  # fmt: skip
    report_services(services, required=required)
    if options.check_services:
        return 0 if all(service.ready for service in services) else 1
    try:
        outcomes = run_phases(services, pytest_arguments, required=required)
    except KeyboardInterrupt:
        say("\nInterrupted.")
        return INTERRUPTED
    return summarise(outcomes, sys.stdout)


def say(text: str) -> None:
    """Write a line at once: pytest writes to the same terminal from other processes."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def parse_arguments(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return our own options and, in order, the arguments that are pytest's."""
    parser = argparse.ArgumentParser(prog="tests.run", description=__doc__, allow_abbrev=False)
    parser.add_argument("--require-services", action="store_true", help="a missing service or browser is a failure")
    parser.add_argument("--check-services", action="store_true", help="say what is there and run nothing")
    return parser.parse_known_args(list(arguments))


# ---- services ------------------------------------------------------------------------------------------------------


def find_postgres(environ: Mapping[str, str]) -> Service:
    """Return PostgreSQL at ``TEST_DATABASE_URL``, which must answer and be version 15 or newer."""
    url = environ.get("TEST_DATABASE_URL") or POSTGRES_URL
    # The database of the URL need not exist: each test process makes and drops one of its own.
    server = urlsplit(url)._replace(path="/postgres").geturl().replace("postgres://", "postgresql://", 1)
    try:
        with psycopg.connect(server, connect_timeout=PROBE_TIMEOUT_S) as connection:
            version = connection.info.server_version
    except psycopg.Error as error:
        return Service("PostgreSQL", url, f"no answer at {place(url)} ({type(error).__name__})")
    if version < POSTGRES_MIN:
        return Service("PostgreSQL", url, f"version {version // 10000} at {place(url)}; 15 or newer is needed")
    return Service("PostgreSQL", url)


def find_redis(environ: Mapping[str, str]) -> Service:
    """Return Redis at ``REDIS_URL``, which must answer PING."""
    url = environ.get("REDIS_URL") or REDIS_URL
    parts = urlsplit(url)
    try:
        answer = redis_ping(parts.hostname or "127.0.0.1", parts.port or 6379, unquote(parts.password or ""))
    except OSError as error:
        return Service("Redis", url, f"no answer at {place(url)} ({type(error).__name__})")
    if not answer.startswith(b"+PONG"):
        return Service("Redis", url, f"what answers at {place(url)} does not say PONG")
    return Service("Redis", url)


def redis_ping(host: str, port: int, password: str) -> bytes:
    """Return the answer to PING. Source: https://redis.io/docs/latest/develop/reference/protocol-spec/"""
    commands = ([["AUTH", password]] if password else []) + [["PING"]]
    answer = b""
    with (
        socket.create_connection((host, port), timeout=PROBE_TIMEOUT_S) as connection,
        connection.makefile("rb") as lines,
    ):
        for command in commands:
            parts = [f"${len(part.encode())}\r\n{part}\r\n" for part in command]
            connection.sendall(f"*{len(parts)}\r\n{''.join(parts)}".encode())
            answer = lines.readline()
    return answer


def find_browser(environ: Mapping[str, str]) -> Service:
    """Return the Chromium named by ``CHROMIUM``, else the first one on PATH."""
    named = environ.get("CHROMIUM")
    for name in (named,) if named else BROWSERS:
        path = shutil.which(name, path=environ.get("PATH"))
        if path:
            return Service("Chromium", path)
    return Service(
        "Chromium", "", f"CHROMIUM={named} is no program" if named else f"none of {', '.join(BROWSERS)} on PATH"
    )


def find_monitoring(environ: Mapping[str, str]) -> Service:
    """Return Prometheus with its tools, Alertmanager and node_exporter, of Debian's packages, on PATH."""
    absent = [name for name in MONITORING if shutil.which(name, path=environ.get("PATH")) is None]
    return Service("Prometheus", "", f"not on PATH: {', '.join(absent)}" if absent else "")


def place(url: str) -> str:
    """Return host and port of a URL: what may be shown of one that holds a password."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)


def report_services(services: Sequence[Service], *, required: bool) -> None:
    """Say what is there, and what will be done about what is not."""
    for service in services:
        consequence = "required" if required else "skipped"
        state = "found" if service.ready else f"{service.problem}: {consequence}"
        say(f"{service.name}: {state}")


# ---- phases --------------------------------------------------------------------------------------------------------


def run_phases(services: Sequence[Service], arguments: Sequence[str], *, required: bool) -> list[Outcome]:
    """Run the phases one after the other and return what each did."""
    postgres, redis, browser, monitoring = services
    # Three processes: with two, the cores idle while tests wait for leases and child processes.
    suite = ["-n", "3", "--dist", "worksteal", "-m", "not browser", *arguments]
    outcomes = [run_pytest("SQLite", suite, {"TEST_DATABASE_URL": ""}, narrowed=bool(arguments))]
    if postgres.ready:
        extra = {"TEST_DATABASE_URL": postgres.value}
        outcomes.append(run_pytest("PostgreSQL", suite, extra, narrowed=bool(arguments)))
    else:
        outcomes.append(missing(postgres, required=required))
    if browser.ready:
        # A process of its own: the browser's driver runs an event loop in the thread that also queries the database.
        extra = {"TEST_DATABASE_URL": "", "DJANGO_ALLOW_ASYNC_UNSAFE": "true", "CHROMIUM": browser.value}
        outcomes.append(
            run_pytest("Browser", ["-m", "browser", *(arguments or ["tests/browser"])], extra, narrowed=bool(arguments))
        )
    else:
        outcomes.append(missing(browser, required=required))
    outcomes += [missing(service, required=True) for service in (redis, monitoring) if required and not service.ready]
    return outcomes


def missing(service: Service, *, required: bool) -> Outcome:
    """Return the outcome of a phase whose service is not there."""
    return Outcome(service.name, failed=int(required), note=service.problem)


def run_pytest(phase: str, arguments: Sequence[str], extra: Mapping[str, str], *, narrowed: bool) -> Outcome:
    """Run pytest in a process of its own, on a data directory of its own, and return what it counted."""
    say(f"\n==== {phase}: pytest {' '.join(arguments)}")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="opensre-test-") as directory:
        results = Path(directory) / "results.xml"
        # Settings a developer has for the local installation must not decide what is tested.
        environ = {**os.environ, "OPENSRE_MODE": "local", "DEBUG": "false", "OPENSRE_DATA_DIR": directory, **extra}
        command = [sys.executable, "-m", "pytest", f"--junitxml={results}", *arguments]
        code = subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode
        return read_outcome(phase, code, results, time.monotonic() - started, narrowed=narrowed)


def read_outcome(phase: str, code: int, results: Path, seconds: float, *, narrowed: bool) -> Outcome:
    """Return the counts of a JUnit file, and a failure for an exit code that the counts do not explain.

    Args:
        code: pytest's exit code; 5 means that it found no test.
        results: the file written by ``--junitxml``; a process that died wrote none.
        narrowed: arguments chose some of the tests, so that a phase without any is none to worry about.
    """
    passed = failed = skipped = 0
    if results.is_file():
        for suite in ET.parse(results).getroot().iter("testsuite"):  # noqa: S314 (pytest wrote it just now)
            bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            left = int(suite.get("skipped", 0))
            passed += max(int(suite.get("tests", 0)) - bad - left, 0)
            failed, skipped = failed + bad, skipped + left
    if code == NO_TESTS and narrowed:
        return Outcome(phase, seconds=seconds, note="no test matches the arguments")
    note = "no test was found" if code == NO_TESTS else f"pytest ended with code {code}"
    if code and not failed:
        return Outcome(phase, passed, 1, skipped, seconds, note)
    return Outcome(phase, passed, failed, skipped, seconds)


def summarise(outcomes: Sequence[Outcome], out: TextIO) -> int:
    """Write the table and the line of totals, alone at the end; return the exit code."""
    out.write(f"\n{'phase':<12}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}\n")
    for outcome in outcomes:
        counts = f"{outcome.passed:>8}{outcome.failed:>8}{outcome.skipped:>9}{outcome.seconds:>9.1f}"
        verdict = "failed" if outcome.failed else "skipped"
        out.write(f"{outcome.phase:<12}{counts}{f'  {verdict}: {outcome.note}' if outcome.note else ''}\n")
    passed, failed, skipped = (
        sum(outcome.passed for outcome in outcomes),
        sum(outcome.failed for outcome in outcomes),
        sum(outcome.skipped for outcome in outcomes),
    )
    if not passed + failed:
        out.write("No test ran.\n")
    out.write(f"{passed} passed, {failed} failed, {skipped} skipped\n")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""``bench append``: an event appended under the fence of a run, against a bare insert of one row by the same driver.

On SQLite and PostgreSQL, each in a process of its own; blocks of both are interleaved, medians are reported. What makes
an event (its schema, redaction) and what is told of it are left out: both sides begin with the encoded text.

Then 32 writers (4 processes of 8 threads) on PostgreSQL: commits a second without a bus, with the bus, and as it would
be with a NOTIFY in each transaction.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import psycopg

from tests.bench.servers import ROOT
from tests.run import POSTGRES_URL

DATABASE: Final = os.environ.get("BENCH_APPEND_DATABASE", "opensre_bench_append")
PROCESSES: Final = 4
WAYS: Final = ("silent", "bus", "notify")
ROUNDS: Final = 3


def run(say: Callable[[str], Any]) -> dict[str, Any]:
    """Measure and return the figures: medians over the blocks, and the ratios."""
    server = (os.environ.get("TEST_DATABASE_URL") or POSTGRES_URL).rpartition("/")[0]
    admin = f"{server}/postgres".replace("postgres://", "postgresql://", 1)
    result: dict[str, Any] = {"benchmark": "append"}
    with tempfile.TemporaryDirectory(prefix="opensre-bench-") as folder:
        sqlite = _environment(folder, OPENSRE_TEST_SQLITE=str(Path(folder) / "bench.sqlite3"))
        say("SQLite")
        result["sqlite"] = _single(sqlite)
        _execute(admin, f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)", f"CREATE DATABASE {DATABASE}")
        try:
            postgres = _environment(folder, TEST_DATABASE_URL=f"{server}/{DATABASE}")
            say("PostgreSQL")
            result["postgres"] = _single(postgres)
            say("PostgreSQL, 32 writers")
            result["writers"] = _writers(postgres)
        finally:
            _execute(admin, f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
    return result


def table(result: dict[str, Any]) -> str:
    """Return the figures as lines for a terminal."""
    lines = [f"{'one writer':14}{'bare us':>10}{'append us':>11}{'bare CPU':>10}{'append CPU':>12}{'rate':>8}"]
    for name in ("sqlite", "postgres"):
        row = result[name]
        lines.append(
            f"{name:14}{row['bare_us']:>10}{row['append_us']:>11}{row['bare_cpu_us']:>10}{row['append_cpu_us']:>12}"
            f"{row['ratio']:>6} x"
        )
    writers = result["writers"]
    lines.append(
        f"32 writers: {writers['silent']:,} commits/s without a bus, {writers['bus']:,} with it "
        f"({writers['ratio_bus']} x), {writers['notify']:,} with a NOTIFY in each ({writers['ratio_notify']} x)"
    )
    return "\n".join(lines)


def _environment(folder: str, **more: str) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name != "TEST_DATABASE_URL"}
    base = {"OPENSRE_DATA_DIR": folder, "DJANGO_SETTINGS_MODULE": "tests.settings", "LOG_LEVEL": "WARNING"}
    return env | base | more


def _single(env: Mapping[str, str]) -> dict[str, Any]:
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=env, check=True)
    worker = [sys.executable, "-m", "tests.bench.append_worker", "single"]
    figures: dict[str, Any] = json.loads(
        subprocess.run(worker, cwd=ROOT, env=env, check=True, capture_output=True).stdout
    )
    return figures


def _writers(env: Mapping[str, str]) -> dict[str, Any]:
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        for way in WAYS:
            bus = {"EVENT_BUS": "postgres" if way == "bus" else "process"}
            command = [sys.executable, "-m", "tests.bench.append_worker", way]
            workers = [
                subprocess.Popen(
                    command, cwd=ROOT, env={**env, **bus}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
                for _ in range(PROCESSES)
            ]
            for worker in workers:
                assert worker.stdout is not None
                assert worker.stdout.readline() == "ready\n"
            outputs = _begin_together(workers)
            rates[way].append(sum(json.loads(output)["commits_per_s"] for output in outputs))
    medians = {way: round(sorted(found)[len(found) // 2]) for way, found in rates.items()}
    together = list(zip(*(rates[way] for way in WAYS), strict=True))
    return {
        **medians,
        "ratio_bus": round(sorted(bus / silent for silent, bus, _ in together)[ROUNDS // 2], 2),
        "ratio_notify": round(sorted(notify / silent for silent, _, notify in together)[ROUNDS // 2], 2),
    }


def _begin_together(workers: "list[subprocess.Popen[str]]") -> list[str]:
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    return [worker.communicate(timeout=60)[0] for worker in workers]


def _execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())

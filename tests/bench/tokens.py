"""``bench tokens``: making an actor of a token among 100,000, against the least that could be done.

PostgreSQL, one process. *Bare* is a look-up of the same row by the same way into the database, and the HMAC: what no
authentication by a stored token can do without. Rounds are interleaved, medians are reported; CPU is that of this
process, without the database's. The plan of the one query is looked at: it must find the token by an index.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any, Final

import psycopg

from tests.bench.servers import ROOT
from tests.run import POSTGRES_URL

DATABASE: Final = os.environ.get("BENCH_TOKENS_DATABASE", "opensre_bench_tokens")


def run(say: Callable[[str], Any]) -> dict[str, Any]:
    """Measure and return the figures: medians over the rounds, and the ratios."""
    server = (os.environ.get("TEST_DATABASE_URL") or POSTGRES_URL).rpartition("/")[0]
    admin = f"{server}/postgres".replace("postgres://", "postgresql://", 1)
    _execute(admin, f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)", f"CREATE DATABASE {DATABASE}")
    try:
        with tempfile.TemporaryDirectory(prefix="opensre-bench-") as folder:
            env = {
                **os.environ,
                "OPENSRE_DATA_DIR": folder,
                "DJANGO_SETTINGS_MODULE": "tests.settings",
                "TEST_DATABASE_URL": f"{server}/{DATABASE}",
                "LOG_LEVEL": "WARNING",
            }
            subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=env, check=True)
            say("making 100,000 tokens, then measuring")
            worker = subprocess.run(
                [sys.executable, "-m", "tests.bench.tokens_worker"],
                cwd=ROOT,
                env=env,
                check=True,
                stdout=subprocess.PIPE,
            )
    finally:
        _execute(admin, f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
    figures: dict[str, Any] = json.loads(worker.stdout)
    return {"benchmark": "tokens", **figures}


def table(result: dict[str, Any]) -> str:
    """Return the figures as lines for a terminal."""
    lines = [
        f"{result['tokens']:,} tokens; one query each, found by {', '.join(result['indexes'])}",
        f"{'':10}{'CPU us':>10}{'wall us':>10}",
    ]
    lines += [
        f"{name:10}{result[name]['cpu_us']:>10,}{result[name]['wall_us']:>10,}" for name in ("bare", "team", "personal")
    ]
    lines.append(
        f"a team's token costs {result['cpu_ratio_team']} x a bare look-up and HMAC by CPU, a personal one "
        f"{result['cpu_ratio_personal']} x; among 100,000 {result['size_ratio']} x among 100"
    )
    return "\n".join(lines)


def _execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())

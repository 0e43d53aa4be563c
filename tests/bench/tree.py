"""``bench tree``: configuration in a tree of 10,000 teams, against the same in a tree of ten.

PostgreSQL, a database and a process for each tree, the same work in both, rounds interleaved. Ratios are of medians of
wall time; CPU time beside them is that of the process and of its database connection.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg

from tests.bench.servers import ROOT
from tests.run import POSTGRES_URL

DATABASE: Final = os.environ.get("BENCH_TREE_DATABASE", "opensre_bench_tree")
TEAMS: Final = {"small": 10, "large": 10_000}
ROUNDS: Final = 5
WRITES: Final = 10
WRITERS: Final = 4
KEYS: Final = 25
#: What is previewed at the root: a value nobody below sets, one that one team in a hundred sets, one that all set.
PREVIEWS: Final[dict[str, dict[str, Any]]] = {
    "preview_nobody": {"memory": {"recall_limit": 5}},
    "preview_some": {"limits": {"max_turns": 99}},
    "preview_all": {"agents": {"planner": {"prompt": {"system": "Another start."}}}},
}


class Worker:
    """A process that answers about one tree; see :mod:`tests.bench.tree_worker`."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.tree_worker"],
            cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def send(self, do: str, **arguments: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("The worker has ended; its error stands above.")
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        self.send(do, **arguments)
        return self.answer()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


def run(say: Callable[[str], Any]) -> dict[str, Any]:
    """Measure and return the figures: medians over the rounds, and the ratios."""
    with tempfile.TemporaryDirectory(prefix="opensre-bench-") as folder, _trees(Path(folder)) as (workers, env):
        built = {name: workers[name].ask("build", teams=teams) for name, teams in TEAMS.items()}
        say(f"built {built['large']['nodes']:,} nodes in {built['large']['seconds']:.0f} s")
        rounds = _rounds(workers, say)
        say("files")
        gitops = workers["large"].ask("gitops", folder=str(Path(folder) / "files"))
        say(f"{WRITERS} processes")
        parallel = _parallel(env["large"])
    figures = {name: {size: _summed(costs) for size, costs in sizes.items()} for name, sizes in rounds.items()}
    return {
        "benchmark": "tree",
        "teams": TEAMS["large"],
        "cpu_ratio": {name: _ratio(sizes, "cpu_s") for name, sizes in figures.items()},
        "ratio": {name: _ratio(sizes, "seconds") for name, sizes in figures.items()},
        "figures": figures,
        "gitops": gitops,
        "parallel": parallel,
    }


def table(result: dict[str, Any]) -> str:
    """Return the figures as lines for a terminal."""
    lines = [f"{result['teams']:,} teams against {TEAMS['small']}, medians of {ROUNDS} rounds, milliseconds (CPU)"]
    lines.append(f"{'':18}{'small':>18}{'large':>18}{'ratio':>8}{'CPU':>8}  affected")
    for name, sizes in result["figures"].items():
        cells = "".join(f"{_ms(sizes[size]):>18}" for size in TEAMS)
        ratios = f"{result['ratio'][name]:>8}{result['cpu_ratio'][name]:>8}"
        affected = f"  {sizes['large']['affected']:,}" if "affected" in sizes["large"] else ""
        lines.append(f"{name:18}{cells}{ratios}{affected}")
    files = ", ".join(f"{name} {cost['seconds']:.1f} ({cost['cpu_s']:.1f})" for name, cost in result["gitops"].items())
    lines.append(f"files of {result['teams']:,} teams, seconds (CPU): {files}")
    parallel = result["parallel"]
    lines.append(
        f"{WRITERS} processes, {WRITERS * KEYS} patches of distinct keys: {parallel['keys']} keys, "
        f"{parallel['versions']} versions, {parallel['events']} audit rows more"
    )
    return "\n".join(lines)


def _rounds(workers: Mapping[str, Worker], say: Callable[[str], Any]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    measured: dict[str, dict[str, list[dict[str, Any]]]] = {}

    def keep(name: str, size: str, cost: dict[str, Any], number: int) -> None:
        if number:
            measured.setdefault(name, {}).setdefault(size, []).append(cost)

    for number in range(ROUNDS + 1):
        say(f"round {number} of {ROUNDS}" if number else "warming up")
        for size, worker in workers.items():
            keep("team_write", size, worker.ask("team_write", times=WRITES), number)
            root = worker.ask("root_write_then_read")
            keep("root_write", size, root["write"], number)
            keep("read_after", size, root["read"] | {"queries": root["read_queries"]}, number)
            keep("root_switch", size, worker.ask("root_switch"), number)
            for name, patch in PREVIEWS.items():
                keep(name, size, worker.ask("preview", patch=patch), number)
    return measured


def _parallel(env: Mapping[str, str]) -> dict[str, Any]:
    """Patch distinct keys of one team from several processes at once; return what is there in the end."""
    writers = [Worker(env) for _ in range(WRITERS)]
    try:
        before = writers[0].ask("patched")
        for worker in writers[1:]:
            worker.ask("patched")  # every process is up before the first begins
        for number, worker in enumerate(writers):
            worker.send("patch_keys", writer=number, keys=KEYS)
        for worker in writers:
            worker.answer()
        return {name: count - before[name] for name, count in writers[0].ask("patched").items()}
    finally:
        for worker in writers:
            worker.close()


def _summed(costs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found = {
        "seconds": statistics.median(cost["seconds"] for cost in costs),
        "cpu_s": statistics.fmean(cost["cpu_s"] for cost in costs),
    }
    return {**costs[-1], **found}


def _ratio(sizes: Mapping[str, Mapping[str, Any]], of: str) -> float:
    ratio: float = sizes["large"][of] / max(sizes["small"][of], 1e-9)
    return round(ratio, 2)


def _ms(cost: Mapping[str, Any]) -> str:
    return f"{cost['seconds'] * 1000:,.1f} ({cost['cpu_s'] * 1000:,.1f})"


@contextmanager
def _trees(folder: Path) -> Iterator[tuple[dict[str, Worker], dict[str, dict[str, str]]]]:
    """Make a migrated database and a worker for each size, and drop them in the end."""
    server = (os.environ.get("TEST_DATABASE_URL") or POSTGRES_URL).rpartition("/")[0]
    names = {size: f"{DATABASE}_{size}" for size in TEAMS}
    drops = [f"DROP DATABASE IF EXISTS {name} WITH (FORCE)" for name in names.values()]
    _execute(server, *drops, *(f"CREATE DATABASE {name}" for name in names.values()))
    workers: dict[str, Worker] = {}
    env = {
        size: {
            **os.environ,
            "OPENSRE_DATA_DIR": str(folder),
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "TEST_DATABASE_URL": f"{server}/{name}",
            "LOG_LEVEL": "WARNING",
        }
        for size, name in names.items()
    }
    try:
        for size in TEAMS:
            subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=env[size], check=True)
            workers[size] = Worker(env[size])
        yield workers, env
    finally:
        for worker in workers.values():
            worker.close()
        _execute(server, *drops)


def _execute(server: str, *statements: str) -> None:
    url = f"{server}/postgres".replace("postgres://", "postgresql://", 1)
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())

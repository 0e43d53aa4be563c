"""``bench config``: a runtime's read of its effective configuration, against the same read by other means.

Four levels, about 20 KB, PostgreSQL, one uvicorn process each, sixteen connections with a token each. The peer is
FastAPI with an asynchronous pool that does the same work; ``view`` is the same answer through Django and REST framework
in our own process. Rounds are interleaved, medians are reported. CPU is that of the server alone: it is steadier than
the rate, which the client and the database on the same machine share.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import uvloop
from typing_extensions import override

from tests.bench.servers import ROOT, cpu_s, post, request, uvicorn
from tests.run import POSTGRES_URL

DATABASE = "opensre_bench"
PATH = "/api/v1/config/me/effective"
CONNECTIONS = 16
REQUESTS = 3200
SLOW_REQUESTS = 800
ROUNDS = 5


@dataclass(frozen=True)
class Round:
    """One measurement: requests a second, and microseconds of server CPU each."""

    rate: float
    cpu_us: float


@dataclass(frozen=True)
class Target:
    """What is asked: a server, a path with its headers, how often, and the status it answers."""

    pid: int
    port: int
    path: str
    tokens: Sequence[str]
    headers: Mapping[str, str]
    requests: int = REQUESTS
    status: int = 200


def run(say: Callable[[str], Any]) -> dict[str, Any]:
    """Measure and return the figures: medians over the rounds, and the ratios."""
    with (
        tempfile.TemporaryDirectory(prefix="opensre-bench-") as folder,
        _database(Path(folder)) as (env, tokens),
        uvicorn("controlplane.asgi:application", env) as (ours, port),
        uvicorn("tests.bench.config_peer:application", env) as (peer, peer_port),
    ):
        with request(f"http://127.0.0.1:{port}{PATH}", {"Authorization": f"Bearer {tokens[0]}"}) as answer:
            etag, size = answer.headers["ETag"], len(answer.read())
        targets = {
            "hot": Target(ours, port, PATH, tokens, {}),
            "hot_304": Target(ours, port, PATH, tokens, {"If-None-Match": etag}, status=304),
            "fastapi": Target(peer, peer_port, PATH, tokens, {}),
            "view": Target(ours, port, "/api/v1/orgs/demo/nodes/squad/config/effective", tokens, {}, SLOW_REQUESTS),
        }
        rounds: dict[str, list[Round]] = {name: [] for name in targets}
        for number in range(ROUNDS + 1):
            say(f"round {number} of {ROUNDS}" if number else "warming up")
            for name, target in targets.items():
                measured = uvloop.run(_load(target))
                if number:
                    rounds[name].append(measured)
    figures = {
        name: {
            "requests_per_s": round(statistics.median(item.rate for item in measured)),
            "cpu_us": round(statistics.median(item.cpu_us for item in measured)),
        }
        for name, measured in rounds.items()
    }
    return {
        "benchmark": "config",
        "bytes": size,
        "connections": CONNECTIONS,
        **figures,
        "ratio_to_fastapi": _ratio(rounds, "hot", "fastapi"),
        "cpu_ratio_to_fastapi": _cpu_ratio(rounds, "fastapi", "hot"),
        "ratio_to_view": _ratio(rounds, "hot", "view"),
        "ratio_304_to_200": _ratio(rounds, "hot_304", "hot"),
    }


def table(result: dict[str, Any]) -> str:
    """Return the figures as lines for a terminal."""
    lines = [f"{result['bytes']:,} bytes, {result['connections']} connections, medians of {ROUNDS} rounds"]
    lines.append(f"{'':10}{'requests/s':>12}{'CPU us':>10}")
    lines += [
        f"{name:10}{result[name]['requests_per_s']:>12,}{result[name]['cpu_us']:>10,}"
        for name in ("hot", "hot_304", "fastapi", "view")
    ]
    lines.append(
        f"hot route {result['ratio_to_fastapi']} x FastAPI ({result['cpu_ratio_to_fastapi']} x by CPU), "
        f"{result['ratio_to_view']} x the view; "
        f"304 {result['ratio_304_to_200']} x 200"
    )
    return "\n".join(lines)


def _ratio(rounds: Mapping[str, list[Round]], one: str, other: str) -> float:
    pairs = zip(rounds[one], rounds[other], strict=True)
    return round(statistics.median(first.rate / second.rate for first, second in pairs), 2)


def _cpu_ratio(rounds: Mapping[str, list[Round]], one: str, other: str) -> float:
    pairs = zip(rounds[one], rounds[other], strict=True)
    return round(statistics.median(first.cpu_us / second.cpu_us for first, second in pairs), 2)


async def _load(target: Target) -> Round:
    """Ask as often as wanted over all connections, and return the rate and what it cost the server."""
    loop = asyncio.get_running_loop()
    share = target.requests // CONNECTIONS
    clients = [Client(target, token, share) for token in target.tokens]
    for client in clients:
        await loop.create_connection(lambda client=client: client, "127.0.0.1", target.port)  # type: ignore[misc]
    before, began = cpu_s(target.pid), loop.time()
    for client in clients:
        client.ask()
    await asyncio.gather(*(client.done for client in clients))
    seconds = loop.time() - began
    count = share * CONNECTIONS
    return Round(count / seconds, (cpu_s(target.pid) - before) / count * 1e6)


class Client(asyncio.Protocol):
    """One connection that asks the same question again and again; cheap, so that the server is what is measured."""

    def __init__(self, target: Target, token: str, times: int) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in target.headers.items())
        head = f"GET {target.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n{lines}\r\n"
        self._question = head.encode()
        self._status = f" {target.status} ".encode()
        self._left = times
        self._missing = -1
        self._seen = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @override
    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionResetError("closed early"))

    def ask(self) -> None:
        """Ask once more."""
        self._missing = -1
        self._seen = b""
        self._transport.write(self._question)

    @override
    def data_received(self, data: bytes) -> None:
        if self._missing < 0:
            self._seen += data
            head, ended, body = self._seen.partition(b"\r\n\r\n")
            if not ended:
                return
            if self._status not in head.split(b"\r\n", 1)[0]:
                self._end(RuntimeError(head.split(b"\r\n", 1)[0].decode()))
                return
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            self._missing = int(length or 0) - len(body)
        else:
            self._missing -= len(data)
        if self._missing > 0:
            return
        self._left -= 1
        if self._left:
            self.ask()
        else:
            self._end(None)

    def _end(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None) if error is None else self.done.set_exception(error)
        self._transport.close()


@contextmanager
def _database(folder: Path) -> Iterator[tuple[dict[str, str], list[str]]]:
    """Make a database with a tree of four levels, about 5 KB of configuration each; yield environment and tokens."""
    server = (os.environ.get("TEST_DATABASE_URL") or POSTGRES_URL).rpartition("/")[0]
    admin = f"{server}/postgres".replace("postgres://", "postgresql://", 1)
    url = f"{server}/{DATABASE}"
    _execute(admin, f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)", f"CREATE DATABASE {DATABASE}")
    env = {
        **os.environ,
        "OPENSRE_DATA_DIR": str(folder),
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "TEST_DATABASE_URL": url,
        "LOG_LEVEL": "WARNING",
    }
    manage = [sys.executable, "manage.py"]
    try:
        subprocess.run([*manage, "migrate", "-v0"], cwd=ROOT, env=env, check=True)
        boot = subprocess.run([*manage, "bootstrap", "--json"], cwd=ROOT, env=env, check=True, capture_output=True)
        yield env, _fill(env, json.loads(boot.stdout)["admin_token"])
    finally:
        _execute(admin, f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")


def _fill(env: Mapping[str, str], admin_token: str) -> list[str]:
    """Add a fourth level below a new group, configure all four, and return a token of the lowest per connection."""
    headers = {"Authorization": f"Bearer {admin_token}"}
    with uvicorn("controlplane.asgi:application", env) as (_, port):
        nodes = f"http://127.0.0.1:{port}/api/v1/orgs/demo/nodes"
        post(nodes, headers, {"slug": "unit", "name": "Unit", "kind": "group", "parent": "engineering"})
        post(nodes, headers, {"slug": "squad", "name": "Squad", "kind": "team", "parent": "unit"})
        for level, slug in enumerate(("demo", "engineering", "unit", "squad")):
            agents = {f"agent-{level}-{n}": {"enabled": True, "prompt": {"system": "x" * 380}} for n in range(12)}
            shared = {"agents": {"planner": {"prompt": {"system": f"level {level}"}}, **agents}}
            patch = request(f"{nodes}/{slug}/config", headers, method="PATCH", body=shared)
            patch.read()
        wanted = {"name": "bench", "scopes": ["config:read"]}
        return [post(f"{nodes}/squad/tokens", headers, wanted)["token"] for _ in range(CONNECTIONS)]


def _execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())

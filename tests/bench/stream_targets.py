"""The servers that the stream benchmark measures, as processes of their own under uvicorn."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.servers import ROOT, get, get_json, post, uvicorn


@dataclass(frozen=True)
class Watch:
    """What is watched: the stream's path and headers, and what makes the producer write and waits until it has.

    ``socket`` is the path of the same over a WebSocket, ``after`` what its client has already.
    """

    path: str
    headers: Mapping[str, str]
    produce: Callable[[], None]
    socket: str = "/ws"
    after: int = 0


@dataclass(frozen=True)
class Target:
    """A server. ``prepare`` takes the number of events and the pause between two of them, in microseconds."""

    pid: int
    port: int
    prepare: Callable[[int, int], Watch]


@contextmanager
def floor() -> Iterator[Target]:
    """Serve the floor."""
    with uvicorn("tests.bench.floor_app:application", dict(os.environ)) as (pid, port):

        def prepare(events: int, pause_us: int) -> Watch:
            return Watch("/", {}, lambda: get(f"http://127.0.0.1:{port}/emit/{events}/{pause_us}"))

        yield Target(pid, port, prepare)


@dataclass(frozen=True)
class Installation:
    """Our server on SQLite with an embedded worker, its environment, and a team's token."""

    target: Target
    env: Mapping[str, str]
    headers: Mapping[str, str]

    def signal(self, number: int) -> None:
        """Send a signal to the server."""
        os.kill(self.target.pid, number)

    def wait(self) -> None:
        """Wait until the server's process has ended; who started it reaps it."""
        while "Z" not in Path(f"/proc/{self.target.pid}/stat").read_text().rpartition(")")[2].split()[0]:
            time.sleep(0.02)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.target.port}/api/v1"

    def finished_thread(self) -> tuple[str, int]:
        """Start an investigation, and return its thread and head once it has ended."""
        thread_id = post(f"{self.base}/investigations", self.headers, {"prompt": "ready?"})["thread_id"]
        while not (found := get_json(f"{self.base}/threads/{thread_id}", self.headers))["runs"][0]["ended_at"]:
            time.sleep(0.05)
        return thread_id, found["head"]


@contextmanager
def ours(folder: Path, *, postgres: str = "") -> Iterator[Installation]:
    """Serve a fresh installation.

    Args:
        folder: of its own.
        postgres: the URL of an empty database, for a worker in a process of its own and the bus between; without it
            the server works itself, on SQLite.
    """
    env = os.environ | {
        "OPENSRE_DATA_DIR": str(folder),
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "OPENSRE_TEST_RUNTIME": "scripted",
        "LOG_LEVEL": "WARNING",
    }
    env.pop("TEST_DATABASE_URL", None)
    if postgres:
        env |= {"TEST_DATABASE_URL": postgres, "EVENT_BUS": "postgres"}
    else:
        env |= {"OPENSRE_TEST_SQLITE": str(folder / "bench.sqlite3"), "EMBEDDED_WORKER_IN_TESTS": "1"}
    manage = [sys.executable, "manage.py"]
    subprocess.run([*manage, "migrate", "-v0"], cwd=ROOT, env=env, check=True)
    boot = subprocess.run([*manage, "bootstrap", "--json"], cwd=ROOT, env=env, check=True, capture_output=True)
    headers = {"Authorization": f"Bearer {json.loads(boot.stdout)['team_token']}"}
    serving = uvicorn("controlplane.asgi:application", env, "--timeout-graceful-shutdown", "5")
    with serving as (pid, port), _worker(env if postgres else None):

        def prepare(events: int, pause_us: int) -> Watch:
            thread_id, head = made.finished_thread()
            steps = {"steps": [{"burst": events, "chars": 180, "pause_ms": pause_us / 1000}]}
            message = {"text": json.dumps(steps)}
            path = f"/api/v1/threads/{thread_id}/stream?after={head}"
            said = f"{made.base}/threads/{thread_id}/messages"
            return Watch(path, headers, lambda: post(said, headers, message), f"/ws/threads/{thread_id}", head)

        made = Installation(Target(pid, port, prepare), env, headers)
        yield made


@contextmanager
def _worker(env: Mapping[str, str] | None) -> Iterator[None]:
    """Run a worker in a process of its own, if there is an environment for it."""
    if env is None:
        yield
        return
    process = subprocess.Popen([sys.executable, "manage.py", "worker"], cwd=ROOT, env=dict(env))
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)

"""A whole installation on a PostgreSQL of its own: web and worker processes to kill, clients that do not give up."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg
from typing_extensions import override

from tests.faults.checker import Acknowledged, check
from tests.support.processes import ROOT
from tests.support.runs import script, wait_until
from tests.support.server import parse_sse
from tests.support.services import OwnPostgres, free_port

LEASE_S = 5
TEMPLATE = "faults_template"
PATIENCE_S = 90.0
PREPARE = """
import django, sys
django.setup()
from django.core.management import call_command
call_command("migrate", interactive=False, verbosity=0)
call_command("bootstrap", "--json", stdout=sys.stdout)
"""


@dataclass
class Base:
    """What installations are made from: a server, a data directory with the secrets, and the bootstrapped template."""

    postgres: OwnPostgres
    directory: Path
    token: str


def base_make(directory: Path) -> Base:
    """Start a PostgreSQL server and prepare a database to be copied; ``directory`` is for secrets and logs."""
    postgres = OwnPostgres()
    try:
        return Base(postgres, directory, _prepare(postgres, directory))
    except BaseException:
        postgres.close()
        raise


def _prepare(postgres: OwnPostgres, directory: Path) -> str:
    postgres.execute(f"CREATE DATABASE {TEMPLATE}")
    made = subprocess.run(
        [sys.executable, "-c", PREPARE],
        cwd=ROOT,
        env=_environment(directory, postgres.url(TEMPLATE)),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert made.returncode == 0, made.stderr[-3000:]
    return str(json.loads(made.stdout)["team_token"])


def _environment(directory: Path, url: str, **extra: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_", "OPENSRE_"))}
    return {
        **kept,
        "DJANGO_SETTINGS_MODULE": "tests.faults.settings",
        "OPENSRE_DATA_DIR": str(directory),
        "TEST_DATABASE_URL": url,
        "OPENSRE_TEST_RUNTIME": "scripted_resumes",
        "LEASE_SECONDS": str(LEASE_S),
        "SWEEP_SECONDS": "1",
        "WORKER_DRAIN_SECONDS": "1",
        "WORKER_CONCURRENCY": "8",
        "RATE_LIMITS": "requests=off,investigations=off,alerts=off",
        "TEST_TASKS": "procrastinate",
        "PYTHONUNBUFFERED": "1",
        **extra,
    }


@dataclass
class Web:
    process: "subprocess.Popen[bytes]"
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass
class Installation:
    """Processes on one database. What clients were told is accepted is noted, to be checked at the end."""

    base: Base
    database: str
    extra: dict[str, str] = field(default_factory=dict)
    acknowledged: Acknowledged = field(default_factory=Acknowledged)
    webs: list[Web] = field(default_factory=list)
    workers: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    # ---- processes

    def add_web(self, **extra: str) -> Web:
        """Start a web process; :meth:`wait_ready` waits for it."""
        port = free_port()
        options = ["--port", str(port), "--log-level", "warning", "--timeout-graceful-shutdown", "3"]
        web = Web(self._start("-m", "uvicorn", "controlplane.asgi:application", *options, extra=extra), port)
        self.webs.append(web)
        return web

    def add_worker(self, **extra: str) -> "subprocess.Popen[bytes]":
        """Start a worker process."""
        worker = self._start("manage.py", "worker", extra=extra)
        self.workers.append(worker)
        return worker

    def _start(self, *command: str, extra: dict[str, str]) -> "subprocess.Popen[bytes]":
        url = self.base.postgres.url(self.database)
        environment = _environment(self.base.directory, url, **(self.extra | extra))
        with self.log.open("ab") as log:
            return subprocess.Popen([sys.executable, *command], cwd=ROOT, env=environment, stdout=log, stderr=log)

    @property
    def log(self) -> Path:
        """What the processes wrote."""
        return self.base.directory / f"{self.database}.log"

    def wait_ready(self) -> None:
        """Wait until every web process answers and every worker has shown itself."""
        for web in self.webs:
            wait_until(lambda: _is_ready(web), what="a web process", patience_s=PATIENCE_S)  # noqa: B023 (called now)
        pids = {worker.pid for worker in self.workers if worker.poll() is None}
        shown = "SELECT pid FROM investigations_workerprocess WHERE stopped_at IS NULL"
        wait_until(lambda: pids <= {row[0] for row in self.rows(shown)}, what="the workers", patience_s=PATIENCE_S)

    def end(self) -> None:
        """Kill what is left."""
        for process in [*self.workers, *(web.process for web in self.webs)]:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
        for process in [*self.workers, *(web.process for web in self.webs)]:
            process.wait(20)

    # ---- clients

    def start(self, *steps: dict[str, Any], key: str | None = None, web: int = 0) -> str:
        """Start an investigation and return its thread's id; tries until it is acknowledged."""
        made = self.post("/api/v1/investigations", {"prompt": script(*steps)}, key=key, web=web)
        thread_id = str(made["thread_id"])
        self.acknowledged.threads.add(thread_id)
        return thread_id

    def say(self, thread_id: str, text: str, *, web: int = 0) -> None:
        """Say something to a thread; tries until it is acknowledged."""
        made = self.post(f"/api/v1/threads/{thread_id}/messages", {"text": text}, web=web)
        self.acknowledged.messages[str(made["message_id"])] = text

    def post(self, path: str, body: Any, *, key: str | None = None, web: int = 0) -> Any:
        """Post until the answer is 2xx, under one idempotency key; every web process is tried in turn."""
        headers = {"Authorization": f"Bearer {self.base.token}", "Idempotency-Key": key or str(uuid4())}
        deadline, turn = time.monotonic() + PATIENCE_S, web
        while True:
            living = [each for each in self.webs if each.process.poll() is None]
            try:
                answer = httpx.post(living[turn % len(living)].url + path, json=body, headers=headers, timeout=15)
            except httpx.HTTPError as error:
                problem = repr(error)
            else:
                if answer.is_success:
                    return answer.json()
                assert answer.status_code in {409, 503}, answer.text
                problem = answer.text
            assert time.monotonic() < deadline, problem
            turn += 1
            time.sleep(0.1)

    # ---- the database

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.base.postgres.dsn(self.database), connect_timeout=5) as connection:
            return connection.execute(sql.encode()).fetchall()

    def count(self, sql: str) -> int:
        return int(self.rows(f"SELECT count(*) FROM {sql}")[0][0])  # noqa: S608 (of the tests' own making)

    def thoughts(self, thread_id: str) -> list[str]:
        sql = f"SELECT data FROM investigations_event WHERE thread_id = '{thread_id}' AND type = 'thought' ORDER BY seq"  # noqa: S608
        return [json.loads(row[0])["text"] for row in self.rows(sql)]

    def statuses(self, thread_id: str) -> list[tuple[Any, ...]]:
        """Return status and reason of each run of a thread."""
        sql = f"SELECT status, reason FROM investigations_run WHERE thread_id = '{thread_id}' ORDER BY number"  # noqa: S608
        return self.rows(sql)

    def wait_settled(self, patience_s: float = PATIENCE_S) -> None:
        """Wait until no run is active."""
        active = "investigations_run WHERE status IN ('queued', 'running', 'waiting')"
        wait_until(lambda: self.count(active) == 0, what="every run to end", patience_s=patience_s)

    def check(self, *, settled: bool = True) -> dict[str, int]:
        """Check the whole database; see :func:`tests.faults.checker.check`."""
        return check(self.rows, self.acknowledged, settled=settled)


def _is_ready(web: Web) -> bool:
    assert web.process.poll() is None, "a web process ended"
    try:
        return httpx.get(f"{web.url}/readyz", timeout=5).is_success
    except httpx.HTTPError:
        return False


@contextmanager
def installed(base: Base, *, webs: int, workers: int, **extra: str) -> Iterator[Installation]:
    """Run an installation on a fresh copy of the template for the length of the block."""
    database = f"faults_{uuid4().hex[:12]}"
    base.postgres.execute(f"CREATE DATABASE {database} TEMPLATE {TEMPLATE}")
    installation = Installation(base, database, extra)
    try:
        for _ in range(webs):
            installation.add_web()
        for _ in range(workers):
            installation.add_worker()
        installation.wait_ready()
        yield installation
    finally:
        installation.end()
        base.postgres.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")


class Viewer(threading.Thread):
    """Follows a thread's event stream as a browser does: after a cut it comes back with the last id it has.

    Args:
        urls: servers, tried in turn.
        until: called with the type of each event; the viewer leaves when it returns true.
    """

    def __init__(
        self,
        urls: Callable[[], Sequence[str]],
        thread_id: str,
        token: str,
        *,
        until: Callable[[str], bool] = lambda type_: type_ == "run_ended",
    ) -> None:
        super().__init__(name="viewer", daemon=True)
        self._urls, self._thread_id, self._token, self._until = urls, thread_id, token, until
        self.seqs: list[int] = []
        self.connections = 0
        self.gone = False

    @override
    def run(self) -> None:
        while not self.gone:
            urls = self._urls()
            try:
                self._follow(urls[self.connections % len(urls)])
            except httpx.HTTPError:
                time.sleep(0.1)

    def _follow(self, url: str) -> None:
        self.connections += 1
        headers = {"Authorization": f"Bearer {self._token}"}
        if self.seqs:
            headers["Last-Event-ID"] = str(self.seqs[-1])
        address = f"{url}/api/v1/threads/{self._thread_id}/stream"
        with httpx.stream("GET", address, headers=headers, timeout=httpx.Timeout(10, read=40)) as answer:
            if answer.status_code != 200:
                time.sleep(0.1)
                return
            for frame in parse_sse(answer.iter_lines()):
                if "id" in frame:
                    self.seqs.append(int(frame["id"]))
                if self._until(frame.get("event", "")):
                    self.gone = True
                    return

    def saw_everything(self, patience_s: float = PATIENCE_S) -> bool:
        """Wait for the viewer to leave; return whether it has seen each event once, in order."""
        self.join(patience_s)
        assert not self.is_alive(), f"the viewer still waits, after {self.seqs[-3:]}"
        return self.seqs == list(range(1, len(self.seqs) + 1))

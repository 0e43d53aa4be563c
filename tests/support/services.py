"""PostgreSQL and Redis of a test's own, which it may stop, kill and start again; never the shared ones."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

PATIENCE_S = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def postgres_programs() -> Path | None:
    """Return the directory of ``initdb`` and ``postgres`` of the newest version there is, if any."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = debian[-1] if debian else shutil.which("initdb")
    return Path(found).resolve().parent if found else None


class OwnPostgres:
    """A PostgreSQL server in a directory of its own, run by another user where the tests run as root, who may not."""

    def __init__(self) -> None:
        programs = postgres_programs()
        assert programs is not None, "there is no initdb"
        self._programs = programs
        # Not among pytest's directories, which are closed to other users.
        self._data = Path(tempfile.mkdtemp(prefix="opensre-postgres-"))
        self._as: dict[str, Any] = {}
        self.port = free_port()
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres" if _exists("postgres") else "nobody")
            self._as = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            os.chown(self._data, account.pw_uid, account.pw_gid)
        subprocess.run(
            [programs / "initdb", "-D", self._data, "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd="/",
            **self._as,
        )
        self._log = (self._data / "server.log").open("ab")
        self.start()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = ["-p", str(self.port), "-k", str(self._data), "-h", "127.0.0.1", "-N", "200", "-F"]
        self._process = subprocess.Popen(
            [self._programs / "postgres", "-D", self._data, *options],
            stdout=self._log,
            stderr=self._log,
            cwd="/",
            **self._as,
        )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.execute("SELECT 1")
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.05)
            else:
                return

    def stop(self, number: int = signal.SIGQUIT) -> None:
        """Stop the server: at once and without a checkpoint, as a crash would, unless another signal is given."""
        if self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE_S)

    def close(self) -> None:
        """Stop the server for good and remove its files."""
        self.stop()
        self._log.close()
        shutil.rmtree(self._data)

    def execute(self, sql: str, database: str = "postgres") -> None:
        """Run one statement outside a transaction."""
        with psycopg.connect(self.dsn(database), autocommit=True, connect_timeout=3) as connection:
            connection.execute(sql.encode())

    def dsn(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def url(self, database: str) -> str:
        """Return the URL of a database in the form of ``DATABASE_URL``."""
        return f"postgres://postgres@127.0.0.1:{self.port}/{database}"


class OwnRedis:
    """A Redis server that keeps nothing."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self._directory = directory
        self._log = (directory / "redis.log").open("ab")
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(
            ["redis-server", *options, "--dir", str(self._directory)], stdout=self._log, stderr=self._log
        )
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError("Redis did not start")

    def stop(self) -> None:
        """Kill the server."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(PATIENCE_S)

    def close(self) -> None:
        """Stop the server for good."""
        self.stop()
        self._log.close()


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True

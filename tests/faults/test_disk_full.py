"""SQLite without room: nothing is acknowledged that is not there, and all goes on when there is room again."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError, connection, connections

from controlplane.investigations.services import message_post
from controlplane.settings.database import SQLITE_PRAGMAS
from tests.factories import Tree
from tests.faults.checker import Acknowledged, check
from tests.faults.conftest import full
from tests.support.processes import ROOT, environment, manage
from tests.support.runs import start_run, thoughts, wait_for_status, wait_until, working

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults, pytest.mark.usefixtures("on_sqlite")]

WORK: list[dict[str, Any]] = [{"thought": "a"}, {"burst": 60, "chars": 8_000, "pause_ms": 30}]
LONG_TEXT = "x" * 15_000
DISK_MIB = 16


@pytest.fixture
def on_sqlite() -> None:
    if connection.vendor != "sqlite":
        pytest.skip("the disk of SQLite")


def rows(sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


@contextmanager
def room_for(pages: int) -> Iterator[None]:
    """Let the database grow by so many pages and no further, on connections made within the block."""
    ((size,),) = rows("PRAGMA page_count")
    options = connection.settings_dict["OPTIONS"]
    options["init_command"] = f"{SQLITE_PRAGMAS} PRAGMA max_page_count={size + pages};"
    connections.close_all()
    try:
        yield
    finally:
        options["init_command"] = SQLITE_PRAGMAS
        connections.close_all()


def test_worker__no_more_pages__waits_and_goes_on_when_there_are_some(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments, *WORK)
    noted = Acknowledged(threads={str(started.thread.pk)})
    refused = 0
    with working(concurrency=1):
        with room_for(60):
            # Connections of the worker that are older have no limit, until the first error makes it open others.
            wait_until(lambda: thoughts(started.thread.pk), what="the first thought")
            for number in range(40):
                text = f"{number} {LONG_TEXT}"
                try:
                    accepted = message_post(actor=tree.system, thread_id=started.thread.pk, text=text)
                except OperationalError:
                    refused += 1
                    break
                noted.messages[str(accepted.message.pk)] = text
        assert wait_for_status(started.run).status == "completed"
        wait_until(lambda: rows("SELECT count(*) FROM investigations_run WHERE ended_at IS NULL") == [(0,)], what="all")

    assert refused == 1
    assert set(check(rows, noted)) == {"completed"}


# ---- a real disk, of a few MiB ---------------------------------------------------------------------------------------

CLIENT = """
import django, sys
django.setup()
from uuid import UUID
from django.db import OperationalError
from controlplane.core.actor import system_actor
from controlplane.investigations.services import message_post
from controlplane.orgs.models import Node
root = Node.objects.get(kind="org")
actor = system_actor(name="tests", organization_id=root.organization_id, root_id=root.pk)
for line in sys.stdin:
    thread_id, _, text = line.rstrip("\\n").partition(" ")
    try:
        print(message_post(actor=actor, thread_id=UUID(thread_id), text=text).message.pk, flush=True)
    except OperationalError as error:
        print("refused", flush=True)
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few MiB."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root may mount a small file system")
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(place)]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("no file system may be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@full
def test_disk__full_for_a_while__run_and_clients_go_on_afterwards(tree: Tree, small_disk: Path) -> None:
    started = start_run(tree.system, tree.payments, *WORK)
    path = small_disk / "opensre.sqlite3"
    with closing(sqlite3.connect(path)) as copy:
        connection.ensure_connection()
        connection.connection.backup(copy)

    def on_disk(sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(path, timeout=15)) as reader:
            return reader.execute(sql).fetchall()

    def written() -> int:
        return int(on_disk("SELECT count(*) FROM investigations_event WHERE type = 'thought'")[0][0])

    noted = Acknowledged(threads={str(started.thread.pk)})
    with manage("worker", OPENSRE_TEST_SQLITE=str(path)), talking(path, started.thread.pk, noted) as say:
        wait_until(lambda: written() > 3, what="the worker to write", patience_s=60)
        filler = small_disk / "filler"
        fill(filler)
        refused = [say(f"{number} {LONG_TEXT}") for number in range(6)].count(False)
        time.sleep(1)  # the worker tries again and again meanwhile
        filler.unlink()
        assert say("said when there was room again")
        active = "SELECT count(*) FROM investigations_run WHERE ended_at IS NULL"
        wait_until(lambda: on_disk(active) == [(0,)], what="every run to end", patience_s=60)

    assert refused
    assert set(check(on_disk, noted)) == {"completed"}


def fill(filler: Path) -> None:
    """Write until the disk is full."""
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            return


@contextmanager
def talking(path: Path, thread_id: UUID, noted: Acknowledged) -> Iterator[Any]:
    """Run a client in a process of its own; yield what says something and returns whether that was accepted."""
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT],
        cwd=ROOT,
        env=environment(OPENSRE_TEST_SQLITE=str(path)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert client.stdin is not None
    assert client.stdout is not None

    def say(text: str) -> bool:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(f"{thread_id} {text}\n")
        client.stdin.flush()
        answer = client.stdout.readline().strip()
        if answer != "refused":
            noted.messages[answer] = text
        return answer != "refused"

    try:
        yield say
    finally:
        client.stdin.close()
        client.wait(20)
        client.stdout.close()

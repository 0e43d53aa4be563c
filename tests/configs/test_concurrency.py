"""Several writers at once, on connections of their own."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from io import StringIO
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection, transaction

from controlplane.configs.gitops import plans
from controlplane.configs.gitops.applying import config_rehearse
from controlplane.configs.gitops.files import read_tree
from controlplane.configs.locks import lock_document
from controlplane.configs.models import ConfigDocument, ConfigVersion
from controlplane.orgs.models import Node, Organization
from controlplane.orgs.services import node_move
from tests.configs.support import patch, put, stored, versions
from tests.factories import Tree, make_tree
from tests.support.processes import ROOT, environment

pytestmark = pytest.mark.django_db(transaction=True)
WRITERS = 4


@pytest.fixture
def tree() -> Tree:
    return make_tree()


@contextmanager
def config_writer(node: Node, index: int, *, keys: int) -> Iterator[Any]:
    """Run a process that waits for a line and then patches some keys of its own; see the module it runs."""
    command = [sys.executable, "-m", "tests.support.config_writer", str(node.pk), str(index), str(keys)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment(), text=True, stdin=pipe, stdout=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def at_once(job: Callable[[int], Any]) -> list[Any]:
    """Run ``job(0)`` … ``job(3)`` in threads that begin together; each closes its connection."""
    start = Barrier(WRITERS)

    def run(index: int) -> Any:
        start.wait(timeout=30)
        return elsewhere(lambda: job(index))

    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(run, range(WRITERS)))


def elsewhere(job: Callable[[], Any]) -> Any:
    """Run ``job`` on this thread's own connection and close it."""
    try:
        return job()
    finally:
        connection.close()


def test_patch__example_24__hundred_distinct_keys_from_four_processes_all_survive(tree: Tree) -> None:
    with ExitStack() as stack:
        writers = [stack.enter_context(config_writer(tree.payments, index, keys=25)) for index in range(WRITERS)]
        assert [writer.stdout.readline() for writer in writers] == ["ready\n"] * WRITERS
        for writer in writers:
            writer.stdin.write("go\n")
            writer.stdin.flush()
        assert [writer.wait(60) for writer in writers] == [0] * WRITERS

    assert stored(tree.payments) == {
        "k": {f"{index}-{number}": number for index in range(WRITERS) for number in range(25)}
    }
    assert versions(tree.payments) == list(range(1, 101))
    row = ConfigDocument.objects.get(pk=tree.payments.pk)
    assert sorted(row.leaf_versions.values()) == list(range(1, 101))
    newest = ConfigVersion.objects.get(node=tree.payments, version=100)
    assert (newest.document, newest.pk) == (row.document, row.revision)


def test_patch__first_writes_on_all_levels_at_once__no_deadlock_and_one_version_each(tree: Tree) -> None:
    nodes = [tree.root, tree.engineering, tree.payments, tree.platform]
    at_once(lambda index: patch(nodes[index], {"a": index}))
    assert [stored(node) for node in nodes] == [{"a": index} for index in range(WRITERS)]
    assert [versions(node) for node in nodes] == [[1]] * WRITERS


def test_patch__writers_and_a_moved_node__both_complete(tree: Tree) -> None:
    jobs: list[Callable[[], Any]] = [
        lambda: patch(tree.payments, {"a": 1}),
        lambda: node_move(actor=tree.system, node=tree.platform, parent=tree.root),
        lambda: patch(tree.platform, {"a": 1}),
        lambda: patch(tree.engineering, {"a": 1}),
    ]
    at_once(lambda index: jobs[index]())
    assert [stored(node) for node in (tree.payments, tree.platform, tree.engineering)] == [{"a": 1}] * 3
    assert Node.objects.get(pk=tree.platform.pk).parent_id == tree.root.pk


@pytest.mark.skipif(
    "not __import__('django.db').db.connection.features.has_select_for_update", reason="SQLite has one writer"
)
class TestLocks:
    def _blocked(self, job: Callable[[], Any]) -> bool:
        """Return whether ``job`` has to wait for a lock that the calling thread's transaction holds."""

        def attempt() -> bool:
            try:
                with transaction.atomic():
                    with connection.cursor() as cursor:
                        cursor.execute("SET LOCAL lock_timeout = '150ms'")
                    job()
            except OperationalError:
                return True
            return False

        with ThreadPoolExecutor(1) as pool:
            return bool(pool.submit(elsewhere, attempt).result(timeout=30))

    @pytest.fixture(autouse=True)
    def documents(self, tree: Tree) -> None:
        for node in (tree.root, tree.engineering, tree.payments, tree.platform):
            put(node, {"a": 1})

    def test_write_above__while_a_node_below_is_written__waits_and_the_other_way_round(self, tree: Tree) -> None:
        with transaction.atomic():
            lock_document(tree.payments)
            assert self._blocked(lambda: lock_document(tree.root))
            assert self._blocked(lambda: lock_document(tree.engineering))
        with transaction.atomic():
            lock_document(tree.root)
            assert self._blocked(lambda: lock_document(tree.payments))

    def test_write_beside__while_a_sibling_is_written__goes_on(self, tree: Tree) -> None:
        with transaction.atomic():
            lock_document(tree.payments)
            assert not self._blocked(lambda: lock_document(tree.platform))

    def test_move__while_a_node_is_written__waits(self, tree: Tree) -> None:
        with transaction.atomic():
            patch(tree.payments, {"a": 2})
            assert self._blocked(lambda: node_move(actor=tree.system, node=tree.payments, parent=tree.root))

    def test_move__while_the_tree_is_exported_or_planned__waits_and_writers_go_on(
        self, tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[bool] = []
        stored_now = plans._stored

        def slowly(organization: Organization) -> Any:
            move = partial(node_move, actor=tree.system, node=tree.payments, parent=tree.root)
            seen.extend([self._blocked(move), self._blocked(lambda: patch(tree.payments, {"a": len(seen)}))])
            return stored_now(organization)

        monkeypatch.setattr(plans, "_stored", slowly)
        call_command("config", "export", str(tmp_path), stdout=StringIO())
        config_rehearse(actor=tree.system, organization=tree.organization, tree=read_tree(tmp_path))
        assert seen[:4] == [True, False, True, False]

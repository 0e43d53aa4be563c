"""Killed and paused workers, as real processes."""

import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError, connection, transaction

from controlplane.investigations.models import Run, Thread
from controlplane.investigations.services import message_post
from controlplane.investigations.sweeper import Sweeper
from tests.factories import Tree
from tests.support.processes import manage
from tests.support.runs import envelopes, start_run, thoughts, types, wait_for_status, wait_until, work_on

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults]

LEASE_S = 3
ENDLESS: list[dict[str, Any]] = [{"thought": "working"}, {"burst": 20_000, "chars": 4, "pause_ms": 100}]


@pytest.fixture
def sweeper(settings: Any) -> Iterator[Sweeper]:
    """The sweep of the process that is left, every second."""
    settings.SWEEP_SECONDS = 1.0
    sweeping = Sweeper()
    sweeping.start()
    yield sweeping
    sweeping.end()


def test_worker__killed_mid_run__interrupted_in_time_and_a_follow_up_works(tree: Tree, sweeper: Sweeper) -> None:
    started = start_run(tree.system, tree.payments, *ENDLESS)
    with manage("worker", LEASE_SECONDS=str(LEASE_S), SWEEP_SECONDS="60") as worker:
        wait_until(lambda: len(thoughts(started.thread.pk)) > 3, what="the worker to write", patience_s=120)
        worker.send_signal(signal.SIGKILL)
        worker.wait(20)
        written = envelopes(started.thread.pk)
        killed_at = time.monotonic()
        run = wait_for_status(started.run)

    assert time.monotonic() - killed_at <= LEASE_S + 5
    assert (run.status, run.reason) == ("interrupted", "worker_lost")
    log = envelopes(started.thread.pk)
    assert log[: len(written)] == written
    assert log[-1]["type"] == "run_ended"

    accepted = message_post(actor=tree.system, thread_id=started.thread.pk, text="go on")
    assert accepted.run is not None
    assert work_on(accepted.run).status == "completed"
    assert "asked: go on" in thoughts(started.thread.pk)


def test_worker__paused_and_woken_after_the_takeover__writes_nothing(tree: Tree, sweeper: Sweeper) -> None:
    started = start_run(tree.system, tree.payments, *ENDLESS)
    with manage("worker", LEASE_SECONDS=str(LEASE_S), SWEEP_SECONDS="60") as worker:
        wait_until(lambda: len(thoughts(started.thread.pk)) > 3, what="the worker to write", patience_s=120)
        _pause_between_writes(worker.pid, started.thread.pk)
        wait_for_status(started.run)
        taken_over = envelopes(started.thread.pk)
        message_post(actor=tree.system, thread_id=started.thread.pk, text="go on")
        os.kill(worker.pid, signal.SIGCONT)
        second = wait_until(lambda: Run.objects.filter(number=2, status="completed").first(), what="the follow-up")

    log = envelopes(started.thread.pk)
    assert log[: len(taken_over)] == taken_over
    assert {event["run_id"] for event in log[len(taken_over) :]} <= {str(second.pk), None}
    assert types(started.thread.pk).count("run_ended") == 2


def _pause_between_writes(pid: int, thread_id: UUID) -> None:
    """Stop the process while it holds no lock: one that is stopped inside its write would stop every other writer."""
    for _ in range(300):
        os.kill(pid, signal.SIGSTOP)
        if _is_writable(thread_id):
            return
        os.kill(pid, signal.SIGCONT)
    pytest.fail("the worker could not be stopped between two writes")


def _is_writable(thread_id: UUID) -> bool:
    if connection.vendor == "sqlite":
        with closing(sqlite3.connect(connection.settings_dict["NAME"], timeout=0.1)) as probe:
            try:
                probe.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
        return True
    try:
        with transaction.atomic():
            Thread.objects.select_for_update(nowait=True).get(pk=thread_id)
    except OperationalError:
        return False
    return True


def test_worker__sigterm__ends_its_run_and_itself(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments, {"thought": "working"}, {"block": True})
    with manage("worker") as worker:
        wait_until(lambda: thoughts(started.thread.pk), what="the worker to write", patience_s=120)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0

    started.run.refresh_from_db()
    assert (started.run.status, started.run.reason) == ("interrupted", "worker_stopped")
    assert types(started.thread.pk)[-1] == "run_ended"

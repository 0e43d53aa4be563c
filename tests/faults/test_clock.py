"""Clocks that jump: the application's decides nothing about leases, the database's at most ends a run, once."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection

from controlplane.core import clock
from controlplane.investigations.lifecycle import runs_sweep
from controlplane.investigations.services import message_post
from tests.factories import Tree
from tests.faults.checker import Acknowledged, check
from tests.investigations.conftest import LeaseClock, lease_clock
from tests.support.runs import start_run, thoughts, wait_for_status, wait_until, working

__all__ = ["lease_clock"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults]

WORK: list[dict[str, Any]] = [{"thought": "a"}, {"burst": 10, "chars": 4, "pause_ms": 20}]


def rows(sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


@pytest.mark.parametrize("hours", [-26, 26])
def test_application_clock__jumps_mid_run__the_run_does_not_notice(tree: Tree, hours: int) -> None:
    started = start_run(tree.system, tree.payments, *WORK)
    with working():
        wait_until(lambda: thoughts(started.thread.pk), what="the first thought")
        with time_machine.travel(clock.now() + timedelta(hours=hours)):
            assert runs_sweep() == 0
            run = wait_for_status(started.run)

    assert run.status == "completed"
    assert check(rows, Acknowledged()) == {"completed": 1}


def test_database_clock__jumps_over_the_lease__one_end_and_a_follow_up_works(
    tree: Tree, lease_clock: LeaseClock
) -> None:
    started = start_run(tree.system, tree.payments, {"thought": "a"}, {"burst": 20_000, "chars": 4, "pause_ms": 20})
    noted = Acknowledged(threads={str(started.thread.pk)})
    with working():
        wait_until(lambda: thoughts(started.thread.pk), what="the first thought")
        lease_clock.forward(3600)
        assert wait_until(runs_sweep, what="the sweep to see it") == 1
        assert wait_for_status(started.run).reason == "worker_lost"
        message = message_post(actor=tree.system, thread_id=started.thread.pk, text="go on")
        assert message.run is not None
        wait_for_status(message.run)
    noted.messages[str(message.message.pk)] = "go on"

    assert check(rows, noted) == {"completed": 1, "interrupted": 1}


def test_database_clock__jumps_back__the_lease_holds_and_the_run_completes(tree: Tree, lease_clock: LeaseClock) -> None:
    started = start_run(tree.system, tree.payments, *WORK)
    with working():
        wait_until(lambda: thoughts(started.thread.pk), what="the first thought")
        lease_clock.forward(-3600)
        assert runs_sweep() == 0
        assert wait_for_status(started.run).status == "completed"

    assert check(rows, Acknowledged()) == {"completed": 1}

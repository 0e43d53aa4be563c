"""The workers as operators see them: they show themselves while they live, sign off, and are lost when killed."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from controlplane.core import metrics
from controlplane.core.version import VERSION
from controlplane.investigations.fleet import Facts, worker_beat, worker_sign_off, workers_all, workers_forget
from controlplane.investigations.lifecycle import run_claim
from controlplane.investigations.models import WorkerProcess
from tests.factories import Tree, make_operator
from tests.investigations.conftest import LeaseClock
from tests.support.processes import ROOT
from tests.support.runs import start_run, wait_until, working

FACTS = Facts(name="host:1:a", concurrency=4, embedded=False)


def states() -> dict[str, tuple[str, int]]:
    return {worker.name: (worker.state, worker.running) for worker in workers_all()}


def test_version__is_that_of_the_project() -> None:
    assert f'version = "{VERSION}"' in (ROOT / "pyproject.toml").read_text()


def test_workers_all__alive_draining_stopped_and_silent__are_told_apart(db: None, lease_clock: LeaseClock) -> None:
    for name in ("lost", "stopped", "draining", "working"):
        worker_beat(Facts(name=name, concurrency=1, embedded=False), draining=False)
    worker_sign_off("stopped")
    lease_clock.forward(31)
    worker_beat(Facts(name="working", concurrency=1, embedded=False), draining=False)
    worker_beat(Facts(name="draining", concurrency=1, embedded=False), draining=True)

    assert states() == {
        "lost": ("lost", 0),
        "stopped": ("stopped", 0),
        "draining": ("draining", 0),
        "working": ("working", 0),
    }


def test_workers_all__runs_held__are_counted_from_the_leases(tree: Tree, django_assert_num_queries: Any) -> None:
    worker_beat(FACTS, draining=False)
    for _ in range(2):
        start_run(tree.system, tree.payments)
        assert run_claim(owner=FACTS.name)

    with django_assert_num_queries(1):
        assert states() == {FACTS.name: ("working", 2)}


def test_worker_beat__known_worker__one_query(db: None, django_assert_num_queries: Any) -> None:
    worker_beat(FACTS, draining=False)

    with django_assert_num_queries(1):
        worker_beat(FACTS, draining=True)


def test_workers_forget__gone_for_a_day__is_removed_and_no_other(db: None, lease_clock: LeaseClock) -> None:
    worker_beat(Facts(name="old", concurrency=1, embedded=False), draining=False)
    lease_clock.forward(24 * 3600 + 1)
    worker_beat(FACTS, draining=False)

    assert workers_forget() == 1
    assert list(WorkerProcess.objects.values_list("name", flat=True)) == [FACTS.name]


@pytest.mark.django_db(transaction=True)
def test_worker__while_it_runs__shows_itself_and_signs_off_at_its_end() -> None:
    with working(concurrency=3) as thread:
        row = wait_until(lambda: workers_all().first(), what="the worker to show itself")
        assert (row.name, row.state, row.concurrency, row.embedded) == (thread.worker.name, "working", 3, True)
        assert row.version == VERSION

    assert states() == {thread.worker.name: ("stopped", 0)}


def test_command_workers__json_and_text__tell_the_same(tree: Tree) -> None:
    worker_beat(FACTS, draining=False)
    out = StringIO()
    call_command("workers", "--json", stdout=out)
    call_command("workers", stdout=(text := StringIO()))

    (worker,) = json.loads(out.getvalue())["workers"]
    assert (worker["name"], worker["state"], worker["running"], worker["concurrency"]) == (FACTS.name, "working", 0, 4)
    assert text.getvalue().startswith(f"working   0/4 runs  {FACTS.name}  {VERSION}  seen ")


def test_command_workers__none__says_so(db: None) -> None:
    call_command("workers", stdout=(text := StringIO()))

    assert text.getvalue() == "No worker has shown itself in the last day.\n"


def test_metrics__workers_and_queue__are_those_of_the_database(tree: Tree) -> None:
    worker_beat(FACTS, draining=False)
    start_run(tree.system, tree.payments)

    rendered = metrics.render().decode()

    assert 'opensre_workers_count{state="working"} 1.0' in rendered
    assert 'opensre_workers_count{state="lost"} 0.0' in rendered
    assert 'opensre_runs_queued_count{priority="interactive"} 1.0' in rendered


def test_admin__workers__listed_by_state_for_operators_and_not_changed(tree: Tree, lease_clock: LeaseClock) -> None:
    worker_beat(Facts(name="dead", concurrency=1, embedded=False), draining=False)
    lease_clock.forward(31)
    worker_beat(FACTS, draining=False)
    client = Client()
    client.force_login(make_operator())
    page = reverse("admin:investigations_workerprocess_changelist")

    everything = client.get(page).content.decode()
    assert FACTS.name in everything
    assert "dead" in everything
    assert "dead" in client.get(page, {"state": "lost"}).content.decode()
    assert FACTS.name not in client.get(page, {"state": "lost"}).content.decode()
    assert client.get(reverse("admin:investigations_workerprocess_change", args=["dead"])).status_code == 200
    assert client.get(reverse("admin:investigations_workerprocess_add")).status_code == 403

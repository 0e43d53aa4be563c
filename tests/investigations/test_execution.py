"""The worker at work, with the scripted runtime: events, ends, limits, stops, questions, messages, failures."""

import threading
from typing import Any

import pytest
from django.db import OperationalError

from controlplane.configs.services import config_patch
from controlplane.core.actor import Role
from controlplane.investigations import execution
from controlplane.investigations.lifecycle import lease_renew, runs_sweep
from controlplane.investigations.log import append
from controlplane.investigations.models import Message, Run, Thread
from controlplane.investigations.services import message_post, question_answer, run_interrupt
from controlplane.investigations.worker import WorkerThread
from tests.factories import Tree, actor_for_user, make_user
from tests.investigations.conftest import LeaseClock
from tests.support.runs import (
    envelopes,
    start_run,
    thoughts,
    types,
    wait_for_status,
    wait_until,
    work_on,
    working,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_worker__plain_run__completed_with_one_result_and_one_end(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments, {"thought": "looking"}, {"result": "# The disk is full\nmore"})

    run = work_on(started.run)

    assert (run.status, run.headline, run.attempt) == ("completed", "The disk is full", 1)
    assert types(started.thread.pk) == ["run_started", "thought", "result", "run_ended"]
    assert {event["run_id"] for event in envelopes(started.thread.pk)} == {str(run.pk)}


def test_worker__four_runs__work_side_by_side(tree: Tree) -> None:
    runs = [start_run(tree.system, tree.payments, {"block": True}).run for _ in range(4)]

    with working(concurrency=4):
        for run in runs:
            wait_for_status(run, "running")
        for run in runs:
            run_interrupt(actor=tree.system, thread_id=run.thread_id)
        for run in runs:
            wait_for_status(run)

    assert {run.status for run in runs} == {"interrupted"}


def test_worker__runtime_raises__failed_without_its_words(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments, {"thought": "a"}, {"raise": "secret internals"})

    run = work_on(started.run)

    log = envelopes(started.thread.pk)
    assert (run.status, run.reason) == ("failed", "runtime_error")
    assert [event["type"] for event in log] == ["run_started", "thought", "error", "run_ended"]
    assert log[2]["data"]["recoverable"]
    assert "secret internals" not in str(log[2:])


def test_worker__runtime_ends_without_a_result__failed_and_said(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments, {"thought": "a"}, {"stop": True})

    run = work_on(started.run)

    assert (run.status, run.reason) == ("failed", "no_result")
    assert types(started.thread.pk)[-2:] == ["error", "run_ended"]


def test_worker__runtime_reports_an_error__failed_with_its_code(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments, {"error": "no source answered", "code": "no_evidence"})

    run = work_on(started.run)

    assert (run.status, run.reason) == ("failed", "no_evidence")
    assert types(started.thread.pk) == ["run_started", "error", "run_ended"]


def test_worker__wall_clock_used_up__timeout_with_everything_kept(tree: Tree) -> None:
    config_patch(actor=tree.system, node=tree.payments, patch={"limits": {"wall_clock_s": 1}})
    started = start_run(tree.system, tree.payments, {"thought": "gathered"}, {"block": True})

    run = work_on(started.run)

    assert (run.status, run.reason) == ("timeout", "wall_clock")
    assert thoughts(started.thread.pk) == ["gathered"]
    assert types(started.thread.pk)[-2:] == ["result", "run_ended"]


def test_interrupt__running__stops_within_seconds(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments, {"thought": "a"}, {"block": True})
    with working():
        wait_until(lambda: thoughts(started.thread.pk), what="the first thought")

        run_interrupt(actor=tree.system, thread_id=started.thread.pk)
        run = wait_for_status(started.run)

    assert (run.status, run.reason) == ("interrupted", "stopped")
    assert types(started.thread.pk) == ["run_started", "thought", "result", "run_ended"]


def test_interrupt__runtime_that_does_not_listen__is_cancelled_after_the_grace(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "STOP_GRACE_SECONDS", 0.1)
    started = start_run(tree.system, tree.payments, {"thought": "a"}, {"sleep_ms": 60_000})
    with working():
        wait_until(lambda: thoughts(started.thread.pk), what="the first thought")

        run_interrupt(actor=tree.system, thread_id=started.thread.pk)
        run = wait_for_status(started.run)

    assert run.status == "interrupted"
    assert types(started.thread.pk) == ["run_started", "thought", "result", "run_ended"]


def test_worker__stopped__ends_its_runs_rather_than_leaving_them(tree: Tree, settings: Any) -> None:
    settings.WORKER_DRAIN_SECONDS = 0.1
    started = start_run(tree.system, tree.payments, {"block": True})
    with working():
        wait_for_status(started.run, "running")

    started.run.refresh_from_db()
    assert (started.run.status, started.run.reason) == ("interrupted", "worker_stopped")
    assert Thread.objects.get().lease_until is None


def test_question__asked_and_answered__same_run_goes_on_with_the_answer(tree: Tree) -> None:
    person = actor_for_user(make_user(tree.payments, Role.RESPONDER))
    started = start_run(person, tree.payments, {"thought": "before"}, {"ask": "Which?"}, {"thought": "after"})
    run = work_on(started.run)
    assert run.status == "waiting"

    question_answer(actor=person, thread_id=run.thread_id, request_id=run.waiting_for, answers={"question_0": "blue"})
    run = work_on(run)

    assert (run.status, run.attempt) == ("completed", 2)
    assert thoughts(run.thread_id) == ["before", "answer: blue", "after"]
    assert types(run.thread_id).count("run_started") == 1
    assert types(run.thread_id).count("run_ended") == 1


def test_question__waiting__holds_no_worker(tree: Tree) -> None:
    waiting = start_run(tree.system, tree.payments, {"ask": "Which?"})
    other = start_run(tree.system, tree.payments, {"thought": "b"})
    with working(concurrency=1):
        wait_for_status(waiting.run, "waiting")
        wait_for_status(other.run)

    assert other.run.status == "completed"


def test_interrupt__waiting__ends_at_once_without_a_worker(tree: Tree) -> None:
    run = work_on(start_run(tree.system, tree.payments, {"ask": "Which?"}).run)

    ended = run_interrupt(actor=tree.system, thread_id=run.thread_id)

    assert (ended.status, ended.waiting_for) == ("interrupted", "")
    assert types(run.thread_id)[-1] == "run_ended"


def test_message__while_running__reaches_the_runtime_once(tree: Tree) -> None:
    looks: list[dict[str, Any]] = [{"sleep_ms": 50}, {"messages": True}]
    started = start_run(tree.system, tree.payments, {"thought": "a"}, *looks * 100, {"result": "done"})
    with working():
        wait_until(lambda: thoughts(started.thread.pk), what="the first thought")
        message_post(actor=tree.system, thread_id=started.thread.pk, text="mind the replica")
        wait_until(lambda: "guidance: mind the replica" in thoughts(started.thread.pk), what="the guidance")
        run_interrupt(actor=tree.system, thread_id=started.thread.pk)
        wait_for_status(started.run)

    assert thoughts(started.thread.pk).count("guidance: mind the replica") == 1
    counts = [
        event["data"]["pending_count"] for event in envelopes(started.thread.pk) if event["type"] == "message_queued"
    ]
    assert counts == [1, 0]
    assert Message.objects.get().run_id == started.run.pk
    assert Run.objects.count() == 1


def test_message__running_turn_never_looks__next_turn_has_it(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments, {"thought": "a"}, {"sleep_ms": 300}, {"result": "first"})
    with working():
        wait_until(lambda: thoughts(started.thread.pk), what="the first thought")
        message_post(actor=tree.system, thread_id=started.thread.pk, text="and the cache?")
        second = wait_until(lambda: Run.objects.filter(number=2).first(), what="the second run")
        wait_for_status(second)

    assert second.prompt == "and the cache?"
    assert "asked: and the cache?" in thoughts(started.thread.pk)


def test_append__database_locked_for_a_while__nothing_lost_nothing_twice(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = {"before": 2, "after": 2}

    def flaky(**arguments: Any) -> Any:
        if failures["before"]:
            failures["before"] -= 1
            raise OperationalError("database is locked")
        logged = append(**arguments)
        if failures["after"]:
            failures["after"] -= 1
            raise OperationalError("the connection broke after the commit")
        return logged

    monkeypatch.setattr(execution, "append", flaky)
    started = start_run(tree.system, tree.payments, {"thoughts": 4}, {"result": "ok"})

    run = work_on(started.run)

    assert run.status == "completed"
    assert thoughts(started.thread.pk) == [f"thought {number}" for number in range(1, 5)]
    assert types(started.thread.pk).count("result") == 1


def test_worker__lease_lost_while_working__stops_and_writes_nothing_more(
    tree: Tree, lease_clock: LeaseClock, settings: Any
) -> None:
    settings.LEASE_SECONDS = 3  # renewals every second
    started = start_run(tree.system, tree.payments, {"thought": "a"}, {"block": True})
    with working() as worker:
        wait_until(lambda: thoughts(started.thread.pk), what="the first thought")
        _pause_renewals_and_sweep(worker, lease_clock)
        run = wait_for_status(started.run)
        wait_until(lambda: not worker.worker._running, what="the worker to let go")

    assert (run.status, run.reason) == ("interrupted", "worker_lost")
    assert types(started.thread.pk) == ["run_started", "thought", "result", "run_ended"]


def _pause_renewals_and_sweep(worker: WorkerThread, lease_clock: LeaseClock) -> None:
    """Take the lease away at a moment when the clock says it ran out, as after a long pause of the process."""
    held = threading.Event()
    lease_clock.forward(60)
    while not held.is_set():
        if runs_sweep():
            held.set()


def test_worker__blocked_loop__keeps_its_lease(tree: Tree, settings: Any) -> None:
    settings.LEASE_SECONDS = 3
    started = start_run(tree.system, tree.payments, {"hang_loop_ms": 3500}, {"result": "late but whole"})
    with working():
        wait_for_status(started.run, "running")
        swept = 0
        while Run.objects.get().status == "running":
            swept += runs_sweep()
        wait_for_status(started.run)

    assert (started.run.status, swept) == ("completed", 0)


def test_worker__alert_and_history__reach_the_follow_up(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments, {"result": "first answer"}, alert={"title": "High latency"})
    work_on(started.run)

    accepted = message_post(actor=tree.system, thread_id=started.thread.pk, text="and now?")
    assert accepted.run is not None
    run = work_on(accepted.run)

    assert (run.status, run.number, run.alert) == ("completed", 2, {"title": "High latency"})
    assert types(started.thread.pk) == [
        *["run_started", "result", "run_ended"],
        *["message_queued", "run_started", "thought", "result", "run_ended"],
    ]


def test_question__answered_the_moment_it_is_seen__never_too_early(tree: Tree) -> None:
    """Whoever sees the question in the log may answer it: the run already waits then."""
    started = start_run(tree.system, tree.payments, {"ask": "Which?"}, {"result": "done"})
    with working():
        asked = wait_until(
            lambda: next((e for e in envelopes(started.thread.pk) if e["type"] == "question"), None),
            what="the question",
        )
        request_id = asked["data"]["request_id"]
        question_answer(actor=tree.system, thread_id=started.thread.pk, request_id=request_id, answers={"q": "a"})
        wait_for_status(started.run)

    assert started.run.status == "completed"


def test_wall_clock__over_several_claims__is_one_budget(tree: Tree) -> None:
    config_patch(actor=tree.system, node=tree.payments, patch={"limits": {"wall_clock_s": 30}})
    started = start_run(tree.system, tree.payments, {"ask": "Which?"}, {"block": True})
    run = work_on(started.run)
    assert 0 < run.worked_seconds < 10
    Run.objects.update(worked_seconds=29.9)

    question_answer(actor=tree.system, thread_id=run.thread_id, request_id=run.waiting_for, answers={"q": "a"})
    run = work_on(run)

    assert (run.status, run.reason) == ("timeout", "wall_clock")


def test_keeper__renewal_that_fails__is_tried_again_at_the_next_tick(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.LEASE_SECONDS = 4.5  # due after 1.5 s, fails at the tick after that, a third left when tried again
    failures = [OperationalError("away")]

    def renew(claim: Any) -> bool:
        if failures:
            raise failures.pop()
        return lease_renew(claim)

    monkeypatch.setattr("controlplane.investigations.worker.lease_renew", renew)
    started = start_run(tree.system, tree.payments, *[{"sleep_ms": 100}] * 50, {"result": "kept"})
    with working():
        wait_for_status(started.run, "running")
        swept = 0
        while Run.objects.get().status == "running":
            swept += runs_sweep()
        wait_for_status(started.run)

    assert (started.run.status, swept, failures) == ("completed", 0, [])

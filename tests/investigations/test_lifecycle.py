"""Run states: claim, renew, take over, suspend, end. Every transition once, by the one who may."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from controlplane.configs.services import config_patch
from controlplane.core import clock
from controlplane.core.actor import Role
from controlplane.investigations.lifecycle import (
    Claim,
    Outcome,
    lease_renew,
    run_claim,
    run_finish,
    run_suspend,
    runs_sweep,
)
from controlplane.investigations.log import LeaseLost, append, new_event
from controlplane.investigations.models import Audience, Event, Message, Run, RunStatus, Thread
from controlplane.investigations.queueing import merged_text
from controlplane.investigations.services import message_post, question_answer
from controlplane.investigations.starting import Started
from controlplane.runtimes.events import EventType, Question, QuestionItem, Result, Thought, ToolStart
from tests.factories import Tree, actor_for_user, make_user
from tests.investigations.conftest import LeaseClock
from tests.support.runs import envelopes, in_threads, start_run, types

THOUGHT = (EventType.THOUGHT, Thought(text="x"))


def claimed(owner: str = "worker") -> Claim:
    claim = run_claim(owner=owner)
    assert claim is not None
    return claim


@pytest.fixture
def started(tree: Tree) -> Started:
    return start_run(tree.system, tree.payments)


def test_run_claim__queued_run__is_running_under_a_raised_epoch(started: Started) -> None:
    claim = claimed()

    run, thread = Run.objects.get(), Thread.objects.get()
    assert (claim.run_id, claim.fence.epoch, claim.attempt) == (started.run.pk, 1, 1)
    assert (run.status, thread.epoch, thread.lease_owner) == ("running", 1, "worker")
    assert run.started_at is not None
    assert thread.lease_until is not None
    assert timedelta(seconds=25) < thread.lease_until - clock.now() <= timedelta(seconds=31)


def test_run_claim__nothing_queued__is_none(started: Started) -> None:
    claimed()

    assert run_claim(owner="other") is None


def test_run_claim__several_queued__oldest_first(tree: Tree) -> None:
    first, second = start_run(tree.system, tree.payments), start_run(tree.system, tree.platform)

    assert [claimed().run_id, claimed().run_id] == [first.run.pk, second.run.pk]


def test_run_claim__only_another_run__leaves_this_one(started: Started) -> None:
    assert run_claim(owner="w", only=uuid4()) is None
    assert Run.objects.get().status == "queued"


def test_run_claim__team_at_its_limit__takes_another_teams_run(tree: Tree) -> None:
    config_patch(actor=tree.system, node=tree.payments, patch={"limits": {"concurrent_runs": 1}})
    start_run(tree.system, tree.payments)
    start_run(tree.system, tree.payments)
    other = start_run(tree.system, tree.platform)

    claimed()

    assert claimed().run_id == other.run.pk
    assert run_claim(owner="w") is None


@pytest.mark.django_db(transaction=True)
def test_run_claim__six_workers_one_run__one_wins(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments)

    outcomes = in_threads(*(lambda index=index: run_claim(owner=f"w{index}") for index in range(6)))

    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    winners = [outcome for outcome in outcomes if outcome is not None]
    assert [claim.run_id for claim in winners] == [started.run.pk]
    assert Thread.objects.get().epoch == 1
    assert Run.objects.get().attempt == 1


def test_lease_renew__held__extends(started: Started, lease_clock: LeaseClock) -> None:
    claim = claimed()
    lease_clock.forward(20)

    assert lease_renew(claim)
    lease_clock.forward(20)
    assert runs_sweep() == 0
    assert Run.objects.get().status == "running"


def test_runs_sweep__lease_still_good__touches_nothing(started: Started, lease_clock: LeaseClock) -> None:
    claimed()
    lease_clock.forward(29)

    assert runs_sweep() == 0
    assert Run.objects.get().status == "running"


def test_runs_sweep__lease_expired__interrupted_and_unlocked_with_one_end(
    started: Started, lease_clock: LeaseClock
) -> None:
    claim = claimed()
    start = ToolStart(tool_use_id="t1-1", name="query_metrics", input={"name": "cpu"})
    append(
        thread_id=claim.thread_id,
        events=[new_event(EventType.TOOL_START, start, run_id=claim.run_id)],
        fence=claim.fence,
    )
    lease_clock.forward(31)

    assert runs_sweep() == 1
    assert runs_sweep() == 0

    run, thread = Run.objects.get(), Thread.objects.get()
    assert (run.status, run.reason) == ("interrupted", "worker_lost")
    assert (thread.active_run, thread.lease_until, thread.epoch) == (None, None, 2)
    log = envelopes(thread.pk)
    assert [event["type"] for event in log] == ["run_started", "tool_start", "tool_end", "result", "run_ended"]
    assert (log[2]["data"]["tool_use_id"], log[2]["data"]["success"]) == ("t1-1", False)
    assert (log[3]["data"]["subtype"], log[4]["data"]["status"]) == ("interrupted", "interrupted")


@pytest.mark.parametrize(
    "act",
    [
        lambda claim: append(
            thread_id=claim.thread_id, events=[new_event(*THOUGHT, run_id=claim.run_id)], fence=claim.fence
        ),
        lambda claim: run_finish(claim, Outcome("completed")),
        lambda claim: run_suspend(claim, request_id="q", expires_at=None),
    ],
    ids=["append", "finish", "suspend"],
)
def test_stale_worker__wakes_after_the_takeover__writes_nothing(
    started: Started, lease_clock: LeaseClock, act: Callable[[Claim], Any]
) -> None:
    stale = claimed()
    lease_clock.forward(31)
    runs_sweep()
    before = envelopes(stale.thread_id)

    with pytest.raises(LeaseLost):
        act(stale)

    assert not lease_renew(stale)
    assert envelopes(stale.thread_id) == before
    assert Run.objects.get().status == "interrupted"


def test_stale_worker__follow_up_runs_meanwhile__cannot_write_into_it(
    tree: Tree, started: Started, lease_clock: LeaseClock
) -> None:
    stale = claimed("first")
    lease_clock.forward(31)
    runs_sweep()
    message_post(actor=tree.system, thread_id=started.thread.pk, text="go on")
    fresh = claimed("second")

    with pytest.raises(LeaseLost):
        append(thread_id=stale.thread_id, events=[new_event(*THOUGHT, run_id=stale.run_id)], fence=stale.fence)
    with pytest.raises(LeaseLost):
        run_finish(stale, Outcome("completed"))

    run_finish(fresh, Outcome("completed"))
    assert [run.status for run in Run.objects.order_by("number")] == ["interrupted", "completed"]


def test_run_finish__completed__one_end_and_the_thread_is_idle(started: Started) -> None:
    run_finish(claimed(), Outcome("completed", headline="Disk is full"))

    run = Run.objects.get()
    assert (run.status, run.headline) == ("completed", "Disk is full")
    assert run.ended_at is not None
    assert Thread.objects.get().active_run is None
    assert types(started.thread.pk) == ["run_started", "run_ended"]


def test_run_finish__twice__second_is_refused(started: Started) -> None:
    claim = claimed()
    run_finish(claim, Outcome("completed"))

    with pytest.raises(LeaseLost):
        run_finish(claim, Outcome("failed"))

    assert Run.objects.get().status == "completed"
    assert types(started.thread.pk).count("run_ended") == 1


def test_run_finish__messages_left__become_the_next_run_in_order(tree: Tree, started: Started) -> None:
    claim = claimed()
    for text in ("look at the replica", "and the disk"):
        message_post(actor=tree.system, thread_id=started.thread.pk, text=text)

    run_finish(claim, Outcome("completed"))

    second = Run.objects.get(number=2)
    assert second.status == "queued"
    assert second.prompt == "Several messages arrived:\n1. look at the replica\n2. and the disk"
    assert set(Message.objects.values_list("run_id", flat=True)) == {second.pk}
    assert not Message.objects.filter(delivered_at__isnull=True).exists()
    assert types(started.thread.pk) == ["run_started", "message_queued", "message_queued", "run_ended", "run_started"]


def test_merged_text__one_message__stays_as_it_is() -> None:
    assert merged_text(["only this"]) == "only this"


def ask(claim: Claim, request_id: str = "q1") -> None:
    question = Question(request_id=request_id, questions=(QuestionItem(question="Which cluster?"),))
    append(
        thread_id=claim.thread_id,
        events=[new_event(EventType.QUESTION, question, run_id=claim.run_id)],
        fence=claim.fence,
    )


def test_run_suspend__waiting__gives_up_lease_and_right_to_write(started: Started) -> None:
    claim = claimed()
    ask(claim)

    assert run_suspend(claim, request_id="q1", expires_at=None)

    thread, run = Thread.objects.get(), Run.objects.get()
    assert (run.status, run.waiting_for, thread.lease_until) == ("waiting", "q1", None)
    assert thread.active_run == run.pk
    with pytest.raises(LeaseLost):
        append(thread_id=claim.thread_id, events=[new_event(*THOUGHT, run_id=claim.run_id)], fence=claim.fence)


def test_run_suspend__stop_was_asked_meanwhile__stays_running_to_be_ended(started: Started) -> None:
    claim = claimed()
    Run.objects.update(interrupt_requested_at=clock.now())

    assert not run_suspend(claim, request_id="q1", expires_at=None)

    assert Run.objects.get().status == "running"
    assert Thread.objects.get().lease_until is not None


def test_waiting_run__answered__is_claimed_again_with_the_answer(tree: Tree, started: Started) -> None:
    claim = claimed()
    ask(claim)
    run_suspend(claim, request_id="q1", expires_at=None)
    person = actor_for_user(make_user(tree.payments, Role.RESPONDER))

    question_answer(actor=person, thread_id=started.thread.pk, request_id="q1", answers={"question_0": "blue"})
    again = claimed("other")

    run = Run.objects.get()
    assert (again.run_id, again.attempt, again.fence.epoch) == (run.pk, 2, 2)
    assert run.resume == {"request_id": "q1", "outcome": "answered", "answers": {"question_0": "blue"}}
    assert types(started.thread.pk) == ["run_started", "question", "question_answered"]


def test_runs_sweep__waiting_run__is_never_swept_by_its_old_lease(started: Started, lease_clock: LeaseClock) -> None:
    claim = claimed()
    run_suspend(claim, request_id="q1", expires_at=None)
    lease_clock.forward(3600)

    assert runs_sweep() == 0
    assert Run.objects.get().status == "waiting"


def test_runs_sweep__question_overdue__resumes_once_with_a_timeout(started: Started, lease_clock: LeaseClock) -> None:
    claim = claimed()
    ask(claim)
    run_suspend(claim, request_id="q1", expires_at=clock.now() + timedelta(seconds=60))
    assert runs_sweep() == 0
    lease_clock.forward(61)

    assert runs_sweep() == 1
    assert runs_sweep() == 0

    run = Run.objects.get()
    assert (run.status, run.resume) == ("queued", {"request_id": "q1", "outcome": "timeout"})
    assert types(started.thread.pk)[-1] == "question_timeout"


@pytest.mark.django_db(transaction=True)
def test_runs_sweep__four_processes_at_once__one_settlement(tree: Tree, lease_clock: LeaseClock) -> None:
    started = start_run(tree.system, tree.payments)
    claimed()
    lease_clock.forward(31)

    outcomes = in_threads(*[runs_sweep] * 4)

    assert sum(outcomes) == 1
    assert types(started.thread.pk).count("run_ended") == 1


def test_database__two_active_runs_of_a_thread__are_refused(started: Started) -> None:
    from django.db import IntegrityError, transaction

    with pytest.raises(IntegrityError), transaction.atomic():
        Run.objects.create(
            thread=started.thread, number=2, prompt="x", runtime="scripted", requested_by="x", requested_by_label="x"
        )

    assert Run.objects.filter(status=RunStatus.QUEUED).count() == 1


def test_run_claim__a_full_team_with_many_queued__holds_up_nobody_else(tree: Tree) -> None:
    config_patch(actor=tree.system, node=tree.payments, patch={"limits": {"concurrent_runs": 1}})
    for _ in range(60):
        start_run(tree.system, tree.payments)
    claimed()
    other = start_run(tree.system, tree.platform)

    assert claimed().run_id == other.run.pk


@pytest.mark.django_db(transaction=True)
def test_run_claim__eight_workers_and_two_places__two_run(tree: Tree) -> None:
    config_patch(actor=tree.system, node=tree.payments, patch={"limits": {"concurrent_runs": 2}})
    for _ in range(8):
        start_run(tree.system, tree.payments)

    outcomes = in_threads(*(lambda index=index: run_claim(owner=f"w{index}") for index in range(8)))

    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert Run.objects.filter(status="running").count() == 2


def test_run_suspend__with_its_question__asked_and_waiting_at_once(started: Started) -> None:
    claim = claimed()
    question = Question(request_id="q1", questions=(QuestionItem(question="Which?"),))
    asking = [new_event(EventType.QUESTION, question, run_id=claim.run_id)]

    run_suspend(claim, request_id="q1", expires_at=None, asking=asking, worked=timedelta(seconds=5))

    run = Run.objects.get()
    assert (run.status, run.worked_seconds) == ("waiting", 5.0)
    assert types(started.thread.pk) == ["run_started", "question"]


def test_run_suspend__stop_asked_meanwhile__question_is_not_asked(started: Started) -> None:
    claim = claimed()
    Run.objects.update(interrupt_requested_at=clock.now())
    question = Question(request_id="q1", questions=(QuestionItem(question="Which?"),))
    asking = [new_event(EventType.QUESTION, question, run_id=claim.run_id)]

    assert not run_suspend(claim, request_id="q1", expires_at=None, asking=asking)

    assert types(started.thread.pk) == ["run_started"]


@pytest.mark.parametrize("status", ["interrupted", "timeout"])
def test_run_finish__cut_short_without_a_result__gets_one_that_says_so(started: Started, status: Any) -> None:
    run_finish(claimed(), Outcome(status))

    log = envelopes(started.thread.pk)
    assert [event["type"] for event in log] == ["run_started", "result", "run_ended"]
    assert (log[1]["data"]["success"], log[1]["data"]["report"]) == (False, None)


def test_run_finish__cut_short_after_its_result__keeps_that_one(started: Started) -> None:
    claim = claimed()
    mine = new_event(EventType.RESULT, Result(text="Found.", success=True), run_id=claim.run_id)
    append(thread_id=claim.thread_id, events=[mine], fence=claim.fence)

    run_finish(claim, Outcome("interrupted"))

    assert types(started.thread.pk) == ["run_started", "result", "run_ended"]


def test_runs_sweep__open_call_of_the_starter_alone__stays_the_starters(
    started: Started, lease_clock: LeaseClock
) -> None:
    claim = claimed()
    start = ToolStart(tool_use_id="t1-1", name="memory_recall", input={"q": "mine"})
    event = new_event(EventType.TOOL_START, start, run_id=claim.run_id, audience=Audience.STARTER)
    append(thread_id=claim.thread_id, events=[event], fence=claim.fence)
    lease_clock.forward(31)

    runs_sweep()

    audiences = dict(Event.objects.filter(thread_id=claim.thread_id).values_list("type", "audience"))
    assert (audiences["tool_end"], audiences["run_ended"]) == ("starter", "thread")

"""A worker that stops: what it hands to another one, what it ends, and that nothing is lost or done twice by that."""

import threading
from typing import Any

import pytest

from controlplane.core import clock
from controlplane.investigations.lifecycle import Claim, Outcome, run_claim, run_finish, run_hand_over
from controlplane.investigations.log import LeaseLost, append, new_event
from controlplane.investigations.models import ActionApproval, Message, Run, Thread
from controlplane.investigations.services import message_post, run_interrupt
from controlplane.investigations.starting import Started
from controlplane.investigations.worker import Worker
from controlplane.reviews.models import ReviewRequest
from controlplane.runtimes.events import EventType, Result, Thought, ToolStart
from controlplane.runtimes.registry import runtime_resumes
from tests.factories import Tree
from tests.support.runs import envelopes, start_run, thoughts, types, wait_for_status, wait_until, work_on, working

RESUMES = {"runtime": "scripted_resumes"}


def claimed() -> Claim:
    claim = run_claim(owner="worker")
    assert claim is not None
    return claim


@pytest.fixture
def started(tree: Tree) -> Started:
    return start_run(tree.system, tree.payments, **RESUMES)


def test_run_hand_over__running__is_queued_again_under_a_raised_epoch(started: Started) -> None:
    claim = claimed()

    assert run_hand_over(claim)

    run, thread = Run.objects.get(), Thread.objects.get()
    assert (run.status, thread.active_run, thread.lease_owner, thread.lease_until) == ("queued", run.pk, "", None)
    with pytest.raises(LeaseLost):
        append(
            thread_id=claim.thread_id,
            events=[new_event(EventType.THOUGHT, Thought(text="late"), run_id=claim.run_id)],
            fence=claim.fence,
        )
    again = claimed()
    assert (again.run_id, again.attempt) == (claim.run_id, 2)
    run_finish(again, Outcome("completed"))
    assert types(started.thread.pk) == ["run_started", "run_ended"]


def test_run_hand_over__open_tool_call__is_closed_in_the_log(started: Started) -> None:
    claim = claimed()
    start = ToolStart(tool_use_id="t1-1", name="query_metrics", input={"name": "cpu"})
    append(
        thread_id=claim.thread_id,
        events=[new_event(EventType.TOOL_START, start, run_id=claim.run_id)],
        fence=claim.fence,
    )

    assert run_hand_over(claim)

    log = envelopes(started.thread.pk)
    assert [event["type"] for event in log] == ["run_started", "tool_start", "tool_end"]
    assert log[-1]["data"]["error"] == "The worker stopped before this tool answered."


def test_run_hand_over__runtime_does_not_resume__stays_with_its_worker(tree: Tree) -> None:
    start_run(tree.system, tree.payments)
    claim = claimed()

    assert not run_hand_over(claim)

    assert Run.objects.get().status == "running"
    assert Thread.objects.get().lease_until is not None


def test_run_hand_over__stop_was_asked__stays_to_be_ended(tree: Tree, started: Started) -> None:
    claim = claimed()
    run_interrupt(actor=tree.system, thread_id=started.thread.pk)

    assert not run_hand_over(claim)

    assert Run.objects.get().status == "running"
    assert Thread.objects.get().epoch == claim.fence.epoch


def test_run_hand_over__answer_is_in_the_log__stays_to_be_ended(started: Started) -> None:
    claim = claimed()
    append(
        thread_id=claim.thread_id,
        events=[new_event(EventType.RESULT, Result(text="found", success=True), run_id=claim.run_id)],
        fence=claim.fence,
    )

    assert not run_hand_over(claim)


def test_run_hand_over__an_action_was_asked_for__stays_with_its_worker(started: Started) -> None:
    claim = claimed()
    review = ReviewRequest.objects.create(
        kind="agent_action",
        organization=started.thread.organization,
        node=started.thread.node,
        title="restart",
        requested_by="system:agent",
        requested_label="agent",
        created_at=clock.now(),
        expires_at=clock.now(),
    )
    ActionApproval.objects.create(
        run_id=claim.run_id, review=review, tool="action_restart", digest="0" * 64, expires_at=clock.now()
    )

    assert not run_hand_over(claim)

    assert Run.objects.get().status == "running"


def test_run_hand_over__lease_was_lost__changes_nothing(started: Started) -> None:
    claim = claimed()
    run_finish(claim, Outcome("completed"))

    assert not run_hand_over(claim)
    assert Run.objects.get().status == "completed"


def test_run_hand_over__message_taken_up_by_this_attempt__is_pending_again(tree: Tree, started: Started) -> None:
    claim = claimed()
    message_post(actor=tree.system, thread_id=started.thread.pk, text="look at the replica")
    Message.objects.update(run_id=claim.run_id, delivered_at=clock.now())

    assert run_hand_over(claim)

    message = Message.objects.get()
    assert (message.run_id, message.delivered_at) == (None, None)


def test_run_hand_over__messages_that_made_the_prompt__stay_taken(tree: Tree, started: Started) -> None:
    first = claimed()
    message_post(actor=tree.system, thread_id=started.thread.pk, text="and the disk")
    run_finish(first, Outcome("completed"))
    second = claimed()

    assert run_hand_over(second)

    assert Message.objects.get().run_id == second.run_id
    assert Message.objects.get().delivered_at is not None


def test_runtime_resumes__by_name() -> None:
    assert runtime_resumes("builtin")
    assert not runtime_resumes("scripted")
    assert not runtime_resumes("nowhere")


@pytest.mark.django_db(transaction=True)
class TestDrain:
    def test_worker__told_to_stop__another_goes_on_where_it_was(self, tree: Tree, settings: Any) -> None:
        settings.WORKER_DRAIN_SECONDS = 0.0
        steps: list[dict[str, Any]] = [{"thought": "first"}, {"sleep_ms": 1500}, {"thought": "second"}]
        started = start_run(tree.system, tree.payments, *steps, **RESUMES)
        with working():
            wait_until(lambda: thoughts(started.thread.pk), what="the first thought")
        run = Run.objects.get()
        assert (run.status, run.worked_seconds > 0) == ("queued", True)

        assert work_on(run).status == "completed"

        assert thoughts(started.thread.pk) == ["first", "second"]
        assert types(started.thread.pk) == ["run_started", "thought", "thought", "result", "run_ended"]
        assert Run.objects.get().attempt == 2

    def test_worker__told_to_stop__lets_a_run_finish_that_soon_will(self, tree: Tree, settings: Any) -> None:
        settings.WORKER_DRAIN_SECONDS = 20.0
        started = start_run(tree.system, tree.payments, {"thought": "first"}, {"sleep_ms": 300})
        with working():
            wait_until(lambda: thoughts(started.thread.pk), what="the first thought")

        assert wait_for_status(started.run).status == "completed"
        assert Run.objects.get().attempt == 1

    def test_worker__told_twice__does_not_wait(self, tree: Tree, settings: Any) -> None:
        settings.WORKER_DRAIN_SECONDS = 600.0
        blocked = start_run(tree.system, tree.payments, {"block": True})
        resumable = start_run(tree.system, tree.platform, {"thought": "first"}, {"block": True}, **RESUMES)
        worker = Worker(concurrency=2)
        thread = threading.Thread(target=worker.run)
        thread.start()
        wait_for_status(blocked.run, "running")
        wait_until(lambda: thoughts(resumable.thread.pk), what="the first thought")

        worker.stop()
        worker.stop_now()
        thread.join(20)

        assert not thread.is_alive()
        assert wait_for_status(blocked.run).reason == "worker_stopped"
        assert wait_for_status(resumable.run, "queued").attempt == 1

    def test_worker__draining__claims_nothing_more_and_says_so(self, tree: Tree, settings: Any) -> None:
        settings.WORKER_DRAIN_SECONDS = 600.0
        blocked = start_run(tree.system, tree.payments, {"block": True})
        worker = Worker(concurrency=2)
        thread = threading.Thread(target=worker.run)
        thread.start()
        wait_for_status(blocked.run, "running")
        from controlplane.investigations.fleet import workers_all

        worker.stop()
        wait_until(lambda: workers_all().filter(state="draining", running=1).exists(), what="the drain to show")
        late = start_run(tree.system, tree.platform)
        worker.wake()
        worker.stop_now()
        thread.join(20)

        late.run.refresh_from_db()
        assert late.run.status == "queued"
        assert not thread.is_alive()

"""Runs that wait for an answer, across workers that are killed: as real processes."""

import signal
from datetime import timedelta
from functools import partial

import pytest

from controlplane.core import clock
from controlplane.core.actor import Actor, Role
from controlplane.core.errors import AppError
from controlplane.investigations.lifecycle import runs_sweep
from controlplane.investigations.models import Run, Thread
from controlplane.investigations.services import question_answer
from tests.factories import Tree, actor_for_user, make_user
from tests.support.processes import manage
from tests.support.runs import envelopes, start_run, thoughts, types, wait_for_status
from tests.support.threads import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults]

STEPS = ({"thought": "before"}, {"ask": "Which one?", "options": ["cart", "checkout"]}, {"thought": "after"})


def asked_by_a_worker_that_was_killed(tree: Tree) -> Run:
    """Return a run that waits for an answer, and whose worker is gone without a word."""
    started = start_run(tree.system, tree.payments, *STEPS, visibility="team")
    with manage("worker", SWEEP_SECONDS="60") as worker:
        run = wait_for_status(started.run, "waiting")
        worker.send_signal(signal.SIGKILL)
        worker.wait(20)
    return run


def test_question__worker_killed_while_it_waits__another_goes_on_with_the_first_answer(tree: Tree) -> None:
    run = asked_by_a_worker_that_was_killed(tree)
    assert runs_sweep() == 0  # it holds no lease that could run out
    thread = Thread.objects.get(pk=run.thread_id)
    assert (thread.lease_owner, thread.lease_until, thread.active_run) == ("", None, run.pk)
    asked = types(run.thread_id)
    people = [actor_for_user(make_user(tree.payments, Role.RESPONDER)) for _ in range(3)]
    request_id = run.waiting_for

    def answer(actor: Actor) -> str:
        try:
            question_answer(
                actor=actor, thread_id=run.thread_id, request_id=request_id, answers={"Which one?": actor.label}
            )
        except AppError as error:
            return error.code
        return actor.label

    outcomes = at_once(*(partial(answer, person) for person in people))
    assert outcomes.count("already_answered") == 2
    (first,) = (outcome for outcome in outcomes if outcome != "already_answered")

    with manage("worker"):
        assert wait_for_status(run).status == "completed"
    assert thoughts(run.thread_id) == ["before", f"answer: {first}", "after"]
    assert types(run.thread_id)[: len(asked)] == asked
    (answered,) = (event["data"] for event in envelopes(run.thread_id) if event["type"] == "question_answered")
    assert (answered["by"], answered["request_id"]) == (first, request_id)
    assert run.attempt == 2


def test_question__nobody_answers_and_no_worker_is_left__goes_on_when_one_comes(tree: Tree) -> None:
    run = asked_by_a_worker_that_was_killed(tree)
    Run.objects.filter(pk=run.pk).update(waiting_until=clock.now() - timedelta(seconds=1))
    assert (runs_sweep(), runs_sweep()) == (1, 0)
    with manage("worker"):
        assert wait_for_status(run).status == "completed"
    assert thoughts(run.thread_id) == ["before", "no answer", "after"]
    assert types(run.thread_id).count("question_timeout") == 1

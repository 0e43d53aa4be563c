"""What people ask of a thread: merged, done once, and never in each other's way."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from controlplane.core.actor import Role
from controlplane.core.errors import Conflict
from controlplane.investigations import turns
from controlplane.investigations.control import CONTROLS, control_do
from controlplane.investigations.models import Message, Run
from controlplane.investigations.services import When, message_post, question_answer
from controlplane.investigations.turns import RunControl
from tests.factories import Tree, actor_for_user, api_client, make_personal_token, make_team_token, make_user
from tests.support.runs import envelopes, in_threads, start_run, thoughts, types, wait_for_status, wait_until, work_on
from tests.support.runs import working as at_work

KEY = {"Idempotency-Key": "a-key"}


class Clock:
    """An event loop's time, moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def time(self) -> float:
        return self.now


def control_at(clock: Clock) -> RunControl:
    control = RunControl(asyncio.get_running_loop())
    control._loop = clock  # type: ignore[assignment]
    return control


async def test_messages__close_together__one_numbered_text_when_it_is_quiet() -> None:
    clock = Clock()
    control = control_at(clock)
    for text in ("look at the cache", "and the queue", "since 9:00"):
        control._deliver([(uuid4(), text)])
        clock.now += 0.2
        assert control.take_messages() == ()
    clock.now += 0.11
    merged = "Several messages arrived:\n1. look at the cache\n2. and the queue\n3. since 9:00"
    assert control.take_messages() == [merged]
    assert len(control.taken()) == 3
    assert control.take_messages() == ()


async def test_messages__one_alone__as_it_was_said() -> None:
    clock = Clock()
    control = control_at(clock)
    control._deliver([(uuid4(), "look")])
    clock.now += turns.DEBOUNCE_SECONDS
    assert control.take_messages() == ["look"]


async def test_messages__that_never_stop__are_not_held_for_ever() -> None:
    clock = Clock()
    control = control_at(clock)
    taken: list[str] = []
    for number in range(25):
        control._deliver([(uuid4(), f"line {number}")])
        taken += control.take_messages()
        clock.now += 0.125
    assert len(taken) == 1
    assert taken[0].count("\n") == 17


@pytest.mark.django_db(transaction=True)
def test_messages__of_several_people_while_running__one_block_and_told_twice(tree: Tree) -> None:
    looks: list[dict[str, Any]] = [{"sleep_ms": 50}, {"messages": True}]
    started = start_run(tree.system, tree.payments, {"thought": "a"}, *looks * 100)
    person = actor_for_user(make_user(tree.payments))
    with at_work():
        wait_until(lambda: thoughts(started.thread.pk), what="the first thought")
        message_post(actor=tree.system, thread_id=started.thread.pk, text="mind the replica")
        message_post(actor=person, thread_id=started.thread.pk, text="and the cache")
        wait_until(lambda: Message.objects.filter(delivered_at=None).count() == 0, what="both to be taken up")
        control_do(actor=person, thread_id=started.thread.pk, name="interrupt", body={})
        wait_for_status(started.run)
    said = [text for text in thoughts(started.thread.pk) if text.startswith("guidance")]
    assert said == ["guidance: Several messages arrived:\n1. mind the replica\n2. and the cache"]
    counts = [e["data"]["pending_count"] for e in envelopes(started.thread.pk) if e["type"] == "message_queued"]
    assert counts == [1, 2, 0]
    assert Run.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_message__question_pending__disturbs_nothing_and_is_kept_for_later(tree: Tree) -> None:
    run = work_on(start_run(tree.system, tree.payments, {"ask": "Which?"}, {"result": "first"}).run)
    message_post(actor=tree.system, thread_id=run.thread_id, text="by the way")
    run.refresh_from_db()
    assert (run.status, run.waiting_for) == ("waiting", f"{run.pk}-q1")

    question_answer(
        actor=tree.system, thread_id=run.thread_id, request_id=run.waiting_for, answers={"question_0": "eu"}
    )
    assert work_on(run).status == "completed"
    assert thoughts(run.thread_id) == ["answer: eu"]
    assert Run.objects.get(number=2).prompt == "by the way"


@pytest.mark.django_db(transaction=True)
def test_answer__eight_people_at_once__one_wins_and_the_others_learn_who(tree: Tree) -> None:
    run = work_on(start_run(tree.system, tree.payments, {"ask": "Which?"}).run)
    people = [make_user(tree.payments, Role.RESPONDER) for _ in range(8)]

    def answer(person: Any) -> Any:
        return question_answer(
            actor=actor_for_user(person),
            thread_id=run.thread_id,
            request_id=f"{run.pk}-q1",
            answers={"question_0": person.username},
        )

    outcomes = in_threads(*(lambda person=person: answer(person) for person in people))
    late = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
    winner = next(person for person, outcome in zip(people, outcomes, strict=True) if isinstance(outcome, Run))
    assert len(late) == 7
    assert {(error.code, error.extra["by"]) for error in late} == {("already_answered", winner.display_name)}
    assert types(run.thread_id).count("question_answered") == 1


@pytest.mark.django_db(transaction=True)
def test_answer_and_interrupt__repeated_with_a_key__done_once_and_answered_as_before(tree: Tree) -> None:
    run = work_on(start_run(tree.system, tree.payments, {"ask": "Which?"}).run)
    client = api_client(token=make_team_token(tree.payments))
    url = f"/api/v1/threads/{run.thread_id}"
    body = {"request_id": f"{run.pk}-q1", "answers": {"question_0": "eu"}}

    answers = [client.post(f"{url}/answers", body, headers=KEY) for _ in range(2)]
    late = client.post(f"{url}/answers", body)
    stops = [client.post(f"{url}/interrupt", headers={"Idempotency-Key": "stop"}) for _ in range(2)]
    nothing = client.post(f"{url}/interrupt", headers={"Idempotency-Key": "again"})

    assert [answer.status_code for answer in (*answers, *stops)] == [202] * 4
    assert answers[0].json() == answers[1].json()
    assert stops[0].json() == stops[1].json() == {"run_id": str(run.pk), "status": "interrupted"}
    assert [a.headers.get("Idempotent-Replayed") for a in (*answers, *stops)] == [None, "true", None, "true"]
    assert (late.status_code, late.json()["code"], late.json()["by"]) == (409, "already_answered", "team of payments")
    assert (nothing.status_code, nothing.json()["code"]) == (409, "nothing_running")
    assert types(run.thread_id).count("run_ended") == 1


def test_message__state_that_is_not_wanted__refused_and_nothing_stored(tree: Tree) -> None:
    thread = start_run(tree.system, tree.payments).thread
    with pytest.raises(Conflict, match="not over yet"):
        message_post(actor=tree.system, thread_id=thread.pk, text="x", when=When.IDLE)
    control_do(actor=tree.system, thread_id=thread.pk, name="interrupt", body={})
    with pytest.raises(Conflict, match="Nothing is running"):
        message_post(actor=tree.system, thread_id=thread.pk, text="x", when=When.BUSY)
    assert not Message.objects.exists()


def test_controls__each__needs_its_right_again(tree: Tree) -> None:
    thread = start_run(tree.system, tree.payments).thread
    reader = api_client(token=make_personal_token(make_user(tree.payments, Role.VIEWER), tree.payments))
    bodies = {"messages": {"text": "x"}, "answers": {"request_id": "q", "answers": {"a": "b"}}, "interrupt": {}}
    for name, body in bodies.items():
        assert reader.post(f"/api/v1/threads/{thread.pk}/{name}", body).status_code == 403
    assert set(bodies) <= set(CONTROLS)

"""Requests with an Idempotency-Key: done once, answered as often as they are repeated."""

from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
import time_machine
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core import clock
from controlplane.core.actor import Role
from controlplane.core.errors import InvalidInput, MalformedRequest
from controlplane.investigations.idempotency import KEPT, Answer, call_once, calls_sweep, key_of
from controlplane.investigations.models import IdempotentCall, Message, Run, Thread
from tests.factories import (
    Tree,
    actor_for_user,
    api_client,
    make_personal_token,
    make_team_token,
    make_tree,
    make_user,
)
from tests.support.runs import in_threads, start_run

START = "/api/v1/investigations"
KEY = {"Idempotency-Key": '"a-key"'}


def client_of(tree: Tree) -> Any:
    return api_client(token=make_team_token(tree.payments))


def test_start__repeated__answered_as_it_was_and_nothing_is_started(tree: Tree) -> None:
    client = client_of(tree)
    first = client.post(START, {"prompt": "why?"}, headers=KEY)
    second = client.post(START, {"prompt": "why?"}, headers={"Idempotency-Key": "a-key"})

    assert (first.status_code, second.status_code) == (202, 202)
    assert second.json() == first.json()
    assert "Idempotent-Replayed" not in first.headers
    assert second.headers["Idempotent-Replayed"] == "true"
    assert (Thread.objects.count(), Run.objects.count()) == (1, 1)


def test_start__same_key_for_something_else__refused(tree: Tree) -> None:
    client = client_of(tree)
    client.post(START, {"prompt": "why?"}, headers=KEY)
    other = client.post(START, {"prompt": "who?"}, headers=KEY)

    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert Thread.objects.count() == 1


def test_start__refused_then_repeated_with_the_key__is_done(tree: Tree) -> None:
    client = client_of(tree)
    refused = client.post(START, {"prompt": "why?", "visibility": "private"}, headers=KEY)
    done = client.post(START, {"prompt": "why?"}, headers=KEY)

    assert (refused.status_code, refused.json()["code"]) == (422, "private_needs_person")
    assert done.status_code == 202
    assert "Idempotent-Replayed" not in done.headers


def test_start__key_of_somebody_else__is_another_key(tree: Tree) -> None:
    first = client_of(tree).post(START, {"prompt": "why?"}, headers=KEY)
    second = client_of(tree).post(START, {"prompt": "why?"}, headers=KEY)
    assert first.json()["thread_id"] != second.json()["thread_id"]


def test_message__repeated__is_said_once_in_each_thread(tree: Tree) -> None:
    user = make_user(tree.payments, Role.RESPONDER)
    client = api_client(token=make_personal_token(user, tree.payments))
    threads = [start_run(actor_for_user(user), tree.payments).thread for _ in range(2)]
    urls = [f"/api/v1/threads/{thread.pk}/messages" for thread in threads]

    answers = [client.post(urls[0], {"text": "and now?"}, headers=KEY).json() for _ in range(2)]
    elsewhere = client.post(urls[1], {"text": "and now?"}, headers=KEY)

    assert answers[0] == answers[1]
    assert (elsewhere.status_code, elsewhere.json()["code"]) == (422, "idempotency_key_reused")
    assert Message.objects.get().thread_id == threads[0].pk


@pytest.mark.parametrize("header", ["", '""', "x" * 256, "ü", 'a"b', "a\\b", "a\tb"])
def test_start__unusable_key__refused_and_nothing_is_started(tree: Tree, header: str) -> None:
    answer = client_of(tree).post(START, {"prompt": "why?"}, headers={"Idempotency-Key": header})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_idempotency_key")
    assert not Thread.objects.exists()


@given(st.text(max_size=300))
def test_key__any_header__a_key_in_bounds_or_refused(header: str) -> None:
    refused, key = "", ""
    try:
        key = key_of(header)
    except MalformedRequest as error:
        refused = error.code
    assert refused in {"", "bad_idempotency_key"}
    assert bool(key) != bool(refused)
    assert key.isascii()
    assert key.isprintable()
    assert len(key) <= 255


def test_key__a_day_later__is_free_again(tree: Tree) -> None:
    actor = tree.system
    assert call_once(actor=actor, key="k", asked=1, act=lambda: {"n": 1}) == Answer({"n": 1})
    with time_machine.travel(clock.now() + KEPT + timedelta(seconds=1)):
        assert call_once(actor=actor, key="k", asked=2, act=lambda: {"n": 2}) == Answer({"n": 2})
        assert IdempotentCall.objects.count() == 1


def test_sweep__over_and_not_over__only_the_first_goes(tree: Tree) -> None:
    call_once(actor=tree.system, key="old", asked=1, act=dict)
    with time_machine.travel(clock.now() + KEPT):
        call_once(actor=tree.system, key="new", asked=1, act=dict)
        assert calls_sweep() == 1
    assert [call.key for call in IdempotentCall.objects.all()] == ["new"]


def test_asked__numbers_of_any_size_and_order__same_digest(tree: Tree) -> None:
    call_once(actor=tree.system, key="k", asked={"a": 10**30, "b": [1]}, act=lambda: {"n": 1})
    again = call_once(actor=tree.system, key="k", asked={"b": [1], "a": 10**30}, act=lambda: {"n": 2})
    assert again == Answer({"n": 1}, replayed=True)
    with pytest.raises(InvalidInput):
        call_once(actor=tree.system, key="k", asked={"a": 10**30}, act=dict)


@pytest.mark.django_db(transaction=True)
def test_start__eight_at_once_with_one_key__one_investigation_and_eight_answers() -> None:
    tree = make_tree()
    token = make_team_token(tree.payments)
    together = Barrier(8)

    def ask(_: int) -> Any:
        together.wait(timeout=10)
        return api_client(token=token).post(START, {"prompt": "why?"}, headers=KEY)

    answers = in_threads(*(lambda n=n: ask(n) for n in range(8)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["run_id"] for answer in answers}) == 1
    assert sum("Idempotent-Replayed" in answer.headers for answer in answers) == 7
    assert Run.objects.count() == 1

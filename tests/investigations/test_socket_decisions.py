"""Approvals decided over a WebSocket, and what must not decide them."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from pytest_django import Settings

from controlplane.core.actor import Actor, Role
from controlplane.core.errors import Conflict
from controlplane.investigations.models import ActionApproval, Run
from controlplane.investigations.opensre.names import Asked, client_investigate
from controlplane.investigations.services import message_post, question_answer
from controlplane.reviews.models import ReviewRequest
from tests.factories import Tree, actor_for_user, api_client, make_team_token, make_user
from tests.investigations.test_approvals import PROMPT, SECRET, asked, configure
from tests.support.action_server import ActionServer, action_server
from tests.support.runs import types, work_on
from tests.support.server import Server, serving
from tests.support.sockets import session_cookie, socket_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def actions(tree: Tree, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[ActionServer]:
    settings.OUTBOUND_PRIVATE_ALLOW = ["127.0.0.0/8"]
    monkeypatch.setenv("OPENSRE_CRED_OPS", SECRET)
    with action_server() as served:
        configure(tree, served)
        yield served


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture
def asker(tree: Tree) -> Actor:
    return actor_for_user(make_user(tree.payments, Role.RESPONDER))


def test_decide__reviewer_twice_and_others__once_and_who_was_first(
    tree: Tree, actions: ActionServer, server: Server, asker: Actor
) -> None:
    run = asked(tree, asker)
    first, second = (make_user(tree.payments, Role.REVIEWER) for _ in range(2))
    command: dict[str, Any] = {"type": "decide", "id": "d1", "request_id": run.waiting_for, "decision": "approve"}
    origin = server.url
    with (
        socket_of(server, run.thread_id, headers=session_cookie(first), origin=origin) as one,
        socket_of(server, run.thread_id, headers=session_cookie(second), origin=origin) as other,
        socket_of(server, run.thread_id, make_team_token(tree.payments)) as machine,
    ):
        refused = machine.hello().command(**command)
        acks = [one.hello().command(**command), one.command(**command)]
        late = other.hello().command(**command)
        other.read(until=lambda socket: any(event["type"] == "approval_decided" for event in socket.events))
    assert refused["error"]["status"] in {403, 404}
    assert [(ack["ok"], ack["replayed"]) for ack in acks] == [(True, False), (True, True)]
    assert acks[0]["result"] == {
        "review": str(ReviewRequest.objects.get().pk),
        "state": "approved",
        "by": first.display_name,
    }
    assert (late["error"]["code"], late["error"]["by"]) == ("review_not_pending", first.display_name)
    assert actions.done == []
    assert work_on(run).status == "completed"
    assert len(actions.done) == 1


def test_rest__decision_with_a_key__done_once(tree: Tree, actions: ActionServer, asker: Actor) -> None:
    run = asked(tree, asker)
    client = api_client(user=make_user(tree.payments, Role.REVIEWER))
    url, body = f"/api/v1/threads/{run.thread_id}/decisions", {"request_id": run.waiting_for, "decision": "reject"}
    answers = [client.post(url, body, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["Idempotent-Replayed"] == "true"


def test_approval_pending__answers_and_messages__do_not_touch_it(
    tree: Tree, actions: ActionServer, asker: Actor
) -> None:
    run = asked(tree, asker)
    with pytest.raises(Conflict) as caught:
        question_answer(
            actor=asker, thread_id=run.thread_id, request_id=run.waiting_for, answers={"question_0": "approve"}
        )
    assert caught.value.code == "not_a_question"
    message_post(actor=asker, thread_id=run.thread_id, text="yes, approve it")
    waiting_for = run.waiting_for
    run.refresh_from_db()
    assert (run.status, run.waiting_for) == ("waiting", waiting_for)
    assert ReviewRequest.objects.get().state == "pending"
    assert "question_answered" not in types(run.thread_id)


def test_opensre_answer__approval_pending__409_and_it_still_waits(
    tree: Tree, actions: ActionServer, settings: Settings
) -> None:
    person = make_user(tree.payments, Role.RESPONDER)
    begun = client_investigate(actor=actor_for_user(person), asked=Asked(PROMPT, "slack-c-1", {}))
    run = work_on(Run.objects.get(pk=begun.run_id))
    assert run.status == "waiting"
    run.thread.visibility = "team"
    run.thread.save()
    answer = api_client(token=make_team_token(tree.payments)).post(
        "/answer", {"thread_id": "slack-c-1", "answers": {"question_0": "approve"}}
    )
    assert (answer.status_code, answer.json()["code"]) == (409, "not_a_question")
    assert ActionApproval.objects.filter(pk=UUID(run.waiting_for)).exists()

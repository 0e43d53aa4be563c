"""The other addresses of OpenSRE's agent server, asked as its clients ask."""

from typing import Any

import pytest
from django.test import Client

from controlplane.core.actor import Role
from controlplane.investigations.models import ClientThread, Message, Run
from controlplane.investigations.opensre.names import Asked, client_investigate
from tests.factories import (
    Tree,
    actor_for_token,
    actor_for_user,
    make_personal_token,
    make_team_token,
    make_user,
)
from tests.investigations.opensre.recorded import SLACK, headers_of
from tests.support.runs import script, types, work_on

NAME = str(SLACK["thread_id"])


def begun(tree: Tree, *steps: dict[str, Any], token: str | None = None) -> Run:
    """Start an investigation by the client's name and return its run, queued."""
    actor = actor_for_token(token or make_team_token(tree.payments))
    prompt = script(*steps) if steps else "why?"
    begun = client_investigate(actor=actor, asked=Asked(prompt, NAME, {}))
    return Run.objects.get(pk=begun.run_id)


@pytest.fixture(autouse=True)
def scripted(settings: Any) -> None:
    settings.DEFAULT_RUNTIME = "scripted"


def post(path: str, token: str, body: Any) -> tuple[int, Any]:
    answer = Client().post(path, body, content_type="application/json", headers=headers_of("web", token))
    return answer.status_code, answer.json()


def get(path: str, token: str) -> tuple[int, Any]:
    answer = Client().get(path, headers=headers_of("header", token))
    return answer.status_code, answer.json()


def code(answer: tuple[int, Any]) -> tuple[int, str]:
    return answer[0], answer[1]["code"]


def test_interrupt__running_ended_unknown__ok_ok_404(tree: Tree) -> None:
    token = make_team_token(tree.payments)
    run = begun(tree, token=token)
    ok = {"status": "ok", "thread_id": NAME}
    assert [post("/interrupt", token, {"thread_id": NAME}) for _ in range(2)] == [(200, ok), (200, ok)]
    assert code(post("/interrupt", token, {"thread_id": "slack-other"})) == (404, "not_found")
    assert code(post("/interrupt", token, {})) == (422, "bad_thread_id")
    run.refresh_from_db()
    assert run.status == "interrupted"
    assert types(run.thread_id).count("run_ended") == 1


@pytest.mark.django_db(transaction=True)
def test_answer__first_wins__then_409(tree: Tree) -> None:
    token = make_team_token(tree.payments)
    run = begun(tree, {"ask": "Which?"}, token=token)
    answer = {"thread_id": NAME, "answers": {"question_0": "eu"}}
    assert code(post("/answer", token, answer)) == (409, "not_waiting")
    work_on(run)
    assert code(post("/answer", token, {"thread_id": NAME, "answers": {}})) == (422, "answers_required")
    assert post("/answer", token, answer) == (200, {"status": "ok", "thread_id": NAME})
    assert code(post("/answer", token, answer)) == (409, "not_waiting")
    assert code(post("/answer", token, answer | {"thread_id": "other"})) == (404, "not_found")


def test_queue_message__running_idle_empty_unknown(tree: Tree) -> None:
    token = make_team_token(tree.payments)
    begun(tree, token=token)
    path = f"/threads/{NAME}/queue-message"
    assert post(path, token, {"text": "one"}) == (200, {"queued": True, "pending_count": 1})
    assert post(path, token, {"text": "two"}) == (200, {"queued": True, "pending_count": 2})
    assert code(post(path, token, {"text": " "})) == (400, "blank")
    assert code(post(path, token, {})) == (400, "blank")
    assert code(post("/threads/other/queue-message", token, {"text": "x"})) == (404, "not_found")
    post("/interrupt", token, {"thread_id": NAME})  # what waits starts the next run
    assert Run.objects.order_by("-number")[0].prompt == "Several messages arrived:\n1. one\n2. two"
    post("/interrupt", token, {"thread_id": NAME})
    assert code(post(path, token, {"text": "x"})) == (409, "nothing_running")
    assert Message.objects.count() == 2


def test_active__running_ended_unknown_and_of_another_team(tree: Tree) -> None:
    token = make_team_token(tree.payments)
    begun(tree, token=token)
    path = f"/threads/{NAME}/active"
    idle = {"active": False, "sdk_session_id": None}
    assert get(path, token) == (200, {"active": True, "sdk_session_id": None})
    assert get(path, make_team_token(tree.platform)) == (200, idle)
    assert get("/threads/other/active", token) == (200, idle)
    post("/interrupt", token, {"thread_id": NAME})
    assert get(path, token) == (200, idle)


def test_health__anybody__serves_and_counts_for_who_may_see(tree: Tree) -> None:
    token = make_team_token(tree.payments)
    begun(tree, token=token)
    unknown = {"status": "healthy", "mode": "control-plane", "active_sessions": None, "interruptible_sessions": None}
    assert Client().get("/health").json() == unknown
    assert get("/health", "nonsense") == (200, unknown)
    assert get("/health", token)[1] == unknown | {"active_sessions": 1, "interruptible_sessions": 1}
    reader = make_team_token(tree.payments, ["runs:read"])
    assert get("/health", reader)[1] == unknown | {"active_sessions": 1, "interruptible_sessions": 0}
    assert get("/health", make_team_token(tree.platform))[1]["active_sessions"] == 0


def test_routes__a_browser_session__opens_nothing(tree: Tree) -> None:
    person = make_user(tree.payments, Role.RESPONDER)
    client_investigate(actor=actor_for_user(person), asked=Asked("why?", NAME, {}))
    browser = Client()
    browser.force_login(person)
    assert browser.post("/interrupt", {"thread_id": NAME}, content_type="application/json").status_code == 401
    assert browser.get(f"/threads/{NAME}/active").status_code == 401


def test_routes__private_thread_of_somebody__is_not_there_for_the_team(tree: Tree) -> None:
    person = make_user(tree.payments, Role.RESPONDER)
    begun(tree, token=make_personal_token(person, tree.payments))
    token = make_team_token(tree.payments)
    assert code(post("/interrupt", token, {"thread_id": NAME})) == (404, "not_found")
    assert get(f"/threads/{NAME}/active", token)[1]["active"] is False


@pytest.mark.parametrize("body", ["[]", '"x"', "{"])
def test_routes__body_that_is_no_object__400(tree: Tree, body: str) -> None:
    token = make_team_token(tree.payments)
    for path in ("/interrupt", "/answer", f"/threads/{NAME}/queue-message"):
        answer = Client().post(path, body, content_type="application/json", headers=headers_of("web", token))
        assert answer.status_code == 400
        assert answer.json()["code"] in {"not_an_object", "malformed_json"}


def test_client_thread__deleted_with_its_thread(tree: Tree) -> None:
    run = begun(tree)
    run.thread.delete()
    assert not ClientThread.objects.exists()


def test_active__queries__few_and_fixed(tree: Tree, django_assert_num_queries: Any) -> None:
    token = make_team_token(tree.payments)
    begun(tree, token=token)
    get(f"/threads/{NAME}/active", token)
    with django_assert_num_queries(4):
        get(f"/threads/{NAME}/active", token)

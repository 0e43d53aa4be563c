"""REST of investigations: shapes, refusals, tenants, query counts."""

from typing import Any
from uuid import uuid4

import pytest

from controlplane.core.actor import Role
from controlplane.investigations.log import append, new_event
from controlplane.investigations.models import Audience, Thread
from controlplane.investigations.services import run_interrupt
from controlplane.runtimes.events import EventType, Thought
from tests.factories import (
    Tree,
    actor_for_user,
    api_client,
    make_admin_token,
    make_personal_token,
    make_team_token,
    make_user,
)
from tests.support.runs import envelopes, start_run

START = "/api/v1/investigations"


def client_of(tree: Tree, scopes: list[str] | None = None) -> Any:
    return api_client(token=make_team_token(tree.payments, scopes))


def test_start__team_token__accepted_with_its_stream(tree: Tree) -> None:
    response = client_of(tree).post(START, {"prompt": "why?"})

    body = response.json()
    thread = Thread.objects.get()
    assert response.status_code == 202
    assert body == {
        "thread_id": str(thread.pk),
        "run_id": str(thread.active_run),
        "stream_url": f"/api/v1/threads/{thread.pk}/stream",
    }
    assert thread.node_id == tree.payments.pk


def test_start__several_teams_in_reach__must_name_one(tree: Tree) -> None:
    client = api_client(token=make_admin_token(tree.root))

    unnamed = client.post(START, {"prompt": "why?"})
    named = client.post(START, {"prompt": "why?", "team": "demo/platform"})

    assert (unnamed.status_code, unnamed.json()["code"]) == (422, "team_required")
    assert unnamed.json()["teams"] == ["demo/payments", "demo/platform"]
    assert named.status_code == 202
    assert Thread.objects.get().node_id == tree.platform.pk


@pytest.mark.parametrize("team", ["nope", "demo/nope", "rival/payments", "demo/platform", "", "/"])
def test_start__team_not_in_reach__same_words_whether_it_exists(tree: Tree, other_tree: Tree, team: str) -> None:
    response = client_of(tree).post(START, {"prompt": "why?", "team": team})

    assert (response.status_code, response.json()["code"]) == (422, "unknown_team")
    assert response.json()["errors"][0]["pointer"] == "/team"


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"", 422, "invalid_input"),
        (b"{", 400, "malformed_json"),
        (b"[]", 400, "not_an_object"),
        (b'{"prompt": "a", "prompt": "b"}', 400, "duplicate_key"),
        (b'{"prompt": NaN}', 400, "malformed_json"),
        (b'{"prompt": "\xff"}', 400, "malformed_json"),
        (b'{"prompt": "\\ud800"}', 400, "malformed_json"),
        (b'{"prompt": "x", "alert": ' + b"[" * 100 + b"]" * 100 + b"}", 400, "nesting_too_deep"),
        (b'{"prompt": null}', 422, "invalid_input"),
        (b'{"alert": {}}', 422, "invalid_input"),
        (b'{"prompt": "x", "extra": 1}', 422, "unknown_member"),
        (b'{"prompt": "x", "team": 5}', 422, "invalid_input"),
        (b'{"prompt": "x", "evidence": "/etc"}', 422, "evidence_not_inline"),
        (b'{"prompt": "' + b"x" * 10_000_000 + b'"}', 413, "payload_too_large"),
    ],
)
def test_start__bad_body__clear_problem_and_nothing_stored(tree: Tree, raw: bytes, status: int, code: str) -> None:
    response = client_of(tree).post(START, raw, content_type="application/json")

    assert (response.status_code, response.json()["code"]) == (status, code)
    assert response.headers["Content-Type"] == "application/problem+json"
    assert not Thread.objects.exists()


def test_start__not_json__unsupported(tree: Tree) -> None:
    response = client_of(tree).post(START, "prompt=x", content_type="application/x-www-form-urlencoded")

    assert (response.status_code, response.json()["code"]) == (415, "unsupported_media_type")


def test_events__pages__cover_the_log_once(tree: Tree) -> None:
    thread = start_run(tree.system, tree.payments).thread
    for number in range(7):
        append(thread_id=thread.pk, events=[new_event(EventType.THOUGHT, Thought(text=str(number)), run_id=None)])
    client, seen, after = client_of(tree), [], 0

    while after is not None:
        page = client.get(f"/api/v1/threads/{thread.pk}/events", {"after": after, "limit": 3}).json()
        seen += page["results"]
        assert page["head"] == 8
        after = page["next"]

    assert seen == envelopes(thread.pk)


def test_events__for_the_starter_alone__withheld_from_others(tree: Tree) -> None:
    person = make_user(tree.payments, Role.RESPONDER)
    thread = start_run(actor_for_user(person), tree.payments, visibility="team").thread
    event = new_event(EventType.THOUGHT, Thought(text="mine"), run_id=None, audience=Audience.STARTER)
    append(thread_id=thread.pk, events=[event])
    url = f"/api/v1/threads/{thread.pk}/events"

    mine = api_client(token=make_personal_token(person, tree.payments, ["runs:read"])).get(url).json()["results"]
    theirs = client_of(tree).get(url).json()["results"]

    assert mine[1]["data"]["text"] == "mine"
    assert theirs[1]["data"] == {"withheld": True}


@pytest.mark.parametrize("query", [{"after": "-1"}, {"after": "x"}, {"limit": "0"}, {"limit": "5000"}, {"x": "1"}])
def test_events__bad_query__refused(tree: Tree, query: dict[str, str]) -> None:
    thread = start_run(tree.system, tree.payments).thread

    response = client_of(tree).get(f"/api/v1/threads/{thread.pk}/events", query)

    assert response.status_code == 400
    assert response.json()["code"] in {"bad_cursor", "bad_limit", "unknown_parameter"}


def test_thread__detail__runs_and_rights(tree: Tree) -> None:
    thread = start_run(tree.system, tree.payments).thread

    body = client_of(tree, ["runs:read"]).get(f"/api/v1/threads/{thread.pk}").json()

    assert (body["team"], body["visibility"], body["can_control"]) == ("demo/payments", "team", False)
    assert [run["status"] for run in body["runs"]] == ["queued"]
    assert body["pending_question"] is None


def test_messages__idle_and_busy__run_or_queue(tree: Tree) -> None:
    thread = start_run(tree.system, tree.payments).thread
    client = client_of(tree)
    url = f"/api/v1/threads/{thread.pk}/messages"

    busy = client.post(url, {"text": "one"}).json()
    run_interrupt(actor=tree.system, thread_id=thread.pk)
    run_interrupt(actor=tree.system, thread_id=thread.pk)  # the message became the next run
    idle = client.post(url, {"text": "two"})

    assert (busy["queued"], busy["run_id"], busy["pending_count"]) == (True, None, 1)
    assert idle.status_code == 202
    assert idle.json()["queued"] is False
    assert idle.json()["run_id"] == str(Thread.objects.get().active_run)


def test_interrupt__nothing_running__conflict(tree: Tree) -> None:
    thread = start_run(tree.system, tree.payments).thread
    client = client_of(tree)
    url = f"/api/v1/threads/{thread.pk}/interrupt"

    assert client.post(url).json()["status"] == "interrupted"
    again = client.post(url)

    assert (again.status_code, again.json()["code"]) == (409, "nothing_running")


@pytest.mark.parametrize("request_id", [None, 5, "", "x" * 65, "a\x00"])
def test_answers__bad_request_id__named(tree: Tree, request_id: Any) -> None:
    thread = start_run(tree.system, tree.payments).thread
    body = {"request_id": request_id, "answers": {"a": "b"}}

    response = client_of(tree).post(f"/api/v1/threads/{thread.pk}/answers", body)

    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, "/request_id")


def test_event_schemas__open__one_for_every_type(db: None) -> None:
    schemas = api_client().get("/api/v1/events/schema").json()

    assert set(schemas) == {str(type_) for type_ in EventType}
    assert schemas["result"]["properties"]["report"]


def endpoints(thread_id: Any) -> list[tuple[str, str, Any]]:
    base = f"/api/v1/threads/{thread_id}"
    return [
        ("get", base, None),
        ("get", f"{base}/events", None),
        ("post", f"{base}/messages", {"text": "x"}),
        ("post", f"{base}/interrupt", None),
        ("post", f"{base}/answers", {"request_id": "q", "answers": {"a": "b"}}),
    ]


def test_thread_endpoints__nobody__401_with_a_challenge(tree: Tree) -> None:
    thread = start_run(tree.system, tree.payments).thread

    for method, url, body in endpoints(thread.pk):
        response = getattr(api_client(), method)(url, body)
        assert (response.status_code, response.json()["code"]) == (401, "not_authenticated"), url
        assert response.headers["WWW-Authenticate"].startswith("Bearer")


def test_thread_endpoints__foreign_unseen_private_or_unknown__same_404(tree: Tree, other_tree: Tree) -> None:
    team = start_run(tree.system, tree.payments).thread
    private = start_run(actor_for_user(make_user(tree.payments, Role.RESPONDER)), tree.payments).thread
    owner = make_user(tree.root, Role.OWNER)
    cases = [
        (api_client(token=make_admin_token(other_tree.root)), team.pk),
        (api_client(token=make_team_token(tree.platform)), team.pk),
        (api_client(token=make_team_token(tree.payments, ["config:read"])), team.pk),
        (api_client(token=make_admin_token(tree.root)), private.pk),
        (api_client(token=make_personal_token(owner, tree.root)), private.pk),
        (client_of(tree), uuid4()),
    ]

    answers = {
        (response.status_code, response.content)
        for client, thread_id in cases
        for response in (getattr(client, method)(url, body) for method, url, body in endpoints(thread_id))
    }

    assert len(answers) == 1
    assert next(iter(answers))[0] == 404


def test_thread_endpoints__may_read_only__writes_are_403(tree: Tree) -> None:
    thread = start_run(tree.system, tree.payments).thread
    client = client_of(tree, ["runs:read"])

    statuses = [getattr(client, method)(url, body).status_code for method, url, body in endpoints(thread.pk)]

    assert statuses == [200, 200, 403, 403, 403]


def test_threads__list__own_team_newest_first_and_no_private_ones(tree: Tree, other_tree: Tree) -> None:
    mine = [start_run(tree.system, tree.payments, prompt=f"q{n}").thread for n in range(3)]
    start_run(tree.system, tree.platform)
    start_run(other_tree.system, other_tree.payments)
    start_run(actor_for_user(make_user(tree.payments, Role.RESPONDER)), tree.payments)
    client = client_of(tree)

    first = client.get("/api/v1/threads", {"limit": 2}).json()
    second = client.get("/api/v1/threads", {"limit": 2, "cursor": first["next"]}).json()

    listed = [thread["id"] for page in (first, second) for thread in page["results"]]
    assert listed == [str(thread.pk) for thread in reversed(mine)]
    assert second["next"] is None


def test_threads__list__query_count_does_not_grow(tree: Tree, django_assert_num_queries: Any) -> None:
    client = client_of(tree)
    for _ in range(12):
        start_run(tree.system, tree.payments)
    client.get("/api/v1/threads")  # the token's last use is written once a minute

    with django_assert_num_queries(2):  # the token, the page
        client.get("/api/v1/threads")


def test_events__query_count__is_three(tree: Tree, django_assert_num_queries: Any) -> None:
    client = client_of(tree)
    thread = start_run(tree.system, tree.payments).thread
    client.get("/api/v1/threads")

    with django_assert_num_queries(3):  # the token, the thread, the page
        client.get(f"/api/v1/threads/{thread.pk}/events")


def test_thread__query_count__does_not_grow_with_runs(tree: Tree, django_assert_num_queries: Any) -> None:
    client = client_of(tree)
    thread = start_run(tree.system, tree.payments).thread
    for number in range(5):
        run_interrupt(actor=tree.system, thread_id=thread.pk)
        client.post(f"/api/v1/threads/{thread.pk}/messages", {"text": str(number)})

    with django_assert_num_queries(5):  # token, thread, runs, their events, control
        client.get(f"/api/v1/threads/{thread.pk}")


def test_start__session_without_csrf_token__refused(tree: Tree) -> None:
    client = api_client(user=make_user(tree.payments, Role.RESPONDER), enforce_csrf_checks=True)

    response = client.post(START, {"prompt": "why?"})

    assert (response.status_code, response.json()["code"]) == (403, "csrf_failed")


def test_start__misspelt_query__starts_nothing(tree: Tree) -> None:
    response = client_of(tree).post(f"{START}?dry_run=true", {"prompt": "why?"})

    assert (response.status_code, response.json()["code"]) == (400, "unknown_parameter")
    assert not Thread.objects.exists()


def test_start__integer_of_65_bits__refused_by_name(tree: Tree) -> None:
    raw = b'{"prompt": "x", "alert": {"x": 18446744073709551616}}'

    response = client_of(tree).post(START, raw, content_type="application/json")

    assert (response.status_code, response.json()["code"]) == (400, "number_out_of_range")


def test_errors__secret_as_a_key__never_echoed(tree: Tree) -> None:
    secret = "ghp_" + "a1B2" * 9
    client = client_of(tree)
    thread = start_run(tree.system, tree.payments).thread
    evidence = {"format": "snapshot/1", "sources": {secret: {}}}
    answers = [
        client.post(START, f'{{"{secret}": 1, "{secret}": 2}}', content_type="application/json"),
        client.post(START, {"prompt": "x", secret: 1}),
        client.post(START, {"prompt": "x", "evidence": evidence}),
        client.post(f"/api/v1/threads/{thread.pk}/answers", {"request_id": "q", "answers": {secret: 5}}),
    ]

    assert [answer.status_code for answer in answers] == [400, 422, 422, 422]
    assert not [answer for answer in answers if secret in answer.content.decode()]


@pytest.mark.parametrize("body", ["[]", "0", '"x"'])
def test_interrupt__body_that_is_no_object__refused(tree: Tree, body: str) -> None:
    thread = start_run(tree.system, tree.payments).thread

    response = client_of(tree).post(f"/api/v1/threads/{thread.pk}/interrupt", body, content_type="application/json")

    assert (response.status_code, response.json()["code"]) == (400, "not_an_object")
    assert Thread.objects.get().active_run is not None

"""Ratings of runs: who may say what, once, and how it shows."""

from typing import Any
from uuid import uuid4

import pytest

from controlplane.audit.models import AuditEvent
from controlplane.core.actor import Actor, Role
from controlplane.core.errors import Conflict, InvalidInput, NotFound, PermissionDenied
from controlplane.investigations.feedback import feedback_give, ratings_of
from controlplane.investigations.models import Feedback, Thread
from controlplane.investigations.selectors import runs_page
from controlplane.investigations.starting import Started
from tests.factories import Tree, actor_for_user, api_client, make_team_token, make_user
from tests.support.runs import in_threads, start_run
from tests.web.support import Person, finish, start

SECRET = "ghp_" + "a1B2" * 9


@pytest.fixture
def rita(tree: Tree) -> Actor:
    return actor_for_user(make_user(tree.payments, Role.RESPONDER))


@pytest.fixture
def ended(tree: Tree) -> Started:
    return finish(start(Person.signed_in(make_user(tree.payments)), tree.payments, visibility="team"))


def rate(actor: Actor, started: Started, verdict: str = "correct", **fields: Any) -> Feedback:
    return feedback_give(actor=actor, thread_id=started.thread.pk, verdict=verdict, **fields)


def test_give__twice__one_row_with_the_later_words(rita: Actor, ended: Started) -> None:
    rate(rita, ended, "wrong", reason="It was DNS.")
    changed = rate(rita, ended, "partial", reason="  ")

    assert [(item.verdict, item.reason) for item in Feedback.objects.all()] == [("partial", "")]
    assert changed.changed_at > changed.created_at
    said = ratings_of(rita, [ended.run.pk])[ended.run.pk]
    assert said.counts == {"correct": 0, "partial": 1, "wrong": 0}
    assert said.mine == changed


def test_give__audited__by_digest_alone(rita: Actor, ended: Started) -> None:
    rate(rita, ended, "wrong", reason="It was DNS.")
    rate(rita, ended, "wrong", reason="It was BGP.")

    first, second = AuditEvent.objects.filter(action="run.rate").order_by("org_seq")
    assert (first.object_id, first.before_json) == (str(ended.run.pk), "null")
    assert second.before_json == first.after_json != second.after_json
    assert not any(word in event.after_json for event in (first, second) for word in ("DNS", "BGP", "wrong"))


def test_give__secret_in_the_reason__is_not_stored(rita: Actor, ended: Started) -> None:
    assert SECRET not in rate(rita, ended, reason=f"it used {SECRET}").reason


def test_give__run_not_ended__conflict(tree: Tree, rita: Actor) -> None:
    started = start_run(tree.system, tree.payments, visibility="team")
    for run_id in (None, started.run.pk):
        with pytest.raises(Conflict) as caught:
            rate(rita, started, run_id=run_id)
        assert caught.value.code == "run_not_ended"


def test_give__run_of_another_thread__not_found(tree: Tree, rita: Actor, ended: Started) -> None:
    other = finish(start(Person.signed_in(make_user(tree.payments)), tree.payments, visibility="team"))
    with pytest.raises(NotFound):
        rate(rita, ended, run_id=other.run.pk)


@pytest.mark.parametrize(
    ("verdict", "reason", "code"),
    [
        ("good", "", "unknown_verdict"),
        (None, "", "unknown_verdict"),
        ("wrong", "x" * 2001, "too_long"),
        ("wrong", 5, "not_text"),
    ],
)
def test_give__bad_words__refused(rita: Actor, ended: Started, verdict: Any, reason: Any, code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        rate(rita, ended, verdict, reason=reason)
    assert caught.value.code == code
    assert not Feedback.objects.exists()


def test_give__viewer__may_read_and_not_rate(tree: Tree, ended: Started) -> None:
    with pytest.raises(PermissionDenied):
        rate(actor_for_user(make_user(tree.payments, Role.VIEWER)), ended)


def test_give__private_thread_of_another__not_found(tree: Tree, rita: Actor) -> None:
    started = finish(start(Person.signed_in(make_user(tree.payments)), tree.payments))
    with pytest.raises(NotFound):
        rate(rita, started)


@pytest.mark.django_db(transaction=True)
def test_give__two_answers_of_one_person_at_once__one_row(tree: Tree, rita: Actor, ended: Started) -> None:
    outcomes = in_threads(*(lambda verdict=verdict: rate(rita, ended, verdict) for verdict in ("correct", "wrong")))

    assert all(isinstance(outcome, Feedback) for outcome in outcomes), outcomes
    assert Feedback.objects.count() == 1


def test_api__give_and_list__shapes(tree: Tree, ended: Started) -> None:
    client = api_client(token=make_team_token(tree.payments))
    url = f"/api/v1/threads/{ended.thread.pk}/feedback"

    given = client.post(url, {"verdict": "partial", "reason": "half", "run_id": str(ended.run.pk)})

    assert given.status_code == 200
    assert {**given.json(), "id": 0, "created_at": 0, "changed_at": 0} == {
        "id": 0, "run_id": str(ended.run.pk), "verdict": "partial", "reason": "half", "by": "team of payments",
        "mine": True, "miss": "unknown", "created_at": 0, "changed_at": 0,
    }  # fmt: skip
    assert client.get(url).json() == {"results": [given.json()]}
    bad = client.post(url, {"verdict": "partial", "stars": 5})
    assert (bad.status_code, bad.json()["code"]) == (422, "unknown_member")


def test_runs_page__ratings__counted_in_its_one_query(
    tree: Tree, rita: Actor, ended: Started, django_assert_num_queries: Any
) -> None:
    rate(rita, ended, "correct")
    rate(tree.system, ended, "correct", on_behalf_of="slack:U1")
    rate(tree.system, ended, "wrong", on_behalf_of="slack:U2")

    with django_assert_num_queries(1):
        (run,) = runs_page(rita).results
    assert (run.rated_correct, run.rated_partial, run.rated_wrong) == (2, 0, 1)  # type: ignore[attr-defined]


# ---- OpenSRE's calls ------------------------------------------------------------------------------------------------


def test_opensre_feedback__two_people_behind_one_bot__two_rows(tree: Tree, ended: Started) -> None:
    client = api_client(token=make_team_token(tree.payments))
    body = {"run_id": str(ended.run.pk), "feedback": "positive", "source": "slack", "extra": 1}

    answers = [client.post("/api/v1/internal/feedback", body | {"user_id": user}) for user in ("U1", "U2", "U1")]

    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert answers[0].json() == {"success": True, "run_id": str(ended.run.pk), "feedback": "positive"}
    assert sorted(Feedback.objects.values_list("on_behalf_of", flat=True)) == ["slack:U1", "slack:U2"]


def test_opensre_feedback__by_thread_alone__its_last_run(tree: Tree, ended: Started) -> None:
    client = api_client(token=make_team_token(tree.payments))
    body = {"run_id": "unknown", "correlation_id": str(ended.thread.pk), "feedback": "negative", "source": "teams"}

    assert client.post("/api/v1/internal/feedback", body).json()["run_id"] == str(ended.run.pk)
    assert Feedback.objects.get().verdict == "wrong"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ([], 400, "not_an_object"),
        ({}, 422, "bad_run_id"),
        ({"run_id": 7, "feedback": "positive"}, 422, "bad_run_id"),
        ({"run_id": str(uuid4()), "feedback": "positive"}, 404, "not_found"),
    ],
)
def test_opensre_feedback__bad_body__clear_problem(tree: Tree, body: Any, status: int, code: str) -> None:
    answer = api_client(token=make_team_token(tree.payments)).post("/api/v1/internal/feedback", body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_opensre_feedback__person_speaks_for_nobody_else(tree: Tree, ended: Started) -> None:
    client = api_client(user=make_user(tree.payments))
    body = {"run_id": str(ended.run.pk), "feedback": "positive", "user_id": "boss", "source": "web"}
    client.post("/api/v1/internal/feedback", body)
    assert Feedback.objects.get().on_behalf_of == ""


def test_agent_runs__list_detail_trace__in_their_shape(tree: Tree, ended: Started, rita: Actor) -> None:
    rate(rita, ended, "wrong")
    client = api_client(token=make_team_token(tree.payments))

    (listed,) = client.get("/api/v1/team/agent-runs?limit=5&offset=0").json()
    one = client.get(f"/api/v1/team/agent-runs/{ended.run.pk}").json()
    trace = client.get(f"/api/v1/team/agent-runs/{ended.run.pk}/trace").json()

    assert set(listed) == {
        "id", "correlationId", "agentName", "triggerSource", "triggerActor", "triggerMessage", "status", "startedAt",
        "completedAt", "durationSeconds", "toolCallsCount", "outputSummary", "outputJson", "errorMessage", "confidence",
        "feedback",
    }  # fmt: skip
    assert (listed["status"], listed["feedback"], listed["correlationId"]) == (
        "completed",
        "negative",
        str(ended.thread.pk),
    )
    assert (one["outputSummary"][:6], one["confidence"], one["outputJson"]["format"]) == ("# Done", 0.824, "report/1")
    assert (trace["runId"], trace["total"]) == (str(ended.run.pk), 0)
    assert client.get("/api/v1/team/agent-runs?offset=1").json() == []
    assert client.get("/api/v1/team/agent-runs?offset=-1").json()["code"] == "bad_offset"


def test_agent_runs__query_count__does_not_grow(tree: Tree, ended: Started, django_assert_num_queries: Any) -> None:
    for _ in range(3):
        finish(start(Person.signed_in(make_user(tree.payments)), tree.payments, visibility="team"))
    client = api_client(token=make_team_token(tree.payments))
    client.get("/api/v1/team/agent-runs")
    with django_assert_num_queries(7):  # token; which; ours, their tool calls and ratings; reported ones
        assert len(client.get("/api/v1/team/agent-runs").json()) == 4


def test_agent_runs__other_organization__nothing(tree: Tree, other_tree: Tree, ended: Started) -> None:
    client = api_client(token=make_team_token(other_tree.payments))
    assert client.get("/api/v1/team/agent-runs").json() == []
    for path in ("", "/trace"):
        assert client.get(f"/api/v1/team/agent-runs/{ended.run.pk}{path}").status_code == 404
    assert Thread.objects.count() == 1


# ---- misses ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("miss", ["retrieval_gap", "reasoning_gap", "tool_failure", "routing_failure", "unknown"])
@pytest.mark.parametrize("verdict", ["partial", "wrong"])
def test_give__miss__kept_with_the_rating(rita: Actor, ended: Started, verdict: str, miss: str) -> None:
    assert rate(rita, ended, verdict, miss=miss).miss == miss


def test_give__no_miss_said__unknown_or_as_before_and_none_of_a_correct_answer(rita: Actor, ended: Started) -> None:
    assert rate(rita, ended, "wrong").miss == "unknown"
    assert rate(rita, ended, "wrong", miss="tool_failure").miss == "tool_failure"
    assert rate(rita, ended, "partial").miss == "tool_failure"
    assert rate(rita, ended, "correct").miss == ""


@pytest.mark.parametrize(
    ("verdict", "miss", "code"),
    [
        ("wrong", "bad_luck", "unknown_miss"),
        ("wrong", 7, "unknown_miss"),
        ("correct", "tool_failure", "miss_of_correct"),
    ],
)
def test_give__bad_miss__refused_with_the_field(
    rita: Actor, ended: Started, verdict: str, miss: object, code: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        rate(rita, ended, verdict, miss=miss)
    assert [(error.pointer, error.code) for error in caught.value.errors] == [("/miss", code)]
    assert not Feedback.objects.exists()


def test_api__miss__shown_to_its_rater_alone(tree: Tree, ended: Started) -> None:
    mine, other = make_user(tree.payments), make_user(tree.payments)
    path = f"/api/v1/threads/{ended.thread.pk}/feedback"
    given = api_client(user=mine).post(path, {"verdict": "wrong", "miss": "retrieval_gap"}).json()
    assert given["miss"] == "retrieval_gap"
    assert api_client(user=mine).get(path).json()["results"][0]["miss"] == "retrieval_gap"
    for client in (api_client(user=other), api_client(token=make_team_token(tree.payments))):
        (seen,) = client.get(path).json()["results"]
        assert (seen["verdict"], seen["miss"]) == ("wrong", None)
        assert "retrieval_gap" not in client.get(path).content.decode()

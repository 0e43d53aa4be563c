"""Reviews over REST: lists, pages, decisions, who sees what."""

from datetime import timedelta
from uuid import uuid4

import pytest
import time_machine
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from controlplane.core import clock
from controlplane.core.actor import Role
from controlplane.reviews.models import ReviewRequest
from tests.factories import Tree, actor_for_user, api_client, make_operator, make_team_token, make_user
from tests.reviews.support import SampleKind, open_review

pytestmark = pytest.mark.django_db
URL = "/api/v1/reviews"


def test_list__reviewer__summaries_newest_first_with_what_it_may_do(tree: Tree, kind: SampleKind) -> None:
    author = make_user(tree.payments, Role.ADMIN, username="ada")
    first, second = (open_review(tree.payments, actor_for_user(author), reason=text) for text in ("one", "two"))
    body = api_client(user=make_user(tree.root, Role.REVIEWER)).get(URL).json()
    assert [row["id"] for row in body["results"]] == [str(second.pk), str(first.pk)]
    row = body["results"][0]
    assert row["requested_by"] == {"principal": f"user:{author.pk}", "name": "ada", "channel": "web"}
    assert (row["url"], row["kind"], row["state"], row["node"], row["organization"], row["reason"]) == (
        f"{URL}/{second.pk}", "sample", "pending", "payments", "demo", "two",
    )  # fmt: skip
    assert (row["actions"], row["decided_by"], row["decided_at"]) == (["approve", "reject"], None, None)
    assert "diff" not in row
    own = api_client(user=author).get(URL).json()["results"]
    assert [row["actions"] for row in own] == [["withdraw"], ["withdraw"]]


def test_list__filters_and_pages(tree: Tree, kind: SampleKind) -> None:
    author = actor_for_user(make_user(tree.root, Role.ADMIN))
    rows = [open_review(node, author) for node in (tree.payments, tree.platform, tree.payments)]
    client = api_client(user=make_user(tree.root, Role.REVIEWER))
    client.post(f"{URL}/{rows[0].pk}/reject", {"reason": "no"})

    def found(query: str) -> list[int]:
        ids = [str(row.pk) for row in rows]
        return [ids.index(row["id"]) for row in client.get(f"{URL}?{query}").json()["results"]]

    assert found("state=pending") == [2, 1]
    assert found("node=payments") == [2, 0]
    assert found("kind=sample&state=rejected") == [0]
    assert found("kind=other") == []
    page = client.get(f"{URL}?limit=2").json()
    assert len(page["results"]) == 2
    assert found(f"limit=2&cursor={page['next']}") == [0]
    for query, code in (("state=open", "bad_state"), ("stat=pending", "unknown_parameter"), ("cursor=x", "bad_cursor")):
        response = client.get(f"{URL}?{query}")
        assert (response.status_code, response.json()["code"]) == (400, code)


def test_list__many__a_fixed_number_of_queries(
    tree: Tree, kind: SampleKind, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    author = actor_for_user(make_user(tree.root, Role.ADMIN))
    for node in (tree.payments, tree.platform, tree.engineering) * 4:
        open_review(node, author)
    client = api_client(user=make_user(tree.root, Role.REVIEWER))
    client.get(URL)
    with django_assert_num_queries(6):  # session, person, roles; what is due; the page; the lineages
        assert len(client.get(URL).json()["results"]) == 12


def test_read__whole_review__and_a_late_one_is_expired_by_reading(tree: Tree, kind: SampleKind) -> None:
    review = open_review(tree.payments, actor_for_user(make_user(tree.payments, Role.ADMIN)))
    client = api_client(user=make_user(tree.root, Role.REVIEWER))
    body = client.get(f"{URL}/{review.pk}").json()
    assert (body["diff"], body["snapshot"], body["evidence"], body["result"]) == (
        [{"pointer": "/a", "after": 1}], {"s": 1}, [], {},
    )  # fmt: skip
    with time_machine.travel(clock.now() + timedelta(days=15), tick=False):
        client.force_login(make_user(tree.root, Role.REVIEWER))
        assert client.get(f"{URL}/{review.pk}").json()["state"] == "expired"
    assert ReviewRequest.objects.get(pk=review.pk).state == "expired"


def test_decide__over_rest__answers_the_review(tree: Tree, kind: SampleKind) -> None:
    author = make_user(tree.payments, Role.ADMIN)
    reviewer = api_client(user=make_user(tree.root, Role.REVIEWER, username="eve"))
    approved, rejected, withdrawn = (open_review(tree.payments, actor_for_user(author)) for _ in range(3))
    answer = reviewer.post(f"{URL}/{approved.pk}/approve", {"reason": "fine"})
    assert answer.status_code == 200
    body = answer.json()
    assert (body["state"], body["decided_by"]["name"], body["decision_reason"]) == ("approved", "eve", "fine")
    assert (body["result"], body["actions"]) == ({"done": True}, [])
    assert reviewer.post(f"{URL}/{rejected.pk}/reject").json()["state"] == "rejected"
    assert api_client(user=author).post(f"{URL}/{withdrawn.pk}/withdraw", {}).json()["state"] == "withdrawn"
    late = reviewer.post(f"{URL}/{approved.pk}/reject", {})
    assert (late.status_code, late.json()["code"], late.json()["state"]) == (409, "review_not_pending", "approved")
    assert len(kind.applied) == 1


@pytest.mark.parametrize("transition", ["approve", "reject", "withdraw"])
def test_decide__bad_body__422_or_400_and_still_pending(tree: Tree, kind: SampleKind, transition: str) -> None:
    review = open_review(tree.payments, actor_for_user(make_user(tree.payments, Role.ADMIN)))
    client = api_client(user=make_user(tree.root, Role.OWNER))
    for body, status in (({"reason": 5}, 422), ({"why": "x"}, 422), ([], 400)):
        assert client.post(f"{URL}/{review.pk}/{transition}", body).status_code == status
    assert ReviewRequest.objects.get(pk=review.pk).state == "pending"


def test_endpoints__who_may_not_see__404_and_no_credential_401(tree: Tree, other_tree: Tree, kind: SampleKind) -> None:
    review = open_review(tree.payments, actor_for_user(make_user(tree.payments, Role.ADMIN)))
    unseen = [
        api_client(user=make_user(other_tree.root, Role.OWNER)),
        api_client(user=make_user(tree.platform, Role.REVIEWER)),
        api_client(user=make_user(tree.root, Role.ADMIN)),
        api_client(user=make_operator()),
        api_client(token=make_team_token(tree.payments)),
    ]
    for client in unseen:
        assert client.get(URL).json()["results"] == []
        assert client.get(f"{URL}/{review.pk}").status_code == 404
        for transition in ("approve", "reject", "withdraw"):
            assert client.post(f"{URL}/{review.pk}/{transition}", {}).status_code == 404
    assert api_client().get(URL).status_code == 401
    assert api_client().post(f"{URL}/{review.pk}/approve", {}).status_code == 401
    assert api_client(user=make_user(tree.root, Role.OWNER)).get(f"{URL}/{uuid4()}").status_code == 404
    assert ReviewRequest.objects.get(pk=review.pk).state == "pending"


def test_approve__own_request__403(tree: Tree, kind: SampleKind) -> None:
    owner = make_user(tree.root, Role.OWNER)
    review = open_review(tree.payments, actor_for_user(owner))
    answer = api_client(user=owner).post(f"{URL}/{review.pk}/approve", {})
    assert (answer.status_code, answer.json()["code"]) == (403, "own_request")
    assert ReviewRequest.objects.get(pk=review.pk).state == "pending"


def test_approve__session_without_csrf_token__refused(tree: Tree, kind: SampleKind) -> None:
    review = open_review(tree.payments, actor_for_user(make_user(tree.payments, Role.ADMIN)))
    client = api_client(user=make_user(tree.root, Role.OWNER), enforce_csrf_checks=True)
    assert client.post(f"{URL}/{review.pk}/approve", {}).json()["code"] == "csrf_failed"
    assert kind.applied == []


def test_admin__operator__sees_and_changes_nothing(tree: Tree, kind: SampleKind, client: Client) -> None:
    review = open_review(tree.payments, actor_for_user(make_user(tree.payments, Role.ADMIN)))
    client.force_login(make_operator())
    assert "Sample of 1" in client.get("/admin/reviews/reviewrequest/").content.decode()
    page = client.get(f"/admin/reviews/reviewrequest/{review.pk}/change/")
    assert page.status_code == 200
    assert client.post(f"/admin/reviews/reviewrequest/{review.pk}/change/", {"state": "approved"}).status_code == 403
    assert client.get("/admin/reviews/reviewrequest/add/").status_code == 403
    assert ReviewRequest.objects.get(pk=review.pk).state == "pending"

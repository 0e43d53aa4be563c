"""The reviews inbox, one review, and deciding it on a page."""

import html
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controlplane.configs.models import ConfigDocument
from controlplane.configs.policy_services import policy_create
from controlplane.configs.services import config_patch
from controlplane.core import clock
from controlplane.core.actor import Role
from controlplane.reviews.models import ReviewRequest
from controlplane.reviews.services import review_reject
from tests.factories import Tree, make_user
from tests.web.support import EVIL, Person


@pytest.fixture
def guarded(tree: Tree) -> Tree:
    """Limits need approval; the team has a value."""
    config_patch(actor=tree.system, node=tree.payments, patch={"limits": {"max_turns": 20}})
    policy_create(actor=tree.system, node=tree.root, pointer="/limits", kind="requires_approval")
    return tree


def ask(tree: Tree, person: Person, turns: int = 10, reason: str = "Too slow") -> ReviewRequest:
    patch = {"limits": {"max_turns": turns}}
    review = config_patch(actor=person.actor, node=tree.payments, patch=patch, reason=reason).review
    assert review is not None
    return review


def decide(person: Person, review: ReviewRequest, decision: str, reason: str = "") -> Any:
    return person.client.post(f"/app/reviews/{review.pk}/decide", {"decision": decision, "reason": reason})


def state(review: ReviewRequest) -> str:
    return ReviewRequest.objects.get(pk=review.pk).state


def turns(tree: Tree) -> int:
    value: int = ConfigDocument.objects.get(pk=tree.payments.pk).document["limits"]["max_turns"]
    return value


def listed(person: Person, query: str = "") -> list[Any]:
    answer: Any = person.client.get(f"/app/reviews{query}")
    return [review.pk for review in answer.context["reviews"]]


def page_of(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def test_inbox__each_sees_what_is_theirs(
    guarded: Tree, admin: Person, reviewer: Person, viewer: Person, outsider: Person
) -> None:
    review = ask(guarded, admin)
    assert listed(reviewer) == [review.pk]
    assert listed(admin) == listed(admin, "?show=mine") == [review.pk]  # decides nothing: begins with its own
    assert listed(reviewer, "?show=mine") == listed(reviewer, "?show=decided") == []
    assert listed(viewer) == listed(outsider) == listed(outsider, "?show=decided") == []


def test_badge__counts_what_waits_for_this_person(guarded: Tree, admin: Person, reviewer: Person) -> None:
    words = " 1 waiting for you"
    assert words not in page_of(reviewer.client.get("/app/runs"))
    review = ask(guarded, admin)
    assert words in page_of(reviewer.client.get("/app/runs"))
    assert "waiting for you" not in page_of(admin.client.get("/app/runs"))
    decide(reviewer, review, "reject", "No")
    assert "waiting for you" not in page_of(reviewer.client.get("/app/runs"))


def test_badge__own_request_of_a_reviewer__does_not_wait_for_its_author(guarded: Tree) -> None:
    user = make_user(guarded.payments, Role.ADMIN)
    both = Person.signed_in(user)
    user.memberships.create(node=guarded.payments, role=Role.REVIEWER.value)
    review = ask(guarded, both)
    assert "waiting for you" not in page_of(both.client.get("/app/reviews"))
    page = page_of(both.client.get(f"/app/reviews/{review.pk}"))
    assert ('value="withdraw"' in page, 'value="approve"' in page) == (True, False)
    assert decide(both, review, "approve").status_code == 403
    assert state(review) == "pending"


def test_review__shows_what_who_and_why(guarded: Tree, admin: Person, reviewer: Person) -> None:
    review = ask(guarded, admin, reason=EVIL[:40])
    answer = reviewer.client.get(f"/app/reviews/{review.pk}")
    page = page_of(answer)
    assert "<script>alert" not in answer.content.decode()
    for words in ("/limits/max_turns", ">20<", ">10<", "ada", "asked for by demo", EVIL[:40], "Approve", "Reject"):
        assert words in page


def test_approve__applies_once_and_says_which_version(guarded: Tree, admin: Person, reviewer: Person) -> None:
    review = ask(guarded, admin)
    decide(reviewer, review, "approve")
    page = page_of(reviewer.client.get(f"/app/reviews/{review.pk}"))
    assert (state(review), turns(guarded)) == ("approved", 10)
    assert "payments is at version 2 now" in page
    assert "/app/config/payments/compare?b=2" in page
    decide(reviewer, review, "approve")
    assert "approved already" in page_of(reviewer.client.get(f"/app/reviews/{review.pk}"))
    history = page_of(admin.client.get("/app/config/payments/history"))
    assert "approved by rex" in history


def test_reject__needs_a_reason_at_its_field(guarded: Tree, admin: Person, reviewer: Person) -> None:
    review = ask(guarded, admin)
    refused = decide(reviewer, review, "reject", "  ")
    assert (refused.status_code, state(review)) == (422, "pending")
    assert 'aria-describedby="reason-error"' in page_of(refused)
    decide(reviewer, review, "reject", "Not now")
    assert (state(review), turns(guarded)) == ("rejected", 20)
    assert "Not now" in page_of(admin.client.get(f"/app/reviews/{review.pk}"))


def test_reason__too_long__stays_pending_with_the_error_at_its_field(
    guarded: Tree, admin: Person, reviewer: Person
) -> None:
    review = ask(guarded, admin)
    answer = decide(reviewer, review, "approve", "x" * 501)
    assert (answer.status_code, state(review), turns(guarded)) == (422, "pending", 20)
    assert 'id="reason-error"' in page_of(answer)


def test_withdraw__by_the_author_alone(guarded: Tree, admin: Person, reviewer: Person) -> None:
    review = ask(guarded, admin)
    assert decide(reviewer, review, "withdraw").status_code == 403
    assert state(review) == "pending"
    decide(admin, review, "withdraw")
    assert state(review) == "withdrawn"


def test_approve__ground_moved__shows_the_new_difference_and_the_author_asks_again(
    guarded: Tree, admin: Person, reviewer: Person, owner: Person
) -> None:
    review = ask(guarded, admin)
    config_patch(actor=owner.actor, node=guarded.payments, patch={"limits": {"max_turns": 30}})
    moved = page_of(reviewer.client.get(decide(reviewer, review, "approve")["Location"]))
    assert (state(review), turns(guarded)) == ("needs_rebase", 30)
    assert "The ground has moved" in moved
    assert "rex wanted to approve it" in moved
    assert ">30<" in moved
    assert 'value="again"' not in moved
    assert 'value="again"' in page_of(admin.client.get(f"/app/reviews/{review.pk}"))
    preview: Any = decide(admin, review, "again")
    assert [(row.pointer, row.before.value, row.after.value) for row in preview.context["rows"]] == [
        ("/limits/max_turns", "30", "10")
    ]
    draft = preview.context["draft"]
    assert (draft.version, draft.reason) == (2, "Too slow")
    data = {"mode": "document", "text": draft.text, "version": draft.version, "reason": draft.reason, "step": "save"}
    admin.client.post("/app/config/payments/edit", data)
    decide(reviewer, ReviewRequest.objects.exclude(pk=review.pk).get(), "approve")
    assert turns(guarded) == 10


def test_again__by_others_or_while_pending__is_refused(guarded: Tree, admin: Person, owner: Person) -> None:
    review = ask(guarded, admin)
    assert decide(admin, review, "again").status_code == 403
    review_reject(actor=owner.actor, review=review, reason="No")
    assert decide(owner, review, "again").status_code == 403
    assert "Preview" in page_of(decide(admin, review, "again"))


def test_approve__a_rule_forbids_it_now__says_which_and_stays_pending(
    guarded: Tree, admin: Person, reviewer: Person
) -> None:
    review = ask(guarded, admin)
    policy_create(actor=guarded.system, node=guarded.root, pointer="/limits/max_turns", kind="minimum", value=15)
    answer = decide(reviewer, review, "approve")
    assert (answer.status_code, state(review), turns(guarded)) == (422, "pending", 20)
    assert "at least 15" in page_of(answer)


def test_expired__is_ended_when_somebody_looks(guarded: Tree, admin: Person, reviewer: Person) -> None:
    review = ask(guarded, admin)
    ReviewRequest.objects.filter(pk=review.pk).update(expires_at=clock.now() - timedelta(seconds=1))
    assert listed(reviewer) == []
    assert state(review) == "expired"
    assert listed(reviewer, "?show=decided") == [review.pk]
    assert "nobody decided in time" in page_of(reviewer.client.get(f"/app/reviews/{review.pk}"))


@pytest.mark.parametrize("decision", ["approve", "reject", "withdraw", "again", ""])
def test_decide__strangers__find_nothing_and_change_nothing(
    guarded: Tree, admin: Person, viewer: Person, outsider: Person, anonymous: Client, decision: str
) -> None:
    review = ask(guarded, admin)
    for person in (viewer, outsider):
        assert decide(person, review, decision, "x").status_code == 404
        assert person.client.get(f"/app/reviews/{review.pk}").status_code == 404
    path = f"/app/reviews/{review.pk}/decide"
    assert anonymous.post(path, {"decision": decision})["Location"].startswith("/login/")
    assert admin.client.get(path).status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin.user)
    assert strict.post(path, {"decision": decision}).status_code == 403
    assert state(review) == "pending"


def test_inbox__many__are_paged(guarded: Tree, admin: Person, reviewer: Person) -> None:
    for number in range(32):
        ask(guarded, admin, 30 + number)
    first: Any = reviewer.client.get("/app/reviews")
    assert len(first.context["reviews"]) == 30
    assert len(listed(reviewer, f"?show=waiting&cursor={first.context['older']}")) == 2
    assert reviewer.client.get("/app/reviews?cursor=nonsense")["Location"] == "/app/reviews"


def test_query_counts__do_not_grow(guarded: Tree, admin: Person, reviewer: Person) -> None:
    def queries(path: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert reviewer.client.get(path).status_code == 200
        return len(captured)

    review = ask(guarded, admin)
    paths = ["/app/reviews", "/app/reviews?show=decided", f"/app/reviews/{review.pk}", "/app/config/payments"]
    reviewer.client.get("/app/config/payments")  # what it merges is kept
    few = [queries(path) for path in paths]
    for number in range(6):
        ask(guarded, admin, 30 + number)
    assert [queries(path) for path in paths] == few
    # Session, user, roles, what is overdue, the list, the badge; one review: also its node's lineage, and its author
    # with the rights there are now.
    assert few[0] <= 6
    assert few[1] <= 6
    assert few[2] <= 10
    assert few[3] <= 11


@pytest.mark.parametrize("path", ["/app/reviews", "/app/reviews?show=mine", "/app/reviews?show=decided"])
def test_inbox__nothing_there__says_what_would_be(tree: Tree, reviewer: Person, path: str) -> None:
    assert 'class="card empty"' in page_of(reviewer.client.get(path))

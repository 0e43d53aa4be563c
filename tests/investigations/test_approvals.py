"""Actions that a person approves: asked for, decided, done once, from the words of a person to the server it is for."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import transaction
from pytest_django import Settings

from controlplane.access.models import Membership
from controlplane.audit.models import AuditEvent
from controlplane.configs.services import config_patch
from controlplane.core import clock
from controlplane.core.actor import Actor, Role
from controlplane.core.errors import AppError
from controlplane.investigations.actions import action_begin, action_finish
from controlplane.investigations.approvals import ApprovalNotBound, approval_decide, approval_open
from controlplane.investigations.lifecycle import Claim, run_claim
from controlplane.investigations.log import LeaseLost
from controlplane.investigations.models import ActionApproval, Execution, Message, Run
from controlplane.investigations.services import message_post, run_interrupt
from controlplane.reviews.models import ReviewRequest
from controlplane.reviews.services import review_withdraw, reviews_expire
from controlplane.runtimes.events import Approval, ToolEnd
from controlplane.runtimes.toolbox import action_digest
from tests.factories import Tree, actor_for_user, entrust, make_user
from tests.support.action_server import ActionServer, action_server
from tests.support.processes import manage
from tests.support.runs import (
    envelopes,
    start_run,
    types,
    wait_for_status,
    wait_until,
    work_on,
)
from tests.support.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)

PROMPT = 'Please run action restart with service=checkout, reason="memory is full".'
SECRET = "action-server-secret-7f3a"


@pytest.fixture
def server(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[ActionServer]:
    settings.OUTBOUND_PRIVATE_ALLOW = ["127.0.0.0/8"]
    monkeypatch.setenv("OPENSRE_CRED_OPS", SECRET)
    with action_server() as served:
        yield served


@pytest.fixture
def asker(tree: Tree) -> Actor:
    return actor_for_user(make_user(tree.payments, Role.RESPONDER, username="asker"))


@pytest.fixture
def reviewer(tree: Tree) -> Actor:
    return actor_for_user(make_user(tree.payments, Role.REVIEWER, username="rita"))


def configure(tree: Tree, server: ActionServer, **action: Any) -> None:
    entrust(tree.root, "OPENSRE_CRED_OPS", ["127.0.0.1"])
    fields = {
        "url": server.url,
        "description": "Restarts a service.",
        "auth": {"type": "bearer", "token": "${OPENSRE_CRED_OPS}"},
        "arguments": {"service": {"allowed_values": ["checkout", "cart"]}, "reason": {"required": False}},
    }
    config_patch(actor=tree.system, node=tree.payments, patch={"actions": {"restart": fields | action}})


def asked(tree: Tree, asker: Actor, prompt: str = PROMPT) -> Run:
    """Return a run that waits for the decision about its action."""
    started = start_run(asker, tree.payments, prompt=prompt, runtime="builtin", visibility="team")
    run = work_on(started.run)
    assert run.status == "waiting", envelopes(run.thread_id)
    return run


def events(run: Run, type_: str) -> list[dict[str, Any]]:
    return [event["data"] for event in envelopes(run.thread_id) if event["type"] == type_]


def decide(actor: Actor, run: Run, decision: str = "approve", reason: str = "") -> ReviewRequest:
    return approval_decide(
        actor=actor, thread_id=run.thread_id, request_id=run.waiting_for, decision=decision, reason=reason
    )


def refusal(call: Any) -> AppError:
    with pytest.raises(AppError) as caught:
        call()
    return caught.value


class TestAsking:
    def test_action__told_by_a_person__waits_with_the_exact_call(
        self, tree: Tree, server: ActionServer, asker: Actor
    ) -> None:
        configure(tree, server)
        run = asked(tree, asker)
        (approval,) = events(run, "approval")
        arguments = {"service": "checkout", "reason": "memory is full"}
        assert (approval["tool"], approval["input"]) == ("action_restart", arguments)
        assert approval["digest"] == action_digest("action_restart", arguments)
        assert (approval["request_id"], approval["side_effect"]) == (run.waiting_for, "write")
        review = ReviewRequest.objects.get()
        assert (review.kind, review.requested_by, review.node) == ("agent_action", asker.principal, tree.payments)
        assert review.title == "action_restart for payments"
        assert server.done == []

    @pytest.mark.parametrize(
        ("prompt", "words"),
        [
            ("run action restart with service=billing", "service: Input should be 'checkout' or 'cart'"),
            ("run action restart", "service: Field required"),
            ("run action reboot", "There is no tool 'action_reboot'"),
            (f"run action restart with service=cart reason={'x' * 3_000}", "at most 2000 characters"),
        ],
    )
    def test_action__cannot_be_asked_for__said_and_nobody_is_asked(
        self, tree: Tree, server: ActionServer, asker: Actor, prompt: str, words: str
    ) -> None:
        configure(tree, server)
        run = work_on(start_run(asker, tree.payments, prompt=prompt, runtime="builtin").run)
        assert run.status == "completed"
        assert words in events(run, "tool_end")[0]["error"]
        assert not ReviewRequest.objects.exists()
        assert server.done == []

    def test_action__secret_among_its_arguments__never_asked_for(
        self, tree: Tree, server: ActionServer, asker: Actor
    ) -> None:
        configure(tree, server)
        token = "ghp_" + "a1B2" * 9
        prompt = f"run action restart with service=cart reason={token}"
        run = work_on(start_run(asker, tree.payments, prompt=prompt, runtime="builtin").run)
        # What a person writes is redacted before anything sees it: the call shows the marker, and would send that.
        assert token not in str(envelopes(run.thread_id))
        assert not any(token in str(row) for row in ActionApproval.objects.values())

    @pytest.mark.parametrize(
        "prompt", ["Should I run action restart with service=cart?", "the log says: restart", "why is it slow"]
    )
    def test_action__not_told__nothing_is_asked_for(
        self, tree: Tree, server: ActionServer, asker: Actor, prompt: str
    ) -> None:
        configure(tree, server)
        run = work_on(start_run(asker, tree.payments, prompt=prompt, runtime="builtin").run)
        assert run.status == "completed"
        assert not ReviewRequest.objects.exists()

    def test_action__words_of_an_alert_or_a_token__are_no_command(self, tree: Tree, server: ActionServer) -> None:
        configure(tree, server)
        run = work_on(start_run(tree.system, tree.payments, prompt=PROMPT, runtime="builtin").run)
        assert run.status == "completed"
        assert not ReviewRequest.objects.exists()
        assert server.done == []

    def test_open__digest_of_something_else__refused(self, tree: Tree, asker: Actor) -> None:
        start_run(asker, tree.payments, prompt="x")
        claim = run_claim(owner="test")
        assert claim is not None
        later = clock.now() + timedelta(hours=1)
        other = Approval(
            request_id="x", tool="t", input={"a": 1}, digest=action_digest("t", {"a": 2}), expires_at=later
        )
        with transaction.atomic(), pytest.raises(ApprovalNotBound):
            approval_open(claim, other)


class TestDeciding:
    def test_approve__by_a_reviewer__done_once_with_exactly_that(
        self, tree: Tree, server: ActionServer, asker: Actor, reviewer: Actor
    ) -> None:
        configure(tree, server)
        run = asked(tree, asker)
        review = decide(reviewer, run, reason="go ahead")
        run.refresh_from_db()
        assert (review.state, run.status) == ("approved", "queued")

        run = work_on(run)

        (done,) = server.done
        assert (done.method, done.path) == ("POST", "/hooks/restart")
        assert done.body["arguments"] == {"service": "checkout", "reason": "memory is full"}
        request_id = events(run, "approval")[0]["request_id"]
        assert done.headers["Idempotency-Key"] == done.body["request_id"] == request_id
        assert done.headers["Authorization"] == f"Bearer {SECRET}"
        assert events(run, "approval_decided") == [
            {"request_id": request_id, "decision": "approved", "by": reviewer.label, "reason": "go ahead"}
        ]
        end = events(run, "tool_end")[0]
        assert (end["success"], end["summary"]) == (True, "Done: HTTP 200")
        assert events(run, "result")[0]["text"].startswith("**Action restart:** Done: HTTP 200")
        review.refresh_from_db()
        assert review.result == {"execution": "done", "summary": "Done: HTTP 200"}
        assert run.status == "completed"
        actions = list(AuditEvent.objects.filter(action__startswith="action.").values_list("action", flat=True))
        assert sorted(actions) == ["action.end", "action.execute"]
        assert SECRET not in str(envelopes(run.thread_id))

    def test_reject__with_a_reason__not_done_and_the_agent_is_told(
        self, tree: Tree, server: ActionServer, asker: Actor, reviewer: Actor
    ) -> None:
        configure(tree, server)
        run = asked(tree, asker)
        decide(reviewer, run, "reject", "not during the sale")
        run = work_on(run)
        error = events(run, "tool_end")[0]["error"]
        assert error == f"{reviewer.label} rejected restart, so it was not done: not during the sale"
        assert (run.status, server.done) == ("completed", [])

    def test_decide__twice__the_second_learns_who_was_first(
        self, tree: Tree, server: ActionServer, asker: Actor, reviewer: Actor
    ) -> None:
        configure(tree, server)
        run = asked(tree, asker)
        request_id = run.waiting_for
        decide(reviewer, run)
        other = actor_for_user(make_user(tree.payments, Role.REVIEWER, username="rob"))
        late = refusal(
            partial(approval_decide, actor=other, thread_id=run.thread_id, request_id=request_id, decision="reject")
        )
        assert (late.code, late.extra) == ("review_not_pending", {"state": "approved", "by": reviewer.label})
        work_on(run)
        assert len(server.done) == 1

    def test_decide__two_at_once__one_decision_and_one_call(
        self, tree: Tree, server: ActionServer, asker: Actor
    ) -> None:
        configure(tree, server)
        run = asked(tree, asker)
        people = [actor_for_user(make_user(tree.payments, Role.REVIEWER)) for _ in range(4)]

        def one(number: int) -> str:
            try:
                return str(decide(people[number], run, "approve" if number % 2 else "reject").state)
            except AppError as error:
                return error.code

        outcomes = at_once(*(partial(one, number) for number in range(4)))
        assert outcomes.count("review_not_pending") == 3
        run = work_on(run)
        assert len(events(run, "approval_decided")) == 1
        assert len(server.done) == ("approved" in outcomes)

    def test_decide__by_who_may_not__refused_and_still_waiting(
        self, tree: Tree, server: ActionServer, asker: Actor
    ) -> None:
        configure(tree, server)
        asker_reviews = make_user(tree.payments, Role.RESPONDER, username="both")
        Membership.objects.create(user=asker_reviews, node=tree.payments, role=Role.REVIEWER)
        own = actor_for_user(asker_reviews)
        run = asked(tree, own)
        assert refusal(lambda: decide(own, run)).code == "own_request"
        viewer = actor_for_user(make_user(tree.payments, Role.VIEWER))
        responder = actor_for_user(make_user(tree.payments, Role.RESPONDER))
        sibling = actor_for_user(make_user(tree.platform, Role.REVIEWER))
        statuses = [refusal(partial(decide, actor, run)).status for actor in (viewer, responder, sibling)]
        assert statuses == [404, 404, 404]
        run.refresh_from_db()
        assert (run.status, server.done) == ("waiting", [])

    def test_decide__unknown_words__422_and_404(
        self, tree: Tree, server: ActionServer, asker: Actor, reviewer: Actor
    ) -> None:
        configure(tree, server)
        run = asked(tree, asker)
        assert refusal(lambda: decide(reviewer, run, "maybe")).code == "unknown_decision"
        for request_id in ("", "x", "0" * 32):
            call = partial(
                approval_decide, actor=reviewer, thread_id=run.thread_id, request_id=request_id, decision="approve"
            )
            assert refusal(call).status == 404

    def test_message__while_it_waits__leaves_it_waiting_and_the_call_is_made_once(
        self, tree: Tree, server: ActionServer, asker: Actor, reviewer: Actor
    ) -> None:
        configure(tree, server)
        run = asked(tree, asker)
        for text in ("yes", "approve it", "go on"):
            message_post(actor=asker, thread_id=run.thread_id, text=text)
        run.refresh_from_db()
        assert (run.status, ReviewRequest.objects.get().state, server.done) == ("waiting", "pending", [])
        decide(reviewer, run)
        work_on(run)
        assert len(server.done) == 1
        assert sorted(Message.objects.values_list("text", flat=True)) == ["approve it", "go on", "yes"]

    def test_author__may_no_longer_run_things__cannot_be_approved(
        self, tree: Tree, server: ActionServer, asker: Actor, reviewer: Actor
    ) -> None:
        configure(tree, server)
        run = asked(tree, asker)
        Membership.objects.filter(user__username="asker").delete()
        assert refusal(lambda: decide(reviewer, run)).code == "author_not_allowed"
        assert ReviewRequest.objects.get().state == "pending"


class TestEnding:
    def test_expiry__nobody_decided__goes_on_without(
        self, tree: Tree, server: ActionServer, asker: Actor, reviewer: Actor
    ) -> None:
        configure(tree, server, approval_s=60)
        run = asked(tree, asker)
        ReviewRequest.objects.update(expires_at=clock.now())
        assert refusal(lambda: decide(reviewer, run)).code == "review_not_pending"
        assert reviews_expire() == 1
        run = work_on(run)
        assert events(run, "approval_decided")[0]["decision"] == "expired"
        assert events(run, "tool_end")[0]["error"] == "Nobody approved restart in time, so it was not done."
        assert (run.status, server.done) == ("completed", [])

    def test_interrupt__while_it_waits__nothing_left_to_decide(
        self, tree: Tree, server: ActionServer, asker: Actor, reviewer: Actor
    ) -> None:
        configure(tree, server)
        run = asked(tree, asker)
        run_interrupt(actor=asker, thread_id=run.thread_id)
        run.refresh_from_db()
        assert (run.status, ReviewRequest.objects.get().state) == ("interrupted", "withdrawn")
        assert types(run.thread_id)[-1] == "run_ended"

    def test_withdraw__by_who_asked__goes_on_without(self, tree: Tree, server: ActionServer, asker: Actor) -> None:
        configure(tree, server)
        run = asked(tree, asker)
        review_withdraw(actor=asker, review=ReviewRequest.objects.get())
        run = work_on(run)
        assert events(run, "approval_decided")[0]["decision"] == "rejected"
        assert (run.status, server.done) == ("completed", [])

    def test_arguments__changed_in_the_database__neither_approved_nor_done(
        self, tree: Tree, server: ActionServer, asker: Actor, reviewer: Actor
    ) -> None:
        configure(tree, server)
        run = asked(tree, asker)
        changed = ActionApproval.objects.filter(run=run)
        changed.update(arguments={"service": "cart"})
        assert refusal(lambda: decide(reviewer, run)).code == "digest_mismatch"
        changed.update(arguments={"service": "checkout", "reason": "memory is full"})
        decide(reviewer, run)
        changed.update(arguments={"service": "cart"})
        run = work_on(run)
        assert events(run, "tool_end")[0]["error"] == "What is stored is not what was approved."
        assert server.done == []


class TestOnce:
    def test_begin__begun_by_a_lost_worker__not_made_again_unless_idempotent(
        self, tree: Tree, server: ActionServer, asker: Actor, reviewer: Actor
    ) -> None:
        claim, request_id = self._approved(tree, server, asker, reviewer)
        assert action_begin(claim, request_id, again=False).arguments is not None
        assert "not known" in action_begin(claim, request_id, again=False).refusal
        assert action_begin(claim, request_id, again=True).arguments is not None

    def test_begin__finished_before__the_recorded_end(
        self, tree: Tree, server: ActionServer, asker: Actor, reviewer: Actor
    ) -> None:
        claim, request_id = self._approved(tree, server, asker, reviewer)
        action_begin(claim, request_id, again=False)
        end = ToolEnd(tool_use_id="t1-1", name="action_restart", success=True, summary="Done")
        action_finish(claim, request_id, end)
        assert action_begin(claim, request_id, again=True).done == end

    def test_begin__under_a_lost_lease__nothing_is_made(
        self, tree: Tree, server: ActionServer, asker: Actor, reviewer: Actor
    ) -> None:
        claim, request_id = self._approved(tree, server, asker, reviewer)
        stale = Claim(claim.thread_id, type(claim.fence)(claim.run_id, claim.fence.epoch - 1), 1)
        with pytest.raises(LeaseLost):
            action_begin(stale, request_id, again=False)
        assert ActionApproval.objects.get().execution == Execution.NONE

    def test_begin__approved_too_long_ago__refused(
        self, tree: Tree, server: ActionServer, asker: Actor, reviewer: Actor
    ) -> None:
        claim, request_id = self._approved(tree, server, asker, reviewer)
        ActionApproval.objects.update(expires_at=clock.now() - timedelta(hours=1))
        assert "too long ago" in action_begin(claim, request_id, again=False).refusal

    def test_server__fails_or_is_silent__told_as_it_is(
        self, tree: Tree, server: ActionServer, asker: Actor, reviewer: Actor
    ) -> None:
        configure(tree, server, timeout_s=0.5)
        server.status, server.answer = 500, f"broken, token {SECRET}"
        run = asked(tree, asker)
        decide(reviewer, run)
        run = work_on(run)
        error = events(run, "tool_end")[0]["error"]
        assert "HTTP 500: broken, token [redacted" in error
        server.held.clear()
        run = asked(tree, asker)
        decide(reviewer, run)
        run = work_on(run)
        assert "Whether it was done is not known." in events(run, "tool_end")[0]["error"]
        assert [review.result["execution"] for review in ReviewRequest.objects.all()] == ["failed", "failed"]

    @pytest.mark.faults
    def test_worker__killed_while_waiting__another_makes_the_call(
        self, tree: Tree, server: ActionServer, asker: Actor, reviewer: Actor
    ) -> None:
        configure(tree, server)
        run = start_run(asker, tree.payments, prompt=PROMPT, runtime="builtin", visibility="team").run
        allowed = {"OPENSRE_CRED_OPS": SECRET, "OUTBOUND_PRIVATE_ALLOW": "127.0.0.0/8"}
        with manage("worker", **allowed) as worker:
            wait_for_status(run, "waiting")
            worker.kill()
            worker.wait(20)
        decide(reviewer, run)
        with manage("worker", **allowed):
            wait_for_status(run)
        assert (run.status, len(server.done)) == ("completed", 1)

    @pytest.mark.faults
    def test_worker__killed_in_the_call__interrupted_and_never_made_again(
        self, tree: Tree, server: ActionServer, asker: Actor, reviewer: Actor
    ) -> None:
        configure(tree, server, timeout_s=20)
        run = asked(tree, asker)
        decide(reviewer, run)
        server.held.clear()
        allowed = {"OPENSRE_CRED_OPS": SECRET, "OUTBOUND_PRIVATE_ALLOW": "127.0.0.0/8"}
        with manage("worker", LEASE_SECONDS="3", SWEEP_SECONDS="1", **allowed) as worker:
            wait_until(server.came.is_set, what="the call to be made")
            worker.kill()
            worker.wait(20)
        server.held.set()
        with manage("worker", LEASE_SECONDS="3", SWEEP_SECONDS="1", **allowed):
            wait_for_status(run)
        assert (run.status, run.reason) == ("interrupted", "worker_lost")
        assert len(server.done) == 1
        assert ActionApproval.objects.get().execution == Execution.STARTED

    @staticmethod
    def _approved(tree: Tree, server: ActionServer, asker: Actor, reviewer: Actor) -> tuple[Claim, str]:
        configure(tree, server)
        run = asked(tree, asker)
        request_id = run.waiting_for
        decide(reviewer, run)
        claim = run_claim(owner="test")
        assert claim is not None
        return claim, request_id

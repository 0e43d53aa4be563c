"""What becomes of news when the run ends without it, and what later runs on the thread get to see."""

import pytest

from controlplane.alerts.services import Taken
from controlplane.core.actor import Actor
from controlplane.investigations.execution import _messages_delivered
from controlplane.investigations.lifecycle import Outcome, run_claim, run_finish
from controlplane.investigations.models import Message, Run
from controlplane.investigations.services import message_post
from tests.alerts.support import alert, deliver, end_run, kept_alert, pods, resolved, sender, webhook
from tests.factories import Tree

pytestmark = pytest.mark.django_db


@pytest.fixture
def am(tree: Tree) -> Actor:
    return sender(tree)


def test_ingest__resolved_and_nobody_took_it_up__no_run_follows(tree: Tree, am: Actor) -> None:
    deliver(am, webhook())
    deliver(am, resolved())

    run = end_run(tree)

    notice = Message.objects.get()
    assert (Run.objects.count(), run.number) == (1, 1)
    assert notice.delivered_at is not None
    assert notice.run_id == run.pk
    assert deliver(am, webhook()).action is Taken.REPEATED


def test_ingest__resolved_and_nobody_took_it_up__follow_up_of_a_person_sees_it(tree: Tree, am: Actor) -> None:
    thread_id = deliver(am, webhook()).group.thread_id
    deliver(am, resolved())
    end_run(tree)
    assert thread_id is not None

    message_post(actor=tree.system, thread_id=thread_id, text="And now?")

    assert (kept_alert(1)["status"], kept_alert(2)["status"]) == ("firing", "resolved")
    assert Run.objects.get(number=2).prompt == "And now?"


def test_ingest__resolved_while_a_persons_message_waits__one_run_with_both(tree: Tree, am: Actor) -> None:
    thread_id = deliver(am, webhook()).group.thread_id
    assert thread_id is not None
    message_post(actor=tree.system, thread_id=thread_id, text="And the cache?")
    deliver(am, resolved())

    end_run(tree)

    second = Run.objects.get(number=2)
    assert second.prompt.splitlines()[1:] == [
        "1. And the cache?",
        "2. Alert HighErrorRate (critical) is resolved: no alert of the group fires any more.",
    ]
    assert (second.requested_by, kept_alert(2)["status"]) == (tree.system.principal, "resolved")


def test_ingest__joined_and_nobody_took_it_up__next_run_has_the_newest_alert(tree: Tree, am: Actor) -> None:
    deliver(am, webhook())
    deliver(am, webhook(*map(alert, "ab")))
    deliver(am, webhook(*map(alert, "abc")))

    end_run(tree)

    assert Run.objects.get(number=2).prompt.splitlines()[-1].endswith("(HighErrorRate on pod-c); 3 fire now.")
    assert (pods(1), pods(2)) == (["pod-a"], ["pod-a", "pod-b", "pod-c"])


def test_ingest__joined_then_resolved_and_nobody_took_it_up__next_run_looks_at_what_joined(
    tree: Tree, am: Actor
) -> None:
    deliver(am, webhook())
    deliver(am, webhook(*map(alert, "ab")))
    deliver(am, resolved("a", "b"))

    end_run(tree)

    first, last = Run.objects.get(number=2).prompt.splitlines()
    assert "pod-b" in first
    assert "is resolved" in last
    assert (kept_alert(2)["status"], pods(2)) == ("resolved", ["pod-a", "pod-b"])


def test_ingest__joined_and_taken_up__follow_up_of_a_person_has_it(tree: Tree, am: Actor) -> None:
    thread_id = deliver(am, webhook()).group.thread_id
    assert thread_id is not None
    claim = run_claim(owner="worker")
    assert claim is not None
    deliver(am, webhook(*map(alert, "ab")))
    message = Message.objects.get()
    _messages_delivered(claim, [(message.pk, message.text)])
    run_finish(claim, Outcome("completed"))

    message_post(actor=tree.system, thread_id=thread_id, text="And now?")

    assert pods(2) == ["pod-a", "pod-b"]


def test_ingest__resolved_while_idle_and_a_person_starts_a_run__told_by_the_next_delivery(
    tree: Tree, am: Actor
) -> None:
    thread_id = deliver(am, webhook()).group.thread_id
    assert thread_id is not None
    end_run(tree)
    deliver(am, resolved())
    message_post(actor=tree.system, thread_id=thread_id, text="Is it over?")

    taken = deliver(am, resolved())

    assert (taken.action, taken.run_id) == (Taken.UPDATED, Run.objects.get(number=2).pk)

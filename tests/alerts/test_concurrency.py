"""Deliveries at the same moment, each on a connection of its own."""

import pytest

from controlplane.alerts.services import Ingested, Taken
from controlplane.audit.selectors import audit_verify
from controlplane.investigations.models import Message, Run, Thread
from tests.alerts.support import alert, deliver, end_run, pods, resolved, sender, the_group, webhook
from tests.factories import make_tree
from tests.support.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)


def actions(outcomes: list[Ingested | Exception]) -> list[str]:
    return sorted(one.action if isinstance(one, Ingested) else repr(one) for one in outcomes)


def test_ingest__first_delivery_four_times_at_once__one_run() -> None:
    tree = make_tree()
    am = sender(tree)

    outcomes = at_once(*[lambda: deliver(am, webhook())] * 4)

    assert actions(outcomes) == ["coalesced"] * 3 + ["started"]
    assert (Thread.objects.count(), Run.objects.count(), the_group().deliveries) == (1, 1, 4)
    assert {one.run_id for one in outcomes if isinstance(one, Ingested)} == {Run.objects.get().pk}
    assert audit_verify(tree.organization.pk).intact


def test_ingest__new_alert_on_an_idle_thread_twice_at_once__one_next_run() -> None:
    tree = make_tree()
    am = sender(tree)
    deliver(am, webhook())
    end_run(tree)

    outcomes = at_once(*[lambda: deliver(am, webhook(alert("a"), alert("b")))] * 2)

    assert actions(outcomes) == ["coalesced", "started"]
    assert Run.objects.count() == 2


def test_ingest__different_alerts_join_at_once__one_message_with_all() -> None:
    tree = make_tree()
    am = sender(tree)
    deliver(am, webhook())

    outcomes = at_once(*(lambda name=name: deliver(am, webhook(alert("a"), alert(name))) for name in "bcd"))

    assert actions(outcomes) == [Taken.UPDATED] * 3
    text = Message.objects.get().text
    assert all(f"pod-{name}" in text for name in "bcd")
    assert (Run.objects.count(), the_group().deliveries) == (1, 4)


def test_ingest__delivery_while_the_run_ends__either_run_never_lost() -> None:
    tree = make_tree()
    am = sender(tree)
    deliver(am, webhook())

    joined, _ = at_once(lambda: deliver(am, webhook(alert("a"), alert("b"))), lambda: end_run(tree))

    assert isinstance(joined, Ingested)
    assert joined.action in {Taken.STARTED, Taken.UPDATED}
    assert Run.objects.count() == 2
    assert "pod-b" in Run.objects.get(number=2).prompt or joined.action is Taken.STARTED
    assert pods(2) == ["pod-a", "pod-b"]


def test_ingest__resolved_while_the_run_ends__no_run_follows() -> None:
    tree = make_tree()
    am = sender(tree)
    deliver(am, webhook())

    ended, _ = at_once(lambda: deliver(am, resolved()), lambda: end_run(tree))

    assert isinstance(ended, Ingested)
    assert ended.action in {Taken.RESOLVED, Taken.UPDATED}
    assert (Run.objects.count(), Message.objects.filter(delivered_at=None).count()) == (1, 0)
    assert the_group().status == "resolved"

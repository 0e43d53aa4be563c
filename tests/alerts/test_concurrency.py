"""Deliveries at the same moment, each on a connection of its own."""

import pytest

from controlplane.alerts.models import Alert, AlertGroup
from controlplane.alerts.services import Ingested, Taken, alert_ingest
from controlplane.alerts.sweeping import alerts_sweep
from controlplane.alerts.vendors import VENDORS
from controlplane.audit.selectors import audit_verify
from controlplane.configs.services import config_patch
from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.investigations.models import Message, Run, Thread
from tests.alerts import samples
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


def incident(actor: Actor, number: int, event: str) -> Ingested:
    """Take an incident of PagerDuty in."""
    (delivery,) = VENDORS["pagerduty"].read(samples.pagerduty(number=number, event=event), None).deliveries
    return alert_ingest(actor=actor, delivery=delivery)


def test_ingest__same_delivery_id_four_times_at_once__taken_in_once() -> None:
    tree = make_tree()
    am = sender(tree)

    outcomes = at_once(*[lambda: incident(am, 7, "E")] * 4)

    assert actions(outcomes) == ["duplicate"] * 3 + ["started"]
    assert (Run.objects.count(), the_group().deliveries) == (1, 1)


def test_budget__last_place_asked_for_by_four_at_once__given_once() -> None:
    tree = make_tree()
    am = sender(tree)
    config_patch(actor=tree.system, node=tree.payments, patch={"alerts": {"runs_per_hour": 1}})

    outcomes = at_once(*(lambda number=number: incident(am, number, f"E{number}") for number in range(4)))

    assert actions(outcomes) == ["skipped"] * 3 + ["started"]
    assert Run.objects.count() == 1


def test_debounce__swept_by_four_processes_at_once__one_run() -> None:
    tree = make_tree()
    am = sender(tree)
    config_patch(actor=tree.system, node=tree.payments, patch={"alerts": {"debounce_s": 60}})
    mild = webhook(alert(labels={"severity": "warning"}), commonLabels={"severity": "warning"})
    assert deliver(am, mild).action is Taken.WAITING
    AlertGroup.objects.update(held_until=clock.now())

    outcomes = at_once(*[alerts_sweep] * 4)

    assert sorted(outcomes) == [0, 0, 0, 1]  # type: ignore[type-var]  # numbers, unless a sweep failed
    assert Run.objects.count() == 1


def test_debounce__resolves_while_it_is_swept__one_run_that_is_told_or_none() -> None:
    tree = make_tree()
    am = sender(tree)
    config_patch(actor=tree.system, node=tree.payments, patch={"alerts": {"debounce_s": 60}})
    labels = {"severity": "warning"}
    deliver(am, webhook(alert(labels=labels), commonLabels=labels))
    AlertGroup.objects.update(held_until=clock.now())

    over = webhook(alert(labels=labels, status="resolved"), commonLabels=labels, status="resolved")
    _, taken = at_once(alerts_sweep, lambda: deliver(am, over))

    assert isinstance(taken, Ingested)
    assert the_group().status == "resolved"
    if taken.action is Taken.UPDATED:
        assert (Run.objects.count(), Alert.objects.get().fate) == (1, "investigated")
    else:
        assert (Run.objects.count(), Alert.objects.get().fate) == (0, "skipped")

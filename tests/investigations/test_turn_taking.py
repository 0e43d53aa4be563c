"""Whose turn it is: people before alerts, teams alike, nobody left behind, never more than the installation allows."""

from datetime import timedelta
from typing import Any

import pytest

from controlplane.core import clock
from controlplane.core.actor import Channel
from controlplane.investigations.lifecycle import Outcome, run_claim, run_finish
from controlplane.investigations.models import Priority, Run
from controlplane.investigations.queueing import priority_of
from controlplane.investigations.services import message_post
from controlplane.investigations.turn_taking import ALERTS_YIELD, room_for_one_more, teams_in_turn
from controlplane.orgs.models import Node
from tests.factories import Tree
from tests.support.runs import in_threads, start_run


def queue(tree: Tree, team: Node, *, alert: bool = False, age_s: float = 0) -> Run:
    actor = tree.system.via(Channel.ALERT) if alert else tree.system
    run = start_run(actor, team).run
    Run.objects.filter(pk=run.pk).update(created_at=clock.now() - timedelta(seconds=age_s))
    return run


def claimed() -> Any:
    claim = run_claim(owner="w")
    return None if claim is None else claim.run_id


@pytest.mark.parametrize(
    ("channel", "requested_by", "priority"),
    [
        ("alert", "system:alerts", Priority.ALERT),
        ("alert", "token:abc", Priority.ALERT),
        ("alert", "user:7", Priority.INTERACTIVE),
        ("web", "user:7", Priority.INTERACTIVE),
        ("api", "token:abc", Priority.INTERACTIVE),
    ],
)
def test_priority_of__who_asked_where__decides(channel: str, requested_by: str, priority: Priority) -> None:
    assert priority_of(channel=channel, requested_by=requested_by) == priority


def test_run_claim__alert_came_first__a_persons_run_goes_before_it(tree: Tree) -> None:
    alert = queue(tree, tree.payments, alert=True, age_s=30)
    asked = queue(tree, tree.payments)

    assert [claimed(), claimed()] == [asked.pk, alert.pk]


def test_run_claim__alert_has_yielded_for_its_minute__is_no_longer_overtaken(tree: Tree) -> None:
    alert = queue(tree, tree.payments, alert=True, age_s=ALERTS_YIELD.total_seconds() + 10)
    queue(tree, tree.payments)

    assert claimed() == alert.pk


def test_run_claim__fresh_alert_of_an_idle_team__waits_for_the_busy_teams_person(tree: Tree) -> None:
    queue(tree, tree.payments, age_s=20)
    claimed()
    alert = queue(tree, tree.platform, alert=True, age_s=10)
    asked = queue(tree, tree.payments)

    assert [claimed(), claimed()] == [asked.pk, alert.pk]


def test_run_claim__one_team_queued_a_hundred__the_other_gets_every_second_place(tree: Tree) -> None:
    many = [queue(tree, tree.payments, age_s=600 - index) for index in range(6)]
    few = [queue(tree, tree.platform, age_s=5 - index) for index in range(3)]

    order = [claimed() for _ in range(6)]

    assert order == [many[0].pk, few[0].pk, many[1].pk, few[1].pk, many[2].pk, few[2].pk]


def test_run_claim__team_without_a_running_run__is_first_however_long_others_wait(tree: Tree) -> None:
    for _ in range(3):
        queue(tree, tree.payments, age_s=3600)
    claimed()
    late = queue(tree, tree.platform)

    assert claimed() == late.pk


def test_run_claim__follow_up_in_an_alerts_thread__is_ranked_by_who_asked(tree: Tree) -> None:
    alert = queue(tree, tree.payments, alert=True)
    claim = run_claim(owner="w")
    assert claim is not None
    message_post(actor=tree.system.via(Channel.ALERT), thread_id=alert.thread_id, text="it fires again")
    run_finish(claim, Outcome("completed"))

    assert list(Run.objects.order_by("number").values_list("priority", flat=True)) == [Priority.ALERT, Priority.ALERT]


def test_run_claim__installation_at_its_limit__claims_nothing_until_one_ends(tree: Tree, settings: Any) -> None:
    settings.RUNS_MAX_GLOBAL = 1
    queue(tree, tree.payments)
    second = queue(tree, tree.platform)
    claim = run_claim(owner="w")
    assert claim is not None
    assert run_claim(owner="w") is None

    run_finish(claim, Outcome("completed"))

    assert claimed() == second.pk


@pytest.mark.django_db(transaction=True)
def test_run_claim__six_workers_two_places__two_win(tree: Tree, settings: Any) -> None:
    settings.RUNS_MAX_GLOBAL = 2
    for index in range(6):
        queue(tree, tree.payments if index % 2 else tree.platform)

    outcomes = in_threads(*(lambda index=index: run_claim(owner=f"w{index}") for index in range(6)))

    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert len([outcome for outcome in outcomes if outcome is not None]) == 2
    assert Run.objects.filter(status="running").count() == 2


def test_room_for_one_more__no_limit__asks_nothing(tree: Tree, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        assert room_for_one_more()


def test_teams_in_turn__any_number_of_teams__two_queries(tree: Tree, django_assert_num_queries: Any) -> None:
    for team in (tree.payments, tree.platform, tree.payments):
        queue(tree, team)

    with django_assert_num_queries(2):
        assert len(teams_in_turn()) == 2


def test_teams_in_turn__nothing_queued__one_query(db: None, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        assert teams_in_turn() == []

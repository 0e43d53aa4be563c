"""That each alert has a fate: investigated or joined by which run, waiting, or skipped and why."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from pytest_django import DjangoAssertNumQueries

from controlplane.alerts.models import Alert, AlertDelivery, AlertGroup
from controlplane.alerts.services import Taken
from controlplane.alerts.sweeping import REMEMBERED, alerts_sweep
from controlplane.audit.models import AuditEvent
from controlplane.configs.services import config_patch
from controlplane.core import clock, metrics
from controlplane.core.actor import Actor, Role
from controlplane.investigations.models import Message, Run, Thread
from controlplane.investigations.services import message_post
from controlplane.orgs.services import node_archive
from tests.alerts import samples
from tests.alerts.support import alert, deliver, end_run, ingest_token, kept_alert, resolved, sender, webhook
from tests.factories import Tree, api_client, make_team_token, make_user

pytestmark = pytest.mark.django_db
LIST = "/api/v1/alerts"


@pytest.fixture
def am(tree: Tree) -> Actor:
    return sender(tree)


def fates() -> dict[str, tuple[str, str]]:
    """Return fate and reason of each alert, by the last part of its pod's name."""
    rows = Alert.objects.order_by("digest")
    return {row.details["labels"]["pod"][4:]: (row.fate, row.fate_reason) for row in rows}


def settle(tree: Tree, **alerts: Any) -> None:
    config_patch(actor=tree.system, node=tree.payments, patch={"alerts": alerts})


def mild(*names: str, status: str = "firing", **more: Any) -> dict[str, Any]:
    """Return a webhook of alerts that are not critical."""
    labels = {"alertname": "Slow", "severity": "warning", "service": "checkout"}
    listed = [alert(name, status=status, labels=labels | {"pod": f"pod-{name}"}) for name in names or ("a",)]
    return webhook(*listed, status=status, commonLabels=labels, **more)


# ---- what runs look at ---------------------------------------------------------------------------------------------


def test_fate__started_then_joined__by_which_run(am: Actor) -> None:
    run_id = deliver(am, webhook(alert("a"), alert("b"))).run_id
    deliver(am, webhook(*map(alert, "abc")))

    assert fates() == {"a": ("investigated", ""), "b": ("investigated", ""), "c": ("joined", "")}
    assert set(Alert.objects.values_list("run_id", flat=True)) == {run_id}


def test_fate__repeats__stay_what_they_were_and_are_counted(tree: Tree, am: Actor) -> None:
    deliver(am, webhook())
    deliver(am, webhook())
    end_run(tree)
    deliver(am, webhook())

    row = Alert.objects.get()
    assert (row.fate, row.times, Run.objects.count()) == ("investigated", 3, 1)


def test_fate__fires_again_within_the_repeat_window__skipped_with_the_run_that_looked(tree: Tree, am: Actor) -> None:
    run_id = deliver(am, webhook()).run_id
    end_run(tree)
    deliver(am, resolved())
    deliver(am, webhook())

    row = Alert.objects.get()
    assert (row.status, row.fate, row.fate_reason, row.run_id) == ("firing", "skipped", "repeat_window", run_id)


def test_fate__over_when_first_heard_of__skipped(am: Actor) -> None:
    deliver(am, resolved())
    assert fates() == {"a": ("skipped", "resolved_only")}
    assert AlertGroup.objects.get().fate_reason == "resolved_only"


def test_fate__no_room_for_the_news__waits_and_joins_with_the_next(tree: Tree, am: Actor) -> None:
    thread_id = deliver(am, webhook()).group.thread_id
    assert thread_id is not None
    for number in range(50):
        message_post(actor=tree.system, thread_id=thread_id, text=str(number))

    deliver(am, webhook(*map(alert, "ab")))
    before = fates()["b"]
    Message.objects.update(delivered_at=clock.now())
    deliver(am, webhook(*map(alert, "ab")))

    assert (before, fates()["b"]) == (("waiting", "no_room"), ("joined", ""))


def test_group__gone_from_a_resolved_delivery__its_alerts_are_over(am: Actor) -> None:
    deliver(am, webhook(*map(alert, "ab")))
    deliver(am, resolved("a"))
    assert set(Alert.objects.values_list("status", flat=True)) == {"resolved"}


# ---- debounce ------------------------------------------------------------------------------------------------------


def test_debounce__not_critical__waits_and_starts_when_it_goes_on(tree: Tree, am: Actor) -> None:
    settle(tree, debounce_s=60)
    began = clock.now()

    with time_machine.travel(began, tick=False):
        taken = deliver(am, mild("a"))
        assert (taken.action, taken.run_id, Run.objects.count()) == (Taken.WAITING, None, 0)
        assert fates() == {"a": ("waiting", "debounce")}
        assert alerts_sweep() == 0
    with time_machine.travel(began + timedelta(seconds=30), tick=False):
        assert deliver(am, mild("a", "b")).action is Taken.WAITING
    with time_machine.travel(began + timedelta(seconds=61), tick=False):
        assert alerts_sweep() == 1
        assert alerts_sweep() == 0

    run = Run.objects.get()
    assert fates() == {"a": ("investigated", ""), "b": ("investigated", "")}
    assert [one["labels"]["pod"] for one in kept_alert()["alerts"]] == ["pod-a", "pod-b"]
    assert (run.requested_by, run.requested_by_label) == (am.principal, "Alertmanager")
    group = AlertGroup.objects.get()
    assert (group.fate, group.run_id, group.held, group.held_until) == ("investigated", run.pk, None, None)
    assert AuditEvent.objects.filter(action="alert.started").count() == 1


def test_debounce__resolves_by_itself__no_run(tree: Tree, am: Actor) -> None:
    settle(tree, debounce_s=60)
    deliver(am, mild())
    taken = deliver(am, mild(status="resolved"))

    with time_machine.travel(clock.now() + timedelta(hours=1), tick=False):
        assert alerts_sweep() == 0
    assert (taken.action, Run.objects.count()) == (Taken.RESOLVED, 0)
    assert fates() == {"a": ("skipped", "self_resolved")}
    assert AlertGroup.objects.get().fate_reason == "self_resolved"


def test_debounce__critical__starts_at_once_also_what_waited(tree: Tree, am: Actor) -> None:
    settle(tree, debounce_s=60)
    deliver(am, mild("a"))
    body = mild("a", "b")
    body["alerts"][1]["labels"]["severity"] = "critical"

    assert deliver(am, body).action is Taken.STARTED
    assert fates() == {"a": ("investigated", ""), "b": ("investigated", "")}
    assert AlertGroup.objects.get().held_until is None


def test_debounce__delivered_after_it_is_due__starts_without_the_sweep(tree: Tree, am: Actor) -> None:
    settle(tree, debounce_s=60)
    deliver(am, mild())
    with time_machine.travel(clock.now() + timedelta(seconds=61), tick=False):
        assert deliver(am, mild()).action is Taken.STARTED
        assert alerts_sweep() == 0
    assert Run.objects.count() == 1


def test_debounce__alerts_one_by_one__all_that_waited_are_in_the_run(tree: Tree) -> None:
    settle(tree, debounce_s=60, group_by=["service"])
    client = api_client(token=ingest_token(tree))
    for alert_id in "12":
        body = samples.datadog(alert_id=alert_id, id=alert_id, title=f"[Triggered] CPU {alert_id}")
        assert client.post(f"{LIST}/datadog", body).json()["action"] == "waiting"

    with time_machine.travel(clock.now() + timedelta(seconds=61), tick=False):
        alerts_sweep()

    run = Run.objects.get()
    assert sorted(one["labels"]["alertname"] for one in kept_alert()["alerts"]) == ["CPU 1", "CPU 2"]
    assert Counter(Alert.objects.values_list("fate", "run_id")) == {("investigated", run.pk): 2}


def test_debounce__comes_back_after_the_repeat_window__waits_again(tree: Tree, am: Actor) -> None:
    settle(tree, debounce_s=60, repeat_window_s=3_600)
    began = clock.now()
    with time_machine.travel(began, tick=False):
        deliver(am, mild())
    with time_machine.travel(began + timedelta(minutes=2), tick=False):
        alerts_sweep()
        end_run(tree)
        assert deliver(am, mild(status="resolved")).action is Taken.RESOLVED
    with time_machine.travel(began + timedelta(minutes=30), tick=False):
        assert deliver(am, mild()).action is Taken.REPEATED
        deliver(am, mild(status="resolved"))
    with time_machine.travel(began + timedelta(hours=2), tick=False):
        assert [deliver(am, mild()).action for _ in range(2)] == [Taken.WAITING] * 2
        assert fates() == {"a": ("waiting", "debounce")}
    with time_machine.travel(began + timedelta(hours=2, minutes=2), tick=False):
        assert alerts_sweep() == 1

    assert (Run.objects.count(), Thread.objects.count(), fates()) == (2, 1, {"a": ("investigated", "")})


def test_debounce__team_archived_meanwhile__given_up_with_the_reason(tree: Tree, am: Actor) -> None:
    settle(tree, debounce_s=60)
    deliver(am, mild())
    node_archive(actor=tree.system, node=tree.payments)

    with time_machine.travel(clock.now() + timedelta(seconds=61), tick=False):
        assert alerts_sweep() == 0
        assert alerts_sweep() == 0

    assert fates() == {"a": ("skipped", "team_archived")}
    assert AlertGroup.objects.get().held_until is None


# ---- the budget ----------------------------------------------------------------------------------------------------


def test_budget__used_up__skipped_and_taken_up_when_there_is_room_again(tree: Tree, am: Actor) -> None:
    settle(tree, runs_per_hour=2)
    began = clock.now()
    with time_machine.travel(began, tick=False):
        taken = [deliver(am, webhook(groupKey=f"k{number}")).action for number in range(4)]
    with time_machine.travel(began + timedelta(minutes=59), tick=False):
        again = deliver(am, webhook(groupKey="k3")).action
    assert (taken, again) == ([Taken.STARTED] * 2 + [Taken.SKIPPED] * 2, Taken.SKIPPED)
    assert Counter(Alert.objects.values_list("fate", "fate_reason")) == {
        ("investigated", ""): 2,
        ("skipped", "budget"): 2,
    }

    with time_machine.travel(began + timedelta(minutes=61), tick=False):
        assert deliver(am, webhook(groupKey="k3")).action is Taken.STARTED
    assert Counter(Alert.objects.values_list("fate", flat=True)) == {"investigated": 3, "skipped": 1}


def test_budget__of_one_team__is_not_anothers(tree: Tree, am: Actor) -> None:
    config_patch(actor=tree.system, node=tree.root, patch={"alerts": {"runs_per_hour": 1}})
    other = api_client(token=make_team_token(tree.platform, ["alerts:ingest"]))
    deliver(am, webhook())
    assert other.post(f"{LIST}/alertmanager", webhook()).json()["action"] == "started"


def test_budget__used_up_while_a_run_works__still_joins(tree: Tree, am: Actor) -> None:
    settle(tree, runs_per_hour=1)
    deliver(am, webhook())
    assert deliver(am, webhook(*map(alert, "ab"))).action is Taken.UPDATED
    end_run(tree)
    assert deliver(am, webhook(*map(alert, "ab"))).action in {Taken.COALESCED, Taken.REPEATED}


# ---- storms --------------------------------------------------------------------------------------------------------


def test_storm__forty_alerts_of_one_group_three_times__one_run_and_forty_fates(tree: Tree) -> None:
    client = api_client(token=ingest_token(tree))
    body = webhook(*(alert(f"{number:02}") for number in range(40)))

    actions = [client.post(f"{LIST}/alertmanager", body).json()["action"] for _ in range(3)]

    run = Run.objects.get()
    assert actions == ["started", "coalesced", "coalesced"]
    assert Counter(Alert.objects.values_list("fate", "run_id", "times")) == {("investigated", run.pk, 3): 40}
    assert Message.objects.count() == 0


def test_storm__forty_incidents_one_by_one_three_times__budget_of_runs_and_each_has_a_fate(tree: Tree) -> None:
    settle(tree, runs_per_hour=10)
    client = api_client(token=ingest_token(tree))
    bodies = [samples.pagerduty(number=number, event=f"E{number}") for number in range(40)]

    actions = Counter(client.post(f"{LIST}/pagerduty", body).json()["action"] for _ in range(3) for body in bodies)

    assert actions == {"started": 10, "skipped": 30, "duplicate": 80}
    assert Counter(Alert.objects.values_list("fate", "fate_reason")) == {
        ("investigated", ""): 10,
        ("skipped", "budget"): 30,
    }
    assert Run.objects.count() == 10


def test_storm__forty_incidents_of_one_service_grouped_by_it__one_run_that_all_join(tree: Tree) -> None:
    settle(tree, group_by=["service"])
    client = api_client(token=ingest_token(tree))
    bodies = [samples.pagerduty(number=number, event=f"E{number}") for number in range(40)]

    actions = Counter(client.post(f"{LIST}/pagerduty", body).json()["action"] for _ in range(3) for body in bodies)

    assert actions == {"started": 1, "updated": 39, "duplicate": 80}
    run = Run.objects.get()
    assert Counter(Alert.objects.values_list("fate", "run_id")) == {("investigated", run.pk): 1, ("joined", run.pk): 39}
    assert (Thread.objects.count(), Message.objects.count(), AlertGroup.objects.get().firing_count) == (1, 1, 40)


def test_group_by__one_of_two_resolves__group_still_fires_until_both_do(tree: Tree) -> None:
    settle(tree, group_by=["service"])
    client = api_client(token=ingest_token(tree))

    def deliver_one(kind: str, number: int, event: str) -> str:
        body = samples.pagerduty(kind, number=number, event=event)
        return str(client.post(f"{LIST}/pagerduty", body).json()["action"])

    assert deliver_one("incident.triggered", 1, "a") == "started"
    assert deliver_one("incident.triggered", 2, "b") == "updated"
    assert deliver_one("incident.resolved", 1, "c") == "coalesced"
    assert AlertGroup.objects.get().status == "firing"
    assert deliver_one("incident.resolved", 2, "d") == "updated"
    assert AlertGroup.objects.get().status == "resolved"
    assert Message.objects.get().text.endswith("is resolved: no alert of the group fires any more.")


def test_one_delivery_of_several_groups__each_taken_in(tree: Tree) -> None:
    client = api_client(token=ingest_token(tree))
    body = {
        "alerts": [{"name": "Disk full", "host": "a"}, {"name": "Disk full", "host": "b"}, {"name": "CPU", "host": "a"}]
    }

    answer = client.post(f"{LIST}/generic", body).json()

    assert [one["action"] for one in answer["groups"]] == ["started", "started"]
    assert answer["group"] == answer["groups"][0]["group"]
    assert (Run.objects.count(), Alert.objects.count()) == (2, 3)


def test_one_delivery_of_too_many_groups__refused_and_nothing_kept(tree: Tree) -> None:
    body = {"alerts": [{"name": f"n{number}"} for number in range(51)]}
    response = api_client(token=ingest_token(tree)).post(f"{LIST}/generic", body)
    assert (response.status_code, response.json()["code"]) == (413, "too_many_groups")
    assert not AlertGroup.objects.exists()


def test_sweep__old_deliveries__forgotten(tree: Tree) -> None:
    api_client(token=ingest_token(tree)).post(f"{LIST}/pagerduty", samples.pagerduty())
    assert AlertDelivery.objects.count() == 1
    alerts_sweep()
    assert AlertDelivery.objects.count() == 1
    with time_machine.travel(clock.now() + REMEMBERED + timedelta(minutes=1), tick=False):
        alerts_sweep()
    assert not AlertDelivery.objects.exists()


# ---- REST ----------------------------------------------------------------------------------------------------------


def test_detail__alerts_with_their_fates_and_the_run(
    tree: Tree, am: Actor, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    group = deliver(am, webhook(*map(alert, "ab"))).group
    client = api_client(token=make_team_token(tree.payments))
    client.get(f"{LIST}/{group.pk}")

    with django_assert_num_queries(4):  # token; group; alerts; their number
        shown = client.get(f"{LIST}/{group.pk}").json()

    run = Run.objects.get()
    assert (shown["fate"], shown["run_id"], shown["alerts_total"]) == ("investigated", str(run.pk), 2)
    one = shown["alerts"][0]
    assert (one["fate"], one["run_url"]) == ("investigated", f"/app/threads/{run.thread_id}#run-{run.pk}")
    assert (one["name"], one["severity"], one["service"], one["times"]) == ("HighErrorRate", "critical", "checkout", 1)
    assert one["annotations"]["summary"] == "5xx above 5 %"


def test_detail__skipped__reason_and_words(am: Actor, tree: Tree) -> None:
    group = deliver(am, resolved()).group
    shown = api_client(user=make_user(tree.payments, Role.VIEWER)).get(f"{LIST}/{group.pk}").json()
    assert (shown["fate"], shown["reason"], shown["run_url"]) == ("skipped", "resolved_only", None)
    assert shown["alerts"][0]["explanation"] == "It was over when it was first heard of."


def test_detail__of_another_team_or_none__not_found(tree: Tree, other_tree: Tree, am: Actor) -> None:
    group = deliver(am, webhook()).group
    for client in (
        api_client(user=make_user(tree.platform, Role.VIEWER)),
        api_client(user=make_user(other_tree.root, Role.VIEWER)),
        api_client(token=ingest_token(tree)),
    ):
        assert client.get(f"{LIST}/{group.pk}").status_code == 404
    assert api_client().get(f"{LIST}/{group.pk}").status_code == 401


def test_list__by_fate_and_source__those_groups(tree: Tree, am: Actor) -> None:
    deliver(am, webhook())
    deliver(am, resolved() | {"groupKey": "other"})
    client = api_client(token=make_team_token(tree.payments))

    def found(**query: str) -> list[str]:
        return [one["fate"] for one in client.get(LIST, query).json()["results"]]

    assert found(fate="investigated") == ["investigated"]
    assert found(fate="skipped") == ["skipped"]
    assert found(fate="waiting") == []
    assert len(found(source="alertmanager")) == 2
    assert found(source="sentry") == []
    assert client.get(LIST, {"fate": "x"}).json()["code"] == "unknown_fate"
    assert client.get(LIST, {"source": "x"}).json()["code"] == "unknown_source"


def test_debounce__a_person_starts_a_run_meanwhile__what_waits_joins_it(tree: Tree, am: Actor) -> None:
    thread_id = deliver(am, webhook()).group.thread_id
    assert thread_id is not None
    end_run(tree)
    settle(tree, debounce_s=60)
    body = webhook(alert("a"), alert("b", labels={"severity": "warning", "pod": "pod-b"}))
    body["alerts"][0]["labels"]["severity"] = "warning"
    assert deliver(am, body).action is Taken.WAITING
    run = message_post(actor=tree.system, thread_id=thread_id, text="And now?").run
    assert run is not None

    with time_machine.travel(clock.now() + timedelta(seconds=61), tick=False):
        assert alerts_sweep() == 1

    row = Alert.objects.exclude(fate="investigated").get()
    assert (row.fate, row.run_id) == ("joined", run.pk)
    assert AlertGroup.objects.get().held_until is None
    assert (Run.objects.count(), Message.objects.filter(delivered_at=None).count()) == (2, 1)


def test_ignored__counted(tree: Tree) -> None:
    labels = {"source": "pagerduty", "action": "ignored"}

    def counted() -> float:
        return metrics.registry.get_sample_value("opensre_alert_deliveries_total", labels) or 0.0

    before = counted()
    api_client(token=ingest_token(tree)).post(f"{LIST}/pagerduty", samples.pagerduty("pagey.ping"))
    assert counted() == before + 1

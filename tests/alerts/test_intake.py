"""What deliveries of one group do: one run, told of what changes, not started again by repeats."""

import asyncio
import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from controlplane.alerts.models import AlertGroup
from controlplane.alerts.services import Taken
from controlplane.audit.models import AuditEvent
from controlplane.audit.selectors import audit_verify
from controlplane.configs.services import config_patch
from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.core.errors import InvalidInput
from controlplane.investigations.execution import _messages_delivered
from controlplane.investigations.lifecycle import run_claim
from controlplane.investigations.models import Message, Run, Thread
from controlplane.investigations.services import message_post
from controlplane.investigations.turns import RunControl
from controlplane.runtimes.signals.alert import read_alert
from tests.alerts.support import (
    active_runs,
    alert,
    deliver,
    end_run,
    ingest_token,
    kept_alert,
    resolved,
    sender,
    the_group,
    webhook,
)
from tests.factories import Tree, api_client
from tests.support.runs import envelopes

pytestmark = pytest.mark.django_db


@pytest.fixture
def am(tree: Tree) -> Actor:
    return sender(tree)


def test_ingest__first_firing__one_run_on_a_team_thread(tree: Tree, am: Actor) -> None:
    taken = deliver(am, webhook())

    thread, run, group = Thread.objects.get(), Run.objects.get(), the_group()
    assert (taken.action, taken.run_id) == (Taken.STARTED, run.pk)
    assert run.prompt == "Alert HighErrorRate (critical) is firing for service checkout: 5xx above 5 %"
    assert (thread.visibility, thread.channel, thread.starter, thread.node_id) == (
        "team",
        "alert",
        None,
        tree.payments.pk,
    )
    assert thread.started_by == am.principal
    assert (group.thread_id, group.status, group.severity, group.title) == (
        thread.pk,
        "firing",
        "critical",
        "HighErrorRate",
    )
    assert (group.deliveries, group.firing_count, group.labels["service"]) == (1, 1, "checkout")
    assert group.starts_at is not None
    assert clock.rfc3339(group.starts_at) == "2026-03-03T08:00:00.123Z"
    view = read_alert(run.alert)
    assert view is not None
    assert (view.title, view.severity, view.firing, view.summary) == (
        "HighErrorRate",
        "critical",
        True,
        "5xx above 5 %",
    )
    assert view.starts_at == group.starts_at


def test_ingest__started__audited_with_the_investigation_in_one_chain(tree: Tree, am: Actor) -> None:
    taken = deliver(am, webhook())

    rows = list(AuditEvent.objects.order_by("org_seq").filter(channel="alert"))
    assert [row.action for row in rows] == ["investigation.start", "alert.started"]
    assert {row.credential_id for row in rows} == {am.credential_id}
    assert rows[-1].object_id == str(taken.group.pk)
    assert audit_verify(tree.organization.pk).intact


def test_ingest__repeat_while_the_run_works__coalesced_and_only_counted(am: Actor) -> None:
    started = deliver(am, webhook())
    audited = AuditEvent.objects.count()

    repeats = [deliver(am, webhook()) for _ in range(3)]

    assert [(one.action, one.run_id) for one in repeats] == [(Taken.COALESCED, started.run_id)] * 3
    assert the_group().deliveries == 4
    assert (Run.objects.count(), Message.objects.count(), AuditEvent.objects.count()) == (1, 0, audited)


def test_ingest__fewer_alerts_than_before__no_news(am: Actor) -> None:
    deliver(am, webhook(alert("a"), alert("b")))

    assert deliver(am, webhook(alert("b"))).action is Taken.COALESCED
    assert Message.objects.count() == 0


def test_ingest__alerts_joined__one_waiting_message_that_grows(am: Actor) -> None:
    started = deliver(am, webhook())

    taken = [deliver(am, webhook(*map(alert, names))).action for names in ("ab", "abc", "abc")]

    assert taken == [Taken.UPDATED, Taken.UPDATED, Taken.COALESCED]
    message = Message.objects.get()
    assert message.run_id is None
    assert message.text.splitlines() == [
        "Alert HighErrorRate (critical): 1 more alert joined (HighErrorRate on pod-b); 2 fire now.",
        "Alert HighErrorRate (critical): 1 more alert joined (HighErrorRate on pod-c); 3 fire now.",
    ]
    log = envelopes(started.group.thread_id or message.pk)
    assert [event["data"]["message_id"] for event in log if event["type"] == "message_queued"] == [str(message.pk)] * 2
    assert Run.objects.count() == 1


def test_ingest__two_tokens_of_one_team__still_one_run_and_one_message(tree: Tree, am: Actor) -> None:
    deliver(am, webhook())

    taken = [deliver(actor, webhook(*map(alert, names))) for actor, names in ((am, "ab"), (sender(tree), "abc"))]

    assert [one.action for one in taken] == [Taken.UPDATED] * 2
    assert (Run.objects.count(), Message.objects.count()) == (1, 1)


def test_ingest__many_changes_before_a_run_takes_them_up__message_stays_bounded(am: Actor) -> None:
    deliver(am, webhook(alert("0")))

    for count in range(1, 14):
        body = webhook(*(alert(str(number)) for number in range(count + 1)))
        assert deliver(am, body).action is Taken.UPDATED

    lines = Message.objects.get().text.splitlines()
    assert len(lines) == 10
    assert "2 fire now" in lines[0]
    assert "14 fire now" in lines[-1]


def test_ingest__resolved_while_the_run_works__told_once(am: Actor) -> None:
    deliver(am, webhook())

    first, second = deliver(am, resolved()), deliver(am, resolved())

    assert (first.action, second.action) == (Taken.UPDATED, Taken.RESOLVED)
    assert Message.objects.get().text == (
        "Alert HighErrorRate (critical) is resolved: no alert of the group fires any more."
    )
    assert the_group().status == "resolved"


def test_ingest__firing_again_after_resolved_in_one_run__told(am: Actor) -> None:
    deliver(am, webhook())
    deliver(am, resolved())

    assert deliver(am, webhook()).action is Taken.UPDATED
    assert Message.objects.get().text.splitlines()[-1] == "Alert HighErrorRate (critical) is firing again."


def test_ingest__fifty_messages_of_people_wait__not_told_now_but_later(tree: Tree, am: Actor) -> None:
    thread_id = deliver(am, webhook()).group.thread_id
    assert thread_id is not None
    for number in range(50):
        message_post(actor=tree.system, thread_id=thread_id, text=str(number))

    full = deliver(am, webhook(alert("a"), alert("b")))
    Message.objects.update(delivered_at=clock.now())
    later = deliver(am, webhook(alert("a"), alert("b")))

    assert (full.action, later.action) == (Taken.COALESCED, Taken.UPDATED)
    assert Message.objects.get(delivered_at=None).text.endswith("(HighErrorRate on pod-b); 2 fire now.")


def test_ingest__fifty_messages_of_people_wait_when_it_resolves__told_by_the_next_delivery(
    tree: Tree, am: Actor
) -> None:
    thread_id = deliver(am, webhook()).group.thread_id
    assert thread_id is not None
    for number in range(50):
        message_post(actor=tree.system, thread_id=thread_id, text=str(number))

    full = [deliver(am, body).action for body in (resolved(), resolved())]
    Message.objects.update(delivered_at=clock.now())
    later = [deliver(am, body).action for body in (resolved(), resolved())]

    assert (full, later) == ([Taken.COALESCED] * 2, [Taken.UPDATED, Taken.RESOLVED])
    assert Message.objects.get(delivered_at=None).text.endswith("is resolved: no alert of the group fires any more.")
    assert (the_group().status, the_group().told_status) == ("resolved", "resolved")


def test_ingest__repeat_within_the_window_after_the_end__only_counted(tree: Tree, am: Actor) -> None:
    deliver(am, webhook())
    run = end_run(tree)

    taken = deliver(am, webhook())

    assert (taken.action, taken.run_id) == (Taken.REPEATED, run.pk)
    assert (the_group().deliveries, Run.objects.count()) == (2, 1)


def test_ingest__repeat_after_the_window__next_run_on_the_same_thread_with_the_new_alert(tree: Tree, am: Actor) -> None:
    deliver(am, webhook())
    run = end_run(tree)
    assert run.ended_at is not None

    with time_machine.travel(run.ended_at + timedelta(hours=4, minutes=-1), tick=False):
        assert deliver(am, webhook()).action is Taken.REPEATED
    with time_machine.travel(run.ended_at + timedelta(hours=4), tick=False):
        body = webhook(alert("a", startsAt="2026-03-03T12:00:00Z"))
        again = deliver(am, body)

    second = Run.objects.get(number=2)
    assert (again.action, again.run_id, second.thread_id) == (Taken.STARTED, second.pk, run.thread_id)
    assert kept_alert(2)["alerts"][0]["startsAt"] == "2026-03-03T12:00:00Z"
    assert second.prompt == run.prompt
    assert Thread.objects.count() == 1


@pytest.mark.parametrize(("seconds", "action"), [(0, Taken.STARTED), (60, Taken.REPEATED)])
def test_ingest__repeat_window_configured__counts(tree: Tree, am: Actor, seconds: int, action: Taken) -> None:
    config_patch(actor=tree.system, node=tree.root, patch={"alerts": {"repeat_window_s": seconds}})
    deliver(am, webhook())
    end_run(tree)

    assert deliver(am, webhook()).action is action


def test_ingest__new_alert_after_the_end__next_run_and_the_old_ones_stay_known(tree: Tree, am: Actor) -> None:
    deliver(am, webhook(alert("a")))
    end_run(tree)

    joined = deliver(am, webhook(alert("a"), alert("b")))
    end_run(tree)
    fewer = [deliver(am, webhook(alert(name))).action for name in "ab"]

    assert joined.action is Taken.STARTED
    assert fewer == [Taken.REPEATED] * 2
    assert Run.objects.count() == 2


def test_ingest__resolved_after_the_end__recorded_without_a_run(tree: Tree, am: Actor) -> None:
    deliver(am, webhook())
    run = end_run(tree)

    taken = deliver(am, resolved())

    assert (taken.action, taken.run_id) == (Taken.RESOLVED, run.pk)
    assert (the_group().status, Run.objects.count(), Message.objects.count()) == ("resolved", 1, 0)
    assert AuditEvent.objects.filter(action="alert.resolved").count() == 1


def test_ingest__resolved_first__recorded_without_a_thread_and_a_later_alert_starts(am: Actor) -> None:
    first = deliver(am, resolved())

    assert (first.action, first.run_id, first.group.thread_id) == (Taken.RESOLVED, None, None)
    assert deliver(am, webhook()).action is Taken.STARTED
    assert the_group().deliveries == 2


def test_ingest__other_group__thread_of_its_own(am: Actor) -> None:
    deliver(am, webhook())
    other = deliver(am, webhook(groupKey="{}:{}"))

    assert other.action is Taken.STARTED
    assert Thread.objects.count() == active_runs() == 2


def test_ingest__thread_deleted__starts_anew(am: Actor) -> None:
    deliver(am, webhook())
    Thread.objects.all().delete()

    assert deliver(am, webhook()).action is Taken.STARTED
    assert the_group().thread_id == Thread.objects.get().pk


def test_ingest__investigation_cannot_start__nothing_of_the_group_stays(am: Actor, settings: Any) -> None:
    settings.DEFAULT_RUNTIME = "missing"

    with pytest.raises(InvalidInput):
        deliver(am, webhook())

    assert not Thread.objects.exists()
    assert not AlertGroup.objects.exists()


def test_ingest__coalesced_repeat__fixed_number_of_queries(
    tree: Tree, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    client = api_client(token=ingest_token(tree))
    body = webhook(*map(alert, "abcdef"))
    client.post("/api/v1/alerts/alertmanager", body)
    client.post("/api/v1/alerts/alertmanager", body)

    # token; team; savepoint; group, locked; alerts; alerts, counted; is a run active; group, counted; release
    with django_assert_num_queries(9):
        response = client.post("/api/v1/alerts/alertmanager", body)

    assert response.json()["action"] == "coalesced"


@pytest.mark.parametrize("ended", [False, True])
def test_ingest__pure_repeat__writes_the_counters_alone(tree: Tree, am: Actor, ended: bool) -> None:
    deliver(am, webhook())
    if ended:
        end_run(tree)

    with CaptureQueriesContext(connection) as queries:
        deliver(am, webhook())

    (update,) = [query["sql"] for query in queries if query["sql"].startswith('UPDATE "alerts_alertgroup"')]
    assert re.findall(r'"(\w+)" = ', update.partition("WHERE")[0]) == ["last_at", "deliveries"]


def test_ingest__repeat_with_fewer_alerts__the_count_is_kept_too(am: Actor) -> None:
    deliver(am, webhook(*map(alert, "ab")))

    deliver(am, webhook(alert("b")))

    assert (the_group().firing_count, the_group().deliveries, len(the_group().fingerprints)) == (1, 2, 2)


def test_extended_message__after_the_turn_took_it_up__stays_pending_until_its_new_words_are_taken(am: Actor) -> None:
    deliver(am, webhook())
    claim = run_claim(owner="worker")
    assert claim is not None
    deliver(am, webhook(alert("a"), alert("b")))
    short = Message.objects.get()
    deliver(am, webhook(alert("a"), alert("b"), alert("c")))
    long = Message.objects.get()

    _messages_delivered(claim, [(short.pk, short.text)])
    assert Message.objects.get().delivered_at is None
    _messages_delivered(claim, [(short.pk, short.text), (long.pk, long.text)])
    assert Message.objects.get().delivered_at is not None
    assert deliver(am, webhook(*map(alert, "abcd"))).action is Taken.UPDATED
    assert Message.objects.filter(delivered_at=None).count() == 1


async def test_run_control__message_that_grew__offered_again_once() -> None:
    control = RunControl(asyncio.get_running_loop(), quiet_s=0)
    one = uuid4()
    said: list[str] = []
    for text in ("a", "a", "a\nb", "a\nb"):
        control.deliver([(one, text)])
        await asyncio.sleep(0)
        said += control.take_messages()

    assert said == ["a", "a\nb"]
    assert control.taken() == [(one, "a"), (one, "a\nb")]
    assert control.taken() == []

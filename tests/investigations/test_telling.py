"""What a machine says to a thread: to its active run, or to start the next one; and notices, which start none."""

from datetime import timedelta
from typing import Any

import pytest

from controlplane.audit.models import AuditEvent
from controlplane.core import clock
from controlplane.core.actor import Role
from controlplane.core.errors import Conflict, InvalidInput, PermissionDenied
from controlplane.investigations.lifecycle import Outcome, run_claim, run_finish
from controlplane.investigations.models import Message, Run
from controlplane.investigations.services import (
    News,
    Telling,
    Told,
    message_post,
    run_interrupt,
    thread_tell,
)
from controlplane.investigations.starting import Started
from controlplane.orgs.services import node_archive
from tests.factories import Tree, actor_for_user, make_user
from tests.support.runs import envelopes, in_threads, start_run, types

pytestmark = pytest.mark.django_db


@pytest.fixture
def started(tree: Tree) -> Started:
    return start_run(tree.system, tree.payments, alert={"number": 1})


def news(**members: Any) -> News:
    said: dict[str, Any] = {"line": "it changed", "prompt": "it fires", "starts_run": True, "alert": {"number": 2}}
    return News(**said | members)


def tell(tree: Tree, started: Started, told: News, **more: Any) -> Told:
    return thread_tell(actor=tree.system, thread_id=started.thread.pk, news=told, **more)


def end(tree: Tree, started: Started) -> Run:
    return run_interrupt(actor=tree.system, thread_id=started.thread.pk)


def test_thread_tell__active_run__told_and_audited(tree: Tree, started: Started) -> None:
    told = tell(tree, started, news())

    message = Message.objects.get()
    assert told == Told(Telling.TOLD, started.run.pk, message.pk)
    assert (message.text, message.alert, message.starts_run) == ("it changed", {"number": 2}, True)
    assert envelopes(started.thread.pk)[-1]["data"]["pending_count"] == 1
    assert AuditEvent.objects.get(action="thread.message").after == {"message": str(message.pk), "run": None}


def test_thread_tell__active_run_that_knows__nothing_written(tree: Tree, started: Started) -> None:
    assert tell(tree, started, news(line=None)) == Told(Telling.KNOWN, started.run.pk)
    assert not Message.objects.exists()
    assert types(started.thread.pk) == ["run_started"]


def test_thread_tell__its_message_still_waits__grows_and_stays_one_that_starts_a_run(
    tree: Tree, started: Started
) -> None:
    first = tell(tree, started, news())

    second = tell(
        tree, started, news(line="it is over", starts_run=False, alert={"number": 3}), message_id=first.message_id
    )

    message = Message.objects.get()
    assert second.message_id == first.message_id == message.pk
    assert message.text.splitlines() == ["it changed", "it is over"]
    assert (message.starts_run, message.alert) == (True, {"number": 3})
    assert AuditEvent.objects.filter(action="thread.message").count() == 2


def test_thread_tell__its_message_was_taken_up__another_one(tree: Tree, started: Started) -> None:
    first = tell(tree, started, news())
    Message.objects.update(delivered_at=clock.now())

    second = tell(tree, started, news(line="more"), message_id=first.message_id)

    assert second.outcome is Telling.TOLD
    assert Message.objects.get(delivered_at=None).pk == second.message_id != first.message_id


def test_thread_tell__fifty_messages_wait__no_room_but_its_own_still_grows(tree: Tree, started: Started) -> None:
    mine = tell(tree, started, news())
    for number in range(49):
        message_post(actor=tree.system, thread_id=started.thread.pk, text=f"m{number}")

    assert tell(tree, started, news()) == Told(Telling.NO_ROOM, started.run.pk)
    assert tell(tree, started, news(line="more"), message_id=mine.message_id).outcome is Telling.TOLD
    assert Message.objects.count() == 50
    assert [message.pk for message in Message.objects.filter(text="it changed\nmore")] == [mine.message_id]


def test_thread_tell__idle_thread__starts_the_next_run_with_the_alert(tree: Tree, started: Started) -> None:
    ended = end(tree, started)

    told = tell(tree, started, news())

    run = Run.objects.get(number=2)
    assert (told.outcome, told.run_id, told.idle_since) == (Telling.STARTED, run.pk, ended.ended_at)
    assert (run.prompt, run.alert) == ("it fires", {"number": 2})
    assert [event["type"] for event in envelopes(started.thread.pk)[-2:]] == ["message_queued", "run_started"]


@pytest.mark.parametrize("quiet", [{"prompt": None}, {"quiet": timedelta(hours=1)}])
def test_thread_tell__idle_thread_and_no_reason_to_start__nothing_written(
    tree: Tree, started: Started, quiet: dict[str, Any]
) -> None:
    end(tree, started)

    assert tell(tree, started, news(**quiet)) == Told(Telling.IDLE, started.run.pk)
    assert (Run.objects.count(), Message.objects.count()) == (1, 0)


def test_thread_tell__may_not_or_cannot__refused_and_nothing_written(tree: Tree, started: Started) -> None:
    viewer = actor_for_user(make_user(tree.payments, Role.VIEWER))
    with pytest.raises(PermissionDenied):
        thread_tell(actor=viewer, thread_id=started.thread.pk, news=news())
    with pytest.raises(InvalidInput) as long:
        tell(tree, started, news(line="x" * 2_001))
    node_archive(actor=tree.system, node=tree.payments)
    with pytest.raises(Conflict) as archived:
        tell(tree, started, news())

    assert (long.value.errors[0].code, archived.value.code) == ("too_long", "team_archived")
    assert not Message.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_thread_tell__twice_at_once_on_an_idle_thread__one_run_and_the_other_tells_it(
    tree: Tree, started: Started
) -> None:
    end(tree, started)

    outcomes = in_threads(*[lambda: tell(tree, started, news())] * 2)

    told = sorted(one.outcome for one in outcomes if isinstance(one, Told))
    assert told == [Telling.STARTED, Telling.TOLD]
    assert {one.run_id for one in outcomes if isinstance(one, Told)} == {Run.objects.get(number=2).pk}


def test_notice__run_ends_without_it__settled_and_no_run_starts(tree: Tree, started: Started) -> None:
    tell(tree, started, news(starts_run=False))
    claim = run_claim(owner="worker")
    assert claim is not None

    run_finish(claim, Outcome("completed"))

    notice = Message.objects.get()
    assert notice.delivered_at is not None
    assert (Run.objects.count(), notice.run_id) == (1, started.run.pk)
    assert types(started.thread.pk) == ["run_started", "message_queued", "run_ended"]


def test_message_post__alert_while_a_run_works__is_the_next_runs(tree: Tree, started: Started) -> None:
    for number in (2, 3):
        message_post(actor=tree.system, thread_id=started.thread.pk, text="look", alert={"number": number})
    message_post(actor=tree.system, thread_id=started.thread.pk, text="and the cache?")

    end(tree, started)

    assert [run.alert for run in Run.objects.order_by("number")] == [{"number": 1}, {"number": 3}]

"""How long investigations are kept: the policy, holds, what goes and what stays."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from controlplane.alerts.models import AlertGroup, Source
from controlplane.alerts.retention import alerts_retire
from controlplane.audit.models import AuditEvent
from controlplane.core import clock
from controlplane.core.actor import Role
from controlplane.core.errors import Gone, NotFound
from controlplane.investigations import retention
from controlplane.investigations.files import file_from_run
from controlplane.investigations.models import Artifact, Event, Message, Run, Thread, ThreadTombstone
from controlplane.investigations.retention import hold_place, hold_release, retention_set, threads_retire
from controlplane.investigations.selectors import thread_get
from controlplane.investigations.services import message_post
from controlplane.investigations.starting import Started
from tests.factories import Tree, actor_for_user, api_client, make_admin_token, make_team_token, make_user
from tests.support.runs import in_threads
from tests.web.support import Person, finish, start

URL = "/api/v1/orgs/demo/retention"
SNAPSHOT = {"format": "snapshot/1", "sources": {"metrics": {"x": 1}}}


@pytest.fixture
def rita(tree: Tree) -> Person:
    return Person.signed_in(make_user(tree.payments, Role.RESPONDER))


def ended(person: Person, tree: Tree, *, days_ago: float, **fields: Any) -> Started:
    """Return an investigation whose one run ended so long ago."""
    fields.setdefault("visibility", "team")
    started = finish(start(person, tree.payments, **fields))
    age(started.thread, days_ago)
    return started


def age(thread: Thread, days: float) -> None:
    then = clock.now() - timedelta(days=days)
    Thread.objects.filter(pk=thread.pk).update(created_at=then)
    Run.objects.filter(thread=thread, ended_at__isnull=False).update(ended_at=then)
    Message.objects.filter(thread=thread).update(created_at=then)


def keep(tree: Tree, days: int | None = 30, **fields: Any) -> None:
    retention_set(actor=tree.system, organization=tree.organization, investigation_days=days, **fields)


# ---- what goes -------------------------------------------------------------------------------------------------------


def test_retire__no_policy__keeps_everything(tree: Tree, rita: Person) -> None:
    ended(rita, tree, days_ago=5000)
    assert threads_retire() == 0
    keep(tree, None)
    assert threads_retire() == 0


def test_retire__old_thread__goes_whole_and_leaves_a_tombstone(tree: Tree, rita: Person) -> None:
    old = ended(rita, tree, days_ago=31, evidence=SNAPSHOT)
    young = ended(rita, tree, days_ago=29)
    file = file_from_run(run=old.run, name="graph.txt", content=b"x")
    head = Thread.objects.get(pk=old.thread.pk).last_seq
    keep(tree)

    assert threads_retire() == 1

    assert list(Thread.objects.values_list("pk", flat=True)) == [young.thread.pk]
    assert set(Event.objects.values_list("thread_id", flat=True)) == {young.thread.pk}
    assert not Artifact.objects.exists()
    file.refresh_from_db()
    assert (file.thread_id, file.removed_at is not None) == (None, True)
    left = ThreadTombstone.objects.get()
    assert (left.pk, left.runs, left.events, left.days) == (old.thread.pk, 1, head, 30)
    (event,) = AuditEvent.objects.filter(action="retention.remove")
    assert str(old.thread.pk) in event.after_json
    assert "checkout" not in event.after_json
    assert threads_retire() == 0


def test_retire__artifact_another_thread_uses__stays(tree: Tree, rita: Person) -> None:
    old = ended(rita, tree, days_ago=31, evidence=SNAPSHOT)
    young = ended(rita, tree, days_ago=1)
    Run.objects.filter(pk=young.run.pk).update(artifact_id=Run.objects.get(pk=old.run.pk).artifact_id)
    keep(tree)
    threads_retire()
    assert Artifact.objects.count() == 1


@pytest.mark.parametrize("what", ["active", "later run", "later message", "held", "organization held"])
def test_retire__in_use_or_held__stays(tree: Tree, rita: Person, what: str) -> None:
    started = ended(rita, tree, days_ago=31)
    thread = started.thread
    match what:
        case "active":
            message_post(actor=rita.actor, thread_id=thread.pk, text="more")
            Message.objects.update(created_at=clock.now() - timedelta(days=31))
        case "later run":
            Run.objects.filter(pk=started.run.pk).update(ended_at=clock.now() - timedelta(days=1))
        case "later message":
            Message.objects.create(thread=thread, text="x", by="x", by_label="x", delivered_at=clock.now())
        case "held":
            hold_place(actor=tree.system, organization=tree.organization, thread_id=thread.pk, reason="case 7")
    keep(tree, hold=what == "organization held")

    assert threads_retire() == 0
    assert Thread.objects.filter(pk=thread.pk).exists()


def test_retire__hold_let_go__goes(tree: Tree, rita: Person) -> None:
    thread = ended(rita, tree, days_ago=31).thread
    hold_place(actor=tree.system, organization=tree.organization, thread_id=thread.pk)
    keep(tree)
    assert threads_retire() == 0
    hold_release(actor=tree.system, organization=tree.organization, thread_id=thread.pk)
    assert threads_retire() == 1
    actions = AuditEvent.objects.filter(action__startswith="retention.").order_by("org_seq")
    assert list(actions.values_list("action", flat=True)) == [
        "retention.hold",
        "retention.change",
        "retention.release",
        "retention.remove",
    ]


def test_retire__other_organization__untouched(tree: Tree, other_tree: Tree, rita: Person) -> None:
    other = Person.signed_in(make_user(other_tree.payments))
    ended(other, other_tree, days_ago=100)
    keep(tree)
    assert threads_retire() == 0


def test_retire__many__in_bounded_batches(tree: Tree, rita: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH_THREADS", 2)
    for _ in range(5):
        ended(rita, tree, days_ago=31)
    keep(tree)
    assert retention.batch_retire(tree.organization.pk) == 2
    monkeypatch.setattr(retention, "BATCH_EVENTS", 1)
    assert retention.batch_retire(tree.organization.pk) == 1
    assert threads_retire() == 2


@pytest.mark.django_db(transaction=True)
def test_retire__two_processes_at_once__each_thread_once(tree: Tree, rita: Person) -> None:
    for _ in range(3):
        ended(rita, tree, days_ago=31)
    keep(tree)
    outcomes = in_threads(threads_retire, threads_retire)
    assert sum(outcomes) == 3, outcomes
    assert ThreadTombstone.objects.count() == 3


# ---- what links say --------------------------------------------------------------------------------------------------


def test_link__removed__410_to_who_saw_it_and_404_to_others(tree: Tree, other_tree: Tree, rita: Person) -> None:
    team = ended(rita, tree, days_ago=31).thread
    private = ended(rita, tree, days_ago=31, visibility="private").thread
    keep(tree)
    threads_retire()
    colleague = actor_for_user(make_user(tree.payments))
    stranger = actor_for_user(make_user(other_tree.payments))

    def answer(actor: Any, thread_id: UUID) -> str:
        with pytest.raises((Gone, NotFound)) as caught:
            thread_get(actor, thread_id)
        return caught.value.code

    assert [answer(rita.actor, team.pk), answer(rita.actor, private.pk)] == ["thread_removed", "thread_removed"]
    assert [answer(colleague, team.pk), answer(colleague, private.pk)] == ["thread_removed", "not_found"]
    assert [answer(stranger, team.pk), answer(rita.actor, uuid4())] == ["not_found", "not_found"]

    client = api_client(token=make_team_token(tree.payments))
    for path in ("", "/events", "/files", "/feedback"):
        problem = client.get(f"/api/v1/threads/{team.pk}{path}")
        assert (problem.status_code, problem.json()["code"]) == (410, "thread_removed")
    page = rita.client.get(f"/app/threads/{team.pk}")
    assert page.status_code == 410
    assert "keeps investigations for 30 days" in page.content.decode()


# ---- alerts ----------------------------------------------------------------------------------------------------------


def group(tree: Tree, days: int, key: str, **fields: Any) -> AlertGroup:
    at = clock.now() - timedelta(days=days)
    return AlertGroup.objects.create(
        organization=tree.organization, node=tree.payments, source=Source.GRAFANA, group_key=key * 64, group_text="g",
        status="resolved", title="t", first_at=at, last_at=at, **fields,
    )  # fmt: skip


def test_alerts__old_groups__go_unless_their_thread_is_held(tree: Tree, rita: Person) -> None:
    thread = ended(rita, tree, days_ago=1).thread
    held = group(tree, 20, "a", thread=thread)
    group(tree, 20, "b")
    young = group(tree, 5, "c")
    hold_place(actor=tree.system, organization=tree.organization, thread_id=thread.pk)
    assert alerts_retire() == 0
    retention_set(actor=tree.system, organization=tree.organization, alert_days=14)

    assert alerts_retire() == 1

    assert set(AlertGroup.objects.values_list("pk", flat=True)) == {held.pk, young.pk}
    assert AuditEvent.objects.get(action="retention.remove").object_kind == "alert_group"
    assert Thread.objects.exists()


# ---- REST ------------------------------------------------------------------------------------------------------------


def test_api__policy__read_changed_audited(tree: Tree) -> None:
    client = api_client(token=make_admin_token(tree.root))
    nothing = {"investigation_days": None, "alert_days": None, "hold": False, "floor_days": 7, "ceiling_days": 3650}
    assert client.get(URL).json() == nothing

    changed = client.patch(URL, {"investigation_days": 90})

    assert changed.json() == nothing | {"investigation_days": 90}
    assert client.patch(URL, {"hold": True}).json()["investigation_days"] == 90
    assert client.patch(URL, {"investigation_days": None, "hold": False}).json() == nothing
    assert AuditEvent.objects.filter(action="retention.change").count() == 3


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        ({"investigation_days": 6}, "bad_days", "/investigation_days"),
        ({"alert_days": 3651}, "bad_days", "/alert_days"),
        ({"alert_days": "30"}, "bad_days", "/alert_days"),
        ({"alert_days": True}, "bad_days", "/alert_days"),
        ({"alert_days": 30.5}, "bad_days", "/alert_days"),
        ({"hold": "yes"}, "not_a_boolean", "/hold"),
        ({"hold": None}, "not_a_boolean", "/hold"),
        ({"days": 30}, "unknown_member", "/days"),
        ({}, "nothing_to_change", None),
    ],
)
def test_api__bad_policy__refused(tree: Tree, body: dict[str, Any], code: str, pointer: str | None) -> None:
    answer = api_client(token=make_admin_token(tree.root)).patch(URL, body)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert pointer is None or answer.json()["errors"][0]["pointer"] == pointer


def test_api__holds__placed_listed_released(tree: Tree) -> None:
    client = api_client(token=make_admin_token(tree.root))
    thread_id = str(uuid4())

    placed = client.post(f"{URL}/holds", {"thread_id": thread_id, "reason": "case 7"})
    again = client.post(f"{URL}/holds", {"thread_id": thread_id})

    assert (placed.status_code, again.status_code) == (201, 201)
    assert [held["reason"] for held in client.get(f"{URL}/holds").json()["results"]] == ["case 7"]
    assert client.delete(f"{URL}/holds/{thread_id}").status_code == 204
    assert client.delete(f"{URL}/holds/{thread_id}").status_code == 404
    assert client.post(f"{URL}/holds", {"thread_id": "x"}).status_code == 422
    assert client.post(f"{URL}/holds", {"thread_id": thread_id, "reason": "x" * 501}).json()["code"] == "bad_reason"


def test_api__admin_of_a_team_below__may_not(tree: Tree) -> None:
    client = api_client(token=make_admin_token(tree.payments))
    assert client.patch(URL, {"investigation_days": 90}).status_code in {403, 404}

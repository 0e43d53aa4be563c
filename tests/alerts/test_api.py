"""REST of alerts: who may deliver and who may look, shapes, pages, metrics."""

from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from controlplane.alerts.models import AlertGroup
from controlplane.audit.models import AuditEvent
from controlplane.core import clock, metrics
from controlplane.core.actor import Role
from controlplane.investigations.models import Run, Thread
from controlplane.orgs.models import Node
from tests.alerts.support import KEY, URL, alert, deliver, ingest_token, sender, webhook
from tests.factories import (
    Tree,
    actor_for_token,
    api_client,
    make_admin_token,
    make_operator,
    make_personal_token,
    make_team_token,
    make_user,
)

LIST = "/api/v1/alerts"


def test_deliver__team_token_of_bootstraps_scopes__accepted(tree: Tree) -> None:
    response = api_client(token=make_team_token(tree.payments)).post(URL, webhook())

    group = AlertGroup.objects.get()
    assert response.status_code == 202
    assert response.json() == {
        "group": str(group.pk),
        "thread_id": str(group.thread_id),
        "run_id": str(Run.objects.get().pk),
        "action": "started",
    }


#: Caller → may deliver (to payments), may read its alerts.
CALLERS: dict[str, tuple[Callable[[Tree], APIClient], int, bool]] = {
    "viewer": (lambda tree: api_client(user=make_user(tree.payments, Role.VIEWER)), 403, True),
    "reviewer": (lambda tree: api_client(user=make_user(tree.payments, Role.REVIEWER)), 403, True),
    "responder": (lambda tree: api_client(user=make_user(tree.payments, Role.RESPONDER)), 202, True),
    "admin": (lambda tree: api_client(user=make_user(tree.payments, Role.ADMIN)), 202, True),
    "member without role": (lambda tree: api_client(user=make_user(tree.payments, None)), 403, False),
    "operator": (lambda _tree: api_client(user=make_operator()), 403, False),
    "ingest token": (lambda tree: api_client(token=ingest_token(tree)), 202, False),
    "token without the scope": (
        lambda tree: api_client(token=make_team_token(tree.payments, ["runs:create"])),
        403,
        False,
    ),
    "reading token": (lambda tree: api_client(token=make_team_token(tree.payments, ["runs:read"])), 403, True),
    "admin token": (lambda tree: api_client(token=make_admin_token(tree.payments)), 202, True),
    "personal token of a viewer": (
        lambda tree: api_client(
            token=make_personal_token(make_user(tree.payments, Role.VIEWER), tree.payments, ["alerts:ingest"])
        ),
        403,
        False,
    ),
    "personal token of a responder": (
        lambda tree: api_client(
            token=make_personal_token(make_user(tree.payments, Role.RESPONDER), tree.payments, ["alerts:ingest"])
        ),
        202,
        False,
    ),
    "nobody": (lambda _tree: api_client(), 401, False),
}


@pytest.mark.parametrize("caller", CALLERS)
def test_deliver__by_role__only_who_may(tree: Tree, caller: str) -> None:
    make, expected, _ = CALLERS[caller]

    response = make(tree).post(URL, webhook())

    assert response.status_code == expected
    assert AlertGroup.objects.filter(node=tree.payments).count() == Thread.objects.count() == (expected == 202)
    if expected == 202:
        assert Thread.objects.get().visibility == "team"


@pytest.mark.parametrize("caller", CALLERS)
def test_list__by_role__own_team_alone(tree: Tree, other_tree: Tree, caller: str) -> None:
    make, _, reads = CALLERS[caller]
    for node in (tree.payments, tree.platform, other_tree.payments):
        api_client(token=make_team_token(node)).post(URL, webhook())

    response = make(tree).get(LIST)

    if caller == "nobody":
        assert response.status_code == 401
    else:
        assert response.status_code == 200
        assert [group["team"] for group in response.json()["results"]] == (["demo/payments"] if reads else [])


def test_deliver__session_without_csrf_token__refused(tree: Tree) -> None:
    client = api_client(user=make_user(tree.payments), enforce_csrf_checks=True)
    assert client.post(URL, webhook()).json()["code"] == "csrf_failed"


def test_deliver__token_in_the_url__not_a_credential(tree: Tree) -> None:
    token = ingest_token(tree)
    assert api_client().post(f"{URL}?token={token}", webhook()).status_code == 401
    assert api_client(token=token).post(f"{URL}?token=x", webhook()).json()["code"] == "unknown_parameter"


def test_deliver__same_key_to_two_teams__two_groups(tree: Tree) -> None:
    for node in (tree.payments, tree.platform):
        assert api_client(token=make_team_token(node)).post(URL, webhook()).json()["action"] == "started"
    assert AlertGroup.objects.values("group_key").distinct().count() == 1
    assert AlertGroup.objects.count() == Thread.objects.count() == 2


def test_list__one_group__its_members(tree: Tree) -> None:
    actor = sender(tree)
    deliver(actor, webhook())
    deliver(actor, webhook())

    group = AlertGroup.objects.get()
    (row,) = api_client(user=make_user(tree.payments, Role.VIEWER)).get(LIST).json()["results"]
    times = {name: row.pop(name) for name in ("first_at", "last_at")}
    assert row == {
        "id": str(group.pk),
        "source": "alertmanager",
        "team": "demo/payments",
        "group_key": KEY,
        "title": "HighErrorRate",
        "severity": "critical",
        "status": "firing",
        "labels": {"alertname": "HighErrorRate", "severity": "critical", "service": "checkout"},
        "firing": 1,
        "starts_at": "2026-03-03T08:00:00.123Z",
        "deliveries": 2,
        "thread_id": str(group.thread_id),
        "fate": "investigated",
        "reason": None,
        "explanation": "",
        "run_id": str(group.run_id),
        "run_url": f"/app/threads/{group.thread_id}#run-{group.run_id}",
        "waits_until": None,
    }
    assert times["first_at"] <= times["last_at"]


def test_list__pages_and_filters__each_group_once_newest_first(
    tree: Tree, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    actor = sender(tree)
    for number in range(5):
        deliver(actor, webhook(groupKey=f"k{number}"))
    deliver(actor, webhook(alert(status="resolved"), groupKey="k1", status="resolved"))
    client = api_client(token=make_team_token(tree.payments))

    seen: list[str] = []
    cursor = None
    client.get(LIST)
    while cursor is not None or not seen:
        with django_assert_num_queries(2):  # token; groups
            page = client.get(LIST, {"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        seen += [group["group_key"] for group in page["results"]]
        cursor = page["next"]

    assert seen == ["k1", "k4", "k3", "k2", "k0"]
    assert [group["group_key"] for group in client.get(LIST, {"status": "resolved"}).json()["results"]] == ["k1"]
    assert client.get(LIST, {"status": "odd"}).json()["code"] == "unknown_status"


@pytest.mark.parametrize("team", ["demo/payments", "payments"])
def test_list__team_by_slug_or_as_rows_show_it__its_groups(tree: Tree, team: str) -> None:
    for node in (tree.payments, tree.platform):
        api_client(token=make_team_token(node)).post(URL, webhook())
    client = api_client(user=make_user(tree.engineering, Role.VIEWER))

    response = client.get(LIST, {"team": team})

    assert [group["team"] for group in response.json()["results"]] == ["demo/payments"]


@pytest.mark.parametrize("team", ["platform", "nowhere", "other/payments", "demo/payments/x", "engineering", "a\x00"])
def test_list__team_that_is_none_or_unseen__is_refused(tree: Tree, other_tree: Tree, team: str) -> None:
    response = api_client(token=make_team_token(tree.payments)).get(LIST, {"team": team})

    assert (response.status_code, response.json()["code"]) == (422, "unknown_team")


def test_list__archived_team__its_groups_are_still_there(tree: Tree) -> None:
    deliver(sender(tree), webhook())
    Node.objects.filter(pk=tree.payments.pk).update(archived_at=clock.now())

    response = api_client(user=make_user(tree.engineering, Role.VIEWER)).get(LIST, {"team": "demo/payments"})

    assert [group["title"] for group in response.json()["results"]] == ["HighErrorRate"]


def test_run_of_an_alert__asked_by_the_source__page_and_audit_log_name_the_token(tree: Tree) -> None:
    token = ingest_token(tree)
    actor = actor_for_token(token)
    deliver(actor, webhook())
    run = Run.objects.select_related("thread").get()
    client = api_client(user=make_user(tree.payments, Role.VIEWER))

    page = client.get(f"/app/threads/{run.thread_id}").content.decode()

    assert (run.requested_by, run.requested_by_label) == (actor.principal, "Alertmanager")
    assert (run.thread.started_by, run.thread.started_by_label) == (actor.principal, "Alertmanager")
    assert f'<span>Alertmanager <span class="faint">with token {actor.label}</span>' in page
    assert "Alert: HighErrorRate" in page
    assert "5xx above 5 %</span></span></summary>" in page
    assert '<td role="cell" class="c-by">Alertmanager</td>' in client.get("/app/runs").content.decode()
    assert '<span class="badge outline">Alert</span>' in client.get("/app/").content.decode()
    event = AuditEvent.objects.get(action="alert.started")
    assert (event.actor, event.actor_label, event.channel) == (actor.principal, actor.label, "alert")


def test_run_of_an_alert__token_of_a_person__page_names_the_person(tree: Tree) -> None:
    user = make_user(tree.payments, Role.RESPONDER)
    deliver(actor_for_token(make_personal_token(user, tree.payments, ["alerts:ingest"])), webhook())
    thread = Thread.objects.get()

    page = api_client(user=user).get(f"/app/threads/{thread.pk}").content.decode()

    assert f'Alertmanager <span class="faint">with a token of {user.display_name}</span>' in page


def counted(action: str) -> float:
    labels = {"source": "alertmanager", "action": action}
    return metrics.registry.get_sample_value("opensre_alert_deliveries_total", labels) or 0.0


@pytest.mark.django_db(transaction=True)
def test_metrics__deliveries__counted_by_action(tree: Tree) -> None:
    client = api_client(token=ingest_token(tree))
    before = {action: counted(action) for action in ("started", "coalesced", "refused")}

    for body in (webhook(), webhook(), webhook(version="3")):
        client.post(URL, body)

    assert {action: counted(action) - before[action] for action in before} == {
        "started": 1,
        "coalesced": 1,
        "refused": 1,
    }


def test_runs_page__run_of_an_alert__says_so(tree: Tree) -> None:
    client = api_client(user=make_user(tree.payments, Role.VIEWER))
    badge = '<span class="badge outline">Alert</span>'
    before = client.get("/app/runs").content.decode()

    deliver(sender(tree), webhook())

    page = client.get("/app/runs").content.decode()
    assert (badge in before, badge in page) == (False, True)
    assert "Alert HighErrorRate (critical) is firing for service checkout" in page


def test_admin__operator__looks_and_changes_nothing(tree: Tree, client: Any) -> None:
    deliver(sender(tree), webhook())
    group = AlertGroup.objects.get()
    client.force_login(make_operator())

    listed = client.get("/admin/alerts/alertgroup/")
    shown = client.get(f"/admin/alerts/alertgroup/{group.pk}/change/")

    assert "HighErrorRate" in listed.content.decode()
    assert group.group_key in shown.content.decode()
    assert client.post(f"/admin/alerts/alertgroup/{group.pk}/change/", {"title": "x"}).status_code == 403
    assert client.get("/admin/alerts/alertgroup/add/").status_code == 403

"""The pages of alerts: what was delivered, and what became of each."""

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from controlplane.alerts.alertmanager import delivery_read
from controlplane.alerts.models import AlertGroup
from controlplane.alerts.services import alert_ingest
from controlplane.core.actor import Role
from tests.alerts.support import alert, resolved, webhook
from tests.factories import Tree, actor_for_token, make_team_token, make_user
from tests.web.support import EVIL, Person

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer(tree: Tree) -> Person:
    return Person.signed_in(make_user(tree.engineering, Role.VIEWER))


def deliver(tree: Tree, body: dict[str, Any], team: str = "payments") -> AlertGroup:
    actor = actor_for_token(make_team_token(getattr(tree, team), ["alerts:ingest"]))
    return alert_ingest(actor=actor, delivery=delivery_read(body)).group


def titles(answer: Any) -> list[str]:
    return [f"{group.node.slug} {group.fate}" for group in answer.context["groups"]]


def test_alerts__filters__narrow_by_team_fate_status_and_source(tree: Tree, viewer: Person) -> None:
    deliver(tree, webhook())
    deliver(tree, resolved(), "platform")
    get = viewer.client.get

    assert titles(get("/app/alerts")) == ["platform skipped", "payments investigated"]
    assert titles(get("/app/alerts?team=payments")) == ["payments investigated"]
    assert titles(get("/app/alerts?fate=skipped")) == ["platform skipped"]
    assert titles(get("/app/alerts?status=firing")) == ["payments investigated"]
    assert titles(get("/app/alerts?source=sentry")) == []
    assert titles(get("/app/alerts?fate=nonsense&status=x&source=y")) == ["platform skipped", "payments investigated"]
    assert get("/app/alerts?team=nowhere")["Location"] == "/app/alerts"
    assert get("/app/alerts?cursor=nonsense")["Location"] == "/app/alerts"


def test_alerts__row__fate_reason_and_link(tree: Tree, viewer: Person) -> None:
    group = deliver(tree, resolved())
    page = viewer.client.get("/app/alerts").content.decode()
    assert f'href="/app/alerts/{group.pk}"' in page
    assert 'data-fate="skipped"' in page
    assert "It was over when it was first heard of." in page


def test_alerts__none__says_what_to_do(viewer: Person) -> None:
    assert "No alerts yet" in viewer.client.get("/app/alerts").content.decode()
    assert "No alert matches" in viewer.client.get("/app/alerts?fate=joined").content.decode()


def test_alert__each_with_its_fate_and_the_run(tree: Tree, viewer: Person) -> None:
    deliver(tree, webhook(alert("a")))
    group = deliver(tree, webhook(*map(alert, "ab")))

    page = viewer.client.get(f"/app/alerts/{group.pk}").content.decode()

    assert page.count('data-fate="investigated"') == 2  # the group's and the first alert's
    assert page.count('data-fate="joined"') == 1
    assert f'href="/app/threads/{group.thread_id}#run-{group.run_id}">The run it joined</a>' in page
    assert "pod-b" in page


def test_alert__markup_in_labels__is_text(tree: Tree, viewer: Person) -> None:
    labels = {"alertname": EVIL, "service": EVIL}
    group = deliver(tree, webhook(alert(labels=labels, annotations={"summary": EVIL}), commonLabels=labels))
    for url in ("/app/alerts", f"/app/alerts/{group.pk}"):
        page = viewer.client.get(url).content.decode()
        assert "<script>alert(1)" not in page
        assert "<img src=x" not in page


def test_alert__of_another_team__not_found(tree: Tree) -> None:
    group = deliver(tree, webhook())
    other = Person.signed_in(make_user(tree.platform, Role.VIEWER))
    assert other.client.get(f"/app/alerts/{group.pk}").status_code == 404
    assert "HighErrorRate" not in other.client.get("/app/alerts").content.decode()


def test_alerts__nobody_signed_in__asked_to(client: Any) -> None:
    assert client.get("/app/alerts")["Location"].startswith("/login/")


def test_alerts__query_count__does_not_grow(
    tree: Tree, viewer: Person, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(12):
        group = deliver(tree, webhook(*map(alert, "abc"), groupKey=f"k{number}"))
    with django_assert_max_num_queries(5):  # session, user, roles, groups, teams
        viewer.client.get("/app/alerts")
    with django_assert_max_num_queries(6):  # session, user, roles, group, alerts, their number
        viewer.client.get(f"/app/alerts/{group.pk}")

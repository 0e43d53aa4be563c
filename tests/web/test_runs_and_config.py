"""The list of runs and the configuration page."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from controlplane.configs.services import config_patch
from controlplane.core.actor import Role
from controlplane.investigations.models import Thread
from tests.factories import Tree, make_user
from tests.web.support import EVIL, Person, finish, start
from web.views.runs import PER_PAGE


def titles(answer: Any) -> list[str]:
    return [run.thread.title for run in answer.context["runs"]]


def test_runs__filters__narrow_by_team_status_and_mine(tree: Tree, responder: Person, colleague: Person) -> None:
    finish(start(responder, tree.payments, "a", visibility="team"))
    finish(start(responder, tree.platform, "b", visibility="team"), status="failed", reason="x")
    start(colleague, tree.payments, "c", visibility="team")
    get = responder.client.get
    assert titles(get("/app/runs")) == ["c", "b", "a"]
    assert titles(get("/app/runs?team=payments")) == ["c", "a"]
    assert titles(get("/app/runs?status=failed")) == ["b"]
    assert titles(get("/app/runs?mine=1")) == ["b", "a"]
    assert titles(get("/app/runs?mine=1&team=payments&status=completed")) == ["a"]
    assert titles(get("/app/runs?status=nonsense")) == ["c", "b", "a"]


def test_runs__many__are_paged_with_the_filters_kept(tree: Tree, responder: Person) -> None:
    for number in range(PER_PAGE + 2):
        start(responder, tree.payments, f"run {number}")
    first: Any = responder.client.get("/app/runs?mine=1")
    assert len(titles(first)) == PER_PAGE
    assert "mine=1&" in first.context["older"]
    second: Any = responder.client.get(f"/app/runs?{first.context['older']}")
    assert titles(second) == ["run 1", "run 0"]
    assert second.context["newest"] == "mine=1"
    assert not second.context["older"]


def test_runs__broken_cursor__begins_again(responder: Person) -> None:
    assert responder.client.get("/app/runs?cursor=nonsense")["Location"] == "/app/runs"


def test_runs__none__says_what_to_do(responder: Person) -> None:
    assert "No runs yet" in responder.client.get("/app/runs").content.decode()
    assert "No run matches" in responder.client.get("/app/runs?mine=1").content.decode()


def test_runs__query_count__does_not_grow(
    tree: Tree, responder: Person, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(12):
        finish(start(responder, tree.payments, f"run {number}"))
    with django_assert_max_num_queries(5):  # session, user, roles, runs, teams
        responder.client.get("/app/runs")
    with django_assert_max_num_queries(5):
        responder.client.get("/app/")


def test_thread__query_count__does_not_grow_with_runs(tree: Tree, responder: Person, team_thread: Thread) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            responder.client.get(f"/app/threads/{team_thread.pk}")
        return len(captured)

    before = queries()
    for number in range(3):
        answer = responder.client.post(f"/app/threads/{team_thread.pk}/messages", {"text": f"more {number}"})
        assert answer.status_code == 302
        run = team_thread.runs.latest("number")
        team_thread.refresh_from_db()
        finish(type("Started", (), {"thread": team_thread, "run": run})())
    assert queries() == before <= 10  # of them: what all reports cite, what is said of them, files


@pytest.fixture
def configured(tree: Tree) -> Tree:
    for node, patch in (
        (tree.root, {"limits": {"max_turns": 50, "wall_clock_s": 900}, "team_context": EVIL}),
        (tree.engineering, {"limits": {"wall_clock_s": 1200}}),
        (tree.payments, {"limits": {"max_turns": None}, "preferences": {"tags": ["a", "b"]}}),
    ):
        config_patch(actor=tree.system, node=node, patch=patch)
    return tree


def leaves(answer: Any) -> dict[str, Any]:
    return {leaf.pointer: leaf for _, section in answer.context["sections"] for leaf in section}


def test_config__each_leaf__names_who_set_it(configured: Tree, responder: Person) -> None:
    found = leaves(responder.client.get("/app/config/payments"))
    assert {pointer: (leaf.source.node, leaf.own, leaf.kind) for pointer, leaf in found.items()} == {
        "/limits/max_turns": ("payments", True, "null"),
        "/limits/wall_clock_s": ("engineering", False, "number"),
        "/preferences/tags": ("payments", True, "list"),
        "/team_context": ("demo", False, "text"),
    }
    assert [item.value for item in found["/limits/max_turns"].hidden] == ["50"]
    assert found["/preferences/tags"].value == "a, b"


def test_config__page__shows_versions_overrides_and_escapes(configured: Tree, responder: Person) -> None:
    page = responder.client.get("/app/config/payments").content.decode()
    assert "<script>alert" not in page
    assert "4 values, 2 set here" in page
    assert "&quot;max_turns&quot;: null" in page
    assert '<s class="mono">50</s>' in page


def test_config__no_node_named__goes_to_the_first_team(configured: Tree, responder: Person) -> None:
    assert responder.client.get("/app/config")["Location"] == "/app/config/payments"


def test_config__tree__parents_before_children(configured: Tree, responder: Person) -> None:
    owner = Person.signed_in(make_user(configured.root, Role.OWNER))
    tree: Any = owner.client.get("/app/config/demo").context["tree"]
    assert [(node.slug, node.depth) for node in tree] == [
        ("demo", 0),
        ("engineering", 1),
        ("payments", 2),
        ("platform", 2),
    ]
    below: Any = responder.client.get("/app/config/platform").context["tree"]
    assert [(node.slug, node.depth) for node in below] == [("engineering", 0), ("payments", 1), ("platform", 1)]


def test_config__nobody_without_role__sees_why(tree: Tree) -> None:
    nobody = Person.signed_in(make_user(tree.payments, None))
    assert "You have no role" in nobody.client.get("/app/config").content.decode()
    assert nobody.client.get("/app/config/payments").status_code == 404


def test_config__nothing_set__says_so(tree: Tree, responder: Person) -> None:
    page = responder.client.get("/app/config/platform").content.decode()
    assert "Nothing is configured" in page
    assert "overrides nothing" in page


def test_config__query_count__does_not_grow_with_the_tree(configured: Tree, responder: Person) -> None:
    responder.client.get("/app/config/payments")
    with CaptureQueriesContext(connection) as captured:
        responder.client.get("/app/config/payments")
    assert len(captured) <= 10  # one of them for the policies that bind the node

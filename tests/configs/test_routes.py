"""Who owns what: claims kept with the documents, unique in the organization, looked up in one query."""

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from threading import Barrier
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from controlplane.alerts.routing import team_route
from controlplane.configs.models import ConfigDocument, RouteClaim
from controlplane.configs.routes import ROUTE_KINDS, route_owner
from controlplane.configs.services import config_patch, config_rollback, config_unset
from controlplane.core.actor import Role
from controlplane.core.errors import Conflict, InvalidInput
from controlplane.orgs.services import node_archive, node_delete
from tests.configs.support import put, stored, versions
from tests.factories import (
    Tree,
    actor_for_token,
    actor_for_user,
    api_client,
    make_admin_token,
    make_node,
    make_operator,
    make_team_token,
    make_tree,
    make_user,
)

pytestmark = pytest.mark.django_db


def claims() -> dict[tuple[str, str], str]:
    return {(row.kind, row.key): row.node.slug for row in RouteClaim.objects.select_related("node")}


def routing(**lists: list[str]) -> dict[str, Any]:
    return {"routing": lists}


OWNED = {
    "services": ["Checkout"],
    "github_repos": ["Acme/Shop"],
    "slack_channel_ids": ["C0AB"],
    "teams_channel_ids": ["19:aB@thread.tacv2"],
}


def test_claims__composed_and_decomposed_characters__are_one_name(tree: Tree) -> None:
    composed, decomposed = "Caf\u00e9", "Cafe\u0301"
    put(tree.payments, routing(services=[composed]))
    with pytest.raises(Conflict):
        put(tree.platform, routing(services=[decomposed]))
    owner = route_owner(organization_id=tree.organization.pk, identifiers={"service": decomposed})
    assert owner is not None
    assert owner.node == tree.payments


def test_migration__stored_claims__are_composed_and_the_first_of_two_stays(tree: Tree) -> None:
    made = RouteClaim.objects.create
    one, same = "Cafe\u0301", "Caf\u00e9"
    made(organization=tree.organization, kind="service", key=same, node=tree.payments)
    made(organization=tree.organization, kind="service", key=one, node=tree.platform)
    made(organization=tree.organization, kind="github_repo", key=one, node=tree.platform)
    import_module("controlplane.configs.migrations.0004_route_claims_composed").compose(apps, None)
    assert claims() == {("service", same): "payments", ("github_repo", same): "platform"}


def test_claims__of_a_document__normalised_where_the_platform_ignores_case(tree: Tree) -> None:
    put(tree.payments, {"routing": OWNED})
    assert claims() == {
        ("service", "checkout"): "payments",
        ("github_repo", "acme/shop"): "payments",
        ("slack_channel_id", "C0AB"): "payments",
        ("teams_channel_id", "19:aB@thread.tacv2"): "payments",
    }


def test_claims__every_kind__has_its_list(tree: Tree) -> None:
    lists = {kind.section: ["a/b" if kind.name == "github_repo" else "x"] for kind in ROUTE_KINDS}
    put(tree.payments, routing(**lists))
    assert {kind for kind, _ in claims()} == {kind.name for kind in ROUTE_KINDS}


def test_claims__later_writes__follow_the_document(tree: Tree) -> None:
    put(tree.payments, routing(services=["a", "b", "B"]))
    assert set(claims()) == {("service", "a"), ("service", "b")}
    config_patch(actor=tree.system, node=tree.payments, patch=routing(services=["b", "c"]))
    assert set(claims()) == {("service", "b"), ("service", "c")}
    config_patch(actor=tree.system, node=tree.payments, patch={"other": 1})
    assert set(claims()) == {("service", "b"), ("service", "c")}
    config_rollback(actor=tree.system, node=tree.payments, version=1)
    assert set(claims()) == {("service", "a"), ("service", "b")}
    config_unset(actor=tree.system, node=tree.payments, pointers=["/routing"])
    assert claims() == {}
    put(tree.payments, routing(services=["a"]))
    config_patch(actor=tree.system, node=tree.payments, patch={"routing": None})
    assert claims() == {}


def test_claims__inherited_list__belongs_to_the_node_that_sets_it(tree: Tree) -> None:
    put(tree.engineering, routing(services=["a"]))
    assert claims() == {("service", "a"): "engineering"}


def test_claims__deleted_node__free_again(tree: Tree) -> None:
    team = make_node(tree.engineering, "search")
    put(team, routing(services=["a"]))
    node_delete(actor=tree.system, node=team)
    put(tree.payments, routing(services=["a"]))
    assert claims() == {("service", "a"): "payments"}


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("section", "first", "second", "taken"),
    [
        ("services", "Checkout", "checkout", True),
        ("github_repos", "Acme/Shop", "acme/SHOP", True),
        ("slack_channel_ids", "C0AB", "C0AB", True),
        ("slack_channel_ids", "C0AB", "c0ab", False),
        ("teams_channel_ids", "19:aB@thread.tacv2", "19:ab@thread.tacv2", False),
    ],
)
def test_claim__of_another_team__conflict_that_names_it(
    tree: Tree, section: str, first: str, second: str, taken: bool, dry_run: bool
) -> None:
    put(tree.payments, routing(**{section: [first]}))
    patch = routing(**{section: ["o/ther" if "repo" in section else "other", second]})
    if not taken:
        assert config_patch(actor=tree.system, node=tree.platform, patch=patch, dry_run=dry_run).changed
        return
    with pytest.raises(Conflict) as caught:
        config_patch(actor=tree.system, node=tree.platform, patch=patch, dry_run=dry_run)
    assert caught.value.code == "route_taken"
    (error,) = caught.value.errors
    assert error.pointer == f"/routing/{section}/1"
    assert "payments owns it" in error.detail
    assert (stored(tree.platform), versions(tree.platform)) == ({}, [])


def test_claim__of_a_team_the_actor_does_not_see__not_named(tree: Tree) -> None:
    put(tree.payments, routing(services=["a"]))
    admin = actor_for_user(make_user(tree.platform, Role.ADMIN))
    with pytest.raises(Conflict) as caught:
        put(tree.platform, routing(services=["a"]), actor=admin)
    assert "payments" not in f"{caught.value.as_problem()}"
    assert "another team" in caught.value.detail


def test_claim__same_key_in_another_organization__no_conflict(tree: Tree, other_tree: Tree) -> None:
    put(tree.payments, routing(services=["a"]))
    put(other_tree.payments, routing(services=["a"]))
    assert RouteClaim.objects.count() == 2


@pytest.mark.parametrize(
    ("lists", "pointer"),
    [
        ({"services": "a"}, "/routing/services"),
        ({"services": [1]}, "/routing/services/0"),
        ({"services": [""]}, "/routing/services/0"),
        ({"services": [" a"]}, "/routing/services/0"),
        ({"services": ["a\tb"]}, "/routing/services/0"),
        ({"services": ["x" * 201]}, "/routing/services/0"),
        ({"services": ["a"] * 501}, "/routing/services"),
        ({"github_repos": ["https://github.com/a/b"]}, "/routing/github_repos/0"),
        ({"github_repos": ["shop"]}, "/routing/github_repos/0"),
    ],
)
def test_routing__malformed_lists__refused_at_their_pointer(tree: Tree, lists: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        put(tree.payments, {"routing": lists})
    assert [one.pointer for one in caught.value.errors] == [pointer]
    assert claims() == {}


def test_owner__one_indexed_query__first_kind_that_anybody_owns(
    tree: Tree, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    put(tree.payments, routing(services=["a"], slack_channel_ids=["C1"]))
    put(tree.platform, routing(github_repos=["a/b"]))
    with django_assert_num_queries(1):
        owner = route_owner(
            organization_id=tree.organization.pk,
            identifiers={"service": "A", "github_repo": "A/B", "slack_channel_id": "C9", "unknown": "x"},
        )
    assert owner is not None
    assert (owner.kind, owner.key, owner.node.slug, owner.archived) == ("github_repo", "a/b", "platform", False)
    assert route_owner(organization_id=tree.organization.pk, identifiers={"service": "\x00", "x": "a"}) is None
    node_archive(actor=tree.system, node=tree.engineering)
    owner = route_owner(organization_id=tree.organization.pk, identifiers={"services": "a"})
    assert owner is not None
    assert owner.archived


@pytest.mark.skipif(connection.vendor != "postgresql", reason="EXPLAIN's words are PostgreSQL's")
def test_owner__many_claims__found_by_the_index(tree: Tree) -> None:
    RouteClaim.objects.bulk_create(
        RouteClaim(organization=tree.organization, kind="service", key=f"s{number}", node=tree.payments)
        for number in range(5000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE configs_routeclaim")
    plan = RouteClaim.objects.filter(organization=tree.organization, kind="service", key="s77").explain()
    assert "route_claim_unique" in plan
    assert "Seq Scan" not in plan


def test_lookup__over_rest__who_sees_what(tree: Tree, other_tree: Tree) -> None:
    put(tree.payments, {"routing": OWNED})
    put(other_tree.payments, routing(services=["theirs"]))
    path = "/api/v1/orgs/demo/routes"
    client = api_client(token=make_team_token(tree.payments))
    found = client.get(path, {"kind": "github_repo", "key": "ACME/shop"})
    assert (found.status_code, found.json()) == (
        200,
        {
            "kind": "github_repo",
            "key": "acme/shop",
            "node": {"slug": "payments", "name": "Payments", "kind": "team"},
            "team": "payments",
            "archived": False,
        },
    )  # fmt: skip
    assert client.get(path, {"kind": "services", "key": "CHECKOUT"}).json()["team"] == "payments"
    for query, status, code in (
        ({"kind": "service", "key": "theirs"}, 404, "unclaimed"),
        ({"kind": "slack_channel_id", "key": "c0ab"}, 404, "unclaimed"),
        ({"kind": "nothing", "key": "a"}, 422, "unknown_route_kind"),
        ({"kind": "service"}, 400, "missing_parameter"),
        ({"kind": "service", "key": "a\x00"}, 422, "blank"),
        ({"kind": "service", "key": "a", "x": "1"}, 400, "unknown_parameter"),
    ):
        answer = client.get(path, query)
        assert (query, answer.status_code, answer.json()["code"]) == (query, status, code)
    query = {"kind": "service", "key": "checkout"}
    assert api_client().get(path, query).status_code == 401
    assert api_client(token=make_team_token(tree.platform)).get(path, query).status_code == 404
    assert api_client(token=make_admin_token(other_tree.root)).get(path, query).status_code == 404
    assert api_client(user=make_user(tree.root, Role.VIEWER)).get(path, query).status_code == 200


def test_lookup__over_rest__costs_three_queries(tree: Tree, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    put(tree.payments, routing(services=["a"]))
    client = api_client(token=make_team_token(tree.payments))
    client.get("/api/v1/config/schema")
    with django_assert_num_queries(3):  # token, organization, claim
        client.get("/api/v1/orgs/demo/routes", {"kind": "service", "key": "a"})


def test_alert__service_label__goes_to_the_team_that_owns_it_within_reach(tree: Tree) -> None:
    put(tree.payments, routing(services=["Checkout"]))
    token = actor_for_token(make_admin_token(tree.engineering, ["alerts:ingest"]))
    assert team_route(actor=token, labels={"service": "checkout"}) == tree.payments
    assert team_route(actor=token, labels={"service": "checkout", "team": "platform"}) == tree.platform
    config_patch(
        actor=tree.system,
        node=tree.engineering,
        patch={"routing": {"alerts": [{"match": {"service": "check*"}, "team": "platform"}]}},
    )
    assert team_route(actor=token, labels={"service": "checkout"}) == tree.platform
    foreign = actor_for_token(make_admin_token(tree.platform, ["alerts:ingest"]))
    assert team_route(actor=foreign, labels={"service": "checkout"}) == tree.platform
    with pytest.raises(InvalidInput):
        team_route(actor=token, labels={"service": "unowned"})


def test_admin__operator__sees_the_claims(tree: Tree, client: Client) -> None:
    put(tree.payments, routing(services=["Checkout"]))
    client.force_login(make_operator())
    page = client.get(reverse("admin:configs_routeclaim_changelist"))
    assert page.status_code == 200
    assert "checkout" in page.content.decode()
    assert client.get(reverse("admin:configs_routeclaim_add")).status_code == 403


def test_migration__stored_documents__claimed_first_come(tree: Tree) -> None:
    put(tree.payments, routing(services=["Checkout"], github_repos=["a/B"]))
    put(tree.platform, routing(services=["other"]))
    document = routing(services=["checkout", "mine", 7], slack_channel_ids="x")  # type: ignore[list-item,arg-type]
    ConfigDocument.objects.filter(pk=tree.platform.pk).update(document=document)
    RouteClaim.objects.all().delete()
    import_module("controlplane.configs.migrations.0002_route_claims").claim(apps, None)
    assert claims() == {
        ("service", "checkout"): "payments",
        ("github_repo", "a/b"): "payments",
        ("service", "mine"): "platform",
    }


@pytest.mark.django_db(transaction=True)
def test_claim__four_teams_at_once__exactly_one_gets_it() -> None:
    tree = make_tree()
    teams = [make_node(tree.engineering, f"team-{number}") for number in range(4)]
    start = Barrier(4)

    def write(index: int) -> str:
        start.wait(timeout=30)
        try:
            put(teams[index], routing(services=["a", "b", "c"]), actor=tree.system)
        except Conflict as error:
            return error.code
        finally:
            connection.close()
        return "ok"

    with ThreadPoolExecutor(4) as pool:
        ends = sorted(pool.map(write, range(4)))
    assert ends == ["ok", "route_taken", "route_taken", "route_taken"]
    assert len(set(claims().values())) == 1
    assert [bool(stored(team)) for team in teams].count(True) == 1

"""Files and organization: what a plan says, what an apply does, that both agree."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from hypothesis import given

from controlplane.audit.models import AuditEvent
from controlplane.configs.gitops.applying import config_apply, config_rehearse
from controlplane.configs.gitops.files import read_tree, write_tree
from controlplane.configs.gitops.plans import plan_of, tree_of
from controlplane.configs.gitops.rendering import rendered
from controlplane.configs.models import ConfigDocument, ConfigVersion, RouteClaim
from controlplane.configs.policy_services import policy_create
from controlplane.core.actor import Role
from controlplane.core.errors import InvalidInput, NotFound, PermissionDenied
from controlplane.orgs.models import Node
from controlplane.reviews.models import ReviewRequest
from tests.configs.gitops_support import Files, state
from tests.configs.strategies import DOCUMENTS, PROPERTY
from tests.configs.support import patch, put, stored, versions
from tests.factories import Tree, actor_for_user, make_user

pytestmark = pytest.mark.django_db


def test_round_trip__any_documents__plan_says_no_change(tree: Tree, tmp_path: Path) -> None:
    rows = [ConfigDocument(node=node, version=1) for node in (tree.root, tree.payments)]
    ConfigDocument.objects.bulk_create(rows)

    @PROPERTY
    @given(DOCUMENTS, DOCUMENTS)
    def round_trips(root: dict[str, Any], team: dict[str, Any]) -> None:
        rows[0].document, rows[1].document = root, team
        ConfigDocument.objects.bulk_update(rows, ["document"])
        write_tree(tmp_path, tree_of(tree.organization))
        found = read_tree(tmp_path)
        assert plan_of(tree.organization, found, prune=True).changes == ()
        assert [node.document for node in found.nodes if node.slug in {"demo", "payments"}] == [root, team]

    round_trips()


def test_plan__changed_files__names_every_leaf_and_writes_nothing(files: Files) -> None:
    files.edit("demo", document={"limits": {"max_turns": 20, "wall_clock_s": 60}})
    files.edit("demo", "engineering", "payments", document={"empty": {}})
    files.edit("demo", "engineering", "search", name="Search", document={"limits": {"max_turns": 5}})
    before = state(files.tree)

    applied = files.plan()

    assert state(files.tree) == before
    assert rendered(applied).splitlines() == [
        "  ~ org demo (demo/node.yaml, version 1)",
        "      ~ /limits/max_turns: 10 → 20",
        "      + /limits/wall_clock_s: 60",
        "",
        "  ~ team payments (demo/engineering/payments/node.yaml, version 1)",
        '      - /agents/a/model: "m"',
        "      ! /empty: Nothing here reads this; it is kept as it is. (unknown_section)",
        "",
        "  + team search (demo/engineering/search/node.yaml)",
        '      + (name): "Search"',
        '      + (parent): "engineering"',
        "      + /limits/max_turns: 5",
        "",
        "demo: 1 to create, 2 to update, 0 to delete; values: 2 set, 1 changed, 1 removed.",
    ]
    assert applied.plan.as_dict()["changes"][0]["diff"] == [
        {"pointer": "/limits/max_turns", "before": 10, "after": 20},
        {"pointer": "/limits/wall_clock_s", "after": 60},
    ]


def test_plan__text_of_several_lines__only_the_lines_that_change(files: Files) -> None:
    put(files.tree.platform, {"p": "".join(f"line {n}\n" for n in range(9))})
    files.export()
    changed = stored(files.tree.platform)["p"].replace("line 4", "LINE\x1b[31m 4")
    files.edit("demo", "engineering", "platform", document={"p": changed})
    text = rendered(files.plan())
    assert "      ~ /p:\n" in text
    assert "          -line 4\n          +LINE\\u001b[31m 4\n" in text
    assert "line 8" not in text


def test_apply__changes__documents_history_and_audit_through_the_services(files: Files) -> None:
    files.edit("demo", document={"limits": {"max_turns": 20}})
    files.edit("demo", "engineering", "search", name="Search", document={"a": 1})

    applied = files.apply(reason="because")

    search = Node.objects.get(slug="search")
    assert (search.parent, search.kind, search.name) == (files.tree.engineering, "team", "Search")
    assert (stored(files.tree.root), stored(search)) == ({"limits": {"max_turns": 20}}, {"a": 1})
    assert (versions(files.tree.root), versions(files.tree.payments), versions(search)) == ([1, 2], [1], [1])
    assert ConfigVersion.objects.get(node=search).reason == "because"
    actions = list(AuditEvent.objects.order_by("-org_seq").values_list("action", flat=True)[:4])
    assert actions == ["config.apply", "config.replace", "config.replace", "node.create"]
    event = AuditEvent.objects.get(action="config.apply")
    assert event.after == {"created": ["search"], "updated": ["demo"], "deleted": [], "nodes": 2}
    assert [change.slug for change in applied.plan.changes] == ["demo", "search"]
    assert files.plan().plan.changes == ()


def test_apply__moved_renamed_and_archived_node__as_the_files_say(files: Files) -> None:
    shutil.move(files.path("demo", "engineering", "platform").parent, files.folder / "demo" / "platform")
    files.edit("demo", "platform", name="Platform team", archived=True)
    files.apply()
    node = Node.objects.get(slug="platform")
    assert (node.parent, node.name, node.archived_at is not None) == (files.tree.root, "Platform team", True)
    assert files.plan().plan.changes == ()
    files.edit("demo", "platform", archived=False)
    files.apply()
    assert Node.objects.get(slug="platform").archived_at is None


def test_apply__one_bad_document__nothing_at_all(files: Files) -> None:
    files.edit("demo", document={"limits": {"max_turns": 20}})
    files.edit("demo", "engineering", "platform", document={"limits": {"max_turns": "many"}})
    error = files.refused()
    assert error.code == "invalid_section"
    assert error.detail.startswith("demo/engineering/platform/node.yaml: ")
    assert [one.pointer for one in error.errors] == ["/limits/max_turns"]
    with pytest.raises(InvalidInput, match=r"demo/engineering/platform/node\.yaml"), transaction.atomic():
        files.plan()


def test_apply__literal_secret__refused_without_the_value(files: Files) -> None:
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    files.edit("demo", "engineering", "platform", document={"x": {"token": secret}})
    error = files.refused()
    assert (error.code, [one.pointer for one in error.errors]) == ("literal_secret", ["/x/token"])
    assert secret not in f"{error.detail}{error.errors}{error.extra}"


def test_apply__node_without_a_file__kept_unless_pruned(files: Files) -> None:
    shutil.rmtree(files.path("demo", "engineering", "platform").parent)
    applied = files.apply()
    assert applied.plan.kept == ("platform",)
    assert "kept as they are (--prune deletes them): platform" in rendered(files.plan())
    assert Node.objects.filter(slug="platform").exists()

    assert [change.action for change in files.apply(prune=True).plan.changes] == ["delete"]
    assert not Node.objects.filter(slug="platform").exists()


def test_apply__pruning_a_subtree__leaves_first(files: Files) -> None:
    shutil.rmtree(files.path("demo", "engineering").parent)
    files.apply(prune=True)
    assert list(Node.objects.filter(organization=files.tree.organization).values_list("slug", flat=True)) == ["demo"]


def test_apply__expected_plan__only_while_it_still_holds(files: Files) -> None:
    files.edit("demo", "engineering", "payments", document={"agents": {"a": {"model": "n"}}})
    expected = files.plan().plan.as_file()["changes"]
    assert list(expected) == ["payments"]

    patch(files.tree.payments, {"other": 1})
    error = files.refused(expected=expected)
    assert (error.code, error.errors[0].detail) == ("plan_stale", "payments has changed since the plan.")

    again = files.plan().plan.as_file()["changes"]
    patch(files.tree.platform, {"other": 1})
    assert files.refused(expected=again).code == "plan_stale"
    files.export()
    files.edit("demo", "engineering", "payments", document={})
    files.apply(expected=files.plan().plan.as_file()["changes"])
    assert stored(files.tree.payments) == {}


def test_apply__swapped_and_moved_routes__in_any_order(files: Files) -> None:
    put(files.tree.payments, {"routing": {"services": ["a", "b"]}})
    put(files.tree.platform, {"routing": {"services": ["c"]}})
    files.export()
    files.edit("demo", "engineering", "payments", document={"routing": {"services": ["c"]}})
    files.edit("demo", "engineering", "platform", document={"routing": {"services": ["a"]}})
    files.apply()
    assert dict(RouteClaim.objects.values_list("key", "node__slug")) == {"c": "payments", "a": "platform"}


def test_apply__route_of_a_pruned_node__taken_over(files: Files) -> None:
    put(files.tree.platform, {"routing": {"services": ["a"]}})
    files.export()
    shutil.rmtree(files.path("demo", "engineering", "platform").parent)
    files.edit("demo", "engineering", "payments", document={"routing": {"services": ["a"]}})
    assert files.refused().code == "route_taken"
    files.apply(prune=True)
    assert dict(RouteClaim.objects.values_list("key", "node__slug")) == {"a": "payments"}


def test_apply__by_an_admin_of_a_part_or_a_foreigner__refused(files: Files, other_tree: Tree) -> None:
    files.edit("demo", "engineering", "payments", document={})
    before = state(files.tree)
    tree = read_tree(files.folder)
    part = actor_for_user(make_user(files.tree.engineering, Role.ADMIN))
    for actor in (part, other_tree.system):
        with pytest.raises((NotFound, PermissionDenied)), transaction.atomic():
            config_apply(actor=actor, organization=files.tree.organization, tree=tree)
        with pytest.raises((NotFound, PermissionDenied)):
            config_rehearse(actor=actor, organization=files.tree.organization, tree=tree)
    assert state(files.tree) == before


def test_apply__waits_for_an_approval__refused_as_a_whole_for_who_cannot_give_it(files: Files) -> None:
    policy_create(actor=files.tree.system, node=files.tree.root, pointer="/limits/max_turns", kind="requires_approval")
    admin = actor_for_user(make_user(files.tree.root, Role.ADMIN))
    files.edit("demo", "engineering", "payments", document={"limits": {"max_turns": 3}})
    error = files.refused(actor=admin)
    assert (error.code, error.extra["node"]) == ("approval_required", "payments")
    assert ReviewRequest.objects.count() == 0
    files.apply(actor=actor_for_user(make_user(files.tree.root, Role.OWNER)))
    assert stored(files.tree.payments) == {"limits": {"max_turns": 3}}


def test_apply__locked_value__refused_as_any_write(files: Files) -> None:
    policy_create(actor=files.tree.system, node=files.tree.root, pointer="/limits/max_turns", kind="locked")
    files.edit("demo", "engineering", "payments", document={"limits": {"max_turns": 3}})
    assert files.refused().code == "policy_locked"


def test_apply__value_that_repeats_a_locked_one__no_refusal_and_not_stored(files: Files) -> None:
    policy_create(actor=files.tree.system, node=files.tree.root, pointer="/limits/max_turns", kind="locked")
    files.edit("demo", "engineering", "payments", document={"limits": {"max_turns": 10, "wall_clock_s": 60}})
    files.apply()
    assert stored(files.tree.payments) == {"limits": {"wall_clock_s": 60}}
    assert [one["pointer"] for one in files.plan().plan.as_dict()["changes"][0]["diff"]] == ["/limits/max_turns"]


def test_apply__what_only_fits_together__in_whichever_order_it_takes(files: Files) -> None:
    agents = {"main": {"enabled": True, "sub_agents": {"helper": True}}, "helper": {"enabled": True}}
    put(files.tree.root, {"agents": {"helper": {"enabled": True}}})
    put(files.tree.payments, {"agents": {"main": agents["main"]}})
    files.export()
    files.edit("demo", document={"agents": {"helper": {"enabled": False}}})
    files.edit("demo", "engineering", "payments", document={"agents": {"main": {"enabled": False}}})
    files.apply()
    assert stored(files.tree.root) == {"agents": {"helper": {"enabled": False}}}
    assert stored(files.tree.payments) == {"agents": {"main": {"enabled": False}}}


def test_apply__a_route_that_only_repeats_what_is_locked_above__keeps_the_node_s_own_routes(files: Files) -> None:
    put(files.tree.root, {"routing": {"services": ["shop"]}})
    put(files.tree.payments, {"routing": {"github_repos": ["acme/pay"]}})
    policy_create(actor=files.tree.system, node=files.tree.root, pointer="/routing/services", kind="locked")
    files.export()
    both = {"routing": {"github_repos": ["acme/pay"], "services": ["shop"]}}
    files.edit("demo", "engineering", "payments", document=both)
    claims = {("service", "shop", "demo"), ("github_repo", "acme/pay", "payments")}
    for _ in range(2):
        files.apply()
        assert set(RouteClaim.objects.values_list("kind", "key", "node__slug")) == claims
    assert stored(files.tree.payments) == {"routing": {"github_repos": ["acme/pay"]}}

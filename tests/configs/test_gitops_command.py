"""``manage.py config``: what it prints, how it ends; the dump of OpenSRE's service."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from controlplane.audit.models import AuditEvent
from controlplane.configs.gitops.opensre import tree_from_dump
from controlplane.configs.gitops.yaml_text import dump, load
from controlplane.core.errors import InvalidInput
from controlplane.orgs.models import Node
from tests.configs.support import effective, patch, put, stored
from tests.factories import Tree

pytestmark = pytest.mark.django_db
TEAM = ("demo", "engineering", "payments", "node.yaml")


def config(*arguments: Any) -> tuple[int, str]:
    """Return the exit code and the output of a command."""
    out = StringIO()
    try:
        call_command("config", *map(str, arguments), stdout=out)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue()
    except CommandError as error:
        return error.returncode, f"{out.getvalue()}{error}"
    return 0, out.getvalue()


def edit(folder: Path, document: Any) -> None:
    path = folder.joinpath(*TEAM)
    path.write_text(dump(load(path.read_text("utf-8")) | {"document": document}), "utf-8")


def test_command__export_plan_apply__codes_0_2_0_and_0(tree: Tree, tmp_path: Path) -> None:
    put(tree.payments, {"limits": {"max_turns": 5}})
    assert config("export", tmp_path, "--organization", "demo") == (0, "demo: 4 nodes; 4 files written, 0 removed.\n")
    code, said = config("plan", tmp_path)
    assert (code, said) == (0, "demo: no changes. The configuration is as the files say.\n")

    edit(tmp_path, {"limits": {"max_turns": 6}})
    code, said = config("plan", tmp_path)
    assert code == 2
    assert "~ /limits/max_turns: 5 → 6" in said
    assert stored(tree.payments) == {"limits": {"max_turns": 5}}

    code, said = config("apply", tmp_path, "--reason", "more turns")
    assert (code, said.splitlines()[-2:]) == (
        0,
        ["demo: 0 to create, 1 to update, 0 to delete; values: 0 set, 1 changed, 0 removed.", "Applied."],
    )
    assert stored(tree.payments) == {"limits": {"max_turns": 6}}
    event = AuditEvent.objects.get(action="config.apply")
    assert (event.channel, event.reason, event.actor.startswith("system:cli:")) == ("cli", "more turns", True)
    assert config("plan", tmp_path)[0] == 0


def test_command__json__one_object_with_the_same_codes(tree: Tree, tmp_path: Path) -> None:
    code, said = config("export", tmp_path, "--json")
    assert (code, json.loads(said)) == (0, {"organization": "demo", "nodes": 4, "written": 4, "removed": []})
    edit(tmp_path, {"a": 1})
    code, said = config("plan", tmp_path, "--json")
    plan = json.loads(said)
    assert (code, plan["changed"], plan["update"]) == (2, True, 1)
    assert plan["changes"] == [
        {
            "action": "update",
            "slug": "payments",
            "kind": "team",
            "path": "demo/engineering/payments/node.yaml",
            "version": 0,
            "meta": {},
            "diff": [{"pointer": "/a", "after": 1}],
        }
    ]
    assert [one["code"] for one in plan["warnings"]] == ["unknown_section"]
    code, said = config("apply", tmp_path, "--json")
    assert (code, json.loads(said)["changed"]) == (0, True)
    edit(tmp_path, {"limits": {"max_turns": 0}})
    code, said = config("plan", tmp_path, "--json")
    assert (code, json.loads(said)["error"]["code"]) == (1, "invalid_section")


def test_command__kept_plan__applied_while_it_holds(tree: Tree, tmp_path: Path) -> None:
    folder, plan = tmp_path / "files", tmp_path / "plan.json"
    config("export", folder)
    edit(folder, {"a": "a value that the plan does not keep"})
    assert config("plan", folder, "--out", plan)[0] == 2
    assert "a value" not in plan.read_text()

    patch(tree.payments, {"b": 1})
    code, said = config("apply", folder, "--plan", plan)
    assert code == 1
    assert "plan_stale" in said
    assert stored(tree.payments) == {"b": 1}

    config("plan", folder, "--out", plan)
    assert config("apply", folder, "--plan", plan)[0] == 0
    assert stored(tree.payments) == {"a": "a value that the plan does not keep"}
    code, said = config("apply", folder, "--plan", plan, "--prune")
    assert code == 1
    assert "without --prune" in said
    plan.write_text("{}")
    assert config("apply", folder, "--plan", plan)[0] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["export", "{}", "--organization", "nothing"], "There is no organization 'nothing'"),
        (["plan", "{}/missing"], "cannot be read"),
        (["plan", "{}"], "Name the organization"),
        (["import-opensre", "{}/missing.json"], "cannot be read"),
    ],
)
def test_command__what_is_not_there__code_1_in_words(
    tree: Tree, tmp_path: Path, arguments: list[str], words: str
) -> None:
    code, said = config(*(one.replace("{}", str(tmp_path)) for one in arguments))
    assert code == 1
    assert words in said


def test_command__several_organizations__asks_which(tree: Tree, other_tree: Tree, tmp_path: Path) -> None:
    code, said = config("export", tmp_path)
    assert (code, "there are: demo, rival" in said) == (1, True)


DUMP = {
    "nodes": [
        {"node_id": "acme", "parent_id": None, "node_type": "org", "name": "Acme"},
        {"node_id": "Core Group", "parent_id": "acme", "node_type": "group", "name": "Core"},
        {"node_id": "team_pay", "parent_id": "Core Group", "node_type": "team", "name": ""},
    ],
    "configs": {
        "acme": {"entrance_agent": "planner", "agents": {"planner": {"enabled": True, "prompt": {"system": "Plan."}}}},
        "team_pay": {
            "agents": {"planner": {"model": "__INHERIT__", "prompt": {"system": "__INHERIT__"}}},
            "routing": {"services": ["pay"]},
            "kept": {},
            "list": ["__INHERIT__"],
        },
    },
}


def test_import__dump_of_nodes__planned_then_taken_over(tree: Tree, tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    file.write_text(json.dumps(DUMP))
    before = Node.objects.count()
    code, said = config("import-opensre", file, "--dry-run")
    assert (code, Node.objects.count()) == (2, before)
    assert "+ group core-group" in said

    assert config("import-opensre", file)[0] == 0
    team = Node.objects.select_related("parent").get(slug="team-pay")
    assert (team.kind, team.name, team.parent and team.parent.slug) == ("team", "team_pay", "core-group")
    assert stored(tree.root) == DUMP["configs"]["acme"]  # type: ignore[index]  # a literal of two shapes
    assert stored(team) == {"routing": {"services": ["pay"]}, "kept": {}, "list": ["__INHERIT__"]}
    assert effective(team)["agents"]["planner"]["prompt"]["system"] == "Plan."
    assert Node.objects.filter(slug="payments").exists()
    assert config("import-opensre", file, "--dry-run")[0] == 0


def test_import__raw_of_a_team__its_lineage(tree: Tree) -> None:
    dump = {"lineage": ["acme", "mid", "leaf"], "configs": {"acme": {"a": 1}, "mid": None, "leaf": {"a": 2}}}
    nodes = tree_from_dump(dump, tree.organization).nodes
    assert [(node.slug, node.kind, node.parent, node.document) for node in nodes] == [
        ("demo", "org", None, {"a": 1}),
        ("mid", "group", "demo", {}),
        ("leaf", "team", "mid", {"a": 2}),
    ]


def test_import__literal_secret__refused_with_its_pointer_and_nothing_taken_over(tree: Tree, tmp_path: Path) -> None:
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    document = {"integrations": {"gh": {"kind": "github", "auth": {"type": "bearer", "token": secret}}}}
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"lineage": ["acme", "pay"], "configs": {"acme": {"a": 1}, "pay": document}}))
    code, said = config("import-opensre", file)
    assert code == 1
    assert "/integrations/gh/auth/token" in said
    assert "literal_secret" in said
    assert secret not in said
    assert stored(tree.root) == {}
    assert not Node.objects.filter(slug="pay").exists()


@pytest.mark.parametrize(
    ("dump", "pointer"),
    [
        ([], "/configs"),
        ({"lineage": ["a"]}, "/configs"),
        ({"configs": {}}, ""),
        ({"lineage": ["a"], "configs": {"b": {}}}, "/configs/b"),
        ({"lineage": ["a"], "configs": {"a": [1]}}, "/configs/a"),
        ({"nodes": [{"node_id": 1}], "configs": {}}, "/nodes/0"),
        ({"nodes": [{"node_id": "a", "parent_id": "b"}], "configs": {}}, "/nodes"),
        ({"nodes": [{"node_id": "a"}, {"node_id": "b", "parent_id": "c"}], "configs": {}}, "/nodes"),
        ({"nodes": [{"node_id": "a"}, {"node_id": "--", "parent_id": "a"}], "configs": {}}, "/nodes/1"),
        (
            {"nodes": [{"node_id": "a"}, {"node_id": "B", "parent_id": "a"}, {"node_id": "b", "parent_id": "a"}],
             "configs": {}},
            "/nodes/2",
        ),
    ],
)  # fmt: skip
def test_import__malformed_dump__refused_with_a_pointer(tree: Tree, dump: Any, pointer: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        tree_from_dump(dump, tree.organization)
    assert caught.value.code == "invalid_dump"
    assert pointer in [one.pointer for one in caught.value.errors]

"""Cross-references: what a write may not switch off or name, at the node and below it."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from controlplane.configs.dependencies import _newly_broken, check_dependencies, uses_in
from controlplane.configs.merge import merge_all
from controlplane.configs.models import ConfigDocument
from controlplane.configs.pointers import Document
from controlplane.configs.sections import DocumentSchema
from controlplane.configs.services import config_unset
from controlplane.configs.validation import check_document
from controlplane.core.errors import InvalidInput
from controlplane.orgs.models import Node
from tests.configs.support import effective, patch, put, stored, versions
from tests.factories import Tree, make_node

pytestmark = pytest.mark.django_db


def refused(node: Node, change: dict[str, Any]) -> InvalidInput:
    """Return the refusal of a patch, which must leave everything as it was."""
    before = stored(node), versions(node)
    with pytest.raises(InvalidInput) as caught:
        patch(node, change)
    assert caught.value.code == "dependency_broken"
    assert (stored(node), versions(node)) == before
    return caught.value


def test_example_18__integration_of_an_enabled_tool__refused_naming_the_tool(tree: Tree) -> None:
    put(tree.root, {
        "tools": {"g_query": {"enabled": True, "requires_integration": "grafana"}},
        "integrations": {"grafana": {"enabled": True}},
    })  # fmt: skip
    error = refused(tree.payments, {"integrations": {"grafana": {"enabled": False}}})
    assert error.errors[0].pointer == "/integrations/grafana"
    assert error.detail == (
        "tool 'g_query' uses the integration 'grafana', which is disabled (set by payments)."
        " Enable it, or stop tool 'g_query' from using it."
    )
    patch(tree.payments, {"tools": {"g_query": {"enabled": False}}, "integrations": {"grafana": {"enabled": False}}})
    assert effective(tree.payments)["integrations"]["grafana"]["enabled"] is False


@pytest.mark.parametrize("off", [False, {"enabled": False}])
@pytest.mark.parametrize("on", [True, {"enabled": True}])
def test_example_19__tool_of_an_enabled_agent__refused_naming_the_agent(tree: Tree, on: Any, off: Any) -> None:
    put(tree.root, {"tools": {"think": on}, "agents": {"planner": {"enabled": True, "tools": {"think": on}}}})
    error = refused(tree.payments, {"tools": {"think": off}})
    assert (error.errors[0].pointer, error.errors[0].code) == ("/tools/think", "dependency_broken")
    assert "agent 'planner'" in error.detail
    assert "set by payments" in error.detail


def test_example_20__sub_agent__by_who_uses_it(tree: Tree) -> None:
    put(tree.root, {
        "agents": {
            "planner": {"enabled": True, "sub_agents": {"k8s": True, "idle": False}},
            "sleeper": {"enabled": False, "sub_agents": {"db": True}},
            "k8s": {"enabled": True}, "db": {"enabled": True}, "idle": {"enabled": True}, "free": {"enabled": True},
        }
    })  # fmt: skip
    error = refused(tree.payments, {"agents": {"k8s": {"enabled": False}}})
    assert error.errors[0].pointer == "/agents/k8s"
    assert "agent 'planner'" in error.detail
    for name in ("db", "idle", "free"):
        patch(tree.payments, {"agents": {name: {"enabled": False}}})
        assert effective(tree.payments)["agents"][name]["enabled"] is False


@pytest.mark.parametrize(
    ("member", "section", "noun"),
    [
        ("tools", "tools", "tool"),
        ("skills", "skills", "skill"),
        ("mcps", "mcp_servers", "MCP server"),
        ("mcp_servers", "mcp_servers", "MCP server"),
        ("integrations", "integrations", "integration"),
        ("sub_agents", "agents", "agent"),
    ],
)
def test_use__of_each_kind__cannot_lose_what_it_uses(tree: Tree, member: str, section: str, noun: str) -> None:
    put(tree.root, {section: {"x": {"enabled": True}}})
    patch(tree.root, {"agents": {"main": {"enabled": True, member: {"x": True}}}})
    for change in ({section: {"x": {"enabled": False}}}, {section: {"x": None}}):
        error = refused(tree.payments, change)
        assert f"agent 'main' uses the {noun} 'x'" in error.detail
    with pytest.raises(InvalidInput):
        config_unset(actor=tree.system, node=tree.root, pointers=[f"/{section}/x"])
    assert effective(tree.root)[section]["x"] == {"enabled": True}


def test_enabling__a_user_of_something_disabled__refused_at_the_use(tree: Tree) -> None:
    put(tree.root, {
        "tools": {"think": False}, "agents": {"planner": {"enabled": False, "tools": {"think": True}}},
    })  # fmt: skip
    error = refused(tree.payments, {"agents": {"planner": {"enabled": True}}})
    assert error.errors[0].pointer == "/agents/planner/tools/think"
    assert "disabled (set by demo)" in error.detail


@pytest.mark.parametrize(
    ("change", "pointer", "hint"),
    [
        ({"entrance_agent": "planer"}, "/entrance_agent", "Did you mean 'planner'?"),
        ({"entrance_agent": "off"}, "/entrance_agent", "disabled (set by demo)"),
        (
            {"agents": {"planner": {"sub_agents": {"k9s": True}}}},
            "/agents/planner/sub_agents/k9s",
            "Did you mean 'k8s'?",
        ),
        ({"agents": {"planner": {"mcps": {"github": True}}}}, "/agents/planner/mcps/github", "is not configured"),
        ({"agents": {"planner": {"integrations": ["loki"]}}}, "/agents/planner/integrations", "is not configured"),
    ],
)
def test_naming__what_is_not_there_or_off__refused_with_a_suggestion(
    tree: Tree, change: dict[str, Any], pointer: str, hint: str
) -> None:
    put(tree.root, {"agents": {"planner": {"enabled": True}, "k8s": {"enabled": True}, "off": {"enabled": False}}})
    error = refused(tree.payments, change)
    assert error.errors[0].pointer == pointer
    assert hint in error.detail


def test_entrance_agent__disabled_later__refused(tree: Tree) -> None:
    put(tree.root, {"agents": {"planner": {"enabled": True}}, "entrance_agent": "planner"})
    assert "entrance_agent" in refused(tree.payments, {"agents": {"planner": {"enabled": False}}}).detail
    patch(tree.payments, {"agents": {"planner": {"enabled": False}}, "entrance_agent": None})
    assert effective(tree.payments)["entrance_agent"] is None


def test_tools__of_the_installation__need_no_definition_and_a_slip_is_pointed_out(tree: Tree) -> None:
    put(tree.root, {"tools": {"search_logs": {"enabled": True}}})
    result = patch(tree.payments, {"agents": {"planner": {"enabled": True, "tools": {"think": True}}}})
    assert result.warnings == []
    result = patch(tree.payments, {"agents": {"planner": {"tools": {"search_log": True}}}})
    assert [(one.code, one.pointer) for one in result.warnings] == [
        ("unknown_reference", "/agents/planner/tools/search_log")
    ]
    assert "'search_logs'" in result.warnings[0].detail


def test_agent_that_does_not_say_it_is_enabled__may_name_what_another_system_defines(tree: Tree) -> None:
    result = put(tree.payments, {"agents": {"planner": {"sub_agents": {"investigation": True}}}})
    assert [one.code for one in result.warnings] == ["unknown_reference"]
    assert result.changed


def test_broken_before__other_writes_go_on(tree: Tree) -> None:
    document = {"tools": {"think": False}, "agents": {"planner": {"enabled": True, "tools": {"think": True}}}}
    ConfigDocument.objects.create(node=tree.root, document=document, version=0)
    assert patch(tree.payments, {"agents": {"other": {"enabled": True}}}).changed
    assert patch(tree.payments, {"agents": {"planner": {"prompt": "p"}}}).changed
    refused(tree.payments, {"agents": {"other": {"tools": {"think": True}}}})


def test_switches_as_lists__understood(tree: Tree) -> None:
    put(tree.root, {
        "skills": {"enabled": ["*"], "disabled": []},
        "agents": {"planner": {"enabled": True, "skills": {"enabled": ["metrics"], "disabled": []}}},
    })  # fmt: skip
    error = refused(tree.payments, {"skills": {"disabled": ["metrics"]}})
    assert "skill 'metrics'" in error.detail
    patch(tree.payments, {"skills": {"disabled": ["other"]}})
    assert effective(tree.payments)["skills"]["disabled"] == ["other"]


def test_write_above__that_breaks_a_team__refused_naming_the_team(tree: Tree) -> None:
    put(tree.root, {"tools": {"think": True}})
    put(tree.payments, {"agents": {"planner": {"enabled": True, "tools": {"think": True}}}})
    error = refused(tree.root, {"tools": {"think": False}})
    assert "agent 'planner' at payments" in error.detail
    assert "set by demo" in error.detail
    patch(tree.payments, {"tools": {"think": True}})  # its own switch: the one above reaches it no more
    assert patch(tree.root, {"tools": {"think": False}}).changed


def test_write_above__many_teams__reads_only_those_that_name_what_is_switched(
    tree: Tree, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    teams = [make_node(tree.engineering, f"team-{index}") for index in range(10)]
    for team in teams:
        put(team, {"agents": {"planner": {"enabled": True, "tools": {"think": True}}}})
    put(teams[3], {"agents": {"helper": {"enabled": True, "tools": {"other": True}}}})
    levels: list[tuple[str, Document]] = [("demo", {"tools": {"other": False}})]
    with django_assert_num_queries(0):  # nothing that anybody could use changes
        check_dependencies(node=tree.root, levels=levels, before={}, after={"limits": {"max_turns": 3}})
        worded: Document = {"agents": {"planner": {"prompt": {"system": "Look."}}}}
        said: Document = {"agents": {"planner": {"prompt": {"system": "Look closely."}}}}
        check_dependencies(node=tree.root, levels=levels, before=worded, after=said)
    with django_assert_num_queries(1):  # nobody below names it
        check_dependencies(node=tree.root, levels=levels, before={}, after={"tools": {"unused": False}})
    with CaptureQueriesContext(connection) as queries, pytest.raises(InvalidInput) as caught:
        check_dependencies(node=tree.root, levels=levels, before={}, after={"tools": {"other": False}})
    assert [error.detail.split(" uses")[0] for error in caught.value.errors] == ["agent 'helper' at team-3"]
    assert len(queries) == 4  # those that name it, those that name "helper", what is between, the way down


NAMES = st.sampled_from(["a", "b", "enabled", "*"])
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(0, 1) | NAMES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
SECTION = st.sampled_from(["agents", "tools", "skills", "mcp_servers", "integrations", "entrance_agent"])
MEMBERS = st.sampled_from(["tools", "sub_agents", "enabled", "requires_integration", "skills"])
ITEMS = st.dictionaries(NAMES, ANY | st.dictionaries(MEMBERS, ANY, max_size=3), max_size=2)


@given(st.dictionaries(SECTION, ANY | ITEMS, max_size=3), st.dictionaries(SECTION, ANY | ITEMS, max_size=3))
def test_check__any_shapes__refuses_or_passes_and_an_unchanged_document_always_passes(
    before: Document, after: Document
) -> None:
    assert all(use.name for use in uses_in(after))
    node = Node(slug="demo")
    levels: list[tuple[str, Document]] = [("demo", after)]
    check_dependencies(node=node, levels=levels, before=after, after=after)
    try:
        check_dependencies(node=node, levels=levels, before=before, after=after)
    except InvalidInput as error:
        refusal = error
    else:
        return
    assert refusal.code == "dependency_broken"
    assert all(one.pointer.startswith("/") for one in refusal.errors)


SWITCHED: st.SearchStrategy[Any] = st.sampled_from([
    None, {"t": True}, {"t": False}, {"t": None}, {"t": {"enabled": True, "requires_integration": "i"}},
    {"t": {"note": 1}}, {"t": {}}, {"enabled": ["u"]}, {"disabled": ["t"]},
])  # fmt: skip
USES: dict[str, st.SearchStrategy[Any]] = {
    "enabled": st.booleans(),
    "sub_agents": st.dictionaries(st.sampled_from(["a", "b"]), st.booleans(), max_size=1),
    "tools": st.sampled_from([{"t": True}, {"t": False}, ["t"], {"enabled": ["t", "u"], "disabled": []}, None]),
    "integrations": st.sampled_from([{"i": True}, "i", {"i": {"enabled": False}}]),
}
AGENTS = st.dictionaries(st.sampled_from(["a", "b"]), st.none() | st.fixed_dictionaries({}, optional=USES), max_size=2)
LINKED_SECTIONS: dict[str, st.SearchStrategy[Any]] = {
    "agents": st.none() | AGENTS,
    "tools": SWITCHED,
    "integrations": st.sampled_from([None, *({"i": value} for value in ({"enabled": True}, {"enabled": False}, None))]),
    "entrance_agent": st.sampled_from(["a", "b", None]),
}
LINKED: st.SearchStrategy[Document] = st.fixed_dictionaries({}, optional=LINKED_SECTIONS)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents=st.lists(LINKED, min_size=4, max_size=4), change=LINKED)
def test_write_above__any_documents__refused_exactly_where_a_look_at_every_node_finds_a_break(
    tree: Tree, documents: list[Document], change: Document
) -> None:
    root, group, payments, platform = documents
    for node, document in zip((tree.engineering, tree.payments, tree.platform), documents[1:], strict=True):
        ConfigDocument.objects.update_or_create(node=node, defaults={"document": document, "version": 1})
    chains: tuple[list[Document], ...] = ([], [group], [group, payments], [group, platform])
    breaks = [_newly_broken(merge_all([root, *chain]), merge_all([change, *chain])) for chain in chains]

    refusal = None
    try:
        before, after = merge_all([root]), merge_all([change])
        check_dependencies(node=tree.root, levels=[("demo", change)], before=before, after=after)
    except InvalidInput as error:
        refusal = error

    assert (refusal is not None) == any(breaks)


# ---- the schema of these sections ----


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"agents": {"a": {"enabled": "yes"}}}, "/agents/a/enabled"),
        ({"agents": {"a": {"prompt": {"system": 5}}}}, "/agents/a/prompt/system"),
        ({"agents": {"a": {"model": {"temperature": 3}}}}, "/agents/a/model/temperature"),
        ({"agents": {"a": {"tools": {"t": 5}}}}, "/agents/a/tools/t"),
        ({"mcp_servers": {"github": {"args": "x"}}}, "/mcp_servers/github/args"),
        ({"skills": {"s": {"required_integrations": "loki"}}}, "/skills/s/required_integrations"),
        ({"team_context": {"sections": [{"title": 5}]}}, "/team_context/sections/0/title"),
        ({"memory": {"max_similar_episodes": -1}}, "/memory/max_similar_episodes"),
        ({"entrance_agent": 5}, "/entrance_agent"),
    ],
)
def test_schema__wrong_field__refused_at_its_place(document: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_document(document)
    assert [error.pointer for error in caught.value.errors] == [pointer]


def test_schema__unknown_settings__kept_with_a_warning_and_a_suggestion(tree: Tree) -> None:
    document = {
        "agents": {"a/b": {"modle": "m", "prompt": "p"}},
        "memory": {"zzz": 1},
        "mcp_servers": {"g": {"ags": []}},
    }
    result = put(tree.payments, document)
    assert effective(tree.payments)["agents"] == document["agents"]
    assert [(one.code, one.pointer) for one in result.warnings] == [
        ("unknown_setting", "/memory/zzz"),
        ("unknown_setting", "/agents/a~1b/modle"),
        ("unknown_setting", "/mcp_servers/g/ags"),
    ]
    assert "'model'" in result.warnings[1].detail


def test_schema__forms_in_use__accepted_and_described() -> None:
    check_document({
        "agents": {
            "planner": {
                "enabled": True, "model": "sonnet", "prompt": "Plan.", "sub_agents": {"k8s": {"enabled": True}},
                "tools": {"enabled": ["a"], "disabled": []}, "extra": [1],
            },
            "k8s": {"model": {"name": "m", "temperature": 0.2}, "prompt": {"system": "s"}, "tools": {"*": True}},
        },
        "skills": {"enabled": ["*"], "disabled": []}, "mcp_servers": {"github": {"command": "npx", "args": ["-y"]}},
        "tools": {"think": True, "q": {"requires_integration": "grafana"}}, "team_context": {"sections": []},
        "memory": {"enabled": False}, "remote_agents": {"r": {"type": "a2a", "url": "https://a.example"}},
    })  # fmt: skip
    schema = DocumentSchema.model_json_schema()
    assert {"AgentSection", "McpServerSection", "MemorySection", "TeamContextSection"} <= schema["$defs"].keys()
    assert {"type": ["string", "null"]} in schema["$defs"]["AgentSection"]["properties"]["model"]["anyOf"]

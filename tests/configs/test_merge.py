"""The merge and its provenance: the examples of the semantics, and the algebra."""

from copy import deepcopy
from datetime import UTC, datetime
from functools import reduce
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.configs.merge import (
    Author,
    Layer,
    merge,
    merge_all,
    merge_with_provenance,
    patch_deep,
    patch_rfc7396,
)
from controlplane.configs.pointers import decode, get, leaves, same
from tests.configs.strategies import DOCUMENTS, PROPERTY, SHAPED, VALUES

Doc = dict[str, Any]
CHAINS = st.lists(DOCUMENTS, max_size=5)


def test_merge__no_layers__empty() -> None:
    assert merge_all([]) == {}
    assert merge({}, {}) == {}


def test_merge__example_2__keys_merge_and_lists_replace() -> None:
    parent = {"team_name": "team-a", "mcp_servers": ["a"], "agents": {"fix": {"enabled": False}}}
    child = {"mcp_servers": ["b1", "b2"], "agents": {"fix": {"enabled": True}}}
    expected = {"team_name": "team-a", "mcp_servers": ["b1", "b2"], "agents": {"fix": {"enabled": True}}}
    assert merge(parent, child) == expected


def test_merge__example_3__three_layers() -> None:
    org = {"knowledge": {"grafana": ["o"]}, "agents": {"inv": {"prompt": "org"}}, "vault": {"openai": "v"}}
    group = {"knowledge": {"grafana": ["g"], "google": ["gg"]}, "agents": {"inv": {"extra_tools": ["t"]}}}
    team = {"knowledge": {"confluence": ["c"]}, "agents": {"inv": {"prompt": "team"}}}
    assert merge_all([org, group, team]) == {
        "knowledge": {"grafana": ["g"], "google": ["gg"], "confluence": ["c"]},
        "agents": {"inv": {"prompt": "team", "extra_tools": ["t"]}},
        "vault": {"openai": "v"},
    }


@pytest.mark.parametrize(
    ("parent", "child", "expected"),
    [
        pytest.param(
            {"think": True, "llm": True, "web": True},
            {"custom": True},
            {"think": True, "llm": True, "web": True, "custom": True},
            id="example-4",
        ),
        pytest.param(
            {"think": True, "llm": True, "web": True},
            {"web": False},
            {"think": True, "llm": True, "web": False},
            id="example-5",
        ),
        pytest.param(
            {"investigation": True, "k8s": True},
            {"aws": True},
            {"investigation": True, "k8s": True, "aws": True},
            id="example-6",
        ),
        pytest.param(
            {"github": {"enabled": True, "command": "npx", "args": ["x"]}},
            {"custom": {"enabled": True}},
            {"github": {"enabled": True, "command": "npx", "args": ["x"]}, "custom": {"enabled": True}},
            id="example-7",
        ),
        pytest.param(
            {"github": {"enabled": True, "command": "npx"}},
            {"github": {"enabled": False}},
            {"github": {"enabled": False, "command": "npx"}},
            id="example-8",
        ),
    ],
)
def test_merge__maps_of_switches__merge_by_key(parent: Doc, child: Doc, expected: Doc) -> None:
    assert merge({"s": parent}, {"s": child}) == {"s": expected}


@pytest.mark.parametrize(
    ("parent", "child"),
    [({"x": 1}, 5), (5, {"x": 1}), ({"x": 1}, [1]), ([1, 2], []), ("x", ""), (1, None), ({"b": 1}, None)],
)
def test_merge__examples_9_and_11__type_change_empty_and_null_win(parent: Any, child: Any) -> None:
    assert merge({"a": parent}, {"a": child}) == {"a": child}


@pytest.mark.parametrize("parent", [1, None, [], [1], "x", {"b": 1}])
@pytest.mark.parametrize("nothing", [{}, {"b": {}}, {"b": {"c": {}, "d": {}}}])
def test_merge__empty_object__adds_nothing_whatever_it_meets(parent: Any, nothing: Doc) -> None:
    assert merge({"a": parent}, {"a": nothing}) == {"a": parent}
    assert merge({}, {"a": nothing}) == {}


def test_merge__empty_object_inside_a_list__kept_as_part_of_the_value() -> None:
    assert merge({}, {"a": [{}]}) == {"a": [{}]}


def test_merge__example_10__editing_the_result_leaves_the_inputs() -> None:
    base: Doc = {"map": {"inner": {"x": 1}}, "list": [[1], {"k": 1}]}
    overlay: Doc = {"map": {"more": {"y": [1]}}}
    before = deepcopy((base, overlay))

    result = merge(base, overlay)
    result["map"]["inner"]["x"] = 2
    result["map"]["more"]["y"].append(2)
    result["list"][0].append(2)
    result["list"][1]["k"] = 2

    assert (base, overlay) == before


@PROPERTY
@given(CHAINS)
def test_merge__any_chain__inputs_unchanged_and_no_empty_object_left(chain: list[Doc]) -> None:
    before = deepcopy(chain)
    result = merge_all(chain)
    assert chain == before
    assert all(value != {} for _, value in leaves(result, empty_objects=True))


@PROPERTY
@given(CHAINS)
def test_merge__of_a_chain__is_the_left_fold(chain: list[Doc]) -> None:
    assert same(merge_all(chain), reduce(merge, chain, dict[str, Any]()))


@PROPERTY
@given(DOCUMENTS)
def test_merge__with_the_empty_document__is_identity_up_to_empty_objects(document: Doc) -> None:
    compact = dict(leaves(document))
    assert dict(leaves(merge(document, {}))) == compact
    assert dict(leaves(merge({}, document))) == compact
    assert dict(leaves(merge(document, document))) == compact


@PROPERTY
@given(SHAPED, SHAPED, SHAPED)
def test_merge__without_type_changes__is_associative(a: Doc, b: Doc, c: Doc) -> None:
    assert same(merge(merge(a, b), c), merge(a, merge(b, c)))


@PROPERTY
@given(DOCUMENTS, DOCUMENTS, DOCUMENTS)
def test_merge__with_type_changes__brackets_only_decide_what_a_hidden_object_inherits(a: Doc, b: Doc, c: Doc) -> None:
    """A scalar in the middle hides the object above it; bracketed to the right, the lower object never meets it."""
    left, right = merge(merge(a, b), c), merge(a, merge(b, c))
    inherited = dict(leaves(right))
    assert all(pointer in inherited and same(value, inherited[pointer]) for pointer, value in leaves(left))


def test_merge__scalar_between_two_objects__is_not_associative() -> None:
    a, b, c = {"k": {"x": 1}}, {"k": 2}, {"k": {"y": 3}}
    assert merge(merge(a, b), c) == {"k": {"y": 3}}
    assert merge(a, merge(b, c)) == {"k": {"x": 1, "y": 3}}


@PROPERTY
@given(CHAINS)
def test_provenance__any_chain__agrees_with_the_value_leaf_for_leaf(chain: list[Doc]) -> None:
    layers = [_layer(index, document) for index, document in enumerate(chain)]
    effective, sources = merge_with_provenance(layers)

    assert same(effective, merge_all(chain))
    assert sources.keys() == dict(leaves(effective)).keys()
    for pointer, source in sources.items():
        setter = next(index for index, layer in enumerate(layers) if layer.node == source.node)
        value = get(effective, decode(pointer))
        assert same(value, get(chain[setter], decode(pointer)))
        # Taking the value out of its layer changes the leaf, or shows the same value of the layer it hid.
        assert [hidden.node for hidden in source.shadowed] == [
            f"n{index}" for index in range(setter - 1, -1, -1) if pointer in dict(leaves(chain[index]))
        ]
        for hidden in source.shadowed:
            assert same(hidden.value, get(chain[int(hidden.node[1:])], decode(pointer)))
        assert not any(pointer in dict(leaves(later)) for later in chain[setter + 1 :])


def test_provenance__example_14__names_level_version_author_and_hidden_value() -> None:
    root = _layer(0, {"model": "a", "limits": {"max_turns": 5}}, level="org")
    team = _layer(1, {"model": "b"}, level="team", version=7)

    _, sources = merge_with_provenance([root, team])

    assert (sources["/model"].level, sources["/model"].version, sources["/model"].by) == ("team", 7, "by n1")
    assert sources["/limits/max_turns"].level == "org"
    assert [(hidden.level, hidden.value) for hidden in sources["/model"].shadowed] == [("org", "a")]
    assert sources["/limits/max_turns"].shadowed == ()


# RFC 7396, appendix A: original, patch, result.
RFC_TABLE: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("original", "patch", "result"), RFC_TABLE)
def test_merge_patch__rfc_7396_test_cases__their_results(original: Any, patch: Any, result: Any) -> None:
    before = deepcopy((original, patch))
    assert patch_rfc7396(original, patch) == result
    assert (original, patch) == before


@PROPERTY
@given(VALUES, VALUES)
def test_merge_patch__any__idempotent_and_without_change_to_its_inputs(target: Any, patch: Any) -> None:
    before = deepcopy((target, patch))
    once = patch_rfc7396(target, patch)
    assert same(patch_rfc7396(once, patch), once)
    assert (target, patch) == before


@PROPERTY
@given(DOCUMENTS, DOCUMENTS)
def test_patch_deep__any__idempotent_pure_and_names_all_it_changes(document: Doc, patch: Doc) -> None:
    before = deepcopy((document, patch))
    once = patch_deep(document, patch)
    assert (document, patch) == before
    assert same(patch_deep(once, patch), once)
    assert all(same(get(once, decode(pointer)), value) for pointer, value in leaves(patch))


def test_patch_deep__stored_empty_object__kept_and_null_stored() -> None:
    assert patch_deep({"meant": {}, "a": 1}, {"a": None, "b": {}}) == {"meant": {}, "a": None}


def _layer(index: int, document: Doc, *, level: str = "group", version: int = 1) -> Layer:
    author = Author(by=f"by n{index}", at=datetime(2026, 1, 1 + index, tzinfo=UTC))
    leaf_versions = {pointer: version for pointer, _ in leaves(document)}
    return Layer(uuid4(), f"n{index}", level, version, document, leaf_versions, {version: author})

"""JSON Pointers, leaves, removal, comparison."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.configs.merge import patch_deep
from controlplane.configs.pointers import (
    MISSING,
    Operation,
    PointerSyntaxError,
    decode,
    diff,
    encode,
    get,
    leaves,
    same,
    unset,
)
from tests.configs.strategies import DOCUMENTS, PROPERTY, VALUES

# RFC 6901, section 5: the document and the value of each of its pointers.
RFC_DOCUMENT: dict[str, Any] = {
    "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, 'k"l': 6, " ": 7, "m~n": 8,
}  # fmt: skip
RFC_POINTERS: list[tuple[str, Any]] = [
    ("", RFC_DOCUMENT), ("/foo", ["bar", "baz"]), ("/foo/0", "bar"), ("/", 0), ("/a~1b", 1), ("/c%d", 2), ("/e^f", 3),
    ("/g|h", 4), ("/i\\j", 5), ('/k"l', 6), ("/ ", 7), ("/m~0n", 8),
]  # fmt: skip


@pytest.mark.parametrize(("pointer", "value"), RFC_POINTERS)
def test_get__rfc_6901_examples__their_values(pointer: str, value: Any) -> None:
    assert get(RFC_DOCUMENT, decode(pointer)) == value
    assert encode(decode(pointer)) == pointer


@pytest.mark.parametrize(
    "pointer", ["/foo/2", "/foo/00", "/foo/-", "/foo/bar", "/foo/0/x", "/nothing", "/m~0n/x", "/foo/²"]
)
def test_get__nothing_there__missing(pointer: str) -> None:
    assert get(RFC_DOCUMENT, decode(pointer)) is MISSING


@pytest.mark.parametrize("pointer", ["a", "a/b", "/a~", "/a~2", "/~", " /a", "#/a"])
def test_decode__no_pointer__refused(pointer: str) -> None:
    with pytest.raises(PointerSyntaxError):
        decode(pointer)


def test_decode__escaped_tilde_before_one__not_unescaped_twice() -> None:
    assert decode("/~01") == ("~1",)


@PROPERTY
@given(st.lists(st.text(max_size=5), max_size=4).map(tuple))
def test_encode__any_tokens__decode_to_themselves(tokens: tuple[str, ...]) -> None:
    assert decode(encode(tokens)) == tokens


@PROPERTY
@given(DOCUMENTS)
def test_leaves__any_document__each_is_found_at_its_pointer_and_is_no_object(document: dict[str, Any]) -> None:
    for pointer, value in leaves(document):
        assert get(document, decode(pointer)) is value
        assert not isinstance(value, dict)


@PROPERTY
@given(DOCUMENTS, DOCUMENTS)
def test_diff__applied_to_before__gives_after(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert same(_apply(before, diff(before, after)), after)


@PROPERTY
@given(DOCUMENTS, DOCUMENTS)
def test_diff__is_empty__exactly_for_equal_documents(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert (diff(before, after) == []) == same(before, after)


def test_diff__null_and_absent__told_apart() -> None:
    assert diff({"a": None}, {"b": None}) == [{"pointer": "/a", "before": None}, {"pointer": "/b", "after": None}]


def test_diff__type_change__the_leaf_that_goes_and_the_leaves_that_come() -> None:
    assert diff({"a": 1}, {"a": {"b": 2}}) == [{"pointer": "/a", "before": 1}, {"pointer": "/a/b", "after": 2}]


def test_diff__empty_object_becomes_meant__seen() -> None:
    assert diff({}, {"a": {}}) == [{"pointer": "/a", "after": {}}]


@pytest.mark.parametrize(
    ("left", "right"), [(True, 1), (False, 0), ([True], [1]), ({"a": 0}, {"a": False}), (None, False)]
)
def test_same__boolean_and_number__differ(left: Any, right: Any) -> None:
    assert not same(left, right)


def test_same__integer_and_equal_fraction__equal() -> None:
    assert same({"a": [1]}, {"a": [1.0]})


def test_unset__example_13__key_goes_and_sibling_stays() -> None:
    document = {"agents": {"k8s": {"model": "b", "enabled": False}}}
    assert unset(document, [("agents", "k8s", "model")]) == {"agents": {"k8s": {"enabled": False}}}


def test_unset__last_key__parents_emptied_by_it_go_and_meant_empty_objects_stay() -> None:
    document = {"agents": {"k8s": {"model": "b"}, "idle": {}}, "skills": {}}
    assert unset(document, [("agents", "k8s", "model")]) == {"agents": {"idle": {}}, "skills": {}}
    assert unset({"a": {"b": {"c": 1}}}, [("a", "b", "c")]) == {}


def test_unset__empty_object_itself__goes_with_the_parent_it_empties() -> None:
    assert unset({"a": {"b": {}}}, [("a", "b")]) == {}


@pytest.mark.parametrize("path", [("a", "x"), ("x",), ("a", "b", "c"), ("empty", "x"), ("list", "0")])
def test_unset__nothing_there__document_unchanged(path: tuple[str, ...]) -> None:
    document = {"a": {"b": 1}, "empty": {}, "list": [1]}
    assert unset(document, [path]) == document


@PROPERTY
@given(DOCUMENTS, st.data())
def test_unset__any_leaves__gone_the_rest_kept_input_untouched_and_idempotent(
    document: dict[str, Any], data: st.DataObject
) -> None:
    kept = deepcopy(document)
    pointers = [pointer for pointer, _ in leaves(document)]
    chosen = data.draw(st.lists(st.sampled_from(pointers), unique=True)) if pointers else []
    paths = [decode(pointer) for pointer in chosen]

    result = unset(document, paths)

    assert document == kept
    assert dict(leaves(result)) == {pointer: value for pointer, value in leaves(document) if pointer not in chosen}
    assert same(unset(result, paths), result)


@PROPERTY
@given(DOCUMENTS, VALUES)
def test_unset__of_a_patch_at_a_new_path__round_trips(document: dict[str, Any], value: Any) -> None:
    patched = patch_deep(document, {"new": {"path": value}})
    assert same(unset(patched, [("new", "path")]), document)


def _apply(document: dict[str, Any], operations: list[Operation]) -> dict[str, Any]:
    result = unset(deepcopy(document), [decode(item["pointer"]) for item in operations if "after" not in item])
    for item in operations:
        if "after" in item:
            *parents, last = decode(item["pointer"])
            target = result
            for token in parents:
                target = target.setdefault(token, {})
            target[last] = item["after"]
    return result

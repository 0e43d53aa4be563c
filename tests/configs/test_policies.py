"""Policies: what each forbids, however a write reaches it; who may set them; what they report."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from controlplane.configs import judging
from controlplane.configs.merge import merge, merge_all
from controlplane.configs.models import ConfigDocument, ConfigPolicy, ConfigVersion
from controlplane.configs.patterns import places, replayed, seen
from controlplane.configs.pointers import Document, decode, diff, encode, get, leaves, same
from controlplane.configs.policies import Policy, check_policies, without_echoes
from controlplane.configs.selectors import chain_documents
from controlplane.configs.services import config_patch, config_replace, config_rollback, config_unset
from controlplane.core.errors import AppError, PermissionDenied
from controlplane.orgs.models import Node
from controlplane.orgs.services import node_move
from tests.configs.strategies import DOCUMENTS, KEYS
from tests.configs.support import admin, effective, patch, policy, put, stored, versions
from tests.configs.support import untouched_refusal as refusal
from tests.factories import Tree, make_node

TIMEOUT = "/runtime/timeout"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def in_force(node: Node) -> Document:
    """Return the node's effective configuration, merged here from what is stored."""
    return merge_all(document for _, document in chain_documents(node.pk))


# ---- patterns ----


@pytest.mark.parametrize(
    ("document", "pointer", "expected"),
    [
        ({"a": {"b": 1}}, "/a/b", (2, 1)),
        ({"a": {"b": None}}, "/a/b", (2, None)),
        ({"a": {"b": 1}}, "/a", (1, {"b": 1})),
        ({"a": None}, "/a/b", (1, None)),
        ({"a": [1]}, "/a/0", (1, [1])),
    ],
)
def test_seen__path__value_or_what_stands_in_the_way(document: Document, pointer: str, expected: Any) -> None:
    assert seen(document, decode(pointer)) == expected
    assert seen({}, decode(pointer))[0] == -1


def test_places__star__each_key_of_either_document_and_what_stands_in_the_way() -> None:
    documents: tuple[Document, ...] = ({"a": {"x": {"m": 1}, "y/z": 2}}, {"a": {"w": {}}}, {"a": None})
    found = {encode(path) for path in places(("a", "*", "m"), *documents)}
    assert found == {"/a/x/m", "/a/y~1z/m", "/a/w/m", "/a/*/m"}


@given(DOCUMENTS, DOCUMENTS)
def test_replayed__difference_of_two_documents__turns_one_into_the_other(before: Document, after: Document) -> None:
    assert diff(replayed(before, diff(before, after)), after) == []


# ---- locks, judged on effective values ----


@given(st.lists(DOCUMENTS, min_size=3, max_size=3), st.lists(KEYS | st.just("*"), min_size=1, max_size=3))
def test_lock__any_documents_and_pattern__what_passes_leaves_each_place_as_it_was(
    documents: list[Document], tokens: list[str]
) -> None:
    above, before, after = documents
    lock = Policy(None, "demo", encode(tokens), "locked", None)  # type: ignore[arg-type]  # no row is asked for
    was = merge(above, before)
    kept = without_echoes([lock], above, before, after)
    becomes = merge(above, kept)
    assert same(becomes, merge(above, after))
    try:
        check_policies([lock], was, becomes)
    except PermissionDenied:
        assert not same(was, becomes)
        return
    for path in [*places(lock.pattern, was, becomes), *places(lock.pattern, was)]:
        assert same(get(was, path), get(becomes, path)), path


@pytest.mark.django_db
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    documents=st.lists(DOCUMENTS, min_size=3, max_size=3),
    tokens=st.lists(KEYS, min_size=1, max_size=2),
    entry=st.sampled_from(["put", "patch", "merge-patch", "unset", "rollback"]),
)
def test_lock__any_documents_and_entry_point__effective_value_unchanged(
    tree: Tree, documents: list[Document], tokens: list[str], entry: str
) -> None:
    above, own, change = documents
    assume(own or change)
    with transaction.atomic():
        for node, document in ((tree.root, above), (tree.payments, own)):
            ones = {pointer: 1 for pointer, _ in leaves(document)}
            ConfigDocument.objects.create(node=node, document=document, version=1, leaf_versions=ones)
        ConfigVersion.objects.create(node=tree.payments, version=1, document=change, at=NOW, by="x")
        ConfigPolicy.objects.create(node=tree.root, pointer=encode(tokens), kind="locked", created_at=NOW)
        before = in_force(tree.payments)
        try:
            WRITES[entry](tree.payments, tree.system, change)
        except AppError as error:
            assert error.code in {"policy_locked", "pointers", "pointer_into_list"}  # noqa: PT017 (most examples pass)
        assert same(get(before, tokens), get(in_force(tree.payments), tokens))
        transaction.set_rollback(True)


WRITES: dict[str, Callable[[Node, Any, Document], Any]] = {
    "put": lambda node, actor, change: config_replace(actor=actor, node=node, document=change),
    "patch": lambda node, actor, change: config_patch(actor=actor, node=node, patch=change),
    "merge-patch": lambda node, actor, change: config_patch(actor=actor, node=node, patch=change, merge_patch=True),
    "unset": lambda node, actor, change: config_unset(
        actor=actor, node=node, pointers=[encode([key]) for key in change]
    ),
    "rollback": lambda node, actor, _: config_rollback(actor=actor, node=node, version=1),
}


@pytest.mark.django_db
def test_lock__example_17__equal_value_is_no_change_and_another_is_refused(tree: Tree) -> None:
    put(tree.root, {"runtime": {"timeout": 300}})
    policy(tree.root, TIMEOUT)

    again = patch(tree.payments, {"runtime": {"timeout": 300}})
    assert (again.changed, versions(tree.payments), stored(tree.payments)) == (False, [], {})

    error = refusal(lambda: patch(tree.payments, {"runtime": {"timeout": 900}}))
    assert (error.status, error.code) == (403, "policy_locked")
    assert error.extra == {"locked": [{"pointer": TIMEOUT, "level": "demo", "value": 300}]}
    assert error.detail == "/runtime/timeout is locked: demo has locked this at 300."
    assert error.errors[0].pointer == TIMEOUT


@pytest.mark.django_db
def test_lock__inherited_value_sent_back_among_others__not_pinned_when_the_level_above_changes_it(tree: Tree) -> None:
    put(tree.root, {"runtime": {"timeout": 300}})
    policy(tree.root, TIMEOUT)
    put(tree.payments, {"runtime": {"timeout": 300, "note": "ours"}})
    assert stored(tree.payments) == {"runtime": {"note": "ours"}}
    put(tree.root, {"runtime": {"timeout": 600}})
    assert effective(tree.payments) == {"runtime": {"timeout": 600, "note": "ours"}}


ATTACKS: dict[str, Callable[[Tree], Any]] = {
    "the path": lambda tree: patch(tree.payments, {"runtime": {"timeout": 1}}),
    "below it": lambda tree: patch(tree.payments, {"runtime": {"timeout": {"x": 1}}}),
    "null": lambda tree: patch(tree.payments, {"runtime": {"timeout": None}}),
    "parent null": lambda tree: patch(tree.payments, {"runtime": None}),
    "a list at the path": lambda tree: put(tree.payments, {"runtime": {"timeout": [300]}}),
    "another type": lambda tree: put(tree.payments, {"runtime": {"timeout": "300"}}),
    "boolean for a number": lambda tree: put(tree.payments, {"runtime": {"timeout": True}}),
    "merge patch": lambda tree: config_patch(
        actor=tree.system, node=tree.payments, patch={"runtime": {"timeout": 1}}, merge_patch=True
    ),
    "rollback": lambda tree: config_rollback(actor=tree.system, node=tree.platform, version=1),
    "unset": lambda tree: config_unset(actor=tree.system, node=tree.engineering, pointers=["/runtime"]),
    "replacing a document that sets it": lambda tree: put(tree.engineering, {}),
    "merge patch that removes": lambda tree: config_patch(
        actor=tree.system, node=tree.engineering, patch={"runtime": None}, merge_patch=True
    ),
    "dry run": lambda tree: config_patch(
        actor=tree.system, node=tree.payments, patch={"runtime": {"timeout": 1}}, dry_run=True
    ),
}


@pytest.mark.django_db
@pytest.mark.parametrize("attack", ATTACKS)
def test_lock__each_way_around__403_and_nothing_stored(tree: Tree, attack: str) -> None:
    put(tree.root, {"runtime": {"timeout": 100}})
    put(tree.engineering, {"runtime": {"timeout": 300}})
    put(tree.platform, {"runtime": {"timeout": 900}})
    config_unset(actor=tree.system, node=tree.platform, pointers=["/runtime"])
    policy(tree.root, TIMEOUT)
    error = refusal(lambda: ATTACKS[attack](tree))
    assert (error.status, error.code) == (403, "policy_locked")


@pytest.mark.django_db
def test_lock__the_level_itself__stays_free_and_those_below_follow(tree: Tree) -> None:
    policy(tree.engineering, TIMEOUT)
    patch(tree.engineering, {"runtime": {"timeout": 5}})
    patch(tree.root, {"runtime": {"timeout": 4, "other": 1}})
    assert effective(tree.payments)["runtime"] == {"timeout": 5, "other": 1}
    refusal(lambda: patch(tree.payments, {"runtime": {"timeout": 6}}))
    refusal(lambda: patch(tree.payments, {"runtime": None}))


@pytest.mark.django_db
def test_lock__unset_place__cannot_be_shadowed_in_advance(tree: Tree) -> None:
    policy(tree.root, TIMEOUT)
    assert refusal(lambda: patch(tree.payments, {"runtime": None})).code == "policy_locked"
    patch(tree.payments, {"runtime": {"note": 1}})
    patch(tree.root, {"runtime": {"timeout": 7}})
    assert effective(tree.payments)["runtime"] == {"timeout": 7, "note": 1}


@pytest.mark.django_db
def test_lock__star__binds_every_item_also_new_ones(tree: Tree) -> None:
    put(tree.root, {"agents": {"k8s": {"model": "a"}}})
    policy(tree.root, "/agents/*/model")
    changes: list[Document] = [
        {"agents": {"k8s": {"model": "b"}}},
        {"agents": {"mine": {"model": "b"}}},
        {"agents": {"k8s": None}},
        {"agents": None},
        {"agents": []},
    ]
    for change in changes:
        assert refusal(partial(patch, tree.payments, change)).code == "policy_locked"
    patch(tree.payments, {"agents": {"mine": {"prompt": "p"}}})
    assert effective(tree.payments)["agents"] == {"k8s": {"model": "a"}, "mine": {"prompt": "p"}}


@pytest.mark.django_db
def test_lock__secret_place__value_not_named(tree: Tree) -> None:
    put(tree.root, {"integrations": {"x": {"token": "${SECRET_NAME}"}}})
    policy(tree.root, "/integrations")
    policy(tree.root, "/integrations/*/token", "secret")
    error = refusal(lambda: patch(tree.payments, {"integrations": {"x": {"token": "${OTHER}"}}}))
    assert error.extra == {"locked": [{"pointer": "/integrations", "level": "demo"}]}
    assert "SECRET_NAME" not in str(error.as_problem())


# ---- bounds ----


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("kind", "value", "good", "bad"),
    [
        ("maximum", 20, [20, 3, 1.5], [21, 20.1, True, None, "3", [3], {"x": 3}]),
        ("minimum", 5, [5, 6], [4, -1, False, None, "6", [6]]),
        ("allowed_values", ["a", 1, None], ["a", 1, 1.0, None], ["b", True, ["a"], {"a": 1}, ""]),
        ("secret", None, ["${NAME}", None], ["plain", "x${NAME}", "${NAME:-x}", 5, ["${NAME}"], {"a": "${NAME}"}]),
    ],
)
def test_bound__values__inside_stored_and_outside_422(
    tree: Tree, kind: str, value: Any, good: list[Any], bad: list[Any]
) -> None:
    put(tree.root, {"team": {"x": good[0]}})
    policy(tree.root, "/team/x", kind, value)
    for item in bad:
        error = refusal(partial(patch, tree.payments, {"team": {"x": item}}))
        assert (error.status, error.code, error.errors[0].pointer) == (422, f"policy_{kind}", "/team/x")
        assert "demo" in error.detail
    ways: list[Document] = [{"team": 5}, {"team": []}]
    for way in ways:
        assert refusal(partial(put, tree.payments, way)).code == f"policy_{kind}"
    for item in good:
        put(tree.payments, {"team": {"x": item}})
        assert same(effective(tree.payments)["team"]["x"], item)


@pytest.mark.django_db
def test_bound__hidden_by_null_above__refused_because_the_bound_value_would_be_lifted(tree: Tree) -> None:
    put(tree.root, {"limits": {"max_turns": 10}})
    policy(tree.root, "/limits/max_turns", "maximum", 20)
    assert refusal(lambda: put(tree.payments, {"limits": None})).code == "policy_maximum"


@pytest.mark.django_db
def test_bound__broken_before_the_policy__other_writes_go_on(tree: Tree) -> None:
    put(tree.payments, {"limits": {"max_turns": 90}})
    policy(tree.root, "/limits/max_turns", "maximum", 20)
    assert patch(tree.payments, {"note": 1}).changed
    assert patch(tree.payments, {"limits": {"max_turns": 90, "max_tokens": 5}}).changed
    assert refusal(lambda: patch(tree.payments, {"limits": {"max_turns": 91}})).code == "policy_maximum"
    config_unset(actor=tree.system, node=tree.payments, pointers=["/limits/max_turns"])
    assert effective(tree.payments) == {"note": 1, "limits": {"max_tokens": 5}}


@pytest.mark.django_db
def test_bound__of_a_level_below__a_write_above_that_breaks_it_warns(tree: Tree) -> None:
    policy(tree.engineering, "/limits/max_turns", "maximum", 20)
    result = patch(tree.root, {"limits": {"max_turns": 30}})
    assert [(one.code, one.pointer) for one in result.warnings] == [("below_maximum", "/limits/max_turns")]
    assert "engineering" in result.warnings[0].detail
    assert patch(tree.root, {"limits": {"max_turns": 10}}).warnings == []


@pytest.mark.django_db
def test_policies__several_levels__all_bind(tree: Tree) -> None:
    policy(tree.root, "/n", "maximum", 20)
    policy(tree.engineering, "/n", "maximum", 50)
    policy(tree.engineering, "/n", "minimum", 10)
    assert refusal(lambda: put(tree.payments, {"n": 21})).code == "policy_maximum"
    assert refusal(lambda: put(tree.payments, {"n": 9})).code == "policy_minimum"
    put(tree.payments, {"n": 15})
    put(tree.engineering, {"n": 1})  # its own minimum binds those below it, not itself
    assert (effective(tree.payments), effective(tree.platform)) == ({"n": 15}, {"n": 1})


@pytest.mark.django_db
@pytest.mark.parametrize(("written", "read"), [("payments", "chain_documents"), ("engineering", "bounds_from")])
def test_dry_run__tree_changed_between_two_of_its_queries__is_answered(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, written: str, read: str
) -> None:
    lab = make_node(tree.root, "lab", "group")
    for level in (tree.engineering, lab):
        policy(level, "/a", "requires_approval")
    policy(tree.payments, "/a", "maximum", 5)
    reader = getattr(judging, read)

    def then_moved(node_id: UUID) -> Any:
        found = list(reader(node_id))
        node_move(actor=tree.system, node=tree.payments, parent=lab)
        return found

    monkeypatch.setattr(judging, read, then_moved)
    node = {"payments": tree.payments, "engineering": tree.engineering}[written]
    assert config_patch(actor=admin(node), node=node, patch={"a": 10}, dry_run=True).operations
    assert Node.objects.get(pk=tree.payments.pk).parent_id == lab.pk

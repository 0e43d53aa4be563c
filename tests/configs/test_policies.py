"""Policies: what each forbids, however a write reaches it; who may set them; what they report."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from controlplane.audit.models import AuditEvent
from controlplane.configs.judging import judge
from controlplane.configs.merge import merge, merge_all
from controlplane.configs.models import ConfigDocument, ConfigPolicy, ConfigVersion
from controlplane.configs.patterns import places, replayed, seen
from controlplane.configs.pointers import Document, decode, diff, encode, get, leaves, same
from controlplane.configs.policies import Policy, check_policies, without_echoes
from controlplane.configs.policy_services import missing_in, policy_create, policy_delete
from controlplane.configs.selectors import chain_documents
from controlplane.configs.services import config_patch, config_replace, config_rollback, config_unset
from controlplane.core.actor import Role
from controlplane.core.errors import AppError, Conflict, InvalidInput, NotFound, PermissionDenied
from controlplane.orgs.models import Node
from tests.configs.strategies import DOCUMENTS, KEYS
from tests.configs.support import effective, patch, put, stored, versions
from tests.factories import (
    Tree,
    api_client,
    make_admin_token,
    make_node,
    make_personal_token,
    make_team_token,
    make_user,
    system_of,
)

TIMEOUT = "/runtime/timeout"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def policy(node: Node, pointer: str, kind: str = "locked", value: Any = None) -> ConfigPolicy:
    return policy_create(actor=system_of(node), node=node, pointer=pointer, kind=kind, value=value)[0]


def in_force(node: Node) -> Document:
    """Return the node's effective configuration, merged here from what is stored."""
    return merge_all(document for _, document in chain_documents(node.pk))


def refusal(job: Callable[[], Any]) -> AppError:
    """Return how a write is refused; nothing of it may stay."""
    before = list(ConfigDocument.objects.order_by("pk").values()), ConfigVersion.objects.count()
    with pytest.raises(AppError) as caught:
        job()
    assert (list(ConfigDocument.objects.order_by("pk").values()), ConfigVersion.objects.count()) == before
    return caught.value


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


# ---- setting them ----


@pytest.mark.django_db
def test_policy__set_and_removed__audited_and_no_longer_binding(tree: Tree) -> None:
    put(tree.payments, {"a": 1})
    policy_row, overrides = policy_create(
        actor=tree.system, node=tree.root, pointer="/a", kind="locked", reason=" why "
    )
    assert (overrides.count, overrides.slugs) == (1, ("payments",))
    event = AuditEvent.objects.get(action="policy.create")
    assert (event.after, event.reason, event.node_id) == (
        {"pointer": "/a", "kind": "locked", "value": None}, "why", tree.root.pk,
    )  # fmt: skip
    refusal(lambda: put(tree.payments, {"a": 2}))
    policy_delete(actor=tree.system, node=tree.root, policy_id=policy_row.pk)
    assert AuditEvent.objects.get(action="policy.delete").object_id == str(policy_row.pk)
    assert put(tree.payments, {"a": 2}).changed


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fields", "pointer", "code"),
    [
        ({"pointer": "a"}, "/pointer", "malformed_pointer"),
        ({"pointer": "/~2"}, "/pointer", "malformed_pointer"),
        ({"pointer": "/a\x00"}, "/pointer", "malformed_pointer"),
        ({"pointer": 5}, "/pointer", "malformed_pointer"),
        ({"pointer": "/a" * 501}, "/pointer", "malformed_pointer"),
        ({"pointer": ""}, "/pointer", "whole_document"),
        ({"kind": "frozen"}, "/kind", "kind"),
        ({"kind": "locked", "value": 1}, "/value", "policy_value"),
        ({"kind": "maximum"}, "/value", "policy_value"),
        ({"kind": "maximum", "value": True}, "/value", "policy_value"),
        ({"kind": "maximum", "value": float("nan")}, "/value", "policy_value"),
        ({"kind": "minimum", "value": 2**70}, "/value", "number_out_of_range"),
        ({"kind": "allowed_values", "value": []}, "/value", "policy_value"),
        ({"kind": "allowed_values", "value": [[1]]}, "/value", "policy_value"),
        ({"kind": "allowed_values", "value": list(range(201))}, "/value", "policy_value"),
        ({"kind": "allowed_values", "value": ["ghp_" + "a1B2" * 9]}, "/value", "literal_secret"),
        ({"reason": "a\nb"}, "/reason", "control_character"),
    ],
)
def test_policy__bad_input__named_and_not_stored(tree: Tree, fields: dict[str, Any], pointer: str, code: str) -> None:
    given_fields = {"pointer": "/a", "kind": "locked"} | fields
    with pytest.raises(InvalidInput) as caught:
        policy_create(actor=tree.system, node=tree.root, **given_fields)
    assert [(error.pointer, error.code) for error in caught.value.errors] == [(pointer, code)]
    assert not ConfigPolicy.objects.exists()


@pytest.mark.django_db
def test_policy__twice__conflict(tree: Tree) -> None:
    policy(tree.root, "/a")
    with pytest.raises(Conflict) as caught:
        policy(tree.root, "/a")
    assert caught.value.code == "policy_exists"
    assert ConfigPolicy.objects.count() == 1


@pytest.mark.django_db
def test_policy_delete__of_another_node__not_found(tree: Tree) -> None:
    row = policy(tree.root, "/a")
    with pytest.raises(NotFound):
        policy_delete(actor=tree.system, node=tree.engineering, policy_id=row.pk)
    assert ConfigPolicy.objects.filter(pk=row.pk).exists()


# ---- REST ----


def path(node: Node, below: str = "policies") -> str:
    return f"/api/v1/orgs/{node.organization.slug}/nodes/{node.slug}/{below}"


@pytest.mark.django_db
def test_api__set_list_meet_and_remove(tree: Tree) -> None:
    client = api_client(token=make_admin_token(tree.root))
    put(tree.root, {"runtime": {"timeout": 300}})
    created = client.post(path(tree.root), {"pointer": TIMEOUT, "kind": "locked", "reason": "cost"})
    assert created.status_code == 201
    body = created.json()
    assert created.headers["Location"] == f"{path(tree.root)}/{body['id']}"
    assert (body["node"], body["pointer"], body["kind"], body["value"], body["reason"], body["overrides"]) == (
        "demo", TIMEOUT, "locked", None, "cost", {"count": 0, "slugs": []},
    )  # fmt: skip
    listed = client.get(path(tree.root)).json()["results"]
    assert [one["id"] for one in listed] == [body["id"]]
    assert client.get(path(tree.payments)).json()["results"] == []
    assert [one["node"] for one in client.get(f"{path(tree.payments)}?inherited=true").json()["results"]] == ["demo"]

    refused = client.patch(path(tree.payments, "config"), {"runtime": {"timeout": 900}})
    assert (refused.status_code, refused.json()["code"]) == (403, "policy_locked")
    assert refused.json()["locked"] == [{"pointer": TIMEOUT, "level": "demo", "value": 300}]

    assert client.delete(f"{path(tree.root)}/{body['id']}").status_code == 204
    assert client.delete(f"{path(tree.root)}/{body['id']}").status_code == 404
    assert client.patch(path(tree.payments, "config"), {"runtime": {"timeout": 900}}).status_code == 200


#: Caller → statuses of reading and setting policies of its own team, and of a sibling.
CALLERS: dict[str, tuple[Callable[[Tree], Any], tuple[int, int, int, int]]] = {
    "nobody": (lambda tree: {"user": make_user(tree.root, None)}, (404, 404, 404, 404)),
    "viewer": (lambda tree: {"user": make_user(tree.payments, Role.VIEWER)}, (200, 403, 404, 404)),
    "reviewer": (lambda tree: {"user": make_user(tree.payments, Role.REVIEWER)}, (200, 403, 404, 404)),
    "admin": (lambda tree: {"user": make_user(tree.payments, Role.ADMIN)}, (200, 201, 404, 404)),
    "owner": (lambda tree: {"user": make_user(tree.root, Role.OWNER)}, (200, 201, 200, 201)),
    "team token": (lambda tree: {"token": make_team_token(tree.payments)}, (200, 403, 404, 404)),
    "team token that writes": (
        lambda tree: {"token": make_team_token(tree.payments, ["config:write"])},
        (200, 403, 404, 404),
    ),
    "admin token": (lambda tree: {"token": make_admin_token(tree.payments)}, (200, 201, 404, 404)),
    "reading token of an admin": (
        lambda tree: {
            "token": make_personal_token(make_user(tree.payments, Role.ADMIN), tree.payments, ["config:read"])
        },
        (200, 403, 404, 404),
    ),
}


@pytest.mark.django_db
@pytest.mark.parametrize("caller", CALLERS)
def test_api__by_each_caller__own_team_sibling_and_foreign(tree: Tree, other_tree: Tree, caller: str) -> None:
    make, (read, write, sibling_read, sibling_write) = CALLERS[caller]
    client = api_client(**make(tree))
    rows = {node.pk: policy(node, "/kept") for node in (tree.payments, tree.platform, other_tree.payments)}
    body = {"pointer": "/a", "kind": "locked"}
    for node, expected_read, expected_write in (
        (tree.payments, read, write),
        (tree.platform, sibling_read, sibling_write),
        (other_tree.payments, 404, 404),
    ):
        assert client.get(path(node)).status_code == expected_read
        assert client.get(path(node, "config/missing")).status_code == expected_read
        assert client.post(path(node), body).status_code == expected_write
        assert ConfigPolicy.objects.filter(node=node, pointer="/a").exists() == (expected_write == 201)
        deleted = client.delete(f"{path(node)}/{rows[node.pk].pk}").status_code
        assert deleted == (204 if expected_write == 201 else expected_write)
        assert ConfigPolicy.objects.filter(pk=rows[node.pk].pk).exists() == (expected_write != 201)


@pytest.mark.django_db
def test_api__without_credential__401(tree: Tree) -> None:
    assert api_client().get(path(tree.root)).status_code == 401
    assert api_client().post(path(tree.root), {"pointer": "/a", "kind": "locked"}).status_code == 401
    assert not ConfigPolicy.objects.exists()


@pytest.mark.django_db
def test_api__list__same_queries_for_any_number(tree: Tree, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    client = api_client(token=make_admin_token(tree.root))
    for index in range(10):
        policy(tree.root, f"/a{index}")
    client.get(path(tree.root))
    with django_assert_num_queries(4):  # the token, the node, its lineage, the page
        assert len(client.get(path(tree.root)).json()["results"]) == 10


# ---- required ----


@pytest.mark.django_db
def test_missing__teams_below__required_places_without_value(tree: Tree) -> None:
    policy(tree.root, "/team_context/owner", "required")
    policy(tree.engineering, "/agents/*/model", "required")
    put(tree.engineering, {"agents": {"k8s": {"prompt": "p"}, "db": {"model": "m"}}})
    put(tree.payments, {"team_context": {"owner": "ada"}, "agents": {"k8s": {"model": None}}})
    client = api_client(token=make_admin_token(tree.root))
    answer = client.get(path(tree.root, "config/missing")).json()
    k8s = {"pointer": "/agents/k8s/model", "level": "engineering"}
    assert answer == {
        "results": [
            {"node": "payments", "missing": [k8s]},
            {"node": "platform", "missing": [{"pointer": "/team_context/owner", "level": "demo"}, k8s]},
        ],
        "next": None,
    }
    assert patch(tree.platform, {"a": 1}).changed  # reported, never in the way


@pytest.mark.django_db
def test_missing__many_teams__a_fixed_number_of_queries(
    tree: Tree, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    policy(tree.root, "/x", "required")
    teams = [make_node(tree.engineering, f"team-{index}") for index in range(8)]
    with django_assert_num_queries(3):
        found = missing_in(teams)
    assert [len(one.missing) for one in found] == [1] * 8


@pytest.mark.django_db
def test_write__under_policies__a_fixed_number_of_queries_more(
    tree: Tree, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    put(tree.root, {"a": 1})
    for index in range(20):
        policy(tree.root, f"/locked/{index}")
    with django_assert_num_queries(3):  # the chain with its documents, policies above, policies below
        judge(node=tree.payments, before={}, after={"b": 1})

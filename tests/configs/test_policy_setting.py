"""Setting policies: what is stored, over REST and by whom; required values that are missing."""

from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from controlplane.audit.models import AuditEvent
from controlplane.configs.judging import judge
from controlplane.configs.models import ConfigPolicy
from controlplane.configs.policy_services import missing_in, policy_create, policy_delete
from controlplane.core.actor import Role
from controlplane.core.errors import Conflict, InvalidInput, NotFound
from controlplane.orgs.models import Node
from tests.configs.support import patch, policy, put
from tests.configs.support import untouched_refusal as refusal
from tests.factories import (
    Tree,
    api_client,
    make_admin_token,
    make_node,
    make_personal_token,
    make_team_token,
    make_user,
)


def path(node: Node, below: str = "policies") -> str:
    return f"/api/v1/orgs/{node.organization.slug}/nodes/{node.slug}/{below}"


TIMEOUT = "/runtime/timeout"


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
        ({"pointer": "/a/password", "kind": "allowed_values", "value": ["Hq7x1Zp9"]}, "/value", "literal_secret"),
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
@pytest.mark.parametrize("key", ['"', 'a"b', "\\", "0", "a.b", "é", "$", "[0]"])
def test_policy__on_a_key_of_odd_characters__tells_who_holds_a_value_there(tree: Tree, key: str) -> None:
    put(tree.payments, {key: 1})
    _, overrides = policy_create(actor=tree.system, node=tree.root, pointer=f"/{key}", kind="locked")
    assert overrides.slugs == ("payments",)
    refusal(lambda: put(tree.payments, {key: 2}))


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

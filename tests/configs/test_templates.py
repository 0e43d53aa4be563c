"""Templates: previewed, applied as a patch, checked like any other write."""

from typing import Any

import pytest

from controlplane.audit.models import AuditEvent
from controlplane.configs.catalogue.services import template_apply
from controlplane.configs.catalogue.templates import TEMPLATES
from controlplane.configs.models import ConfigVersion
from controlplane.core.actor import Role
from controlplane.core.errors import InvalidInput
from tests.configs.support import put, stored, versions
from tests.factories import Tree, api_client, make_admin_token, make_team_token, make_user

pytestmark = pytest.mark.django_db
PATH = "/api/v1/orgs/demo/nodes/payments/config/apply-template"
KUBERNETES = {"url": "https://kubernetes.example.com:6443", "token": "${OPENSRE_CRED_KUBERNETES}"}


def examples(name: str) -> dict[str, Any]:
    return {one.name: one.example for one in TEMPLATES[name].fields if one.example is not None}


@pytest.mark.parametrize("name", TEMPLATES)
def test_template__each_with_its_examples__applies_and_changes_nothing_again(tree: Tree, name: str) -> None:
    result = template_apply(actor=tree.system, node=tree.payments, template=name, values=examples(name))
    assert result.changed
    known = {"credential_not_granted"}  # nobody granted the names of the examples
    assert {warning.code for warning in result.warnings} <= known
    again = template_apply(actor=tree.system, node=tree.payments, template=name, values=examples(name))
    assert not again.changed


def test_template__values_and_defaults__in_their_places_and_the_rest_kept(tree: Tree) -> None:
    put(tree.payments, {"agents": {"mine": {"enabled": False}}, "limits": {"max_turns": 3}})
    template_apply(actor=tree.system, node=tree.payments, template="kubernetes", values={**KUBERNETES, "model": "opus"})
    document = stored(tree.payments)
    assert document["entrance_agent"] == "investigator"
    assert document["agents"].keys() == {"mine", "investigator", "kubernetes"}
    assert document["agents"]["investigator"]["sub_agents"] == {"kubernetes": True}
    assert (document["agents"]["kubernetes"]["model"], document["agents"]["investigator"]["max_turns"]) == (
        {"name": "opus"}, 50,
    )  # fmt: skip
    assert document["integrations"] == {
        "kubernetes": {
            "kind": "kubernetes",
            "enabled": True,
            "url": KUBERNETES["url"],
            "auth": {"type": "bearer", "token": KUBERNETES["token"]},
        }
    }
    assert document["limits"] == {"max_turns": 3}
    assert ConfigVersion.objects.get(node=tree.payments, version=2).reason == "Template kubernetes"
    assert AuditEvent.objects.filter(action="config.patch", node_id=tree.payments.pk).count() == 1


@pytest.mark.parametrize("name", TEMPLATES)
def test_template__applied_twice_with_other_values__never_shares_its_data(tree: Tree, name: str) -> None:
    before = TEMPLATES[name].as_dict()
    template_apply(actor=tree.system, node=tree.payments, template=name, values=examples(name))
    assert TEMPLATES[name].as_dict() == before


@pytest.mark.parametrize(
    ("template", "values", "pointer", "code"),
    [
        ("kubernets", {}, "/template", "unknown_template"),
        ("investigator", {"modell": "x"}, "/values/modell", "unknown_value"),
        ("investigator", {"model": 1}, "/values/model", "type"),
        ("investigator", {"model": " "}, "/values/model", "blank"),
        ("investigator", {"max_turns": True}, "/values/max_turns", "type"),
        ("investigator", {"max_turns": "5"}, "/values/max_turns", "type"),
        ("kubernetes", {"url": "https://k.example.com"}, "/values/token", "required"),
        ("kubernetes", {**KUBERNETES, "token": "plain-text"}, "/values/token", "reference_required"),
        ("team_context", {"context": "x" * 20_001}, "/values/context", "too_long"),
    ],
)
def test_template__bad_name_or_value__refused_at_its_pointer(
    tree: Tree, template: str, values: dict[str, Any], pointer: str, code: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        template_apply(actor=tree.system, node=tree.payments, template=template, values=values)
    assert [(one.pointer, one.code) for one in caught.value.errors] == [(pointer, code)]
    assert "plain-text" not in f"{caught.value.as_problem()}"
    assert versions(tree.payments) == []


def test_template__misspelt__suggests_the_one_that_is_meant(tree: Tree) -> None:
    with pytest.raises(InvalidInput, match="Did you mean 'kubernetes'"):
        template_apply(actor=tree.system, node=tree.payments, template="kubernets")


def test_api__dry_run__previews_and_writes_nothing(tree: Tree) -> None:
    client = api_client(token=make_admin_token(tree.root))
    for body, query in (({"dry_run": True}, ""), ({}, "?dry_run=true")):
        answer = client.post(f"{PATH}{query}", {"template": "builtin", **body}, format="json")
        found = answer.json()
        assert (answer.status_code, found["dry_run"], found["changed"]) == (200, True, True)
        assert {"pointer": "/runtime/kind", "after": "builtin"} in found["diff"]
        assert found["affected"] == {"count": 0, "slugs": []}
    assert versions(tree.payments) == []


def test_api__apply__writes_once_under_the_preconditions_of_any_write(tree: Tree) -> None:
    client = api_client(token=make_admin_token(tree.root))
    body = {"template": "builtin", "values": {"wall_clock_s": 120}}
    answer = client.post(PATH, body, format="json", headers={"If-Match": '"0"'})
    assert (answer.status_code, answer["ETag"]) == (200, '"1"')
    assert stored(tree.payments)["limits"] == {"wall_clock_s": 120, "concurrent_runs": 5}
    answer = client.post(PATH, {"template": "investigator"}, format="json", headers={"If-Match": '"0"'})
    assert answer.status_code == 412
    answer = client.post(PATH, {**body, "values": {"wall_clock_s": -1}}, format="json")
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/limits/wall_clock_s")
    for bad in ({}, {"template": 1}, {"template": "builtin", "values": []}, {"template": "builtin", "x": 1}):
        assert client.post(PATH, bad, format="json").status_code == 422
    assert versions(tree.payments) == [1]


def test_api__callers__as_any_write(tree: Tree, other_tree: Tree) -> None:
    body = {"template": "builtin", "dry_run": True}
    for client, status in (
        (api_client(), 401),
        (api_client(user=make_user(tree.payments, Role.RESPONDER)), 403),
        (api_client(token=make_team_token(tree.payments)), 403),
        (api_client(user=make_user(tree.platform, Role.ADMIN)), 404),
        (api_client(token=make_admin_token(other_tree.root)), 404),
        (api_client(user=make_user(tree.payments, Role.ADMIN)), 200),
    ):
        assert client.post(PATH, body, format="json").status_code == status


def test_api__catalogue_of_templates__says_what_each_takes(tree: Tree) -> None:
    found = api_client(token=make_team_token(tree.payments)).get("/api/v1/catalogue/templates").json()["results"]
    assert [one["name"] for one in found] == list(TEMPLATES)
    kubernetes = next(one for one in found if one["name"] == "kubernetes")
    assert kubernetes["patch"]["integrations"]["kubernetes"]["auth"]["token"] == "<token>"
    assert [one["name"] for one in kubernetes["fields"] if one["required"]] == ["url", "token"]

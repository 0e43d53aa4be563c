"""Policies and credentials of a node on pages, and the badges they put on the effective configuration."""

import html
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from controlplane.access.models import CredentialGrant
from controlplane.configs.models import ConfigPolicy
from controlplane.configs.policy_services import policy_create
from controlplane.configs.services import config_patch
from tests.factories import Tree, entrust, make_grant
from tests.web.support import Person

POLICIES = "/app/config/engineering/policies"
CREDENTIALS = "/app/config/payments/credentials"
NAME = "OPENSRE_CRED_PROM"


def page_of(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def leaf(answer: Any, pointer: str) -> Any:
    return next(leaf for _, section in answer.context["sections"] for leaf in section if leaf.pointer == pointer)


@pytest.fixture
def ruled(tree: Tree) -> Tree:
    """Rules at the root, and a value of the team."""
    for pointer, kind, value in (
        ("/limits/wall_clock_s", "locked", None),
        ("/limits/max_turns", "maximum", 100),
        ("/integrations/*/auth/token", "secret", None),
        ("/team_context", "required", None),
    ):
        policy_create(actor=tree.system, node=tree.root, pointer=pointer, kind=kind, value=value, reason="Because")
    config_patch(actor=tree.system, node=tree.root, patch={"limits": {"wall_clock_s": 900}})
    return tree


@pytest.fixture
def referring(tree: Tree, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """An integration whose token is a reference that has a value."""
    monkeypatch.setenv(NAME, "hunter2-value")
    integration = {"kind": "prometheus", "url": "http://prom:9090", "auth": {"type": "bearer", "token": f"${{{NAME}}}"}}
    config_patch(actor=tree.system, node=tree.payments, patch={"integrations": {"prom": integration}})
    return tree


def test_effective__leaf__has_a_badge_for_each_rule_from_above(ruled: Tree, responder: Person) -> None:
    config_patch(actor=ruled.system, node=ruled.payments, patch={"limits": {"max_turns": 20}})
    answer = responder.client.get("/app/config/payments")
    badges = {pointer: [badge.words for badge in leaf(answer, pointer).badges] for pointer in (
        "/limits/wall_clock_s", "/limits/max_turns")}  # fmt: skip
    assert badges == {"/limits/wall_clock_s": ["Locked"], "/limits/max_turns": ["At most 100"]}
    assert "Set by demo. Nobody below changes this value." in page_of(answer)
    assert "1 required value missing" in page_of(answer)


def test_effective__who_may_write__gets_a_way_to_change_each_leaf_but_the_locked(ruled: Tree, admin: Person) -> None:
    config_patch(actor=ruled.system, node=ruled.payments, patch={"limits": {"max_turns": 20}})
    page = page_of(admin.client.get("/app/config/payments"))
    assert "/app/config/payments/edit?pointer=%2Flimits%2Fmax_turns#one" in page
    assert "pointer=%2Flimits%2Fwall_clock_s#one" not in page


def test_effective__own_rules_of_a_node__do_not_bind_it(ruled: Tree, owner: Person) -> None:
    assert leaf(owner.client.get("/app/config/demo"), "/limits/wall_clock_s").badges == ()


@pytest.mark.parametrize(
    ("granted", "has_value", "state"),
    [(True, True, "set"), (True, False, "unset"), (False, True, "not_granted")],
)
def test_effective__reference__shows_its_state_and_never_the_value(
    referring: Tree,
    responder: Person,
    monkeypatch: pytest.MonkeyPatch,
    granted: bool,
    has_value: bool,
    state: str,
) -> None:
    if granted:
        make_grant(referring.payments, NAME)
    if not has_value:
        monkeypatch.delenv(NAME)
    for path in ("/app/config/payments", CREDENTIALS):
        page = page_of(responder.client.get(path))
        assert "hunter2" not in page
    (credential,) = leaf(responder.client.get("/app/config/payments"), "/integrations/prom/auth/token").credentials
    assert (credential.name, credential.state) == (NAME, state)
    listed: Any = responder.client.get(CREDENTIALS)
    assert [(pointer, one.state) for pointer, one, _ in listed.context["references"]] == [
        ("/integrations/prom/auth/token", state)
    ]


def test_policies__own_and_inherited__say_where_they_come_from(ruled: Tree, responder: Person, owner: Person) -> None:
    below: Any = responder.client.get(POLICIES)
    assert len(below.context["inherited"]) == 4
    assert below.context["own"] == []
    assert "Because" in page_of(below)
    own: Any = owner.client.get("/app/config/demo/policies")
    assert (len(own.context["own"]), own.context["inherited"]) == (4, [])
    assert [team.slug for team, _ in own.context["missing"]] == ["payments", "platform"]


def test_policies__add_and_remove__by_an_admin(tree: Tree, owner: Person) -> None:
    config_patch(actor=tree.system, node=tree.payments, patch={"limits": {"max_turns": 900}})
    data = {"pointer": "/limits/max_turns", "kind": "maximum", "value": "100", "reason": "Cost"}
    assert owner.client.post(POLICIES, data)["Location"] == POLICIES
    policy = ConfigPolicy.objects.get()
    assert (policy.kind, policy.value, policy.reason, policy.created_by) == (
        "maximum",
        100,
        "Cost",
        owner.actor.principal,
    )
    assert "set there already stay: payments" in page_of(owner.client.get(POLICIES))
    owner.client.post(f"{POLICIES}/{policy.pk}/remove")
    assert not ConfigPolicy.objects.exists()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"pointer": "limits"}, "pointer"),
        ({"pointer": ""}, "pointer"),
        ({"kind": "sacred"}, "kind"),
        ({"value": "many"}, "value"),
        ({"value": ""}, "value"),
        ({"reason": "x" * 501}, "reason"),
    ],
)
def test_policies__typed_wrongly__error_at_the_field_and_the_typing_kept(
    tree: Tree, owner: Person, change: dict[str, str], field: str
) -> None:
    data = {"pointer": "/limits/max_turns", "kind": "maximum", "value": "100", "reason": ""} | change
    answer: Any = owner.client.post(POLICIES, data)
    assert (answer.status_code, list(answer.context["errors"])) == (422, [field])
    assert f'id="p-{field}-error"' in page_of(answer)
    assert answer.context["typed"] == data
    assert not ConfigPolicy.objects.exists()


def test_policies__the_same_again__says_so(ruled: Tree, owner: Person) -> None:
    data = {"pointer": "/limits/wall_clock_s", "kind": "locked"}
    answer = owner.client.post("/app/config/demo/policies", data)
    assert answer.status_code == 409
    assert "has a policy of this kind" in page_of(answer)


def test_policies__others__may_not(ruled: Tree, responder: Person, admin: Person, outsider: Person) -> None:
    data = {"pointer": "/a", "kind": "locked"}
    policy = ConfigPolicy.objects.first()
    assert policy is not None
    assert responder.client.post(POLICIES, data).status_code == 403
    assert admin.client.post(POLICIES, data).status_code == 404  # an admin of the team below
    for person in (responder, admin, outsider):
        assert person.client.post(f"/app/config/demo/policies/{policy.pk}/remove").status_code == 404
    assert outsider.client.post(f"{POLICIES}/{policy.pk}/remove").status_code == 404  # its own node of the same slug
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin.user)
    assert strict.post("/app/config/payments/policies", data).status_code == 403
    assert ConfigPolicy.objects.count() == 4


def test_credentials__grant_and_revoke__by_who_holds_the_name(referring: Tree, owner: Person) -> None:
    entrust(referring.root, NAME, ["*"], inherited=False)
    data = {"name": NAME, "hosts": "prom.internal, *.example.com", "inherited": "1"}
    owner.client.post(CREDENTIALS, data)
    grant = CredentialGrant.objects.get(node=referring.payments)
    assert (grant.hosts, grant.inherited) == (["*.example.com", "prom.internal"], True)
    page = page_of(owner.client.get(CREDENTIALS))
    assert "may be sent to *.example.com, prom.internal" in page
    assert f"{CREDENTIALS}/{grant.pk}/revoke" in page
    owner.client.post(f"{CREDENTIALS}/{grant.pk}/revoke")
    grant.refresh_from_db()
    assert grant.revoked_at is not None
    assert "is taken back" in page_of(owner.client.get(CREDENTIALS))


@pytest.mark.parametrize(
    ("name", "hosts", "status", "field"),
    [
        ("1x", "", 422, "name"),
        ("", "", 422, "name"),
        ("OPENSRE_CRED_OTHER", "", 403, "name"),
        (NAME, "http://x/", 422, "hosts"),
        (NAME, "evil.example", 403, "hosts"),
    ],
)
def test_credentials__refused__error_at_the_field_and_the_typing_kept(
    referring: Tree, owner: Person, name: str, hosts: str, status: int, field: str
) -> None:
    entrust(referring.root, NAME, ["prom.internal"], inherited=False)
    answer: Any = owner.client.post(CREDENTIALS, {"name": name, "hosts": hosts})
    assert (answer.status_code, list(answer.context["errors"])) == (status, [field])
    assert f'id="g-{field}-error"' in page_of(answer)
    assert (answer.context["typed"]["name"], answer.context["typed"]["hosts"]) == (name, hosts)
    assert not CredentialGrant.objects.filter(node=referring.payments).exists()


def test_credentials__operators_grant__is_shown_and_not_for_the_owner_to_take(referring: Tree, owner: Person) -> None:
    grant = entrust(referring.root, NAME)
    page = page_of(owner.client.get("/app/config/demo/credentials"))
    assert "operator to the organization" in page
    assert "/revoke" not in page
    assert owner.client.post(f"/app/config/demo/credentials/{grant.pk}/revoke").status_code == 403
    grant.refresh_from_db()
    assert grant.revoked_at is None


def test_credentials__others__may_not(referring: Tree, responder: Person, outsider: Person) -> None:
    grant = make_grant(referring.payments, NAME)
    assert responder.client.post(CREDENTIALS, {"name": NAME}).status_code == 403
    assert responder.client.post(f"{CREDENTIALS}/{grant.pk}/revoke").status_code == 403
    assert outsider.client.post(f"{CREDENTIALS}/{grant.pk}/revoke").status_code == 404
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(responder.user)
    assert strict.post(f"{CREDENTIALS}/{grant.pk}/revoke").status_code == 403
    grant.refresh_from_db()
    assert (grant.revoked_at, CredentialGrant.objects.filter(node=referring.payments).count()) == (None, 1)

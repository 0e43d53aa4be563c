"""Setting the provider over REST and on its page: who may, what is refused, what is shown, and what a test tells."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.access.entra.mappings import MAX_MAPPINGS
from controlplane.access.models import IdentityProvider, Membership, RoleMapping
from controlplane.audit.models import AuditEvent
from controlplane.core.actor import Role
from tests.access.entra.support import SECRET_NAME, Visit, map_to, roles_of, set_up
from tests.factories import Tree, api_client, entrust, make_admin_token, make_personal_token, make_user
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, OTHER_TENANT, TENANT, Account, Provider
from tests.web.support import Person

URL = "/api/v1/orgs/demo/identity-provider"
ENTRA: dict[str, Any] = {
    "kind": "entra",
    "tenant": str(TENANT),
    "client_id": CLIENT_ID,
    "client_secret": f"${{{SECRET_NAME}}}",
}
OIDC: dict[str, Any] = ENTRA | {"kind": "oidc", "authority": "https://id.example.com"}
del OIDC["tenant"]


@pytest.fixture
def owner(tree: Tree) -> APIClient:
    return api_client(user=make_user(tree.root, Role.OWNER))


def test_put__good__is_shown_by_get_without_the_value(
    tree: Tree, owner: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET_NAME, CLIENT_SECRET)
    body = ENTRA | {"email_domains": ["@Example.com"], "allowed_tenants": [str(OTHER_TENANT).upper(), str(TENANT)]}
    answer = owner.put(URL, body)
    assert answer.status_code == 200
    shown = owner.get(URL).json()
    assert shown == answer.json()
    assert shown == {
        "kind": "entra",
        "name": "Microsoft",
        "enabled": True,
        "cloud": "global",
        "tenant": str(TENANT),
        "allowed_tenants": [str(OTHER_TENANT)],
        "authority": "",
        "client_id": CLIENT_ID,
        "client_secret": f"${{{SECRET_NAME}}}",
        "client_certificate": "",
        "email_domains": ["example.com"],
        "guests": "deny",
        "password_sign_in": True,
        "has_client_secret": False,
        "credential_state": "not_granted",
    }
    entrust(tree.root, SECRET_NAME, ["login.microsoftonline.com"])
    known = owner.get(URL)
    assert known.json()["has_client_secret"] is True
    assert CLIENT_SECRET not in known.content.decode()
    event = AuditEvent.objects.get(action="identity_provider.set")
    assert (event.before, event.after["tenant"]) == (None, str(TENANT))
    assert owner.put(URL, body).status_code == 200
    assert AuditEvent.objects.filter(action="identity_provider.set").count() == 1


@pytest.mark.parametrize(
    ("change", "pointer", "code"),
    [
        ({"kind": "saml"}, "/kind", "unknown_kind"),
        ({"tenant": "example.com"}, "/tenant", "not_a_guid"),
        ({"tenant": ""}, "/tenant", "not_a_guid"),
        ({"tenant": "9188040d-6c67-4c5b-b112-36a304b66dad"}, "/tenant", "personal_accounts"),
        ({"allowed_tenants": ["common"]}, "/allowed_tenants/0", "not_a_guid"),
        ({"cloud": "moon"}, "/cloud", "unknown_cloud"),
        ({"authority": "https://id.example.com"}, "/authority", "not_for_this_kind"),
        ({"client_secret": "hunter2-in-clear-text"}, "/client_secret", "literal_secret"),
        ({"client_secret": "${A:-hunter2}"}, "/client_secret", "literal_secret"),
        ({"client_secret": "x${A}"}, "/client_secret", "literal_secret"),
        ({"client_secret": ""}, "/client_secret", "one_credential"),
        ({"client_certificate": "${B}"}, "/client_secret", "one_credential"),
        ({"email_domains": ["exa mple"]}, "/email_domains/0", "domain"),
        ({"guests": "admin"}, "/guests", "unknown_guests"),
        ({"client_id": "a\nb"}, "/client_id", "control_character"),
        ({"enabled": "yes"}, "/enabled", "invalid"),
        ({"secret": "x"}, "/secret", "unknown_member"),
    ],
)
def test_put_entra__broken_rule__422_names_the_field_and_quotes_nothing(
    owner: APIClient, change: dict[str, Any], pointer: str, code: str
) -> None:
    answer = owner.put(URL, ENTRA | change)
    assert answer.status_code == 422
    assert [(one["pointer"], one["code"]) for one in answer.json()["errors"]] == [(pointer, code)]
    assert "hunter2" not in answer.content.decode()
    assert not IdentityProvider.objects.exists()


@pytest.mark.parametrize(
    ("authority", "code"),
    [
        ("http://id.example.com", "authority"),
        ("https://user:pw@id.example.com", "authority"),
        ("https://id.example.com?x=1", "authority"),
        ("https://[", "authority"),
        ("", "blank"),
        ("https://login.microsoftonline.com/common/v2.0", "use_entra"),
    ],
)
def test_put_oidc__bad_authority__422(owner: APIClient, authority: str, code: str) -> None:
    answer = owner.put(URL, OIDC | {"authority": authority})
    assert [(one["pointer"], one["code"]) for one in answer.json()["errors"]] == [("/authority", code)]


def test_provider__who_may__owners_as_people_write_and_admins_of_the_root_read(tree: Tree, owner: APIClient) -> None:
    owner.put(URL, OIDC)
    root_owner = make_user(tree.root, Role.OWNER)
    callers = {
        "admin": api_client(user=make_user(tree.root, Role.ADMIN)),
        "admin token": api_client(token=make_admin_token(tree.root)),
        "team admin": api_client(user=make_user(tree.payments, Role.ADMIN)),
        "viewer": api_client(user=make_user(tree.root, Role.VIEWER)),
        "owner's token": api_client(token=make_personal_token(root_owner, tree.root, ["admin:*"])),
        "owner's token of other scope": api_client(token=make_personal_token(root_owner, tree.root, ["config:read"])),
    }
    found = {
        name: (client.get(URL).status_code, client.put(URL, OIDC).status_code, client.post(f"{URL}/test").status_code)
        for name, client in callers.items()
    }
    assert found == {
        "admin": (200, 403, 403),
        "admin token": (200, 403, 403),
        "team admin": (403, 403, 403),
        "viewer": (403, 403, 403),
        "owner's token": (200, 200, 200),
        "owner's token of other scope": (403, 403, 403),
    }


def test_mappings__set_list_remove__with_audit_rows(tree: Tree, owner: APIClient) -> None:
    owner.put(URL, ENTRA)
    body = {"kind": "group", "value": str(TENANT).upper(), "node": "payments", "role": "admin"}
    made = owner.post(f"{URL}/mappings", body)
    assert made.status_code == 201
    assert owner.post(f"{URL}/mappings", body).json() == made.json()
    assert owner.get(f"{URL}/mappings").json()["results"] == [made.json()]
    assert made.json()["value"] == str(TENANT)
    assert owner.delete(f"{URL}/mappings/{made.json()['id']}").status_code == 204
    assert owner.delete(f"{URL}/mappings/{made.json()['id']}").status_code == 404
    actions = AuditEvent.objects.filter(object_kind="role_mapping").order_by("org_seq").values_list("action", flat=True)
    assert list(actions) == ["role_mapping.set", "role_mapping.remove"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"value": "SRE team"}, "not_a_guid"),
        ({"kind": "user"}, "unknown_kind"),
        ({"role": "god"}, "unknown_role"),
        ({"node": "ghost"}, "unknown_node"),
        ({"node": "payments", "role": "owner"}, "owner_root_only"),
    ],
)
def test_mappings__broken_rule__422(owner: APIClient, change: dict[str, str], code: str) -> None:
    owner.put(URL, ENTRA)
    body = {"kind": "group", "value": str(TENANT), "node": "payments", "role": "admin"} | change
    answer = owner.post(f"{URL}/mappings", body)
    assert (answer.status_code, answer.json()["code"]) == (422, code)


def test_mappings__more_than_are_kept__409(tree: Tree, owner: APIClient) -> None:
    owner.put(URL, OIDC)
    provider = IdentityProvider.objects.get()
    RoleMapping.objects.bulk_create(
        RoleMapping(provider=provider, kind="group", value=f"g{number}", node=tree.root, role="viewer")
        for number in range(MAX_MAPPINGS)
    )
    body = {"kind": "group", "value": "one more", "node": "payments", "role": "viewer"}
    assert owner.post(f"{URL}/mappings", body).json()["code"] == "too_many_mappings"


def test_delete__roles_of_the_provider_end_and_one_owner_by_hand_stays(tree: Tree, peer: Provider) -> None:
    provider = set_up(tree, peer)
    map_to(provider, "role", "boss", tree.root, "owner")
    peer.add(Account("boss@example.com", roles=("boss",)))
    visit = Visit.to(peer, tree)
    visit.sign_in("boss@example.com")
    Membership.objects.filter(source="manual").delete()
    client = APIClient()
    client.cookies = visit.client.cookies
    refused = client.delete(URL)
    assert (refused.status_code, refused.json()["code"]) == (409, "last_owner")
    assert IdentityProvider.objects.exists()
    by_hand = api_client(user=make_user(tree.root, Role.OWNER))
    assert by_hand.delete(URL).status_code == 204
    assert roles_of(Membership.objects.get(node=tree.root).user) == {("demo", "owner", "manual")}
    event = AuditEvent.objects.get(action="identity_provider.remove")
    assert event.before["roles_ended"] == 1
    assert by_hand.get(URL).status_code == 404


def test_test__everything_right__each_step_is_ok(tree: Tree, peer: Provider, settings: Any) -> None:
    provider = set_up(tree, peer)
    map_to(provider, "group", str(TENANT), tree.payments, "admin")
    settings.PUBLIC_URL = "https://opensre.example.com"
    answer = api_client(user=make_user(tree.root, Role.OWNER)).post(f"{URL}/test").json()
    steps = ["Redirect URI", "Credential", "Discovery", "Signing keys", "Client", "Groups from Graph"]
    assert [(check["name"], check["state"]) for check in answer["checks"]] == [(name, "ok") for name in steps]
    assert answer["ok"] is True
    assert AuditEvent.objects.filter(action="identity_provider.test").count() == 1


@pytest.mark.parametrize(
    ("fault", "step", "words"),
    [
        ("secret", "Client", "invalid_client AADSTS7000215"),
        ("graph", "Groups from Graph", "GroupMember.Read.All"),
        ("unset", "Credential", "has no value"),
        ("issuer", "Discovery", "The issuer must be"),
        ("private", "Discovery", "OUTBOUND_PRIVATE_ALLOW"),
        ("address", "Redirect URI", "PUBLIC_URL"),
    ],
)
def test_test__one_thing_wrong__says_which(
    tree: Tree, peer: Provider, settings: Any, monkeypatch: pytest.MonkeyPatch, fault: str, step: str, words: str
) -> None:
    provider = set_up(tree, peer)
    map_to(provider, "group", str(TENANT), tree.payments, "admin")
    settings.PUBLIC_URL = "" if fault == "address" else "https://opensre.example.com"
    if fault == "secret":
        peer.clients[CLIENT_ID] = "another"
    elif fault == "graph":
        peer.graph_status = 403
    elif fault == "unset":
        monkeypatch.delenv(SECRET_NAME)
    elif fault == "issuer":
        peer.discovery = {"issuer": "https://evil.example"}
    elif fault == "private":
        settings.OUTBOUND_PRIVATE_ALLOW = []
    answer = api_client(user=make_user(tree.root, Role.OWNER)).post(f"{URL}/test")
    failed = {check["name"]: check["detail"] for check in answer.json()["checks"] if check["state"] == "failed"}
    assert list(failed) == [step]
    assert words in failed[step]
    assert CLIENT_SECRET not in answer.content.decode()


class TestPage:
    def test_page__owner__sets_tests_and_removes(self, tree: Tree, peer: Provider) -> None:
        entrust(tree.root, SECRET_NAME, ["localhost"])
        owner = Person.signed_in(make_user(tree.root, Role.OWNER)).client
        assert "Save" in owner.get("/app/sign-in").content.decode()
        form = ENTRA | {"cloud": "test", "guests": "deny", "enabled": "1", "password_sign_in": "1", "authority": "left"}
        assert owner.post("/app/sign-in", form | {"email_domains": "a.example\nb.example"}).status_code == 302
        provider = IdentityProvider.objects.get()
        assert provider.email_domains == ["a.example", "b.example"]
        mapping = {"kind": "role", "value": "sre", "node": "payments", "role": "responder"}
        assert owner.post("/app/sign-in/mappings", mapping).status_code == 302
        page = owner.post("/app/sign-in/test").content.decode()
        assert "Connection test" in page
        assert CLIENT_SECRET not in page
        assert "OPENSRE_CRED_SSO has a value; it is never shown." in page
        owner.post(f"/app/sign-in/mappings/{RoleMapping.objects.get().pk}/remove")
        assert not RoleMapping.objects.exists()
        owner.post("/app/sign-in/remove")
        assert not IdentityProvider.objects.exists()

    def test_page__bad_form__keeps_what_was_typed_and_marks_the_field(self, tree: Tree) -> None:
        owner = Person.signed_in(make_user(tree.root, Role.OWNER)).client
        answer = owner.post("/app/sign-in", ENTRA | {"tenant": "contoso", "guests": "deny", "cloud": "global"})
        page = answer.content.decode()
        assert answer.status_code == 422
        assert 'value="contoso"' in page
        assert "a GUID" in page

    def test_page__every_owner_is_one_by_the_provider__says_so(self, tree: Tree, peer: Provider) -> None:
        set_up(tree, peer)
        admin = Person.signed_in(make_user(tree.root, Role.ADMIN)).client
        words = "Every owner is one by this provider"
        assert words not in admin.get("/app/sign-in").content.decode()
        Membership.objects.filter(role="owner").update(source="sso")
        assert words in admin.get("/app/sign-in").content.decode()

    def test_page__admin_of_the_root__reads_and_team_admin_does_not(self, tree: Tree, peer: Provider) -> None:
        set_up(tree, peer)
        admin = Person.signed_in(make_user(tree.root, Role.ADMIN)).client
        page = admin.get("/app/sign-in").content.decode()
        assert "Owners change it." in page
        assert '<button class="button primary">Save' not in page
        assert admin.post("/app/sign-in", ENTRA).status_code == 403
        team = Person.signed_in(make_user(tree.payments, Role.ADMIN)).client
        assert team.get("/app/sign-in").status_code == 403
        assert "/app/sign-in" not in team.get("/app/tokens").content.decode()
        assert 'href="/app/sign-in"' in admin.get("/app/tokens").content.decode()

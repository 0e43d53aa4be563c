"""Signing in by a provider, from the button to the page: whom it lets in, as whom, with which roles."""

from datetime import timedelta
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
import time_machine
from django.test import Client
from pytest_django import Settings

from controlplane.access.entra.mappings import role_mapping_remove
from controlplane.access.entra.services import identity_provider_set
from controlplane.access.entra.sign_in import capped
from controlplane.access.models import BrowserSession, ExternalIdentity, IdentityProvider, Membership, User
from controlplane.access.revocations import rights_stamps
from controlplane.audit.models import AuditEvent
from controlplane.core import clock
from controlplane.core.actor import Role
from tests.access.entra.support import (
    SECRET_NAME,
    Visit,
    map_to,
    owner_of,
    person,
    reasons,
    roles_of,
    set_up,
)
from tests.factories import Tree, make_user
from tests.support.certificates import make_client_certificate
from tests.support.identity_provider import CLIENT_ID, OTHER_TENANT, TENANT, Account, Provider

ADMINS = "11111111-0000-4000-8000-0000000000aa"
TEAM = "22222222-0000-4000-8000-0000000000bb"
ADA = Account("ada@example.com", roles=("sre",), groups=(TEAM,))


@pytest.fixture
def provider(tree: Tree, peer: Provider) -> IdentityProvider:
    """Entra signs in to ``demo``: the role ``sre`` responds everywhere, the group ``TEAM`` administers payments."""
    made = set_up(tree, peer)
    map_to(made, "role", "sre", tree.root, "responder")
    map_to(made, "group", TEAM, tree.payments, "admin")
    peer.add(ADA)
    return made


def test_sign_in__first_time__makes_the_person_with_the_mapped_roles(
    tree: Tree, peer: Provider, provider: IdentityProvider
) -> None:
    visit = Visit.to(peer, tree)
    answer = visit.sign_in(ADA.username, "/app/runs?mine=1")
    assert (answer.status_code, answer["Location"]) == (302, "/app/runs?mine=1")
    assert answer["Referrer-Policy"] == "no-referrer"
    ada = person(ADA.username)
    assert visit.user_id == str(ada.pk)
    assert (ada.username, ada.name, ada.email) == (ADA.username, ADA.name, ADA.username)
    assert (ada.organization, ada.has_usable_password(), ada.is_staff) == (tree.organization, False, False)
    assert roles_of(ada) == {("demo", "responder", "sso"), ("payments", "admin", "sso")}
    assert "Ada Lovelace" in visit.client.get("/app/").content.decode()
    assert BrowserSession.objects.get(user=ada).method == "entra"
    actions = AuditEvent.objects.filter(object_id=str(ada.pk)).values_list("action", flat=True)
    assert list(actions) == ["user.create", "membership.grant", "membership.grant", "sign_in.roles"]


def test_sign_in__again_with_the_same_roles__is_the_same_person_and_writes_no_audit_row(
    tree: Tree, peer: Provider, provider: IdentityProvider
) -> None:
    Visit.to(peer, tree).sign_in(ADA.username)
    before = AuditEvent.objects.count()
    Visit.to(peer, tree).sign_in(ADA.username)
    assert User.objects.filter(username__startswith="ada").count() == ExternalIdentity.objects.count() == 1
    assert AuditEvent.objects.count() == before


def test_sign_in__authorization_request__is_bound_to_browser_and_code(
    tree: Tree, peer: Provider, provider: IdentityProvider
) -> None:
    parts = urlsplit(Visit.to(peer, tree).begin())
    query = parse_qs(parts.query)
    assert parts.path == f"/{TENANT}/oauth2/v2.0/authorize"
    assert query["code_challenge_method"] == ["S256"]
    assert query["redirect_uri"] == ["http://testserver/login/demo/callback"]
    assert query["response_mode"] == ["query"]
    assert set(query["scope"][0].split()) == {"openid", "profile", "email"}
    assert all(query[name][0] for name in ("state", "nonce", "code_challenge"))
    assert "client_secret" not in query


def test_sign_in__session__gets_a_new_key_and_keeps_nothing_from_before(
    tree: Tree, peer: Provider, provider: IdentityProvider
) -> None:
    visit = Visit.to(peer, tree)
    back = visit.approved(ADA.username)
    planted = visit.client.session
    planted["planted"] = "x"
    planted.save()
    visit.client.get(back)
    assert visit.client.session.session_key != planted.session_key
    assert "planted" not in visit.client.session
    assert "sso_flows" not in visit.client.session
    stolen = Client()
    stolen.cookies["opensre_session"] = planted.session_key or ""
    assert stolen.get("/app/").status_code == 302


def test_roles__group_and_role_taken_away__are_gone_at_the_next_sign_in_and_those_by_hand_stay(
    tree: Tree, peer: Provider, provider: IdentityProvider, django_capture_on_commit_callbacks: object
) -> None:
    Visit.to(peer, tree).sign_in(ADA.username)
    ada = person(ADA.username)
    Membership.objects.create(user=ada, node=tree.platform, role="viewer")
    Membership.objects.create(user=ada, node=tree.payments, role="admin")  # by hand what the group gives too
    stamp = rights_stamps([tree.organization.pk]).get(tree.organization.pk)
    peer.add(ADA.but(roles=(), groups=()))
    assert Visit.to(peer, tree).sign_in(ADA.username).status_code == 302
    assert roles_of(ada) == {("platform", "viewer", "manual"), ("payments", "admin", "manual")}
    revoked = AuditEvent.objects.filter(action="membership.revoke", object_id=str(ada.pk))
    assert {(event.before["node"], event.before["role"]) for event in revoked} == {
        ("demo", "responder"),
        ("payments", "admin"),
    }
    assert {event.actor for event in revoked} == {"system:sign-in"}
    assert rights_stamps([tree.organization.pk])[tree.organization.pk] != stamp


def test_roles__mapping_removed__role_ends_at_the_next_sign_in(
    tree: Tree, peer: Provider, provider: IdentityProvider
) -> None:
    Visit.to(peer, tree).sign_in(ADA.username)
    owner = owner_of(tree)
    role_mapping_remove(actor=owner, mapping=provider.mappings.get(kind="role"))
    Visit.to(peer, tree).sign_in(ADA.username)
    assert roles_of(person(ADA.username)) == {("payments", "admin", "sso")}


def test_roles__none_left__nobody_is_signed_in_and_the_old_ones_are_gone(
    tree: Tree, peer: Provider, provider: IdentityProvider
) -> None:
    Visit.to(peer, tree).sign_in(ADA.username)
    peer.add(ADA.but(roles=("other",), groups=()))
    visit = Visit.to(peer, tree)
    answer = visit.sign_in(ADA.username)
    assert answer.status_code == 403
    assert "No access yet" in answer.content.decode()
    assert visit.user_id is None
    assert roles_of(person(ADA.username)) == set()
    assert reasons() == ["no_role"]


def test_roles__nobody_mapped__no_account_is_made(tree: Tree, peer: Provider, provider: IdentityProvider) -> None:
    peer.add(Account("eve@example.com"))
    answer = Visit.to(peer, tree).sign_in("eve@example.com")
    assert answer.status_code == 403
    assert "none of your roles and groups there gives you a role here" in answer.content.decode()
    assert not User.objects.filter(username__startswith="eve").exists()
    assert not ExternalIdentity.objects.exists()


def test_person__same_oid_and_address_from_another_directory__is_somebody_else(tree: Tree, peer: Provider) -> None:
    provider = set_up(tree, peer, allowed_tenants=[str(OTHER_TENANT)])
    map_to(provider, "role", "sre", tree.root, "responder")
    peer.add(ADA)
    Visit.to(peer, tree).sign_in(ADA.username)
    peer.add(ADA.but(tid=OTHER_TENANT, name="Attacker"))
    visit = Visit.to(peer, tree)
    assert visit.sign_in(ADA.username).status_code == 302
    first, second = ExternalIdentity.objects.order_by("created_at")
    assert (first.oid, first.tid, second.tid) == (second.oid, TENANT, OTHER_TENANT)
    assert first.user != second.user
    assert visit.user_id == str(second.user.pk)
    assert second.user.username != first.user.username


def test_person__local_account_of_the_same_name_and_address__is_not_taken_over(
    tree: Tree, peer: Provider, provider: IdentityProvider
) -> None:
    local = make_user(tree.root, Role.OWNER, username=ADA.username)
    local.email = ADA.username
    local.save()
    visit = Visit.to(peer, tree)
    visit.sign_in(ADA.username)
    ada = person(ADA.username)
    assert visit.user_id == str(ada.pk) != str(local.pk)
    assert ada.username.startswith(f"{ADA.username}-")
    assert roles_of(local) == {("demo", "owner", "manual")}


def test_person__deactivated__is_refused_and_keeps_what_it_had(
    tree: Tree, peer: Provider, provider: IdentityProvider
) -> None:
    Visit.to(peer, tree).sign_in(ADA.username)
    ada = person(ADA.username)
    before = roles_of(ada)
    User.objects.filter(pk=ada.pk).update(is_active=False)
    peer.add(ADA.but(groups=()))
    visit = Visit.to(peer, tree)
    answer = visit.sign_in(ADA.username)
    assert (answer.status_code, visit.user_id) == (403, None)
    assert "did not let you in" in answer.content.decode()
    assert reasons() == ["deactivated"]
    assert roles_of(ada) == before


def test_person__renamed_at_the_provider__shows_the_new_name_and_stays_the_same(
    tree: Tree, peer: Provider, provider: IdentityProvider
) -> None:
    Visit.to(peer, tree).sign_in(ADA.username)
    ada = person(ADA.username)
    peer.add(ADA.but(username="ada.king@example.com", name="Ada\u202e King\n<b>"))
    Visit.to(peer, tree).sign_in("ada.king@example.com")
    ada.refresh_from_db()
    assert person("ada.king@example.com") == ada
    assert ada.name == "Ada\ufffd King <b>"
    assert ada.username == ADA.username


@pytest.mark.parametrize(
    ("role", "cap", "left"),
    [
        (Role.OWNER, Role.VIEWER, Role.VIEWER),
        (Role.ADMIN, Role.RESPONDER, Role.RESPONDER),
        (Role.REVIEWER, Role.RESPONDER, Role.VIEWER),
        (Role.VIEWER, Role.RESPONDER, Role.VIEWER),
    ],
)
def test_capped__any_role__is_what_both_include(role: Role, cap: Role, left: Role) -> None:
    assert capped(role, cap) is left


@pytest.mark.parametrize(
    "more",
    [{"acct": 1}, {"idp": f"https://sts.windows.net/{OTHER_TENANT}/"}, {"idp": "live.com"}],
)
def test_guest__by_policy__is_refused_or_gets_the_capped_role(
    tree: Tree, peer: Provider, provider: IdentityProvider, more: dict[str, object]
) -> None:
    peer.add(ADA.but(more=more))
    assert Visit.to(peer, tree).sign_in(ADA.username).status_code == 403
    assert reasons() == ["guest"]
    set_up(tree, peer, guests="viewer")
    assert Visit.to(peer, tree).sign_in(ADA.username).status_code == 302
    assert roles_of(person(ADA.username)) == {("demo", "viewer", "sso"), ("payments", "viewer", "sso")}


def test_guest__idp_of_the_own_directory__is_none(tree: Tree, peer: Provider, provider: IdentityProvider) -> None:
    peer.add(ADA.but(more={"acct": 0, "idp": f"https://sts.windows.net/{TENANT}/"}))
    assert Visit.to(peer, tree).sign_in(ADA.username).status_code == 302


def test_tenant__not_allowed__is_refused_by_us_even_if_the_provider_lets_it_pass(tree: Tree, peer: Provider) -> None:
    third = uuid4()
    provider = set_up(tree, peer, allowed_tenants=[str(OTHER_TENANT)])  # so that ``organizations`` is asked
    map_to(provider, "role", "sre", tree.root, "responder")
    peer.add(ADA.but(tid=third))
    assert "/organizations/" in Visit.to(peer, tree).begin()
    visit = Visit.to(peer, tree)
    assert visit.sign_in(ADA.username).status_code == 403
    assert (visit.user_id, reasons()) == (None, ["tenant"])


def test_domains__others__are_refused(tree: Tree, peer: Provider) -> None:
    provider = set_up(tree, peer, email_domains=["example.com"])
    map_to(provider, "role", "sre", tree.root, "responder")
    peer.add(ADA)
    peer.add(Account("mal@evil.example", roles=("sre",), more={"email": "mal@example.com"}))
    assert Visit.to(peer, tree).sign_in(ADA.username).status_code == 302
    assert Visit.to(peer, tree).sign_in("mal@evil.example").status_code == 403
    assert reasons() == ["email_domain"]


def test_provider__switched_off_or_removed_meanwhile__ends_the_sign_in(
    tree: Tree, peer: Provider, provider: IdentityProvider
) -> None:
    visit = Visit.to(peer, tree)
    back = visit.approved(ADA.username)
    IdentityProvider.objects.update(enabled=False)
    assert visit.client.get(back).status_code == 400
    assert Visit.to(peer, tree).client.get("/login/demo/begin").status_code == 404


def test_other_organization__its_provider__does_not_sign_in_to_this_one(
    tree: Tree, other_tree: Tree, peer: Provider, provider: IdentityProvider
) -> None:
    rival = set_up(other_tree, peer)
    map_to(rival, "role", "sre", other_tree.root, "responder")
    visit = Visit.to(peer, other_tree)
    back = visit.approved(ADA.username)
    assert visit.client.get(back.replace("/login/rival/", "/login/demo/")).status_code == 400
    assert visit.user_id is None
    assert Visit.to(peer, other_tree).sign_in(ADA.username).status_code == 302
    assert person(ADA.username).organization == other_tree.organization
    Visit.to(peer, tree).sign_in(ADA.username)
    assert {
        identity.user.organization.slug for identity in ExternalIdentity.objects.all() if identity.user.organization
    } == {
        "demo",
        "rival",
    }


def test_keys__rotated_at_the_provider__the_new_one_is_fetched(
    tree: Tree, peer: Provider, provider: IdentityProvider
) -> None:
    Visit.to(peer, tree).sign_in(ADA.username)
    peer.rotate_keys()
    with time_machine.travel(clock.now() + timedelta(seconds=10)):
        assert Visit.to(peer, tree).sign_in(ADA.username).status_code == 302
    assert reasons() == []


def test_documents__fetched_once__are_kept_for_a_while(tree: Tree, peer: Provider, provider: IdentityProvider) -> None:
    for _ in range(3):
        Visit.to(peer, tree).sign_in(ADA.username)
    wanted = [path for path in peer.asked if path.endswith(("openid-configuration", "keys"))]
    assert len(wanted) == 2


def test_certificate__instead_of_a_secret__signs_the_request(
    tree: Tree, peer: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem, certificate = make_client_certificate()
    peer.clients[CLIENT_ID] = "nobody knows"
    peer.certificates[CLIENT_ID] = certificate
    monkeypatch.setenv(SECRET_NAME, pem)
    provider = set_up(tree, peer, client_secret="", client_certificate=f"${{{SECRET_NAME}}}")
    map_to(provider, "role", "sre", tree.root, "responder")
    peer.add(ADA)
    assert Visit.to(peer, tree).sign_in(ADA.username).status_code == 302


@pytest.mark.parametrize("fault", ["value", "grant", "host", "allowed"])
def test_credential__without_value_or_grant__nobody_leaves_for_the_provider(
    tree: Tree,
    peer: Provider,
    provider: IdentityProvider,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
) -> None:
    if fault == "value":
        monkeypatch.delenv(SECRET_NAME)
    elif fault == "allowed":
        settings.CREDENTIAL_ENV_ALLOW = ["OTHER_*"]
    elif fault == "grant":
        tree.organization.credential_grants.update(revoked_at=clock.now())
    else:
        tree.organization.credential_grants.update(hosts=["elsewhere.example.com"])
    answer = Visit.to(peer, tree).client.get("/login/demo/begin")
    assert answer.status_code == 503
    assert SECRET_NAME not in answer.content.decode()
    assert reasons() == ["credential"]


def test_outbound__private_host_not_opened__is_not_asked(
    tree: Tree, peer: Provider, provider: IdentityProvider, settings: Settings
) -> None:
    settings.OUTBOUND_PRIVATE_ALLOW = []
    assert Visit.to(peer, tree).client.get("/login/demo/begin").status_code == 503
    assert peer.asked == []
    assert reasons() == ["discovery"]


def test_authority__not_trusted__is_not_believed(
    tree: Tree, peer: Provider, provider: IdentityProvider, settings: Settings
) -> None:
    settings.SSO_CA_FILE = ""
    assert Visit.to(peer, tree).client.get("/login/demo/begin").status_code == 503
    assert peer.asked == []


@pytest.mark.parametrize(
    "discovery",
    [
        {"issuer": "https://evil.example/v2.0"},
        {"token_endpoint": "https://evil.example/token"},
        {"jwks_uri": "http://localhost/keys"},
        {"authorization_endpoint": None},
        {"end_session_endpoint": "javascript:alert(1)"},
    ],
)
def test_discovery__names_somebody_else__nobody_is_sent_there(
    tree: Tree, peer: Provider, provider: IdentityProvider, discovery: dict[str, object]
) -> None:
    peer.discovery = discovery
    assert Visit.to(peer, tree).client.get("/login/demo/begin").status_code == 503
    assert reasons() == ["discovery"]


def test_public_url__not_set__nobody_is_sent_anywhere(
    tree: Tree, peer: Provider, provider: IdentityProvider, settings: Settings
) -> None:
    settings.PUBLIC_URL = ""
    assert Visit.to(peer, tree).client.get("/login/demo/begin").status_code == 503
    assert reasons() == ["no_public_url"]


def test_redirect_uri__of_a_request_with_another_host__is_still_ours(
    tree: Tree, peer: Provider, provider: IdentityProvider
) -> None:
    answer = Client().get("/login/demo/begin", headers={"host": "evil.example"})
    query = parse_qs(urlsplit(answer["Location"]).query)
    assert query["redirect_uri"] == ["http://testserver/login/demo/callback"]


def test_directories__changed_to_another__roles_of_the_old_one_end_at_once(
    tree: Tree, peer: Provider, provider: IdentityProvider
) -> None:
    Visit.to(peer, tree).sign_in(ADA.username)
    identity_provider_set(
        actor=owner_of(tree),
        organization_slug="demo",
        kind="entra",
        cloud="test",
        tenant=str(OTHER_TENANT),
        client_id=CLIENT_ID,
        client_secret=f"${{{SECRET_NAME}}}",
    )
    assert roles_of(person(ADA.username)) == set()

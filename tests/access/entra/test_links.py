"""Linking an identity with an account, signing out at the provider, and providers that are not Entra."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from pytest_django import Settings

from controlplane.access.models import ExternalIdentity, IdentityProvider
from controlplane.access.services import sign_in_link_create
from controlplane.core.actor import Role
from tests.access.entra.support import Visit, map_to, person, reasons, roles_of, set_up
from tests.factories import PASSWORD, Tree, make_user
from tests.support.identity_provider import TENANT, Account, Provider
from tests.web.support import Person

ADA = Account("ada@example.com", roles=("sre",))


@pytest.fixture
def provider(tree: Tree, peer: Provider) -> IdentityProvider:
    made = set_up(tree, peer)
    map_to(made, "role", "sre", tree.payments, "responder")
    peer.add(ADA)
    return made


@pytest.fixture
def local(tree: Tree) -> Person:
    """A person with a password and a role by hand."""
    return Person.signed_in(make_user(tree.payments, Role.VIEWER, username="local"))


def link(peer: Provider, browser: Client, username: str = ADA.username) -> Any:
    """Press the button of one's own account and sign in at the provider; return the callback's answer."""
    page = browser.post("/app/security/link", {"current": PASSWORD})
    assert page.status_code == 200, page.content.decode()
    back = urlsplit(peer.approve(page["Refresh"].partition("url=")[2], username))
    return browser.get(f"{back.path}?{back.query}")


class TestLinking:
    def test_link__signed_in_and_vouched_for__is_the_same_account_from_then_on(
        self, tree: Tree, peer: Provider, provider: IdentityProvider, local: Person
    ) -> None:
        answer = link(peer, local.client)
        assert (answer.status_code, answer["Location"]) == (302, "/app/security")
        assert "is linked with Microsoft" in local.client.get("/app/security").content.decode()
        assert person(ADA.username) == local.user
        assert roles_of(local.user) == {("payments", "viewer", "manual"), ("payments", "responder", "sso")}
        local.user.refresh_from_db()
        assert (local.user.username, local.user.name) == ("local", "")
        visit = Visit.to(peer, tree)
        visit.sign_in(ADA.username)
        assert visit.user_id == str(local.user.pk)

    def test_link__identity_of_somebody_else__is_refused(
        self, tree: Tree, peer: Provider, provider: IdentityProvider, local: Person
    ) -> None:
        Visit.to(peer, tree).sign_in(ADA.username)
        assert link(peer, local.client).status_code == 403
        assert reasons() == ["identity_taken"]
        assert not ExternalIdentity.objects.filter(user=local.user).exists()

    def test_link__another_person_signed_in_meanwhile__is_refused(
        self, tree: Tree, peer: Provider, provider: IdentityProvider, local: Person
    ) -> None:
        page = local.client.post("/app/security/link", {"current": PASSWORD})
        back = urlsplit(peer.approve(page["Refresh"].partition("url=")[2], ADA.username))
        session = local.client.session
        flows = session["sso_flows"]
        other = Person.signed_in(make_user(tree.payments, Role.VIEWER))
        theirs = other.client.session
        theirs["sso_flows"] = flows
        theirs.save()
        assert other.client.get(f"{back.path}?{back.query}").status_code == 403
        assert reasons() == ["link_session"]
        assert not ExternalIdentity.objects.exists()

    def test_link__password_not_shown__is_no_way_in_for_whoever_has_got_hold_of_the_browser(
        self, tree: Tree, peer: Provider, provider: IdentityProvider, local: Person
    ) -> None:
        for typed in ({}, {"current": "wrong"}):
            assert local.client.post("/app/security/link", typed)["Location"] == "/app/security"
            assert "This is not your password" in local.client.get("/app/security").content.decode()
        assert "sso_flows" not in local.client.session
        answers = [local.client.post("/app/security/link", {"current": "x"}).status_code for _ in range(9)]
        assert (set(answers[:8]), answers[8]) == ({302}, 429)

    def test_link__account_without_a_password__only_in_the_browser_that_a_one_time_link_signed_in(
        self, tree: Tree, peer: Provider, provider: IdentityProvider
    ) -> None:
        user = make_user(tree.payments, Role.VIEWER)
        user.set_unusable_password()
        user.save()
        assert Person.signed_in(user).client.post("/app/security/link").status_code == 403
        browser = Client()
        browser.post(f"/login/link/{sign_in_link_create(user=user)}")
        assert link(peer, browser).status_code == 302
        assert person(ADA.username) == user

    def test_link__by_get_or_without_csrf_token__is_no_way(self, provider: IdentityProvider, local: Person) -> None:
        assert local.client.get("/app/security/link").status_code == 405
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(local.user)
        assert strict.post("/app/security/link").status_code == 403

    def test_unlink__account_with_a_password__loses_the_roles_of_the_provider(
        self, tree: Tree, peer: Provider, provider: IdentityProvider, local: Person
    ) -> None:
        link(peer, local.client)
        identity = ExternalIdentity.objects.get()
        stranger = Person.signed_in(make_user(tree.payments, Role.ADMIN))
        path = f"/app/security/identities/{identity.pk}/unlink"
        assert stranger.client.post(path).status_code == 404
        local.client.post(path)
        assert not ExternalIdentity.objects.exists()
        assert roles_of(local.user) == {("payments", "viewer", "manual")}

    def test_unlink__account_without_a_password__is_refused(
        self, tree: Tree, peer: Provider, provider: IdentityProvider
    ) -> None:
        visit = Visit.to(peer, tree)
        visit.sign_in(ADA.username)
        visit.client.post(f"/app/security/identities/{ExternalIdentity.objects.get().pk}/unlink")
        assert ExternalIdentity.objects.count() == 1
        assert "has no password" in visit.client.get("/app/security").content.decode()


class TestSignOut:
    def test_sign_out__signed_in_by_the_provider__goes_on_there(
        self, tree: Tree, peer: Provider, provider: IdentityProvider
    ) -> None:
        visit = Visit.to(peer, tree)
        visit.sign_in(ADA.username)
        assert visit.client.get("/logout/").status_code == 405
        page = visit.client.post("/logout/")
        assert (page.status_code, visit.user_id) == (200, None)
        url = urlsplit(page["Refresh"].removeprefix("0; url="))
        assert url.path == f"/{TENANT}/oauth2/v2.0/logout"
        query = parse_qs(url.query)
        assert query["post_logout_redirect_uri"] == ["http://testserver/login/demo"]
        assert "id_token_hint" not in query
        assert visit.client.get("/app/").status_code == 302

    def test_sign_out__provider_without_such_an_address__leads_to_the_organizations_sign_in(
        self, tree: Tree, peer: Provider
    ) -> None:
        peer.discovery = {"end_session_endpoint": None}
        map_to(set_up(tree, peer), "role", "sre", tree.payments, "responder")
        peer.add(ADA)
        visit = Visit.to(peer, tree)
        visit.sign_in(ADA.username)
        assert visit.client.post("/logout/")["Location"] == "/login/demo"

    def test_sign_out__signed_in_by_password__stays_here(self, provider: IdentityProvider, local: Person) -> None:
        assert local.client.post("/logout/")["Location"] == "/login/"


class TestOpenIdConnect:
    @pytest.fixture(autouse=True)
    def no_cloud(self, peer: Provider, settings: Settings) -> None:
        """Take the peer for no host of Microsoft's."""
        settings.ENTRA_CLOUDS = {}

    @pytest.fixture
    def oidc(self, tree: Tree, peer: Provider) -> IdentityProvider:
        made = set_up(tree, peer, kind="oidc", authority=peer.issuer)
        map_to(made, "group", "On-call people", tree.payments, "responder")
        peer.add(Account("ada@example.com", groups=("On-call people",)))
        return made

    def test_sign_in__issuer_without_a_path__makes_the_person_by_issuer_and_subject(
        self, tree: Tree, peer: Provider, oidc: IdentityProvider
    ) -> None:
        visit = Visit.to(peer, tree)
        assert visit.sign_in("ada@example.com").status_code == 302
        identity = ExternalIdentity.objects.get()
        assert (identity.issuer, identity.tid, identity.oid) == (peer.issuer, None, None)
        assert len(identity.subject) == 43
        assert roles_of(identity.user) == {("payments", "responder", "sso")}
        assert oidc.name == "single sign-on"

    def test_sign_in__tid_and_oid_in_its_token__make_nobody_of_a_directory(
        self, tree: Tree, peer: Provider, oidc: IdentityProvider
    ) -> None:
        claimed = {"tid": str(TENANT), "oid": str(ADA.oid)}
        peer.add(Account("ada@example.com", groups=("On-call people",), more=claimed))
        Visit.to(peer, tree).sign_in("ada@example.com")
        identity = ExternalIdentity.objects.get()
        assert (identity.tid, identity.oid) == (None, None)

    @pytest.mark.parametrize("issuer", ["{}/", "{}/other", "https://evil.example"])
    def test_sign_in__token_of_another_issuer__is_refused(
        self, tree: Tree, peer: Provider, oidc: IdentityProvider, issuer: str
    ) -> None:
        peer.add(Account("ada@example.com", groups=("On-call people",), more={"iss": issuer.format(peer.url)}))
        assert Visit.to(peer, tree).sign_in("ada@example.com").status_code == 403
        assert reasons() == ["token_issuer"]

    @pytest.mark.parametrize(("verified", "status"), [(True, 302), (False, 403), ("true", 403), (None, 403)])
    def test_domains__address_must_be_verified_by_the_provider(
        self, tree: Tree, peer: Provider, verified: object, status: int
    ) -> None:
        made = set_up(tree, peer, kind="oidc", authority=peer.issuer, email_domains=["example.com"])
        map_to(made, "group", "g", tree.payments, "responder")
        peer.add(Account("ada@example.com", groups=("g",), more={"email_verified": verified}))
        assert Visit.to(peer, tree).sign_in("ada@example.com").status_code == status

    @pytest.mark.parametrize("name", ["authorization_endpoint", "end_session_endpoint"])
    @pytest.mark.parametrize("path", ["out\r\nSet-Cookie: a=b", "o u t", "\u00f6ut", "out\x7f"])
    def test_discovery__endpoint_that_no_header_can_carry__is_refused(
        self, tree: Tree, peer: Provider, oidc: IdentityProvider, name: str, path: str
    ) -> None:
        peer.discovery = {name: f"{peer.url}/{path}"}
        assert Client().get("/login/demo/begin").status_code == 503
        assert reasons() == ["discovery"]

    def test_discovery__issuer_written_otherwise_than_set__is_refused(self, tree: Tree, peer: Provider) -> None:
        set_up(tree, peer, kind="oidc", authority=f"{peer.issuer}/")
        assert Client().get("/login/demo/begin").status_code == 503
        assert reasons() == ["discovery"]


class TestSignInPage:
    def test_page__provider_and_passwords__shows_both(self, provider: IdentityProvider) -> None:
        page = Client().get("/login/demo?next=/app/runs").content.decode()
        assert 'href="/login/demo/begin?next=/app/runs"' in page
        assert "Sign in with Microsoft" in page
        assert 'name="password"' in page

    def test_page__passwords_switched_off__shows_the_provider_alone(self, tree: Tree, peer: Provider) -> None:
        set_up(tree, peer, password_sign_in=False)
        page = Client().get("/login/demo").content.decode()
        assert "Sign in with Microsoft" in page
        assert 'name="password"' not in page

    def test_page__unknown_organization__looks_like_one_without_a_provider(self, tree: Tree, other_tree: Tree) -> None:
        pages = [Client().get(f"/login/{org}") for org in ("rival", "ghost")]
        assert {page.status_code for page in pages} == {200}
        without_token = [page.content.decode().replace(page.context["csrf_token"].__str__(), "") for page in pages]
        assert without_token[0] == without_token[1]
        assert {Client().get(f"/login/{org}/begin").status_code for org in ("rival", "ghost")} == {404}
        assert {Client().get(f"/login/{org}/callback").status_code for org in ("rival", "ghost")} == {400}

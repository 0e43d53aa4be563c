"""Signing in and out by a provider, and setting it up, in a real browser, over TLS and across two sites."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from pytest_django import Settings

from controlplane.access.entra.outgoing import forget_documents
from controlplane.access.models import ExternalIdentity
from controlplane.core.actor import Role
from tests.access.entra.support import SECRET_NAME, map_to, roles_of, set_up
from tests.browser.support import Site, fits
from tests.factories import PASSWORD, Tree, entrust, make_user
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, TENANT, Account, Provider, identity_provider
from tests.web.support import Person

pytestmark = pytest.mark.browser

ADA = Account("ada@example.com", roles=("sre",))


@pytest.fixture
def peer(
    tmp_path: Path, site: Site, tree: Tree, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Provider]:
    with identity_provider(tmp_path) as provider:
        settings.ENTRA_CLOUDS = {"test": provider.cloud}
        settings.SSO_CA_FILE = str(provider.authority_file)
        settings.PUBLIC_URL = site.url
        monkeypatch.setenv(SECRET_NAME, CLIENT_SECRET)
        forget_documents()
        provider.add(ADA)
        yield provider
        forget_documents()


@pytest.fixture
def visitor(site: Site, peer: Provider) -> Page:
    return site.visit(ignore_https_errors=True)


def test_provider__signs_in_and_out(visitor: Page, site: Site, tree: Tree, peer: Provider) -> None:
    slug = tree.organization.slug
    map_to(set_up(tree, peer), "role", "sre", tree.payments, "responder")
    peer.redirects.add(f"{site.url}/login/{slug}/callback")
    visitor.goto(f"/login/{slug}?next=/app/runs")
    visitor.get_by_role("link", name="Sign in with Microsoft").click()
    visitor.get_by_role("button", name=ADA.username).click()
    expect(visitor).to_have_url(f"{site.url}/app/runs")
    identity = ExternalIdentity.objects.get(organization=tree.organization)
    assert roles_of(identity.user) == {("payments", "responder", "sso")}
    visitor.get_by_label("Account and appearance").click()
    visitor.get_by_role("button", name="Sign out").click()
    expect(visitor).to_have_url(f"{site.url}/login/{slug}")
    assert [path.split("?")[0] for path in peer.signed_out] == [f"/{TENANT}/oauth2/v2.0/logout"]
    visitor.goto("/app/runs")
    expect(visitor.get_by_role("heading", name="Sign in to OpenSRE")).to_be_visible()


def test_provider__refusal__says_no_more_than_that(visitor: Page, site: Site, tree: Tree, peer: Provider) -> None:
    slug = tree.organization.slug
    set_up(tree, peer)
    peer.redirects.add(f"{site.url}/login/{slug}/callback")
    visitor.goto(f"/login/{slug}/begin")
    visitor.get_by_role("button", name=ADA.username).click()
    expect(visitor.get_by_role("heading", name="No access yet")).to_be_visible()


def test_provider__links_an_account(site: Site, tree: Tree, peer: Provider, rita: Person) -> None:
    set_up(tree, peer)
    peer.redirects.add(f"{site.url}/login/{tree.organization.slug}/callback")
    page = site.visit(rita, ignore_https_errors=True)
    page.goto("/app/security")
    page.get_by_label("Password of this account").fill(PASSWORD)
    page.get_by_role("button", name="Link with Microsoft").click()
    page.get_by_role("button", name=ADA.username).click()
    expect(page.get_by_text("Your account is linked with Microsoft.")).to_be_visible()
    assert ExternalIdentity.objects.get(organization=tree.organization).user == rita.user


@pytest.mark.parametrize("width", [1280, 390])
def test_settings__owner_sets_maps_and_tests(site: Site, tree: Tree, peer: Provider, width: int) -> None:
    entrust(tree.root, SECRET_NAME, ["localhost"])
    owner = Person.signed_in(make_user(tree.root, Role.OWNER))
    page = site.visit(owner, viewport={"width": width, "height": 860})
    page.goto("/app/sign-in")
    expect(page.get_by_label("Issuer")).to_be_hidden()
    page.get_by_text("OpenID Connect").click()
    expect(page.get_by_label("Issuer")).to_be_visible()
    expect(page.get_by_label("Directory (tenant) id")).to_be_hidden()
    page.get_by_text("Microsoft Entra ID").click()
    page.get_by_label("Directory (tenant) id").fill("contoso")
    page.get_by_label("Application (client) id").fill(CLIENT_ID)
    page.get_by_label("Client secret").fill(f"${{{SECRET_NAME}}}")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("a GUID", exact=False)).to_be_visible()
    page.get_by_label("Directory (tenant) id").fill(str(TENANT))
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Microsoft is set.")).to_be_visible()
    page.get_by_label("What", exact=True).select_option("role")
    page.get_by_label("Object id of the group").fill("sre")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("cell", name="sre role of the application")).to_be_visible()
    page.get_by_role("button", name="Test connection").click()
    checks = page.get_by_role("status").filter(has_text="Discovery")
    expect(checks.get_by_role("listitem").filter(has_text="Client")).to_contain_text("accepts the id")
    assert fits(page)

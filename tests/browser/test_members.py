"""People of the organization, as their administrator sees and changes them."""

from typing import Any

import pytest
from playwright.sync_api import expect

from controlplane.access.limits.limiter import limiter
from controlplane.access.models import IdentityProvider, Membership, ProviderKind, User
from controlplane.access.services import person_invite
from controlplane.core.actor import Role
from tests.browser.support import Site, fits
from tests.browser.test_accessibility import assert_accessible
from tests.factories import Tree, make_user
from tests.web.support import Person

pytestmark = pytest.mark.browser


@pytest.fixture(autouse=True)
def no_attempts_counted() -> None:
    limiter.forget()


@pytest.fixture
def otto(tree: Tree) -> Person:
    """The owner."""
    user = make_user(tree.root, Role.OWNER, username=f"otto-{tree.organization.slug}")
    user.name = "Otto"
    user.save()
    return Person.signed_in(user)


@pytest.fixture
def staff(tree: Tree, otto: Person, rita: Person) -> list[User]:
    """People in every state, one with many roles."""
    slug = tree.organization.slug
    IdentityProvider.objects.create(
        organization=tree.organization,
        name="Example ID",
        kind=ProviderKind.OIDC,
        authority="https://id.example.com",
        client_id="x",
        client_secret="${OPENSRE_CRED_SSO}",
    )
    invited, _ = person_invite(
        actor=otto.actor, node=tree.payments, role="viewer", username=f"nina-{slug}@example.com", name="Nina"
    )
    gone = make_user(tree.platform, Role.RESPONDER, username=f"gus-with-quite-a-long-name-indeed-{slug}@example.com")
    User.objects.filter(pk=gone.pk).update(is_active=False)
    for node, role in ((tree.platform, "reviewer"), (tree.payments, "admin"), (tree.root, "viewer")):
        Membership.objects.create(user=rita.user, node=node, role=role, source="sso")
    return [rita.user, invited, gone]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_members__contrast_names_structure_and_width(
    site: Site, otto: Person, staff: list[User], scheme: Any, width: int
) -> None:
    page = site.visit(otto, color_scheme=scheme, viewport={"width": width, "height": 860})
    pages = ["", "?q=nobody-at-all", "/invite", *(f"/{person.pk}" for person in [*staff, otto.user])]
    for path in pages:
        page.goto(f"/app/members{path}")
        assert_accessible(page)
        assert fits(page), path
        page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")
        assert_accessible(page)
        assert fits(page), path


def test_members__invited_given_a_role_and_let_go__by_keyboard_and_button(site: Site, otto: Person, tree: Tree) -> None:
    page = site.visit(otto)
    page.goto("/app/members")
    page.get_by_role("link", name="Invite").press("Enter")
    page.get_by_label("User name").fill(f"ada-{tree.organization.slug}")
    page.get_by_label("Role").select_option("responder")
    page.get_by_role("button", name="Invite").press("Enter")
    link = page.locator(".secret-once").inner_text()
    newcomer = site.visit()
    newcomer.goto(f"/login/link/{link.rpartition('/')[2]}")
    newcomer.get_by_role("button").first.click()
    expect(newcomer.get_by_role("link", name="OpenSRE home")).to_be_visible()
    page.get_by_role("link", name="Done").click()
    page.get_by_label("Where").select_option("payments")
    page.get_by_label("Role", exact=True).select_option("admin")
    page.get_by_role("button", name="Give role").click()
    expect(page.get_by_text("is admin of Payments from now on")).to_be_visible()
    page.locator(".confirm > summary", has_text="Deactivate").click()
    page.get_by_label("Reason").first.fill("on leave")
    page.get_by_role("button", name="Deactivate").click()
    expect(page.get_by_text("is signed out everywhere")).to_be_visible()
    newcomer.goto("/app/")
    expect(newcomer.get_by_label("Username")).to_be_visible()


def test_members__without_scripts__search_and_forms_work(site: Site, otto: Person, staff: list[User]) -> None:
    page = site.visit(otto, java_script_enabled=False)
    page.goto("/app/members")
    page.get_by_label("Find", exact=True).fill("nina")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".people li")).to_have_count(1)
    page.locator(".people a").click()
    page.get_by_role("button", name="Make a new link").click()
    expect(page.get_by_text("It is shown once")).to_be_visible()


def test_settings__on_the_phone__reached_by_the_account_menu(site: Site, otto: Person) -> None:
    page = site.visit(otto, viewport={"width": 390, "height": 860})
    page.goto("/app/")
    page.locator("[data-menu] > summary").click()
    page.locator(".menu-links").get_by_role("link", name="Settings").click()
    expect(page.get_by_role("navigation", name="Settings")).to_be_visible()
    expect(page.get_by_role("heading", name="Members")).to_be_visible()

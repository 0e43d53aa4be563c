"""Access tokens and viewing as a team, with a mouse, on a desk and on a phone, in both colour schemes."""

import os
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from controlplane.access.models import AccessToken
from controlplane.core import clock
from controlplane.core.actor import Role
from tests.browser.support import Site, fits
from tests.browser.test_accessibility import assert_accessible
from tests.factories import Tree, actor_for_token, make_token, make_user
from tests.web.support import Person

pytestmark = pytest.mark.browser

#: Where pictures go, for somebody to look at; nowhere by default.
SHOTS = os.environ.get("BROWSER_SHOTS", "")


@pytest.fixture
def owner(tree: Tree) -> Person:
    return Person.signed_in(make_user(tree.root, Role.OWNER, username=f"otto-{tree.root.slug}"))


@pytest.fixture
def some(tree: Tree) -> None:
    """Tokens of every kind and in every state."""
    make_token(tree.payments, name="Runtime of payments", allowed_addresses=["192.0.2.0/24", "2001:db8::/32"])
    make_token(tree.root, "admin", name="GitOps", expires_at=clock.now() + timedelta(days=5))
    old = make_token(tree.platform, name="Alertmanager", scopes=["alerts:ingest"]).token
    AccessToken.objects.filter(pk=old.pk).update(
        created_at=clock.now() - timedelta(days=200),
        last_used_at=clock.now() - timedelta(days=120),
        last_used_address="192.0.2.17",
    )
    gone = make_token(tree.platform, name="Old runtime").token
    AccessToken.objects.filter(pk=gone.pk).update(revoked_at=clock.now())


def shoot(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1280, 860), (390, 844)])
def test_tokens__every_page__fits_and_is_accessible(
    site: Site, tree: Tree, owner: Person, some: None, scheme: str, width: int, height: int
) -> None:
    page = site.visit(owner, viewport={"width": width, "height": height}, color_scheme=scheme)
    for name, path in [
        ("list", "/app/tokens?state="),
        ("new", "/app/tokens/new"),
        ("policy", "/app/tokens/policy"),
        ("view", "/app/tokens/view-as"),
        ("empty", "/app/tokens?kind=view"),
    ]:
        page.goto(path)
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert fits(page), path
        assert_accessible(page)
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = false; })")
        shoot(page, f"tokens-{name}-{scheme}-{width}")


def test_tokens__made_copied_rotated_and_revoked(site: Site, tree: Tree, owner: Person) -> None:
    page = site.visit(owner)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/app/tokens")
    shoot(page, "tokens-none")
    page.get_by_role("link", name="Make a token").click()
    page.get_by_label("Name", exact=True).fill("Runtime")
    page.get_by_label("Acts on", exact=True).select_option("payments")
    page.get_by_label("Ends", exact=True).select_option("30")
    page.get_by_label("Only from these networks").fill("10.0.0.1/8")
    page.get_by_role("button", name="Make the token").click()
    expect(page.get_by_text("the bits behind the prefix must be zero")).to_be_visible()
    shoot(page, "tokens-refused")
    page.get_by_label("Only from these networks").fill("192.0.2.0/24")
    page.get_by_role("button", name="Make the token").click()
    shown = page.locator("#secret").inner_text()
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    shoot(page, "tokens-issued")
    assert page.evaluate("navigator.clipboard.readText()") == shown
    assert actor_for_token(shown).token_node_id == tree.payments.pk
    page.get_by_role("link", name="I have copied it").click()
    page.get_by_text("Rotate").first.click()
    shoot(page, "tokens-rotate")
    page.get_by_role("button", name="Make the new one").click()
    expect(page.get_by_text("The old one works until")).to_be_visible()
    page.goto("/app/tokens")
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Revoke the ticked").click()
    expect(page.get_by_role("heading", name="Revoke 2 tokens?")).to_be_visible()
    shoot(page, "tokens-revoke")
    page.get_by_role("button", name="Revoke 2").click()
    expect(page.get_by_text("2 tokens revoked")).to_be_visible()
    assert AccessToken.objects.filter(node__organization=tree.organization, revoked_at__isnull=True).count() == 0


@pytest.mark.parametrize("width", [1280, 390])
def test_view_as_team__banner_on_every_page_until_ended(site: Site, tree: Tree, owner: Person, width: int) -> None:
    page = site.visit(owner, viewport={"width": width, "height": 844})
    page.goto("/app/tokens/view-as")
    page.get_by_label("Team", exact=True).select_option("payments")
    page.get_by_role("button", name="Begin").click()
    for path in ("/app/runs", "/app/config/payments", "/app/tokens"):
        page.goto(path)
        expect(page.get_by_text("as team Payments", exact=False)).to_be_visible()
        assert fits(page), path
        assert_accessible(page)
    page.goto("/app/runs")
    shoot(page, f"viewing-{width}")
    page.get_by_role("button", name="End", exact=True).click()
    expect(page.get_by_text("You no longer view as the team.")).to_be_visible()

"""Signing in and one's own account, as a person does it: with a password, an authenticator app and a recovery code."""

import time
from typing import Literal

import pyotp
import pytest
from playwright.sync_api import Page, expect

from controlplane.access.limits.limiter import limiter
from tests.browser.support import Site, fits
from tests.browser.test_accessibility import assert_accessible
from tests.factories import PASSWORD
from tests.web.support import Person

pytestmark = pytest.mark.browser


@pytest.fixture(autouse=True)
def no_attempts_counted() -> None:
    limiter.forget()


def sign_in(page: Page, person: Person, password: str = PASSWORD) -> None:
    page.goto("/login/")
    page.get_by_label("Username").fill(person.user.username)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def test_account__authenticator_set_up__asks_for_a_code_at_the_next_sign_in(site: Site, rita: Person) -> None:
    page = site.visit()
    sign_in(page, rita)
    page.goto("/app/security")
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Set up the app").click()
    image = page.get_by_role("img", name="QR code")
    expect(image).to_be_visible()
    assert image.evaluate("image => image.complete && image.naturalWidth > 0")
    app = pyotp.TOTP("".join(page.locator(".secret-once").inner_text().split()))
    page.get_by_label("Code that the app shows now").fill(app.now())
    page.get_by_role("button", name="Turn it on").click()
    codes = page.locator(".recovery-codes li").all_inner_texts()
    assert len(codes) == 10
    page.get_by_role("link", name="I have kept them").click()
    expect(page.get_by_text("10 recovery codes left")).to_be_visible()
    for secret in (app.at(int(time.time()), counter_offset=1), codes[0]):
        other = site.visit()
        sign_in(other, rita)
        expect(other.get_by_role("heading", name="One more step")).to_be_visible()
        other.get_by_label("Code").fill("000000")
        other.get_by_role("button", name="Sign in").click()
        expect(other.get_by_role("alert")).to_contain_text("That code is not right")
        other.get_by_label("Code").fill(secret)
        other.get_by_role("button", name="Sign in").click()
        expect(other).to_have_url(f"{site.url}/app/")


def test_account__signed_out_everywhere_else__the_other_browser_goes_to_the_sign_in_page(
    site: Site, rita: Person
) -> None:
    here, there = site.visit(), site.visit(viewport={"width": 390, "height": 844})
    for page in (here, there):
        sign_in(page, rita)
        expect(page).to_have_url(f"{site.url}/app/")
    here.goto("/app/security")
    expect(here.locator("#browsers tbody tr")).to_have_count(2)
    here.get_by_role("button", name="Sign out everywhere else").click()
    expect(here.get_by_role("status")).to_contain_text("Signed out everywhere else")
    there.goto("/app/security")
    expect(there.get_by_role("heading", name="Sign in to OpenSRE")).to_be_visible()


def test_sign_in__locked__says_how_long(site: Site, rita: Person) -> None:
    page = site.visit()
    for _ in range(5):
        sign_in(page, rita, "wrong")
    expect(page.get_by_role("alert")).to_contain_text("Wait 15 minutes")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages__of_sign_in_and_account__fit_and_are_accessible(
    site: Site, rita: Person, width: int, scheme: Literal["light", "dark"]
) -> None:
    page = site.visit(viewport={"width": width, "height": 844}, color_scheme=scheme)

    def look() -> None:
        assert fits(page)
        assert_accessible(page)

    sign_in(page, rita, "wrong")
    expect(page.get_by_role("alert")).to_be_visible()
    look()
    sign_in(page, rita)
    expect(page).to_have_url(f"{site.url}/app/")
    page.goto("/app/security")
    look()
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Set up the app").click()
    expect(page.get_by_role("img", name="QR code")).to_be_visible()
    look()
    app = pyotp.TOTP("".join(page.locator(".secret-once").inner_text().split()))
    page.get_by_label("Code that the app shows now").fill(app.now())
    page.get_by_role("button", name="Turn it on").click()
    expect(page.locator(".recovery-codes li")).to_have_count(10)
    look()
    page.goto("/app/security")
    look()
    page.context.clear_cookies()
    sign_in(page, rita)
    expect(page.get_by_role("heading", name="One more step")).to_be_visible()
    look()

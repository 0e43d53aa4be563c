"""Changing a configuration as people do: edit, preview, request approval, approve, look back, roll back."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from controlplane.configs.models import ConfigDocument
from controlplane.configs.policy_services import policy_create
from controlplane.configs.services import config_patch
from tests.browser.support import Site, fits
from tests.factories import Tree
from tests.web.support import Person

pytestmark = pytest.mark.browser

BASE = "/app/config/payments"


@pytest.fixture
def guarded(tree: Tree) -> Tree:
    """Limits need approval; the team has one and inherits one."""
    config_patch(actor=tree.system, node=tree.root, patch={"limits": {"max_turns": 50, "wall_clock_s": 900}})
    config_patch(actor=tree.system, node=tree.payments, patch={"limits": {"max_turns": 20}})
    policy_create(actor=tree.system, node=tree.root, pointer="/limits", kind="requires_approval")
    return tree


def document(tree: Tree) -> dict[str, Any]:
    found: dict[str, Any] = ConfigDocument.objects.get(pk=tree.payments.pk).document
    return found


def changes(page: Page) -> list[str]:
    return [" ".join(text.split()) for text in page.locator(".change").all_inner_texts()]


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
def test_change__edit_preview_approval_history_rollback(
    site: Site, guarded: Tree, ada: Person, rex: Person, scripts: bool
) -> None:
    admin = site.visit(ada, java_script_enabled=scripts)
    reviewer = site.visit(rex, java_script_enabled=scripts)

    admin.goto(BASE)
    admin.get_by_role("link", name="Change /limits/max_turns").click()
    turns = admin.get_by_label("Max turns", exact=True)
    expect(turns).to_have_value("20")
    expect(admin.get_by_label("Wall clock (seconds)")).to_have_attribute("placeholder", "900")
    turns.fill("30")
    admin.get_by_role("button", name="Preview").click()
    expect(admin.locator(".change")).to_have_count(1)
    assert "/limits/max_turns" in changes(admin)[0]
    admin.get_by_role("button", name="Request approval").click()
    expect(admin.get_by_text("Say why")).to_be_visible()
    admin.get_by_label("Reason").fill("The ledger needs more")
    admin.get_by_role("button", name="Request approval").click()
    expect(admin.get_by_text("Approval is requested.")).to_be_visible()
    assert document(guarded) == {"limits": {"max_turns": 20}}

    reviewer.goto("/app/")
    reviewer.get_by_role("link", name="Reviews 1 waiting for you").click()
    reviewer.get_by_role("link", name="The ledger needs more").click()
    reviewer.get_by_role("button", name="Reject").click()
    expect(reviewer.get_by_text("Say why")).to_be_visible()
    reviewer.get_by_role("button", name="Approve").click()
    expect(reviewer.get_by_text("Approved: payments is at version 2 now.")).to_be_visible()
    assert document(guarded) == {"limits": {"max_turns": 30}}

    admin.goto(BASE)
    admin.get_by_role("link", name="History").click()
    expect(admin.get_by_text("approved by Rex")).to_be_visible()
    admin.get_by_role("button", name="Compare the two chosen").click()
    assert [text.split()[-1] for text in changes(admin)] == ["30"]
    admin.get_by_role("button", name="Roll back to version 1").click()
    admin.get_by_label("Reason").fill("It cost too much")
    admin.get_by_role("button", name="Request approval").click()

    reviewer.goto("/app/reviews")
    reviewer.get_by_role("link", name="It cost too much").click()
    reviewer.get_by_role("button", name="Approve").click()
    expect(reviewer.get_by_text("Approved: payments is at version 3 now.")).to_be_visible()
    assert document(guarded) == {"limits": {"max_turns": 20}}


def test_edit__an_error_leads_to_its_line_and_a_place_says_what_it_means(
    site: Site, guarded: Tree, ada: Person
) -> None:
    page = site.visit(ada)
    page.goto(f"{BASE}/edit")
    page.get_by_role("link", name="JSON").click()
    page.get_by_label("Place").fill("/limits/wall_clock_s")
    expect(page.locator("[data-setting-hint]")).to_contain_text("Seconds a run may take.")
    text = page.get_by_label("JSON", exact=True)
    text.fill('{\n  "limits": {\n    "max_turns": 0\n  }\n}')
    page.get_by_role("button", name="Preview").last.click()
    page.get_by_role("link", name="Line 3").click()
    expect(text).to_be_focused()
    selected = text.evaluate("(field) => field.value.slice(field.selectionStart, field.selectionEnd)")
    assert selected == '    "max_turns": 0'


def test_edit__keyboard_alone__sets_a_value(site: Site, guarded: Tree, ada: Person) -> None:
    page = site.visit(ada)
    page.goto(f"{BASE}/edit?section=runtime")
    page.get_by_label("Kind", exact=True).focus()
    page.keyboard.type("builtin")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Preview")).to_be_visible()
    page.get_by_label("Reason").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Saved as version 2: 1 place changed.")).to_be_visible()
    assert document(guarded) == {"limits": {"max_turns": 20}, "runtime": {"kind": "builtin"}}


WIDTHS = [(1280, "light"), (390, "dark")]


@pytest.mark.parametrize(("width", "scheme"), WIDTHS, ids=["wide", "narrow"])
def test_form__errors_at_the_field_reset_and_a_new_agent(
    site: Site, guarded: Tree, ada: Person, width: int, scheme: Any
) -> None:
    policy_create(actor=guarded.system, node=guarded.root, pointer="/limits/wall_clock_s", kind="locked")
    page = site.visit(ada, viewport={"width": width, "height": 844}, color_scheme=scheme)
    page.goto(f"{BASE}/edit?section=limits")
    expect(page.get_by_label("Wall clock (seconds)")).to_be_disabled()
    expect(page.get_by_text(f"Locked by {guarded.root.slug}")).to_be_visible()
    expect(page.get_by_text(f"{guarded.root.slug} approves").first).to_be_visible()
    page.get_by_label("Max tokens").fill("0")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("link", name="Max tokens").click()
    expect(page.locator(".setting", has=page.get_by_label("Max tokens"))).to_contain_text("greater than or equal to 1")
    expect(page.get_by_label("Max tokens")).to_have_value("0")
    assert fits(page)
    page.get_by_label("Max tokens").fill("")
    page.get_by_label("Reset to inherited: Max turns").check()
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".change")).to_have_count(1)
    page.get_by_role("button", name="Back to editing").click()
    expect(page.get_by_label("Reset to inherited: Max turns")).to_be_checked()

    page.get_by_role("link", name="Agents", exact=True).click()
    page.get_by_label("Name", exact=True).fill("helper")
    page.get_by_role("button", name="Fill it in").click()
    page.get_by_label("Model").fill("sonnet")
    page.get_by_label("Enabled").select_option("false")
    assert fits(page)
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved as version 2: 2 places changed.")).to_be_visible()
    assert document(guarded)["agents"] == {"helper": {"model": "sonnet", "enabled": False}}

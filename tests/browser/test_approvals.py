"""An action that waits for a person: seen by who asked, decided by a reviewer, with and without scripts."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from pytest_django import Settings

from controlplane.configs.services import config_patch
from controlplane.investigations.models import Thread
from tests.browser.support import Site, fits, status, thread_path, threads
from tests.factories import Tree, actor_for_user
from tests.support.action_server import ActionServer, action_server
from tests.support.runs import start_run, wait_until
from tests.web.support import Person

pytestmark = pytest.mark.browser

PROMPT = 'run action restart with service=checkout, reason="memory is full since the release"'


@pytest.fixture
def ops(settings: Settings) -> Iterator[ActionServer]:
    settings.OUTBOUND_PRIVATE_ALLOW = ["127.0.0.0/8"]
    with action_server() as served:
        yield served


def asked(tree: Tree, ops: ActionServer, rita: Person, **action: object) -> Thread:
    fields = {"url": ops.url, "side_effect": "destructive", "arguments": {"service": None, "reason": None}} | action
    config_patch(actor=tree.system, node=tree.payments, patch={"actions": {"restart": fields}})
    started = start_run(actor_for_user(rita.user), tree.payments, prompt=PROMPT, runtime="builtin", visibility="team")
    wait_until(lambda: threads(tree).filter(runs__status="waiting").exists(), what="the run to wait")
    return started.thread


def shot(page: Page, name: str) -> None:
    """Keep a picture where somebody wants to look at it."""
    if folder := os.environ.get("OPENSRE_PICTURES"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def test_approval__asker_watches__reviewer_approves_on_the_thread__it_is_done(
    site: Site, tree: Tree, ops: ActionServer, rita: Person, rex: Person
) -> None:
    thread = asked(tree, ops, rita)
    mine = site.visit(rita)
    mine.goto(thread_path(thread))
    expect(mine.get_by_role("heading", name="The investigation wants to act")).to_be_visible()
    expect(mine.get_by_text("You asked for it, so somebody else approves it")).to_be_visible()
    expect(mine.get_by_role("button", name="Approve")).to_have_count(0)
    shot(mine, "approval-asker")
    theirs = site.visit(rex)
    theirs.goto(thread_path(thread))
    card = theirs.locator("form[data-approval]")
    expect(card).to_contain_text("action_restart")
    expect(card).to_contain_text("memory is full since the release")
    fits(theirs)
    shot(theirs, "approval-reviewer")
    card.get_by_label("Reason").fill("yes, it is known")
    card.get_by_role("button", name="Approve").click()
    expect(status(theirs)).to_have_text("Completed")
    expect(mine.locator("form[data-approval]")).to_have_count(0)
    expect(status(mine)).to_have_text("Completed")
    assert len(ops.done) == 1


def test_approval__without_scripts__in_the_inbox__rejected_with_a_reason(
    site: Site, tree: Tree, ops: ActionServer, rita: Person, rex: Person
) -> None:
    asked(tree, ops, rita)
    page = site.visit(rex, java_script_enabled=False)
    page.goto("/app/reviews")
    page.get_by_role("link", name="action_restart for payments").click()
    expect(page.get_by_role("heading", name="What would be done")).to_be_visible()
    fits(page)
    shot(page, "approval-review")
    page.get_by_label("Reason").fill("not during the sale")
    page.get_by_role("button", name="Reject").click()
    expect(page.get_by_text("The request is rejected.")).to_be_visible()
    wait_until(lambda: threads(tree).filter(runs__status="completed").exists(), what="the run to end")
    assert ops.done == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_approval__on_a_phone__fits(
    site: Site, tree: Tree, ops: ActionServer, rita: Person, rex: Person, scheme: str
) -> None:
    thread = asked(tree, ops, rita, approval_s=600)
    page = site.visit(rex, viewport={"width": 390, "height": 844}, color_scheme=scheme)
    page.goto(thread_path(thread))
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    fits(page)
    shot(page, f"approval-phone-{scheme}")

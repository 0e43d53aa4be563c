"""What people do: sign in, investigate, watch, steer, answer."""

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect
from pytest_django import Settings

from controlplane.access.services import sign_in_link_create
from controlplane.configs.services import config_patch
from controlplane.investigations.models import Thread
from controlplane.runtimes.samples import load_sample
from tests.browser.support import Site, fits, run_of, status, thoughts, thread_path, threads
from tests.factories import PASSWORD, Tree, make_operator
from tests.support.runs import script, wait_for_status
from tests.web.support import Person

pytestmark = pytest.mark.browser

Start = Callable[..., Thread]


def test_sign_in__wrong_then_right__and_the_theme_is_remembered(site: Site, rita: Person) -> None:
    page = site.visit()
    page.goto("/app/runs")
    page.get_by_label("Username").fill(rita.user.username)
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("do not match")
    expect(page.get_by_label("Username")).to_have_value(rita.user.username)
    page.get_by_role("button", name="Dark").click()
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{site.url}/app/runs")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_label("Account and appearance").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(f"{site.url}/login/")


def test_link__previews_do_not_use_it_up__the_button_does(site: Site, rita: Person) -> None:
    secret = sign_in_link_create(user=rita.user)
    page = site.visit()
    page.goto(f"/login/link/{secret}")
    page.reload()
    page.get_by_role("button", name=f"Sign in as {rita.user.username}").click()
    expect(page).to_have_url(f"{site.url}/app/")
    other = site.visit()
    other.goto(f"/login/link/{secret}")
    expect(other.get_by_role("heading", name="This link no longer works")).to_be_visible()


def test_investigation__from_the_form_to_the_answer__by_keyboard_alone(page: Page, tree: Tree) -> None:
    page.goto("/app/")
    expect(page.get_by_label("What should be investigated?")).to_be_focused()
    page.keyboard.type(script({"thought": "I look."}, {"result": "It is **fine**."}))
    page.keyboard.press("Tab")  # alert and evidence
    page.keyboard.press("Tab")
    expect(page.get_by_label("Team", exact=True).first).to_be_focused()
    page.keyboard.type("Pay")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    expect(page.locator("input[value=team]")).to_be_checked()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(status(page)).to_have_text("Completed")
    expect(page.locator(".answer strong")).to_have_text("fine")
    assert threads(tree).get().visibility == "team"
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement !== document.body")


def test_composer__refused__says_where_and_keeps_everything(page: Page, tree: Tree) -> None:
    page.goto("/app/new")
    page.get_by_text("Add files, an alert or recorded evidence").click()
    page.get_by_label("Alert").fill("{broken")
    page.get_by_label("Evidence snapshot").set_input_files(
        {"name": "s.json", "mimeType": "application/json", "buffer": b'{"format": "snapshot/9"}'}
    )
    page.get_by_role("button", name="Investigate").click()
    expect(page.get_by_text("Say what should be investigated.")).to_be_visible()
    expect(page.get_by_text("Choose the team")).to_be_visible()
    expect(page.get_by_text("This is not a JSON object")).to_be_visible()
    expect(page.get_by_label("What should be investigated?")).to_be_focused()
    page.get_by_label("What should be investigated?").fill("Why?")
    page.get_by_label("Team", exact=True).first.select_option("payments")
    page.get_by_label("Alert").fill('{"title": "Lag"}')
    page.get_by_role("button", name="Investigate").click()
    expect(page.locator("#evidence-error")).to_contain_text("snapshot/1")
    expect(page.get_by_label("Alert")).to_have_value('{"title": "Lag"}')
    assert not threads(tree).exists()
    page.reload()
    expect(page.get_by_label("What should be investigated?")).to_have_value("Why?")


def test_composer__pressed_many_times__starts_once(page: Page, tree: Tree) -> None:
    page.goto("/app/")
    page.get_by_label("What should be investigated?").fill(script({"thought": "once"}))
    page.get_by_label("Team", exact=True).first.select_option("payments")
    page.evaluate("for (let i = 0; i < 5; i += 1) document.querySelector('[data-go]').click()")
    expect(status(page)).to_have_text("Completed")
    assert threads(tree).count() == 1


def test_thread__reloaded_mid_run__goes_on_and_stop_works(page: Page, run_script: Start) -> None:
    thread = run_script({"thought": "one"}, {"thought": "two"}, {"block": True})
    page.goto(thread_path(thread))
    expect(thoughts(page)).to_have_text(["one", "two"])
    expect(page).to_have_title(re.compile("^● "))
    page.reload()
    expect(thoughts(page)).to_have_text(["one", "two"])
    expect(status(page)).to_have_text("Running")
    expect(page.locator("[data-elapsed]")).to_have_text(re.compile(r"^\d+:\d\d$"))
    page.get_by_role("button", name="Stop").click()
    expect(status(page)).to_have_text("Interrupted")
    expect(page.locator("[data-outcome]")).to_contain_text("Stopped by Rita")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    expect(page).to_have_title(re.compile("^■ "))


def test_thread__message_mid_run_and_follow_up__each_find_their_turn(page: Page, run_script: Start) -> None:
    thread = run_script({"thought": "first"}, {"block": True})
    page.goto(thread_path(thread))
    expect(thoughts(page)).to_have_text(["first"])
    field = page.get_by_label("Message to the investigation")
    field.fill("Look at the replica too.")
    page.reload()
    expect(field).to_have_value("Look at the replica too.")
    field.press("Control+Enter")
    expect(page.locator(".step-message")).to_contain_text("Look at the replica too.")
    expect(field).to_have_value("")
    page.get_by_role("button", name="Stop").click()
    # What was not taken up before the stop starts the next turn by itself.
    expect(page.locator(".turn")).to_have_count(2)
    expect(page.locator(".turn").nth(1).locator("[data-prompt]")).to_contain_text("Look at the replica too.")
    expect(status(page)).to_have_text("Completed")
    field.fill(script({"thought": "third"}, {"result": "Third answer."}))
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".turn")).to_have_count(3)
    expect(page.locator(".turn").nth(2).locator("[data-outcome]")).to_contain_text("Third answer.")
    expect(page.locator(".turn").nth(0).locator("[data-run-status]")).to_contain_text("Interrupted")


def test_question__answered_by_keyboard__the_run_goes_on(
    page: Page, site: Site, rita: Person, run_script: Start
) -> None:
    thread = run_script({"ask": "Which database?", "options": ["primary", "replica"]}, {"result": "Thanks."})
    watcher = site.visit(rita)
    for each in (page, watcher):
        each.goto(thread_path(thread))
        expect(status(each)).to_have_text("Waiting")
        expect(each.get_by_role("heading", name="The investigation needs your answer")).to_be_visible()
    page.get_by_role("button", name="Answer").click()
    expect(page.get_by_text("Choose an option or write an answer")).to_be_visible()
    page.get_by_label("primary").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.type("since noon")
    page.keyboard.press("Enter")
    for each in (page, watcher):
        expect(each.locator(".step-question")).to_contain_text("Rita answered")
        expect(each.locator(".said-answer")).to_have_text("replica // since noon")
        expect(each.locator("form.question")).to_have_count(0)
        expect(status(each)).to_have_text("Completed")
    expect(thoughts(page)).to_have_text(["answer: replica // since noon"])


def test_question__asked_while_watching__appears_and_a_message_leaves_it_alone(page: Page, run_script: Start) -> None:
    thread = run_script({"thought": "first"}, {"sleep_ms": 400}, {"ask": "Sure?"}, {"result": "Done."})
    page.goto(thread_path(thread))
    expect(page.get_by_role("heading", name="The investigation needs your answer")).to_be_visible()
    page.get_by_label("Message to the investigation").fill("What are you doing?")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".step-message")).to_contain_text("What are you doing?")
    expect(status(page)).to_have_text("Waiting")
    page.get_by_role("textbox", name="Your answer").fill("yes")
    page.get_by_role("button", name="Answer").click()
    expect(page.locator(".said-answer")).to_have_text("yes")
    expect(page.locator(".turn").nth(0).locator("[data-outcome]")).to_contain_text("Done.")


def test_failed_run__says_so_and_not_that_it_completed(page: Page, run_script: Start) -> None:
    thread = run_script({"thought": "one"}, {"error": "The model refused the request.", "code": "model_refused"})
    page.goto(thread_path(thread))
    expect(status(page)).to_have_text("Failed")
    expect(page.locator("[data-outcome]")).to_contain_text("The model refused the request.")
    expect(page.locator(".step-end")).to_have_attribute("data-end", "failed")


def test_sample__builtin_runtime__report_with_citations_that_open_their_steps(
    page: Page, tree: Tree, settings: Settings
) -> None:
    settings.DEFAULT_RUNTIME = "builtin"
    sample = load_sample()
    page.goto("/app/")
    page.get_by_text("Add files, an alert or recorded evidence").click()
    page.get_by_label("What should be investigated?").fill(sample.prompt)
    page.get_by_label("Alert").fill(json.dumps(sample.alert))
    snapshot = json.dumps(sample.snapshot).encode()
    page.get_by_label("Evidence snapshot").set_input_files(
        {"name": "snapshot.json", "mimeType": "application/json", "buffer": snapshot}
    )
    page.get_by_label("Team", exact=True).first.select_option("payments")
    page.get_by_role("button", name="Investigate").click()
    report = page.locator("article.report")
    expect(report.get_by_role("heading", level=2)).to_be_visible()
    expect(status(page)).to_have_text("Completed")
    cite = report.locator("a.cite").first
    cite.hover()
    tip = page.get_by_role("tooltip")
    expect(tip).to_contain_text(cite.get_attribute("data-quote") or "no quote")
    cite.click()
    observation = page.locator(f"[id='obs-{cite.get_attribute('data-observation')}']")
    expect(observation).to_be_focused()
    expect(observation).to_be_in_viewport()
    expect(observation.locator("blockquote")).to_have_text(cite.get_attribute("data-quote") or "")
    assert "#obs-" in page.url
    page.reload()
    expect(observation).to_be_in_viewport()
    assert run_of(threads(tree).get()).runtime == "builtin"


def test_without_scripts__start_message_stop_and_read(site: Site, tree: Tree, rita: Person) -> None:
    page = site.visit(rita, java_script_enabled=False)
    page.goto("/app/")
    page.get_by_label("What should be investigated?").fill(script({"block": True}))
    page.get_by_label("Team", exact=True).first.select_option("payments")
    page.get_by_role("button", name="Investigate").click()
    with page.expect_navigation():  # the page that follows; reloading before it is there would break it off
        page.get_by_role("button", name="Stop").click()
    thread = threads(tree).get()
    wait_for_status(run_of(thread))
    page.reload()
    expect(page.locator("[data-outcome]")).to_contain_text("Stopped by Rita")
    page.get_by_label("Message to the investigation").fill(script({"result": "Read **me**."}))
    with page.expect_navigation():
        page.get_by_role("button", name="Send").click()
    wait_for_status(run_of(thread, 2))
    page.reload()
    expect(page.locator(".answer strong")).to_have_text("me")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages__on_a_phone__fit(site: Site, rita: Person, run_script: Start, scheme: str) -> None:
    page = site.visit(rita, viewport={"width": 390, "height": 844}, color_scheme=scheme)
    thread = run_script({"thought": "long " + "x" * 300}, {"ask": "y" * 200, "options": ["z" * 120]})
    page.goto(thread_path(thread))
    expect(page.locator("form.question")).to_be_visible()
    assert fits(page)
    for path in ("/app/", "/app/new", "/app/runs", "/app/config/payments", "/nothing"):
        page.goto(path)
        assert fits(page), path


def test_composer__team_chosen_last__is_chosen_again(page: Page) -> None:
    page.goto("/app/")
    page.get_by_label("What should be investigated?").fill(script({"thought": "one"}))
    page.get_by_label("Team", exact=True).first.select_option("platform")
    page.get_by_role("button", name="Investigate").click()
    expect(status(page)).to_have_text("Completed")
    page.goto("/app/")
    expect(page.get_by_label("Team", exact=True).first).to_have_value("platform")
    expect(page.get_by_label("What should be investigated?")).to_have_value("")


def test_config__filter_and_own_values(page: Page, tree: Tree) -> None:
    for node, patch in (
        (tree.root, {"limits": {"max_turns": 5}, "team_context": "x"}),
        (tree.payments, {"memory": {}}),
    ):
        config_patch(actor=tree.system, node=node, patch=patch)
    config_patch(actor=tree.system, node=tree.payments, patch={"limits": {"wall_clock_s": 60}})
    page.goto("/app/config/payments")
    leaves = page.locator("[data-leaf]:visible")
    expect(leaves).to_have_count(3)
    page.get_by_label("Filter by path or value").fill("limits/wall")
    expect(leaves).to_have_count(1)
    expect(page.locator("[data-count]")).to_have_text("1 value shown")
    page.get_by_label("Filter by path or value").fill("nothing like this")
    expect(page.get_by_text("Nothing matches.")).to_be_visible()
    page.get_by_label("Filter by path or value").fill("")
    page.get_by_label("Set here only").check()
    expect(leaves).to_contain_text(["wall_clock_s"])


def test_api_docs__viewer__draws_our_schema(page: Page) -> None:
    page.goto("/api/docs")
    expect(page.get_by_text("/api/v1/investigations", exact=True).first).to_be_visible()


def test_admin__operator__opens_under_its_own_policy(site: Site, tree: Tree) -> None:
    make_operator(f"operator-{tree.organization.slug}")
    page = site.visit()
    page.goto("/login/")
    page.get_by_label("Username").fill(f"operator-{tree.organization.slug}")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{site.url}/admin/")
    page.get_by_role("link", name="Organizations").last.click()
    expect(page).to_have_url(f"{site.url}/admin/orgs/organization/")
    page.goto(f"/admin/orgs/organization/?slug={tree.organization.slug}")  # the list is in pages, the tests' are many
    expect(page.get_by_role("link", name=tree.organization.slug, exact=True)).to_be_visible()

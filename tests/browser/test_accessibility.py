"""Contrast, names, landmarks and headings of every page, in both colour schemes."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from pytest_django import Settings

from controlplane.configs.policy_services import policy_create
from controlplane.configs.services import config_patch
from controlplane.core import clock
from controlplane.investigations.models import Thread
from controlplane.reviews.models import ReviewRequest
from controlplane.runtimes.evaluation import CaseResult, SuiteResult
from controlplane.runtimes.samples import load_sample
from controlplane.runtimes.services import evaluation_record
from tests.browser.support import Site, fits, run_of, thread_path
from tests.factories import Tree
from tests.support.runs import wait_for_status
from tests.web.support import Person

pytestmark = pytest.mark.browser

#: WCAG 2.2, 1.4.3: 4.5 to 1 for text (https://www.w3.org/TR/WCAG22/#contrast-minimum).
CONTRAST = """() => {
  const channels = (colour) => {
    const numbers = colour.match(/[\\d.]+/g).map(Number);
    const scale = colour.startsWith("color(") ? 255 : 1;
    return [...numbers.slice(0, 3).map((n) => n * scale), numbers[3] ?? 1];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const background = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(channels(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const faults = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (element.closest(".sr-only, .skip, [disabled], noscript, option")) continue;
    const behind = background(element);
    const text = over(channels(getComputedStyle(element).color), behind);
    const [light, dark] = [luminance(text), luminance(behind)].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    const words = element.textContent.trim().slice(0, 40);
    if (ratio < 4.5) faults.push(`${ratio.toFixed(2)} ${element.className || element.tagName}: ${words}`);
  }
  return faults;
}"""

STRUCTURE = """() => {
  const faults = [];
  const named = (element) => element.ariaLabel || element.getAttribute("aria-labelledby") || element.labels?.length
    || element.textContent.trim() || element.title || element.closest("label");
  for (const element of document.querySelectorAll("a, button, input:not([type=hidden]), select, textarea, summary")) {
    if (!named(element)) faults.push(`no name: ${element.outerHTML.slice(0, 80)}`);
  }
  if (document.querySelector("img:not([alt])")) faults.push("img without alt");
  if (document.querySelectorAll("main").length !== 1) faults.push("not one main");
  if (document.querySelectorAll("h1").length !== 1) faults.push("not one h1");
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids)) if (ids.indexOf(id) !== ids.lastIndexOf(id)) faults.push(`twice: #${id}`);
  for (const element of document.querySelectorAll("[aria-describedby], [aria-labelledby]")) {
    const wanted = ["aria-describedby", "aria-labelledby"].map((name) => element.getAttribute(name) ?? "").join(" ");
    const lost = wanted.split(" ").filter((id) => id && !document.getElementById(id));
    faults.push(...lost.map((id) => `points nowhere: ${id}`));
  }
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    if (!heading.checkVisibility()) continue;
    const next = Number(heading.tagName[1]);
    if (next > level + 1) faults.push(`heading level skipped: ${heading.textContent.trim().slice(0, 40)}`);
    level = next;
  }
  return faults;
}"""


def assert_accessible(page: Page) -> None:
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(STRUCTURE) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages__contrast_names_and_structure(
    site: Site, rita: Person, run_script: Callable[..., Thread], settings: Settings, scheme: Any
) -> None:
    settings.DEFAULT_RUNTIME = "builtin"
    sample = load_sample()
    fields = {"prompt": sample.prompt, "alert": sample.alert, "evidence": sample.snapshot, "runtime": "builtin"}
    finished = run_script(**fields, visibility="team", sample=True)
    waiting = run_script({"ask": "Which?", "options": ["a", "b"]})
    failed = run_script({"thought": "one"}, {"error": "No."})
    wait_for_status(run_of(finished))
    page = site.visit(rita, color_scheme=scheme)
    page.goto(thread_path(finished))
    expect(page.locator(".step-end")).to_be_visible()
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    expect(page.locator(".observation").first).to_be_visible()
    assert_accessible(page)
    page.goto(thread_path(waiting))
    expect(page.locator("form.question")).to_be_visible()
    assert_accessible(page)
    page.goto(thread_path(failed))
    expect(page.locator(".step-end")).to_be_visible()
    assert_accessible(page)
    cases = [
        CaseResult("a-1", passed, 0.2, "healthy", "healthy", () if passed else ("why",)) for passed in (True, False)
    ]
    evaluation_record(result=SuiteResult("tracer", "builtin", cases, 0.5, {"right_category": 0.5}))
    places = ("/app/", "/app/new", "/app/runs", "/app/runs?status=timeout", "/app/config/payments", "/app/evaluations")
    for path in (*places, "/nothing"):
        page.goto(path)
        assert_accessible(page)
    stranger = site.visit(color_scheme=scheme)
    for path in ("/login/", "/login/link/none"):
        stranger.goto(path)
        assert_accessible(stranger)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_configuration_and_reviews__contrast_names_structure_and_width(
    site: Site, tree: Tree, ada: Person, rex: Person, scheme: Any, width: int
) -> None:
    token = {"type": "bearer", "token": "${OPENSRE_CRED_PROM}"}
    patch = {"limits": {"max_turns": 20}, "integrations": {"prom": {"kind": "prometheus", "auth": token}}}
    for node, values in ((tree.root, {"limits": {"max_turns": 50}}), (tree.payments, patch)):
        config_patch(actor=tree.system, node=node, patch=values)
    for pointer, kind in (("/limits", "requires_approval"), ("/team_context", "required"), ("/runtime", "locked")):
        policy_create(actor=tree.system, node=tree.root, pointer=pointer, kind=kind)
    waiting, moved = (
        config_patch(actor=ada.actor, node=tree.payments, patch={"limits": {"max_turns": turns}}).review
        for turns in (30, 40)
    )
    assert waiting is not None
    assert moved is not None
    policy_create(actor=tree.system, node=tree.payments, pointer="/limits/max_turns", kind="maximum", value=99)
    ReviewRequest.objects.filter(pk=moved.pk).update(
        state="needs_rebase", decided_at=clock.now(), result={"diff": moved.diff}
    )
    base = "/app/config/payments"
    page = site.visit(ada, color_scheme=scheme, viewport={"width": width, "height": 860})
    for path in (
        base,
        f"{base}/edit",
        f"{base}/edit?section=agents",
        f"{base}/edit?section=integrations&entry=logs&kind=loki",
        f"{base}/edit?as=json",
        f"{base}/edit?pointer=/limits/max_turns",
        f"{base}/history",
        f"{base}/compare",
        f"{base}/policies",
        f"{base}/credentials",
        "/app/reviews",
        "/app/reviews?show=decided",
        f"/app/reviews/{waiting.pk}",
        f"/app/reviews/{moved.pk}",
    ):
        page.goto(path)
        if width > 1000:
            page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")
        assert_accessible(page)
        assert fits(page), path
    page.goto(f"{base}/edit?as=json")
    page.get_by_label("JSON", exact=True).fill('{"limits": {"max_turns": 0}}')
    page.get_by_role("button", name="Preview").last.click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert_accessible(page)
    page.get_by_label("JSON", exact=True).fill('{"limits": {"max_turns": 25}}')
    page.get_by_role("button", name="Preview").last.click()
    expect(page.get_by_role("button", name="Request approval")).to_be_visible()
    assert_accessible(page)
    assert fits(page)
    decider = site.visit(rex, color_scheme=scheme, viewport={"width": width, "height": 860})
    for path in ("/app/reviews", f"/app/reviews/{waiting.pk}", f"{base}/edit"):
        decider.goto(path)
        assert_accessible(decider)
        assert fits(decider), path


def test_keyboard__skip_link_leads_to_the_content(page: Page) -> None:
    page.goto("/app/runs")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


def test_live_region__history_is_not_read_out_and_news_is(page: Page, run_script: Callable[..., Thread]) -> None:
    thread = run_script({"thought": "one"}, {"block": True})
    page.goto(thread_path(thread))
    expect(page.get_by_role("log")).to_have_attribute("aria-live", "polite")
    expect(page.locator("[data-turns]")).to_have_attribute("aria-busy", "false")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("[data-announce]")).to_have_text("Run interrupted.")


def test_home__run_ends__the_list_follows(page: Page, run_script: Callable[..., Thread]) -> None:
    page.clock.install()
    thread = run_script({"ask": "Which?"})
    wait_for_status(run_of(thread), "waiting")
    page.goto("/app/")
    expect(page.locator("#active .badge")).to_have_text("Waiting")
    page.context.request.post(
        f"/api/v1/threads/{thread.pk}/interrupt",
        data={},
        headers={"X-CSRFToken": page.locator("[name=csrfmiddlewaretoken]").first.input_value()},
    )
    page.clock.fast_forward(9000)
    expect(page.locator("#recent .badge")).to_have_text("Interrupted")
    expect(page.locator("#active .badge")).to_have_count(0)

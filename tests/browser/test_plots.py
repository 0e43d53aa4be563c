"""The metrics of a report, as a person sees them; the site's fixture fails a test whose page broke the policy."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from controlplane.investigations.models import Thread
from controlplane.runtimes.samples import load_sample
from tests.browser.support import Site, fits, run_of, thread_path
from tests.support.runs import wait_for_status
from tests.web.support import Person

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(("width", "height"), [(1280, 860), (390, 844)])
@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_sample__metrics__are_drawn_with_the_change_marked(
    site: Site, rita: Person, run_script: Callable[..., Thread], *, width: int, height: int, script: bool
) -> None:
    sample = load_sample()
    thread = run_script(prompt=sample.prompt, alert=sample.alert, evidence=sample.snapshot, runtime="builtin")
    run = wait_for_status(run_of(thread))
    page = site.visit(rita, viewport={"width": width, "height": height}, java_script_enabled=script)
    page.goto(thread_path(thread))
    chart = page.get_by_role("img", name="FreeStorageSpace of checkout-db fell from").first
    chart.scroll_into_view_if_needed()
    expect(chart).to_be_visible()
    line, marker = chart.locator(".plot-line"), chart.locator(".plot-change")
    expect(marker).to_be_visible()
    drawn, mark, whole = line.bounding_box(), marker.bounding_box(), chart.bounding_box()
    assert drawn is not None
    assert mark is not None
    assert whole is not None
    assert drawn["width"] > 0.6 * whole["width"]
    assert drawn["x"] <= mark["x"] <= drawn["x"] + drawn["width"]
    assert mark["height"] > 50
    assert 0 <= whole["x"] <= whole["x"] + whole["width"] <= width
    alert, label, when = chart.locator(".plot-alert"), chart.locator(".plot-alert-label"), chart.locator(".plot-when")
    expect(label).to_have_text("alert")
    at, said, changed = alert.bounding_box(), label.bounding_box(), when.bounding_box()
    assert at is not None
    assert said is not None
    assert changed is not None
    assert mark["x"] < at["x"] <= drawn["x"] + drawn["width"]  # the alert goes off after the change
    apart = said["x"] >= changed["x"] + changed["width"] or said["x"] + said["width"] <= changed["x"]
    assert apart or said["y"] >= changed["y"] + changed["height"]
    if script:  # without scripts nothing can be asked of the page's window
        assert fits(page)
        assert page.evaluate("getComputedStyle(document.querySelector('.plot-line')).fill") == "none"
    page.locator(".plot .cite").first.click()
    evidence = page.locator(f"#evidence-{run.pk}-1")
    expect(evidence).to_be_visible()
    expect(evidence).to_be_in_viewport()


def test_report__download__is_a_markdown_file(site: Site, rita: Person, run_script: Callable[..., Thread]) -> None:
    sample = load_sample()
    thread = run_script(prompt=sample.prompt, alert=sample.alert, evidence=sample.snapshot, runtime="builtin")
    wait_for_status(run_of(thread))
    page = site.visit(rita)
    page.goto(thread_path(thread))
    with page.expect_download() as download:
        page.get_by_role("link", name="Download markdown").click()
    assert download.value.suggested_filename.endswith("checkout-db-runs-out-of-storage.md")
    assert download.value.path().read_text().startswith("# checkout-db runs out of storage\n")

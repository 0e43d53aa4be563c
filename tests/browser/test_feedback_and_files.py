"""Rating an answer with the keyboard and without scripts; files that go along with a question."""

from collections.abc import Callable

import pytest
from playwright.sync_api import FilePayload, Page, expect
from pytest_django import Settings

from controlplane.investigations.models import Feedback, StoredFile, Thread
from tests.browser.support import Site, fits, run_of, thread_path, threads
from tests.factories import Tree
from tests.support.runs import wait_for_status
from tests.web.support import Person

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scripts", [True, False])
def test_rating__keyboard__kept_and_changed(
    site: Site, rita: Person, run_script: Callable[..., Thread], scripts: bool
) -> None:
    thread = run_script({"result": "It was DNS."})
    wait_for_status(run_of(thread))
    page = site.visit(rita, java_script_enabled=scripts, viewport={"width": 390, "height": 860})
    page.goto(thread_path(thread))

    page.get_by_role("radio", name="Correct").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    page.keyboard.type("It was BGP.")
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name="Your rating")).to_be_visible()
    expect(page.get_by_role("radio", name="Wrong")).to_be_checked()
    expect(page.get_by_label("Reason, optional")).to_have_value("It was BGP.")
    assert [(item.verdict, item.reason) for item in Feedback.objects.filter(run__thread=thread)] == [
        ("wrong", "It was BGP.")
    ]
    assert fits(page)


def test_rating__run_ends_while_one_looks__form_is_there(page: Page, run_script: Callable[..., Thread]) -> None:
    thread = run_script({"sleep_ms": 800}, {"result": "done"})
    page.goto(thread_path(thread))
    page.get_by_role("radio", name="Partly").check()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("radio", name="Partly")).to_be_checked()
    expect(page.get_by_role("button", name="Change")).to_be_visible()


def test_files__chosen_in_the_composer__go_along(page: Page, tree: Tree, settings: Settings) -> None:
    settings.DEFAULT_RUNTIME = "scripted"
    page.goto("/app/new")
    page.get_by_label("What should be investigated?").fill("Why?")
    if page.locator("select#team").count():
        page.locator("select#team").select_option("payments")
    page.get_by_text("Add files, an alert or recorded evidence").click()
    files = page.get_by_label("Files")
    files.set_input_files(FilePayload(name="a.zip", mimeType="text/plain", buffer=b"PK\x03\x04"))
    page.get_by_role("button", name="Investigate").click()
    expect(page.get_by_text("a.zip: Only text, JSON")).to_be_visible()

    files.set_input_files(FilePayload(name="note.txt", mimeType="text/html", buffer=b"look here"))
    page.get_by_role("button", name="Investigate").click()

    expect(page.get_by_role("link", name="note.txt")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="note.txt").click()
    assert download.value.suggested_filename == "note.txt"
    file = StoredFile.objects.get(organization=tree.organization, name="note.txt")
    assert file.thread == threads(tree).get()

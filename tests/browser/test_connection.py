"""The live page when connections fail: nothing is lost, nothing is shown twice, and nothing is called failed."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from controlplane.access.models import Membership
from controlplane.investigations.lifecycle import Outcome, run_end_unclaimed
from controlplane.investigations.models import Event, Thread
from tests.browser.support import Site, run_of, status, thoughts, thread_path
from tests.support import runs
from tests.web.support import Person

pytestmark = pytest.mark.browser

Start = Callable[..., Thread]


def ticks(count: int, pause_ms: int) -> list[dict[str, Any]]:
    return [step for n in range(count) for step in ({"thought": f"tick {n}"}, {"sleep_ms": pause_ms})]


def expect_whole_log(page: Page, thread: Thread) -> None:
    """The page shows every thought of the log, in order, once."""
    expect(status(page)).to_have_text("Completed")
    runs.wait_for_status(run_of(thread))
    expect(thoughts(page)).to_have_text(runs.thoughts(thread.pk))


def test_cut_by_the_server_again_and_again__every_event_once(page: Page, site: Site, run_script: Start) -> None:
    thread = run_script(*ticks(30, 60))
    page.goto(thread_path(thread))
    for n in (3, 9, 15, 21):
        expect(thoughts(page).filter(has_text=re.compile(f"^tick {n}$"))).to_be_visible()
        site.cut_connections()
    expect_whole_log(page, thread)


def test_offline_and_back__says_reconnecting_then_catches_up(page: Page, run_script: Start) -> None:
    thread = run_script(*ticks(20, 60))
    page.goto(thread_path(thread))
    expect(thoughts(page).first).to_be_visible()
    page.context.set_offline(True)
    connection = page.locator("[data-connection]")
    expect(connection).to_contain_text("Reconnecting")
    expect(status(page)).to_have_text("Running")
    runs.wait_for_status(run_of(thread))
    page.context.set_offline(False)
    expect_whole_log(page, thread)
    expect(connection).to_be_hidden()


def test_proxy_that_answers_errors__is_retried(page: Page, site: Site, run_script: Start) -> None:
    thread = run_script({"thought": "one"}, {"sleep_ms": 300}, {"thought": "two"}, {"result": "Done."})

    def bad_gateway(route: Route) -> None:
        route.fulfill(status=502, body="bad gateway")

    page.route("**/stream?*", bad_gateway)
    page.goto(thread_path(thread))
    expect(page.locator("[data-connection]")).to_contain_text("Reconnecting")
    page.unroute("**/stream?*")
    expect_whole_log(page, thread)
    expect(page.locator("[data-connection]")).to_be_hidden()


def test_hole_and_repetition_in_the_stream__are_healed_from_the_log(page: Page, run_script: Start) -> None:
    thread = run_script(*({"thought": f"tick {n}"} for n in range(8)))
    runs.wait_for_status(run_of(thread))
    envelopes = runs.envelopes(thread.pk)

    def tampered(route: Route) -> None:
        kept = [envelope for envelope in envelopes if envelope["seq"] not in {3, 4, 7}]
        frames = [f"id: {e['seq']}\nevent: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in [*kept, *kept[:4]]]
        broken = 'event: thought\ndata: {"seq": 7, "ty\n\n'
        route.fulfill(
            content_type="text/event-stream", body="retry: 60000\n\n" + frames[0] + broken + "".join(frames[1:])
        )

    page.route("**/stream?*", tampered, times=1)
    page.goto(thread_path(thread))
    expect_whole_log(page, thread)


def test_reset__starts_over_from_the_log(page: Page, run_script: Start) -> None:
    thread = run_script({"thought": "one"}, {"thought": "two"})
    runs.wait_for_status(run_of(thread))

    def from_another_history(route: Route) -> None:
        first = runs.envelopes(thread.pk)[:1]
        stray = {"seq": 2, "type": "thought", "thread_id": str(thread.pk), "run_id": first[0]["run_id"]}
        stray |= {"at": first[0]["at"], "data": {"text": "of another history"}}
        frames = [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in [*first, stray]]
        reset = f"event: reset\ndata: {json.dumps({'type': 'reset', 'data': {'head': 5}})}\n\n"
        route.fulfill(content_type="text/event-stream", body="".join(frames) + reset)

    page.route("**/stream?*", from_another_history, times=1)
    page.goto(thread_path(thread))
    expect(thoughts(page)).to_have_text(["one", "two"])
    expect_whole_log(page, thread)


def test_error_event__is_content_and_not_a_broken_connection(page: Page, run_script: Start) -> None:
    thread = run_script({"thought": "one"}, {"error": "The model refused."})
    page.goto(thread_path(thread))
    expect(page.locator(".step-error")).to_contain_text("The model refused.")
    expect(page.locator("[data-thread]")).to_have_attribute("data-stream-state", "open")


def test_lost_worker__page_shows_interrupted_and_a_follow_up_works(page: Page, run_script: Start) -> None:
    thread = run_script({"thought": "one"}, {"block": True})
    page.goto(thread_path(thread))
    expect(thoughts(page)).to_have_text(["one"])
    # What the sweep does when a lease has run out; the worker that still holds the run is fenced off by it.
    run = run_of(thread)
    run_end_unclaimed(thread, run, Outcome("interrupted", reason="worker_lost"))
    expect(status(page)).to_have_text("Interrupted")
    expect(page.locator("[data-outcome]")).to_contain_text("The worker that ran this was lost")
    page.get_by_label("Message to the investigation").fill(runs.script({"result": "Going on."}))
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".turn").nth(1)).to_contain_text("Going on.")


def test_session_ended__says_so_and_keeps_the_text(page: Page, site: Site, rita: Person, run_script: Start) -> None:
    thread = run_script({"thought": "one"}, {"block": True})
    page.goto(thread_path(thread))
    expect(thoughts(page)).to_have_text(["one"])
    rita.client.logout()
    field = page.get_by_label("Message to the investigation")
    field.fill("Are you there?")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("You are signed out. Sign in again")).to_be_visible()
    expect(field).to_have_value("Are you there?")
    site.cut_connections()
    expect(page.locator("[data-connection]")).to_contain_text("You are signed out")
    expect(page.locator("[data-connection]").get_by_role("link", name="Sign in")).to_be_visible()


def test_access_taken_away__stops_asking(page: Page, site: Site, rita: Person, run_script: Start) -> None:
    thread = run_script({"thought": "one"}, {"block": True}, visibility="team")
    page.goto(thread_path(thread))
    expect(thoughts(page)).to_have_text(["one"])
    Membership.objects.filter(user=rita.user).delete()
    site.cut_connections()
    expect(page.locator("[data-connection]")).to_contain_text("no longer have access")


def test_long_run__two_thousand_events__all_shown(page: Page, run_script: Start) -> None:
    thread = run_script({"thoughts": 2000})
    page.goto(thread_path(thread))
    expect(status(page)).to_have_text("Completed", timeout=30_000)
    expect(thoughts(page)).to_have_count(2000)
    assert Event.objects.filter(thread=thread).count() == 2000 + 3
    assert thoughts(page).last.text_content() == "thought 2000"

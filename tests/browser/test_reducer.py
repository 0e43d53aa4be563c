"""The reducer, the one place where events become state: as a pure module in the browser it is written for."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from controlplane.runtimes.events import EventType
from tests.browser.support import Site
from tests.support.server import Server

pytestmark = pytest.mark.browser

AT = "2026-03-26T11:22:0{}.000Z"


def event(seq: int, type_: str, run: str | None = "r1", **data: Any) -> dict[str, Any]:
    return {"seq": seq, "type": type_, "thread_id": "t", "run_id": run, "at": AT.format(seq % 10), "data": data}


@pytest.fixture(scope="module")
def module(browser: Browser, server: Server) -> Iterator[Page]:
    """A page of the application, whose own modules can be imported."""
    site = Site(server, browser)
    page = site.visit()
    page.goto("/login/")
    yield page
    site.close()
    assert site.problems == []


def state_of(page: Page, *events: dict[str, Any]) -> Any:
    return page.evaluate(
        """async (events) => {
          const { emptyState, reduceAll } = await import("/static/web/js/reducer.js");
          return reduceAll(emptyState(), events);
        }""",
        list(events),
    )


START = event(1, "run_started", prompt="Why?", by="rita", runtime="builtin")
TOOL = event(2, "tool_start", name="read", tool_use_id="u1", input={"source": "metrics"})


def test_reducer__knows_every_type_of_the_log(module: Page) -> None:
    types = module.evaluate("async () => (await import('/static/web/js/reducer.js')).EVENT_TYPES")
    assert sorted(types) == sorted(EventType)


def test_reducer__whole_run__one_item_per_step(module: Page) -> None:
    seen = {"id": "u1.1", "source": "metrics", "object": "db", "kind": "metric", "quote": "rose"}
    state = state_of(
        module,
        START,
        TOOL,
        event(3, "tool_end", name="read", tool_use_id="u1", success=True, summary="1 series", observations=[seen]),
        event(4, "thought", text="So."),
        event(5, "result", text="Done", success=True, report={"format": "report/1"}),
        event(6, "run_ended", status="completed", duration_ms=5000),
    )
    (run,) = state["runs"]
    assert [item["kind"] for item in run["items"]] == ["tool", "thought", "answer", "end"]
    assert (run["state"], run["steps"], run["observations"], run["durationMs"]) == ("completed", 1, 1, 5000)
    assert (run["items"][0]["state"], run["items"][0]["durationMs"]) == ("ok", 1000)
    assert run["result"]["report"] is True


def test_reducer__repeated_and_old_events__change_nothing(module: Page) -> None:
    assert state_of(module, START, TOOL, TOOL, START) == state_of(module, START, TOOL)
    identical = module.evaluate(
        """async (events) => {
          const { emptyState, reduce, reduceAll } = await import("/static/web/js/reducer.js");
          const state = reduceAll(emptyState(), events);
          return reduce(state, events[0]) === state;
        }""",
        [START, TOOL],
    )
    assert identical is True


@pytest.mark.parametrize("status", ["failed", "interrupted", "timeout", "completed"])
def test_reducer__run_ended_with_open_tool__the_tool_was_interrupted_not_completed(module: Page, status: str) -> None:
    (run,) = state_of(module, START, TOOL, event(3, "run_ended", status=status, reason="x"))["runs"]
    assert (run["items"][0]["state"], run["state"]) == ("interrupted", status)


def test_reducer__later_events_of_an_ended_run__leave_it_ended(module: Page) -> None:
    ended = event(2, "run_ended", status="interrupted")
    (run,) = state_of(module, START, ended, event(3, "thought", text="late"))["runs"]
    assert run["state"] == "interrupted"


def test_reducer__end_of_a_tool_never_begun__is_shown(module: Page) -> None:
    (run,) = state_of(module, START, event(2, "tool_end", name="read", tool_use_id="u9", success=False, error="no"))[
        "runs"
    ]
    assert [(item["state"], item["error"]) for item in run["items"]] == [("failed", "no")]
    assert run["steps"] == 1


def test_reducer__question__waits_until_answered_or_timed_out(module: Page) -> None:
    asked = event(2, "question", request_id="q", questions=[{"question": "Which?"}])
    (run,) = state_of(module, START, asked)["runs"]
    assert (run["state"], run["openQuestion"]) == ("waiting", "q")
    (run,) = state_of(module, START, asked, event(3, "question_answered", request_id="q", answers={"a": "b"}, by="c"))[
        "runs"
    ]
    assert (run["state"], run["openQuestion"], run["items"][0]["state"]) == ("running", None, "answered")
    (run,) = state_of(module, START, asked, event(3, "question_timeout", request_id="q", message="late"))["runs"]
    assert run["items"][0]["state"] == "timeout"
    (run,) = state_of(module, START, asked, event(3, "run_ended", status="interrupted"))["runs"]
    assert (run["openQuestion"], run["items"][0]["state"]) == (None, "interrupted")


def test_reducer__messages__mid_run_are_items__idle_ones_are_the_next_prompt(module: Page) -> None:
    idle = event(1, "message_queued", None, message_id="m", text="Why?", by="rita", pending_count=1)
    state = state_of(module, idle, event(2, "run_started", prompt="Why?", by="rita"))
    assert [run["items"] for run in state["runs"]] == [[]]
    mid = event(2, "message_queued", message_id="m", text="More", by="carl", pending_count=1)
    merged = event(3, "message_queued", message_id="m", text="", by="", pending_count=0)
    (run,) = state_of(module, START, mid, merged)["runs"]
    assert [(item["kind"], item["text"]) for item in run["items"]] == [("message", "More")]


def test_reducer__unknown_type_and_withheld_data__move_the_cursor_alone(module: Page) -> None:
    state = state_of(module, START, event(2, "hologram", x=1), event(3, "thought", withheld=True), event(4, "tool_end"))
    assert state["lastSeq"] == 4
    assert state["runs"][0]["state"] in {"queued", "running"}


def test_reducer__several_runs__are_kept_apart(module: Page) -> None:
    state = state_of(
        module,
        START,
        event(2, "run_ended", status="completed"),
        event(3, "run_started", "r2", prompt="And?", by="carl"),
        event(4, "thought", "r2", text="Hm."),
    )
    assert [(run["id"], run["state"], len(run["items"])) for run in state["runs"]] == [
        ("r1", "completed", 1),
        ("r2", "running", 1),
    ]


def test_format__words_of_times(module: Page) -> None:
    words = module.evaluate(
        """async () => {
          const f = await import("/static/web/js/format.js");
          const now = new Date("2026-03-26T12:00:00Z");
          const ago = (s) => f.relativeTime(new Date(now - s * 1000), now);
          return {
            duration: [0, 999, 4240, 59950, 72000, 3600000, 7500000, NaN, -1].map(f.duration),
            clock: [0, 61000, 3723000].map(f.clock),
            ago: [5, 60, 3000, 7200, 90000].map(ago),
            utc: [f.utcClock("2026-03-26T11:22:05+02:00"), f.utcDateTime("x"), f.count(1, "step"), f.count(2, "step")],
          };
        }"""
    )
    assert words == {
        "duration": ["0 ms", "999 ms", "4.2 s", "1 min", "1 min 12 s", "1 h", "2 h 5 min", "", ""],
        "clock": ["0:00", "1:01", "1:02:03"],
        "ago": ["just now", "1 min ago", "50 min ago", "2 h ago", "yesterday"],
        "utc": ["09:22:05", "", "1 step", "2 steps"],
    }

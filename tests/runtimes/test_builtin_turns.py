"""How the built-in runtime behaves in a turn: plan, control, follow-ups, limits, resumption, missing evidence."""

import asyncio
import time
from dataclasses import replace
from typing import Any

from controlplane.configs.limits import Limits
from controlplane.runtimes.events import EventType, ToolEnd, ToolStart
from controlplane.runtimes.interface import HistoryTurn, RuntimeEvent
from controlplane.runtimes.report import Category, Report, ReportStatus
from controlplane.runtimes.sources import toolbox_for_snapshot
from controlplane.runtimes.toolbox import NoArguments, Tool, Toolbox, ToolOutput
from tests.support.evidence import (
    DATABASE,
    GIB,
    POSTGRES,
    Control,
    alert_on,
    cloudwatch,
    flat,
    insights,
    log,
    metric,
    quiet_database,
    ramp,
    rds_events,
    run_turn,
    snapshot,
    step,
    with_metrics,
)

REPLICA = f"{DATABASE}-replica-1"


def storage_case(**more: Any) -> dict[str, Any]:
    taken = snapshot(
        {
            "metrics": with_metrics(
                metric("FreeStorageSpace", ramp(20 * GIB, 0.4 * GIB, begin=5), unit="Bytes"),
                metric("ReplicaLag", flat(1.1), unit="Seconds", of=REPLICA),
            ),
            "events": rds_events((28, "DB instance ran out of storage space.", ["failure"])),
            "logs": {"logs": [log(3, "served 200", service="web")]},
            "sql": insights(("INSERT INTO a SELECT 1", 5.0, {"IO:DataFileWrite": 5.0})),
        },
        alert=alert_on(DATABASE, "Storage of the database is low."),
        scenario=POSTGRES,
    )
    return taken | more


async def test_turn__events__come_in_order_and_say_the_plan_first() -> None:
    ran = await run_turn(storage_case())
    kinds = [event.type for event in ran.events if isinstance(event, RuntimeEvent)]
    assert kinds[0] is EventType.THOUGHT
    assert kinds[-1] is EventType.RESULT
    assert kinds.count(EventType.RESULT) == 1
    assert "Plan:" in ran.thoughts[0]
    assert ran.starts[0].name == "list_evidence"
    assert {start.name for start in ran.starts} == {
        "list_evidence",
        "query_metrics",
        "query_events",
        "query_logs",
        "get_states",
    }
    pending: set[str] = set()
    for event in ran.events:
        assert isinstance(event, RuntimeEvent)
        if isinstance(event.data, ToolStart):
            pending.add(event.data.tool_use_id)
        elif isinstance(event.data, ToolEnd):
            pending.remove(event.data.tool_use_id)
    assert not pending
    assert any("FreeStorageSpace" in thought for thought in ran.thoughts)
    assert ran.result.usage is not None
    assert ran.result.usage.tool_calls == len(ran.starts)


async def test_turn__same_evidence_twice__same_report() -> None:
    first, second = await run_turn(storage_case()), await run_turn(storage_case())
    assert first.report == second.report
    assert first.result.text == second.result.text


async def test_turn__report__survives_json_and_its_text_is_markdown_with_citations() -> None:
    ran = await run_turn(storage_case())
    assert Report.model_validate_json(ran.report.model_dump_json()) == ran.report
    text = ran.result.text
    for heading in (
        "# ledger-db runs out of storage",
        "## Evidence",
        "## Timeline (UTC)",
        "## Ruled out",
        "## Next steps",
    ):
        assert heading in text
    assert "[t1-2." in text


async def test_turn__no_evidence_at_all__is_an_honest_unknown_that_says_what_would_help() -> None:
    ran = await run_turn(None, prompt="Why is checkout slow?")
    assert ran.report.root_cause is not None
    assert ran.report.root_cause.category is Category.UNKNOWN
    assert ran.report.status is ReportStatus.INCONCLUSIVE
    assert ran.result.success
    assert "metrics of the affected service" in ran.report.actions[0].action
    assert {item.what for item in ran.report.not_checked} >= {"metrics", "events", "log lines"}
    assert len(ran.starts) == 1 + 4


async def test_turn__alert_alone__is_unknown_and_repeats_what_it_reports() -> None:
    ran = await run_turn(None, alert=alert_on("checkout", "Checkout is slow."))
    assert ran.report.root_cause is not None
    assert ran.report.root_cause.category is Category.UNKNOWN
    assert ran.report.impact.summary == "Checkout is slow."


async def test_turn__nothing_understood__still_states_what_was_seen() -> None:
    taken = snapshot(
        {
            "events": rds_events((3, "The moon is full.", ["notification"])),
            "logs": {"logs": [log(4, "odd", status="error")]},
        },
        alert=alert_on("checkout", "Checkout is slow."),
    )
    ran = await run_turn(taken)
    assert ran.report.root_cause is not None
    assert ran.report.root_cause.category is Category.UNKNOWN
    assert 'Event on ledger-db: "The moon is full".' in {claim.text for claim in ran.report.claims}
    assert 'shop-api logs "odd".' in {claim.text for claim in ran.report.claims}


async def test_turn__sources_missing__are_reported_and_lower_the_confidence() -> None:
    whole = snapshot({"metrics": cloudwatch(*quiet_database()), "events": rds_events()}, scenario=POSTGRES)
    holed = whole | {
        "scenario": POSTGRES | {"available_evidence": ["metrics", "events", "traces"]},
        "unreadable": {"evidence/pods.json": "the file is not JSON"},
    }
    sound, doubtful = await run_turn(whole), await run_turn(holed)
    assert {"traces", "evidence/pods.json"} <= {item.what for item in doubtful.report.not_checked}
    assert sound.report.root_cause is not None
    assert doubtful.report.root_cause is not None
    assert doubtful.report.root_cause.confidence < sound.report.root_cause.confidence
    assert any("Missing: traces" in thought or "traces (" in thought for thought in doubtful.thoughts)


async def test_turn__more_missing_than_read__is_not_called_healthy() -> None:
    taken = snapshot(
        {"metrics": cloudwatch(*quiet_database())},
        scenario=POSTGRES | {"available_evidence": ["a", "b", "c"]},
    )
    ran = await run_turn(taken)
    assert ran.report.root_cause is not None
    assert ran.report.root_cause.category is Category.UNKNOWN


async def test_turn__malformed_parts__are_told_as_not_checked() -> None:
    broken = metric("CPUUtilization", flat(30), unit="Percent")
    broken["values"][3] = "x"
    taken = snapshot({"metrics": cloudwatch(*quiet_database(), broken), "odd": {"what": "is this"}})
    ran = await run_turn(taken)
    why = {item.what: item.why for item in ran.report.not_checked}
    assert "samples of CPUUtilization without a time or a number" in why["metrics"]
    assert "none of the known shapes" in why["odd"]


async def test_turn__interrupted__stops_between_steps_with_what_it_has() -> None:
    ran = await run_turn(storage_case(), control=Control(stop_after=2))
    assert (ran.result.subtype, ran.result.success) == ("interrupted", False)
    assert len(ran.starts) == 2
    assert ran.result.text.startswith("The investigation was stopped.")
    assert any("was stopped" in item.why for item in ran.report.not_checked)


async def test_turn__interrupted_at_once__still_ends_with_a_result() -> None:
    ran = await run_turn(storage_case(), control=Control(stop_after=0))
    assert ran.starts == []
    assert ran.result.subtype == "interrupted"


async def test_turn__guidance_names_an_object__narrows_the_work() -> None:
    control = Control(messages={2: [f"Please look at {REPLICA}."]})
    ran = await run_turn(storage_case(), control=control)
    assert any(f"I narrow the work to {REPLICA}" in thought for thought in ran.thoughts)
    assert [start.input.get("object") for start in ran.starts[1:3]] == [REPLICA, REPLICA]


async def test_turn__guidance_names_nothing_known__is_acknowledged() -> None:
    control = Control(messages={3: ["hurry up"]})
    ran = await run_turn(storage_case(), control=control)
    assert any("“hurry up”" in thought and "the plan stays" in thought for thought in ran.thoughts)


async def test_turn__question_while_it_runs__is_answered_at_the_end() -> None:
    control = Control(messages={3: ["What about the CPU?"]})
    ran = await run_turn(storage_case(), control=control)
    assert ran.result.text.startswith("## What about the CPU?\n\n- CPUUtilization of ledger-db stays between")


async def test_follow_up__asks_about_a_metric__is_answered_from_the_evidence_first() -> None:
    history = [HistoryTurn("Investigate.", "Storage.", "completed")]
    ran = await run_turn(storage_case(), prompt="What about CPU?", history=history, turn=2)
    assert ran.thoughts[0].startswith("A follow-up: “What about CPU?”")
    head = ran.result.text.split("# ledger-db")[0]
    assert "CPUUtilization of ledger-db stays between" in head
    assert "The verdict does not rest on this: ledger-db runs out of storage." in head
    assert ran.report.title == "ledger-db runs out of storage"
    assert ran.starts[0].tool_use_id == "t2-1"


async def test_follow_up__asks_about_the_cause__says_that_the_verdict_rests_on_it() -> None:
    history = [HistoryTurn("Investigate.", "Storage.", "completed")]
    ran = await run_turn(storage_case(), prompt="and the disk?", history=history, turn=2)
    assert "This is part of what the verdict rests on" in ran.result.text


async def test_follow_up__names_another_object__ranks_it_first() -> None:
    taken = storage_case()
    taken["sources"]["metrics"]["metric_data_results"].append(
        metric("CPUUtilization", step(30, 99), unit="Percent", of="reports-db")
    )
    history = [HistoryTurn("Investigate.", "Storage.", "completed")]
    ran = await run_turn(taken, prompt="Is reports-db all right?", history=history, turn=2)
    assert ran.report.root_cause is not None
    assert ran.report.root_cause.object == "reports-db"


async def test_follow_up__asks_for_what_nobody_recorded__is_told_so() -> None:
    history = [HistoryTurn("Investigate.", "Storage.", "completed")]
    ran = await run_turn(storage_case(), prompt="How is the weather?", history=history, turn=2)
    assert ran.result.text.startswith("## How is the weather?\n\nThe evidence says nothing about that.")


async def test_turn__limit_of_turns__ends_it_cleanly_with_what_it_has() -> None:
    ran = await run_turn(storage_case(), limits=replace(Limits(), max_turns=2))
    assert (ran.result.subtype, ran.result.success) == ("error_max_turns", False)
    assert len(ran.starts) == 2
    assert any("budget of 2 calls" in item.why for item in ran.report.not_checked)
    assert ran.report.root_cause is not None


async def test_turn__resumed__repeats_no_finished_call_and_ends_alike() -> None:
    whole = await run_turn(storage_case())
    until = next(
        index
        for index, pair in enumerate(whole.pairs())
        if pair[0] == "tool_end" and pair[1]["name"] == "query_metrics"
    )
    before = whole.pairs()[: until + 2]
    resumed = await run_turn(storage_case(), attempt=2, events=before)
    assert {start.name for start in resumed.starts} == {"query_events", "query_logs", "get_states"}
    earlier = {data["tool_use_id"] for kind, data in before if kind == "tool_start"}
    assert not earlier & {start.tool_use_id for start in resumed.starts}
    assert resumed.report.root_cause is not None
    assert whole.report.root_cause is not None
    assert resumed.report.root_cause.mechanism == whole.report.root_cause.mechanism


async def test_turn__a_tool_fails__is_told_and_the_rest_goes_on() -> None:
    good = toolbox_for_snapshot(storage_case(), alert=None, turn=1, limits=Limits())

    async def broken(_: Any) -> ToolOutput:
        raise RuntimeError("secret text of a library")

    tools = [*good._tools.values()]
    tools = [replace(tool, run=broken) if tool.name == "query_logs" else tool for tool in tools]
    ran = await run_turn(storage_case(), toolbox=Toolbox(tools, turn=1, output_bytes=65_536))
    failed = {item.what: item.why for item in ran.report.not_checked}
    assert failed["query_logs"] == "query_logs failed unexpectedly (RuntimeError)."
    assert ran.report.title == "ledger-db runs out of storage"


async def test_turn__listing_fails__every_query_is_tried_all_the_same() -> None:
    good = toolbox_for_snapshot(storage_case(), alert=None, turn=1, limits=Limits())

    async def broken(_: Any) -> ToolOutput:
        raise RuntimeError

    tools = [replace(tool, run=broken) if tool.name == "list_evidence" else tool for tool in good._tools.values()]
    ran = await run_turn(storage_case(), toolbox=Toolbox(tools, turn=1, output_bytes=65_536))
    assert ran.report.title == "ledger-db runs out of storage"


async def test_turn__without_any_tool__is_unknown() -> None:
    ran = await run_turn(storage_case(), toolbox=Toolbox([], turn=1, output_bytes=65_536))
    assert ran.report.root_cause is not None
    assert ran.report.root_cause.category is Category.UNKNOWN


async def test_turn__a_tool_of_another_kind__is_left_alone() -> None:
    async def never(_: Any) -> ToolOutput:
        raise AssertionError

    other = Tool("restart_service", "Restarts.", NoArguments, never, side_effect="destructive")
    good = toolbox_for_snapshot(storage_case(), alert=None, turn=1, limits=Limits())
    ran = await run_turn(storage_case(), toolbox=Toolbox([*good._tools.values(), other], turn=1, output_bytes=65_536))
    assert "restart_service" not in {start.name for start in ran.starts}


async def test_turn__small_outputs__are_read_page_by_page_to_the_end() -> None:
    many = [metric(f"Quiet{number}", flat(5)) for number in range(60)]
    taken = storage_case()
    taken["sources"]["metrics"]["metric_data_results"] = [*many, *taken["sources"]["metrics"]["metric_data_results"]]
    ran = await run_turn(taken, limits=replace(Limits(), tool_output_bytes=16_384))
    pages = [start for start in ran.starts if start.name == "query_metrics"]
    assert len(pages) > 2
    assert ran.report.title == "ledger-db runs out of storage"


async def test_turn__much_evidence__never_holds_the_loop_for_long() -> None:
    many = [
        metric(f"Noise{number}", [float((index * number) % 17) for index in range(400)]) for number in range(1, 121)
    ]
    longest, running = 0.0, True

    async def watch() -> None:
        # Processor time of the loop's own thread: others may take the processor away for as long as they like.
        nonlocal longest
        last = time.thread_time()
        while running:
            await asyncio.sleep(0.001)
            longest, last = max(longest, time.thread_time() - last), time.thread_time()

    watching = asyncio.create_task(watch())
    await run_turn(snapshot({"metrics": cloudwatch(*many)}))
    running = False
    await watching
    assert longest < 0.25

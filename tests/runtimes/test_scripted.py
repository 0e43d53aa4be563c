import asyncio
import json
import time
from typing import Any

import pytest

from controlplane.configs.limits import Limits
from controlplane.runtimes.events import Error, EventType, Question, Result, Thought
from controlplane.runtimes.interface import Resume, RuntimeEvent, Suspend
from controlplane.runtimes.sources import toolbox_for_snapshot
from tests.support.evidence import Control, Ran, run_turn
from tests.support.runtimes import ScriptedRuntime


async def play(*steps: dict[str, Any], **more: Any) -> Ran:
    return await run_turn(None, prompt=json.dumps({"steps": steps}), runtime=ScriptedRuntime(), **more)


def data(ran: Ran) -> list[Any]:
    return [event.data if isinstance(event, RuntimeEvent) else event for event in ran.events]


async def test_scripted__plain_prompt__gives_a_thought_and_a_result() -> None:
    ran = await run_turn(None, prompt="hello", runtime=ScriptedRuntime())
    assert ran.thoughts == ["asked: hello"]
    assert ran.result.text == "done"


async def test_scripted__thoughts_and_result__come_in_order() -> None:
    ran = await play({"thought": "x"}, {"thoughts": 3}, {"sleep_ms": 1}, {"result": "that is it"}, {"thought": "never"})
    assert ran.thoughts == ["x", "thought 1", "thought 2", "thought 3"]
    assert ran.result.text == "that is it"


async def test_scripted__tool__runs_through_the_toolbox() -> None:
    ran = await play({"tool": "list_evidence"}, {"tool": "query_metrics", "arguments": {"limit": 0}})
    ends = [event.data for event in ran.events if isinstance(event, RuntimeEvent) and event.type is EventType.TOOL_END]
    assert [end.success for end in ends] == [True, False]  # type: ignore[attr-defined]  # narrowed by the type above


async def test_scripted__question__suspends_and_the_resumed_run_goes_on_after_it() -> None:
    steps = ({"thought": "a"}, {"ask": "Which region?", "options": ["eu", "us"]}, {"thought": "b"}, {"ask": "Sure?"})
    first = await play(*steps)
    question, suspend = data(first)[-2:]
    assert isinstance(question, Question)
    assert isinstance(suspend, Suspend)
    assert question.request_id == suspend.request_id
    assert [option.label for option in question.questions[0].options] == ["eu", "us"]
    resume = Resume(suspend.request_id, "answered", {"Which region?": "eu"})
    second = await play(*steps, attempt=2, resume=resume, events=first.pairs())
    assert second.thoughts == ["answer: eu", "b"]
    last = data(second)[-1]
    assert isinstance(last, Suspend)
    assert last.request_id != suspend.request_id
    timed_out = Resume(last.request_id, "timeout")
    third = await play(*steps, attempt=3, resume=timed_out, events=[*first.pairs(), *second.pairs()])
    assert third.thoughts == ["no answer"]
    assert third.result.success


async def test_scripted__block__waits_for_the_interrupt_without_holding_the_loop() -> None:
    control = Control(stop_after=5)
    ran = await asyncio.wait_for(play({"block": True}, {"thought": "never"}, control=control), 5)
    assert (ran.result.subtype, ran.thoughts) == ("interrupted", [])


async def test_scripted__messages__are_taken_where_the_script_says() -> None:
    control = Control(messages={2: ["one", "two"]})
    ran = await play({"thought": "x"}, {"messages": True}, control=control)
    assert ran.thoughts == ["x", "guidance: one", "guidance: two"]


async def test_scripted__raise_error_stop__end_as_they_say() -> None:
    with pytest.raises(RuntimeError, match="boom"):
        await play({"raise": "boom"})
    error = data(await play({"error": "no", "code": "odd"}))[-1]
    assert error == Error(code="odd", message="no")
    stopped = data(await play({"thought": "x"}, {"stop": True}))
    assert [type(one) for one in stopped] == [Thought]


async def test_scripted__hang__holds_the_loop() -> None:
    began = time.monotonic()
    ran = await play({"hang_loop_ms": 20})
    assert time.monotonic() - began >= 0.02
    assert isinstance(data(ran)[-1], Result)


async def test_scripted__unknown_step__is_an_error_of_the_test() -> None:
    with pytest.raises(ValueError, match="means nothing"):
        await play({"jump": 1})


async def test_scripted__given_toolbox__is_used() -> None:
    box = toolbox_for_snapshot(None, alert=None, turn=7, limits=Limits())
    ran = await play({"tool": "list_evidence"}, toolbox=box)
    assert ran.starts[0].tool_use_id == "t7-1"

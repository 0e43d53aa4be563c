"""Our events as AG-UI events: what each becomes, and that every sequence keeps the protocol's rules."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.errors import InvalidInput
from controlplane.investigations.agui.inputs import run_input
from controlplane.investigations.agui.projection import Projector

RUN = "00000000-0000-0000-0000-000000000001"
OTHER = "00000000-0000-0000-0000-000000000002"
AT = "2026-12-01T10:00:00.000Z"


def envelope(seq: int, kind: str, data: dict[str, Any], run: str | None = RUN) -> dict[str, Any]:
    return {"seq": seq, "type": kind, "thread_id": "t", "run_id": run, "at": AT, "data": data}


def projector(**fields: Any) -> Projector:
    return Projector("thread-1", "run-1", RUN, **fields)


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


TOOL = {"tool_use_id": "t1-1", "name": "read", "input": {"q": 1}}
END = {"tool_use_id": "t1-1", "name": "read", "success": True, "output": "42", "summary": "", "error": None}
ENDED = {"status": "completed", "reason": "", "duration_ms": 1}


def test_started__has_version_and_the_clients_ids() -> None:
    event = projector().started(seq=7)
    assert (event["threadId"], event["runId"], event["protocolVersion"]) == ("thread-1", "run-1", "1.0")
    assert event["metadata"] == {"id": "7.0", "seq": 7, "run": RUN}


def test_thought__five_events_with_sub_ids_and_one_message() -> None:
    events = projector().project(envelope(3, "thought", {"text": "hm", "parent_tool_use_id": None}))
    assert kinds(events) == [
        "REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END",
        "REASONING_END",
    ]  # fmt: skip
    assert [event["metadata"]["id"] for event in events] == ["3.0", "3.1", "3.2", "3.3", "3.4"]
    assert {event["messageId"] for event in events} == {"m3"}
    assert {event["timestamp"] for event in events} == {1_796_119_200_000}


def test_tool__call_with_arguments_then_result() -> None:
    one = projector()
    start = one.project(envelope(4, "tool_start", TOOL))
    (result,) = one.project(envelope(5, "tool_end", END))
    assert kinds(start) == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]
    assert start[1]["delta"] == '{"q":1}'
    assert (result["toolCallId"], result["content"], result["role"]) == ("t1-1", "42", "tool")


def test_result_and_end__text_state_and_success_with_usage() -> None:
    one = projector()
    usage = {"input_tokens": 5, "output_tokens": 7}
    events = one.project(
        envelope(6, "result", {"text": "It was DNS.", "success": True, "report": None, "usage": usage})
    )
    events += one.project(envelope(7, "run_ended", ENDED))
    assert kinds(events) == [
        "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STATE_SNAPSHOT", "RUN_FINISHED"
    ]  # fmt: skip
    assert events[-1]["outcome"] == {"type": "success"}
    assert events[-1]["usage"] == [{"inputTokens": 5, "outputTokens": 7, "totalTokens": 12}]
    assert one.over


def test_question__ends_with_an_interrupt_that_says_how_to_answer() -> None:
    one = projector()
    items = [{"question": "Which?", "header": "", "options": [{"label": "eu"}], "multiSelect": False}]
    (event,) = one.project(envelope(8, "question", {"request_id": "q1", "questions": items, "expires_at": None}))
    (interrupt,) = event["outcome"]["interrupts"]
    assert (interrupt["id"], interrupt["reason"], interrupt["message"]) == ("q1", "question", "Which?")
    assert interrupt["responseSchema"]["properties"]["question_0"]["examples"] == ["eu"]
    assert "expiresAt" not in interrupt
    assert one.over


@pytest.mark.parametrize(
    ("status", "kind", "outcome"),
    [
        ("interrupted", "RUN_FINISHED", {"type": "cancelled"}),
        ("failed", "RUN_ERROR", None),
        ("timeout", "RUN_ERROR", None),
    ],
)
def test_other_ends__their_event(status: str, kind: str, outcome: Any) -> None:
    one = projector()
    one.project(envelope(1, "error", {"message": "no model", "code": "no_model", "recoverable": False}))
    (event,) = one.project(envelope(2, "run_ended", ENDED | {"status": status}))
    assert (event["type"], event.get("outcome")) == (kind, outcome)
    assert kind == "RUN_FINISHED" or (event["message"], event["code"]) == ("no model", "no_model")


def test_subagents__started_finished_and_closed_at_the_end() -> None:
    one = projector()
    task = {"task_id": "a", "description": "logs", "tool_use_id": "t1-9", "task_type": None}
    events = one.project(envelope(1, "task_started", task))
    events += one.project(envelope(2, "tool_start", TOOL | {"parent_tool_use_id": "t1-9"}))
    events += one.project(envelope(3, "task_started", task | {"task_id": "b", "tool_use_id": None}))
    events += one.project(envelope(4, "task_notification", {"task_id": "b", "status": "failed", "summary": "died"}))
    events += one.project(envelope(5, "run_ended", ENDED))
    assert kinds(events) == [
        "SUBAGENT_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "SUBAGENT_STARTED", "SUBAGENT_ERROR",
        "SUBAGENT_FINISHED", "RUN_FINISHED",
    ]  # fmt: skip
    assert events[1]["subagentRunId"] == "a"


def test_withheld_and_other_runs__are_left_out() -> None:
    one = projector()
    assert one.project(envelope(1, "thought", {"withheld": True})) == []
    assert one.project(envelope(2, "thought", {"text": "x"}, OTHER)) == []


def test_awaited__the_run_that_takes_it_up_is_followed() -> None:
    one = projector(awaited="look at eu")
    assert one.project(envelope(1, "run_ended", ENDED)) == []
    assert one.held
    assert not one.over
    assert one.project(envelope(2, "run_started", {"prompt": "look at eu", "run_id": OTHER}, OTHER)) == []
    assert kinds(one.project(envelope(3, "run_ended", ENDED, OTHER))) == ["RUN_FINISHED"]


def test_awaited__no_run_takes_it_up__the_end_is_let_go() -> None:
    for last in ("flush", "another event"):
        one = projector(awaited="look at eu")
        one.project(envelope(1, "run_ended", ENDED))
        queued = {"message_id": "m", "text": "x", "by": "b", "pending_count": 1}
        events = one.flush() if last == "flush" else one.project(envelope(2, "message_queued", queued, None))
        assert kinds(events) == ["RUN_FINISHED"]
        assert one.over


def _data(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    ids = st.sampled_from(["a", "b"])
    return {
        "thought": st.builds(lambda text: {"text": text}, st.sampled_from(["", "x"])),
        "tool_start": st.builds(
            lambda id_, parent: TOOL | {"tool_use_id": id_, "parent_tool_use_id": parent}, ids, ids
        ),
        "tool_end": st.builds(lambda id_: END | {"tool_use_id": id_}, ids),
        "task_started": st.builds(
            lambda id_, tool: {"task_id": id_, "description": "d", "tool_use_id": tool, "task_type": None}, ids, ids
        ),
        "task_notification": st.builds(
            lambda id_, status: {"task_id": id_, "status": status, "summary": ""},
            ids,
            st.sampled_from(["failed", "ok"]),
        ),
        "result": st.just({"text": "t", "success": True, "report": None, "usage": None}),
        "error": st.just({"message": "m", "code": "c"}),
        "run_ended": st.builds(lambda status: ENDED | {"status": status}, st.sampled_from(["completed", "failed"])),
    }[kind]


EVENTS = st.lists(
    st.sampled_from(
        ["thought", "tool_start", "tool_end", "task_started", "task_notification", "result", "error", "run_ended"]
    ).flatmap(lambda kind: st.tuples(st.just(kind), _data(kind))),
    max_size=25,
)


@given(EVENTS)
def test_any_sequence__spans_are_closed_and_nothing_follows_the_end(sequence: list[tuple[str, dict[str, Any]]]) -> None:
    one = projector()
    events = [one.started(seq=0)]
    for seq, (kind, data) in enumerate(sequence, start=1):
        events += one.project(envelope(seq, kind, data))
    ends = [index for index, event in enumerate(events) if event["type"] in ("RUN_FINISHED", "RUN_ERROR")]
    assert ends in ([], [len(events) - 1])
    subagents: set[str] = set()
    for event in events:
        assert None not in event.values()
        if event["type"] == "SUBAGENT_STARTED":
            subagents.add(event["subagentRunId"])
        elif event["type"] in ("SUBAGENT_FINISHED", "SUBAGENT_ERROR"):
            subagents.remove(event["subagentRunId"])
        elif "subagentRunId" in event:
            assert event["subagentRunId"] in subagents
    assert not (ends and subagents)


# ---- what comes in ---------------------------------------------------------------------------------------------------

USER = {"id": "m", "role": "user", "content": "why?"}


def test_input__parts_of_text__joined() -> None:
    parts = [{"type": "text", "text": "why"}, {"type": "text", "text": "now?"}]
    body = {"threadId": "t", "runId": "r", "messages": [USER | {"content": parts}], "forwardedProps": {"team": "x"}}
    wanted = run_input(body, new=True)
    assert (wanted.text, wanted.team) == ("why\nnow?", "x")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"threadId": ""}, "bad_id"),
        ({"runId": 5}, "bad_id"),
        ({"runId": "x" * 201}, "bad_id"),
        ({"messages": []}, "no_user_message"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "no_user_message"),
        ({"messages": "x"}, "not_a_list"),
        ({"messages": [USER | {"content": 5}]}, "not_text"),
        ({"messages": [USER | {"content": [{"type": "image"}]}]}, "part_not_supported"),
        ({"resume": "x"}, "bad_resume"),
        ({"resume": [{"status": "resolved"}]}, "bad_resume"),
        ({"resume": [{"interruptId": "q", "status": "resolved", "payload": 5}]}, "bad_resume"),
        ({"forwardedProps": {"team": 5}}, "not_text"),
    ],
)
def test_input__bad_member__refused_by_name(change: dict[str, Any], code: str) -> None:
    body = {"threadId": "t", "runId": "r", "messages": [USER]} | change
    with pytest.raises(InvalidInput) as caught:
        run_input(body, new=True)
    assert caught.value.code == code

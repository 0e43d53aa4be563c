import asyncio
import base64
import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import Field

from controlplane.core.errors import InvalidInput
from controlplane.runtimes.evidence import ObservationKind
from controlplane.runtimes.toolbox import Draft, NoArguments, Tool, Toolbox, ToolOutput
from controlplane.runtimes.toolbox.tool import ToolArguments


class LookArguments(ToolArguments):
    object: str = Field("", max_length=20)
    limit: int = Field(5, ge=1, le=10)


def tool(answer: ToolOutput | BaseException, name: str = "look", **more: Any) -> Tool:
    async def run(_: Any) -> ToolOutput:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return Tool(name, "Looks.", more.pop("arguments", LookArguments), run, **more)


def box(*tools: Tool, turn: int = 3, output_bytes: int = 4_096) -> Toolbox:
    return Toolbox(tools, turn=turn, output_bytes=output_bytes)


def draft(quote: str = "it is so", **more: Any) -> Draft:
    return Draft("metrics", more.pop("object", "db"), ObservationKind.METRIC, quote, **more)


async def test_toolbox__calls__ids_count_up_in_the_turn_and_observations_below_them() -> None:
    toolbox = box(tool(ToolOutput(observations=[draft(), draft()], read=("metrics",), summary="two")))
    first, second = toolbox.start("look", {}), toolbox.start("look", {"limit": 2})
    result, end = await toolbox.finish(first)
    assert (first.tool_use_id, second.tool_use_id) == ("t3-1", "t3-2")
    assert [one.id for one in result.observations] == ["t3-1.1", "t3-1.2"]
    assert end.observations == result.observations
    assert (end.success, end.summary, end.name, end.tool_use_id) == (True, "two", "look", "t3-1")
    assert end.duration_ms is not None
    assert "[t3-1.1] db: it is so" in result.text


async def test_toolbox__attribution__is_carried_from_start_to_end() -> None:
    toolbox = box(tool(ToolOutput("x")))
    start = toolbox.start(
        "look", {}, description="why", parent_tool_use_id="t3-0", agent_id="a", agent_type="k8s", depth=1
    )
    _, end = await toolbox.finish(start)
    assert (end.parent_tool_use_id, end.agent_id, end.agent_type, end.depth) == ("t3-0", "a", "k8s", 1)
    assert start.description == "why"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"limit": 99}, "limit: "),
        ({"limit": "many"}, "limit: "),
        ({"objekt": "db"}, "objekt: "),
        ({"object": "x" * 21}, "object: "),
    ],
)
async def test_toolbox__invalid_arguments__are_an_error_that_names_them(arguments: dict[str, Any], said: str) -> None:
    toolbox = box(tool(ToolOutput("x")))
    result, end = await toolbox.finish(toolbox.start("look", arguments))
    assert not result.ok
    assert said in result.error
    assert (end.success, end.error) == (False, result.error)
    assert str(next(iter(arguments.values()))) not in result.error


async def test_toolbox__unknown_tool__is_an_error_that_lists_the_known_ones() -> None:
    result, _ = await (toolbox := box(tool(ToolOutput("x")))).finish(toolbox.start("lok", {}))
    assert result.error == "There is no tool 'lok'; there are: look."


@pytest.mark.parametrize("effect", ["write", "destructive"])
async def test_toolbox__tool_with_side_effects__is_not_run(effect: Any) -> None:
    toolbox = box(tool(AssertionError("ran"), side_effect=effect))
    result, end = await toolbox.finish(toolbox.start("look", {}))
    assert not end.success
    assert effect in result.error


async def test_toolbox__tool_raises__error_without_the_librarys_text() -> None:
    toolbox = box(tool(ValueError("password=hunter2 in /etc/passwd")))
    result, _ = await toolbox.finish(toolbox.start("look", {}))
    assert result.error == "look failed unexpectedly (ValueError)."


async def test_toolbox__tool_raises_our_own_error__its_words_are_kept() -> None:
    toolbox = box(tool(InvalidInput("The query has no time range.")))
    result, _ = await toolbox.finish(toolbox.start("look", {}))
    assert result.error == "look could not answer: The query has no time range."


async def test_toolbox__tool_hangs__ends_with_an_error_in_time() -> None:
    async def hang(_: Any) -> ToolOutput:
        await asyncio.Event().wait()
        raise AssertionError

    toolbox = box(Tool("look", "Looks.", NoArguments, hang, timeout_s=0.01))
    result, _ = await toolbox.finish(toolbox.start("look", {}))
    assert "did not answer within 0.01 s" in result.error


async def test_toolbox__cancelled__is_raised_and_not_taken_for_a_failure() -> None:
    toolbox = box(tool(asyncio.CancelledError()))
    with pytest.raises(asyncio.CancelledError):
        await toolbox.finish(toolbox.start("look", {}))


async def test_toolbox__secrets_anywhere__leave_in_no_field() -> None:
    token = "ghp_" + secrets.token_hex(18)
    key = "AKIA" + base64.b32encode(secrets.token_bytes(10)).decode()
    answer = ToolOutput(
        f"Authorization: Bearer {token}\n",
        [draft(f"key {key}", value={"headers": {"authorization": f"Bearer {token}"}}, object=f"db {token}")],
        summary=f"found {key}",
    )
    toolbox = box(tool(answer))
    start = toolbox.start("look", {"object": token[:20]}, description=f"with {token}")
    result, end = await toolbox.finish(start)
    everything = start.model_dump_json() + result.model_dump_json() + end.model_dump_json()
    assert result.ok
    assert token not in everything
    assert key not in everything


async def test_toolbox__secret_in_input__reaches_the_tool_but_not_the_event() -> None:
    seen: list[str] = []
    token = "ghp_" + secrets.token_hex(18)

    class Arguments(ToolArguments):
        query: str

    async def run(arguments: Arguments) -> ToolOutput:
        seen.append(arguments.query)
        return ToolOutput("done")

    toolbox = box(Tool("look", "Looks.", Arguments, run))
    start = toolbox.start("look", {"query": f"token={token}"})
    await toolbox.finish(start)
    assert seen == [f"token={token}"]
    assert token not in start.model_dump_json()


async def test_toolbox__many_observations__are_bounded_and_the_hint_says_how_many_are_left_out() -> None:
    answer = ToolOutput(observations=[draft("q" * 300) for _ in range(100)], hint="Narrow by object.")
    toolbox = box(tool(answer), output_bytes=4_096)
    result, end = await toolbox.finish(toolbox.start("look", {}))
    size = sum(len(one.model_dump_json()) for one in result.observations)
    assert size <= 4_096
    assert result.truncated
    assert result.hint == f"{100 - len(result.observations)} further observations are left out. Narrow by object."
    assert len((end.output or "").encode()) <= 4_096


async def test_toolbox__huge_quote_and_input__are_shortened() -> None:
    toolbox = box(tool(ToolOutput(observations=[draft("q" * 5_000)])), output_bytes=65_536)
    start = toolbox.start("look", {"object": "x" * 100_000})
    assert len(json.dumps(start.input)) < 3_000
    result, _ = await toolbox.finish(toolbox.start("look", {}))
    assert len(result.observations[0].quote) == 2_000


async def test_toolbox__sixty_megabytes__are_kept_bounded_while_the_loop_goes_on() -> None:
    def lines() -> Iterator[str]:
        for block in range(300):
            yield "a line of no interest whatever, one of very many\n" * 4_000
            if block == 220:
                yield "2026-03-03T08:00:00Z ERROR the only one\n"

    toolbox = box(tool(ToolOutput(lines(), hint="Narrow by time."), timeout_s=120), output_bytes=16_384)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    result, end = await toolbox.finish(toolbox.start("look", {}))
    ticking.cancel()
    assert len(result.text.encode()) <= 16_384
    assert "ERROR the only one" in result.text
    assert "output cut: " in result.text
    assert "Narrow by time." in result.text
    assert result.truncated
    assert end.truncated
    assert ticks > 20


async def test_toolbox__sources_read__are_known_per_call_and_listing_is_no_reading() -> None:
    listing = tool(ToolOutput(observations=[draft()]), name="list", reads=False, arguments=NoArguments)
    toolbox = box(listing, tool(ToolOutput("x", read=("metrics", "events"))))
    await toolbox.finish(toolbox.start("list", {}))
    assert not toolbox.tools_read("metrics")
    await toolbox.finish(toolbox.start("look", {}))
    assert toolbox.tools_read("events")
    assert toolbox.sources_read == {"metrics": ("t3-2",), "events": ("t3-2",)}


async def test_toolbox__resumed__numbers_on_and_recalls_what_finished() -> None:
    first = box(tool(ToolOutput(observations=[draft()], read=("metrics",))))
    start = first.start("look", {"limit": 2})
    _, end = await first.finish(start)
    broken_off = first.start("look", {"limit": 3})
    events = [
        ("tool_start", start.model_dump(mode="json")),
        ("tool_end", end.model_dump(mode="json")),
        ("tool_start", broken_off.model_dump(mode="json")),
    ]
    resumed = box(tool(AssertionError("ran again")))
    resumed.resume_from(events)
    resumed.resume_from(events)
    assert resumed.recall("look", {"limit": 2}) == end
    assert resumed.recall("look", {"limit": 3}) is None
    assert resumed.start("look", {}).tool_use_id == "t3-3"
    assert resumed.tools_read("metrics")


def test_toolbox__specs__give_name_words_schema_and_side_effect() -> None:
    (spec,) = box(tool(ToolOutput("x"))).specs()
    assert (spec["name"], spec["description"], spec["side_effect"]) == ("look", "Looks.", "read")
    assert set(spec["input_schema"]["properties"]) == {"object", "limit"}
    assert spec["input_schema"]["additionalProperties"] is False

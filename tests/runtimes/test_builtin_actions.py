"""What the built-in runtime does when it is told to run an action, in a first attempt and in those after it."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from controlplane.runtimes.builtin.commands import Command, command_in
from controlplane.runtimes.events import CUT_OFF, Approval, EventType, ToolEnd, ToolStart
from controlplane.runtimes.evidence import JsonValue
from controlplane.runtimes.interface import Resume, RuntimeEvent, Suspend
from controlplane.runtimes.toolbox import NoArguments, Permit, Tool, Toolbox, ToolOutput
from tests.support.evidence import Ran, run_turn

PROMPT = "run action restart"
UNKNOWN = "begun before"


class Gate:
    """A gate that keeps one execution as the database would."""

    def __init__(self) -> None:
        self.begun = False
        self.end: ToolEnd | None = None

    async def begin(self, request_id: str, *, again: bool) -> Permit:
        if self.end is not None:
            return Permit(done=self.end)
        if self.begun and not again:
            return Permit(refusal=UNKNOWN)
        self.begun = True
        arguments: dict[str, JsonValue] = {}
        return Permit(arguments=arguments)

    async def finish(self, request_id: str, end: ToolEnd) -> None:
        self.end = end


class Team:
    """A team with the action ``restart``, worked on in several attempts of one run."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.made: list[str] = []
        self.log: list[tuple[str, Mapping[str, Any]]] = []

    async def attempt(self, resume: Resume | None = None) -> Ran:
        box = Toolbox([self.tool()], turn=1, output_bytes=10_000, gate=self.gate)
        ran = await run_turn(
            None, prompt=PROMPT, toolbox=box, attempt=2, resume=resume, events=tuple(self.log), by_person=True
        )
        self.log += ran.pairs()
        return ran

    def cut(self, after: EventType) -> None:
        """Forget what the log holds after the last event of a type, and close the calls that are open then."""
        last = max(index for index, (kind, _) in enumerate(self.log) if kind == after)
        del self.log[last + 1 :]
        ended = {data["tool_use_id"] for kind, data in self.log if kind == EventType.TOOL_END}
        for kind, data in tuple(self.log):
            if kind == EventType.TOOL_START and data["tool_use_id"] not in ended:
                closed = ToolEnd(tool_use_id=data["tool_use_id"], name=data["name"], success=False, summary=CUT_OFF)
                self.log.append((EventType.TOOL_END, closed.model_dump(mode="json")))

    def tool(self) -> Tool:
        async def act(_arguments: NoArguments, request_id: str) -> ToolOutput:
            self.made.append(request_id)
            return ToolOutput(summary="Done: HTTP 200")

        async def run(_arguments: NoArguments) -> ToolOutput:
            raise AssertionError("never without an approval")

        return Tool("action_restart", "Restarts.", NoArguments, run, side_effect="write", act=act)


def of(log: Sequence[tuple[str, Mapping[str, Any]]], kind: EventType) -> list[Mapping[str, Any]]:
    return [data for type_, data in log if type_ == kind]


def require_one_end_of_each(log: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    starts = [data["tool_use_id"] for data in of(log, EventType.TOOL_START)]
    ends = [data["tool_use_id"] for data in of(log, EventType.TOOL_END)]
    assert len(set(starts)) == len(starts)
    assert sorted(ends) == sorted(starts)


async def approved(team: Team) -> Resume:
    """Have ``team`` asked for its action, and return the decision to run it."""
    ran = await team.attempt()
    suspend = ran.events[-1]
    assert isinstance(suspend, Suspend)
    asked = ran.events[-2]
    assert isinstance(asked, RuntimeEvent)
    assert isinstance(asked.data, Approval)
    assert asked.data.request_id == suspend.request_id
    return Resume(suspend.request_id, "approved", by="Rita")


async def test_action__approved__made_once_and_told_first() -> None:
    team = Team()
    resume = await approved(team)
    ran = await team.attempt(resume)
    assert team.made == [resume.request_id]
    assert ran.result.text.startswith("**Action restart:** Done: HTTP 200")
    require_one_end_of_each(team.log)


@pytest.mark.parametrize("outcome", ["approved", "rejected", "expired"])
async def test_action__attempt_after_its_end__neither_made_nor_told_twice(outcome: Any) -> None:
    team = Team()
    resume = Resume((await approved(team)).request_id, outcome, by="Rita", reason="not now")
    first = await team.attempt(resume)
    team.cut(EventType.TOOL_END)
    second = await team.attempt(resume)
    assert len(team.made) == (outcome == "approved")
    assert len(of(team.log, EventType.APPROVAL)) == 1
    require_one_end_of_each(team.log)
    assert second.result.text.splitlines()[0] == first.result.text.splitlines()[0]


async def test_action__worker_stopped_before_the_call__made_by_the_next_attempt() -> None:
    team = Team()
    resume = await approved(team)
    team.cut(EventType.APPROVAL)
    ran = await team.attempt(resume)
    assert team.made == [resume.request_id]
    assert ran.result.text.startswith("**Action restart:** Done: HTTP 200")
    require_one_end_of_each(team.log)


async def test_action__worker_stopped_in_the_call__not_made_again_and_said_so() -> None:
    team = Team()
    resume = await approved(team)
    await team.gate.begin(resume.request_id, again=False)
    team.cut(EventType.APPROVAL)
    ran = await team.attempt(resume)
    assert team.made == []
    assert UNKNOWN in ran.result.text.splitlines()[0]
    require_one_end_of_each(team.log)


async def test_action__made_but_not_in_the_log__told_as_it_ended() -> None:
    team = Team()
    resume = await approved(team)
    await team.attempt(resume)
    team.cut(EventType.APPROVAL)
    for _ in range(2):  # also when that attempt is stopped in its turn
        ran = await team.attempt(resume)
        assert ran.result.text.startswith("**Action restart:** Done: HTTP 200")
        require_one_end_of_each(team.log)
        team.cut(EventType.TOOL_START)
    assert team.made == [resume.request_id]


async def test_toolbox__announce_again__only_what_was_cut_off() -> None:
    team = Team()
    resume = await approved(team)
    box = Toolbox([team.tool()], turn=1, output_bytes=10_000, gate=team.gate)
    box.resume_from(team.log)
    assert box.announce_again(resume.request_id) is None
    team.cut(EventType.APPROVAL)
    box.resume_from(team.log)
    again = box.announce_again(resume.request_id)
    assert isinstance(again, ToolStart)
    assert (again.tool_use_id, again.name) == ("t1-2", "action_restart")


@pytest.mark.parametrize(
    "words",
    [
        "run action restart with service=cart",
        "Please run the action `restart` with service=cart.",
        'Memory is full. Now, please, run action restart with service="cart"',
        "Several messages arrived:\n1. Memory is full.\n2. Run action restart with Service = cart",
    ],
)
def test_command__told__action_and_arguments(words: str) -> None:
    assert command_in(words) == Command("restart", {"service": "cart"})


@pytest.mark.parametrize(
    "words",
    [
        "Should I run action restart with service=cart?",
        "Don't run action restart with service=cart",
        "Never run action restart with service=cart",
        "Make sure that nobody can run action restart with service=cart",
        "The runbook says: run action restart with service=cart",
        "> run action restart with service=cart",
        f"{'please ' * 40}run action restart",
        "rerun action restart",
        "",
    ],
)
def test_command__told_of_or_against__none(words: str) -> None:
    assert command_in(words) is None


def test_command__name_that_no_argument_has__kept_so_that_the_call_is_refused() -> None:
    command = command_in("run action restart with dry-run=true service=cart")
    assert command == Command("restart", {"dry-run": "true", "service": "cart"})


def test_command__long_hostile_words__read_in_no_time() -> None:
    words = "1" * 200 + " run action " * 3_000
    began = time.perf_counter()
    command_in(words)
    assert time.perf_counter() - began < 0.5

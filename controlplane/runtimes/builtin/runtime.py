"""The built-in runtime."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from controlplane.runtimes.actions import tool_name
from controlplane.runtimes.builtin.analysis.case import Case, case_of
from controlplane.runtimes.builtin.analysis.facts import Facts, facts_from
from controlplane.runtimes.builtin.analysis.verdict import Verdict, decide
from controlplane.runtimes.builtin.commands import Command, command_in
from controlplane.runtimes.builtin.compose import report_of
from controlplane.runtimes.builtin.investigation import MOST_CALLS, Investigation, Step
from controlplane.runtimes.builtin.questions import Pointers, answer_about, is_a_question, pointers_in
from controlplane.runtimes.events import EventType, Result, Thought, ToolEnd, Usage
from controlplane.runtimes.evidence import Observation
from controlplane.runtimes.interface import Resume, RuntimeEvent, Suspend, TurnContext
from controlplane.runtimes.loose_json import mapping
from controlplane.runtimes.render import one_line, render_report
from controlplane.runtimes.report import Claim, Report
from controlplane.runtimes.signals.alert import AlertView, named_in, read_alert

_NAMES: Final = {
    "query_metrics": "metrics",
    "query_events": "events",
    "query_logs": "logs",
    "get_states": "states",
    "service_topology": "calls between services",
}


@dataclass(slots=True)
class _Turn:
    """A turn in progress. ``asked`` are the words that narrow the work: a follow-up, then each message.

    ``acted`` says what became of an action.
    """

    context: TurnContext
    investigation: Investigation
    asked: list[str] = field(default_factory=list)
    stopped: str = ""
    acted: str = ""


class BuiltinRuntime:
    """Investigates deterministically: the same evidence and words give the same report.

    It lists the evidence, reads metrics, events, logs and states through the toolbox, judges what it reads by general
    rules about kinds of fault, and answers with a report whose every observation is cited. Between two steps it looks
    for an interrupt and for messages.
    """

    name: ClassVar[str] = "builtin"
    #: Finished reads are recalled from the log; a run with an action stays with its worker.
    resumes: ClassVar[bool] = True

    async def run(self, turn: TurnContext) -> AsyncIterator[RuntimeEvent | Suspend]:
        """Work on one turn; the last event is the ``result``."""
        turn.toolbox.resume_from(turn.events)
        budget = min(MOST_CALLS, max(turn.limits.max_turns, 1))
        state = _Turn(turn, Investigation(budget, turn.toolbox.names()))
        state.investigation.begin()
        async for item in _act(state):
            yield item
            if isinstance(item, Suspend):
                return
        if turn.history:
            state.asked.append(turn.prompt)
        if not any(kind == EventType.THOUGHT for kind, _ in turn.events):
            yield _thought(_opening(turn))
        async for event in _gather(state):
            yield event
        case, verdict = await asyncio.to_thread(_analyse, state)
        if not state.stopped:
            yield _thought(_weighing(verdict))
        await asyncio.sleep(0)
        report = report_of(verdict, case, state.investigation.undone)
        yield RuntimeEvent(EventType.RESULT, _result(state, case, report))


async def _act(state: _Turn) -> AsyncIterator[RuntimeEvent | Suspend]:
    """Do the action that the person tells to run, once somebody has approved it; what it came to begins the answer."""
    turn = state.context
    command = command_in(turn.prompt)
    if command is None:
        return
    if not turn.by_person:
        state.acted = (
            f"**Action {command.action}:** was not asked for: these are not the words of one person alone. "
            "A person who wants it says so in a message of its own."
        )
        return
    resume, toolbox = turn.resume, turn.toolbox
    if resume is not None and resume.outcome in ("approved", "rejected", "expired"):
        async for item in _settle(state, command, resume):
            yield item
        return
    start = toolbox.start(tool_name(command.action), command.arguments, description=f"Run {command.action}")
    yield RuntimeEvent(EventType.TOOL_START, start)
    approval = toolbox.approval_for(start)
    if approval is not None:
        yield RuntimeEvent(EventType.APPROVAL, approval)
        yield Suspend(approval.request_id, approval.expires_at)
        return
    _, end = await toolbox.finish(start)
    yield RuntimeEvent(EventType.TOOL_END, end)
    state.acted = _became(command, end)


async def _settle(state: _Turn, command: Command, resume: Resume) -> AsyncIterator[RuntimeEvent]:
    """Do what was decided; an attempt that came after another one says nothing twice."""
    toolbox = state.context.toolbox
    end = toolbox.settled(resume.request_id)
    if end is None:
        again = toolbox.announce_again(resume.request_id)
        if again is not None:
            yield RuntimeEvent(EventType.TOOL_START, again)
        approved = resume.outcome == "approved"
        _, end = await toolbox.settle(resume.request_id, approved=approved, words=_refused(command, resume))
        yield RuntimeEvent(EventType.TOOL_END, end)
    state.acted = _became(command, end)


def _became(command: Command, end: ToolEnd) -> str:
    return f"**Action {command.action}:** {end.summary if end.success else end.error}"


def _refused(command: Command, resume: Resume) -> str:
    if resume.outcome == "expired":
        return f"Nobody approved {command.action} in time, so it was not done."
    why = f": {resume.reason}" if resume.reason else "."
    return f"{resume.by} rejected {command.action}, so it was not done{why}"


async def _gather(state: _Turn) -> AsyncIterator[RuntimeEvent]:
    """Make the calls of the investigation, one after another, looking for control between them."""
    turn, investigation = state.context, state.investigation
    while True:
        await asyncio.sleep(0)
        if turn.control.interrupted:
            state.stopped = "interrupted"
            investigation.leave("The investigation was stopped before.")
            return
        for message in turn.control.take_messages():
            yield _thought(_guided(state, message))
        step = investigation.next_step()
        if step is None:
            break
        recalled = turn.toolbox.recall(step.tool, dict(step.arguments))
        if recalled is not None:
            investigation.take(step, recalled.observations)
            continue
        start = turn.toolbox.start(step.tool, dict(step.arguments), description=step.why)
        yield RuntimeEvent(EventType.TOOL_START, start)
        result, end = await turn.toolbox.finish(start)
        yield RuntimeEvent(EventType.TOOL_END, end)
        if result.ok:
            investigation.take(step, result.observations)
        else:
            investigation.failed(step, result.error)
        if step.tool == "list_evidence" and result.ok:
            yield _thought(_overview(end, investigation.steps))
        elif result.ok:
            yield _thought(await asyncio.to_thread(_noticed, step, result.observations))
    if investigation.steps:
        state.stopped = "error_max_turns" if investigation.budget < MOST_CALLS else ""
        investigation.leave(f"The budget of {investigation.budget} calls was used up.")


def _analyse(state: _Turn) -> tuple[Case, Verdict]:
    """Judge what was gathered. Pure and possibly long, so it runs beside the event loop."""
    facts = state.investigation.facts()
    turn, asked = state.context, " ".join(state.asked)
    alert = _alert(state, facts)
    if turn.history and asked:
        # A follow-up about what the verdict rests on is a question about it, not another investigation.
        first = case_of(facts, alert, turn.history[0].prompt)
        verdict = decide(first)
        named = set(named_in(asked, facts.objects()))
        if named and named <= {verdict.root.object, *verdict.root.affected}:
            return first, verdict
    case = case_of(facts, alert, "" if turn.history else turn.prompt, asked)
    return case, decide(case)


def _alert(state: _Turn, facts: Facts) -> AlertView | None:
    given = state.context.alert
    return read_alert(given if given is not None else mapping(facts.alert.value if facts.alert else None))


def _result(state: _Turn, case: Case, report: Report) -> Result:
    turn = state.context
    answers: list[tuple[str, Sequence[Claim]]] = [
        (words, _with_bearing(pointers_in(words, case.facts), case, report))
        for words in state.asked
        if is_a_question(words)
    ]
    if not state.asked and is_a_question(turn.prompt):
        # The verdict answers a first question, unless that asks for something the verdict does not rest on.
        pointers = pointers_in(turn.prompt, case.facts)
        claims = answer_about(pointers, case) if pointers.asks_for_facts() else []
        if claims and not _bears(claims, report):
            answers.append((turn.prompt, _with_bearing(pointers, case, report)))
    text = render_report(report, answers=answers)
    if state.acted:
        text = f"{state.acted}\n\n{text}"
    if state.stopped == "interrupted":
        text = f"The investigation was stopped. What was gathered until then:\n\n{text}"
    return Result(
        text=text,
        success=not state.stopped,
        subtype=state.stopped or "success",
        report=report,
        usage=Usage(turns=1, tool_calls=turn.toolbox.calls, input_tokens=0, output_tokens=0, cost_usd=0.0),
    )


def _with_bearing(pointers: Pointers, case: Case, report: Report) -> list[Claim]:
    """Return what the evidence says about a question, and what that means for the verdict."""
    claims = answer_about(pointers, case)
    if not claims:
        return claims
    rests = (
        "This is part of what the verdict rests on" if _bears(claims, report) else "The verdict does not rest on this"
    )
    return [*claims, Claim(text=f"{rests}: {report.title}.", kind="inference")]


def _bears(claims: Sequence[Claim], report: Report) -> bool:
    cited = {id_ for claim in claims for id_ in claim.citations}
    return report.root_cause is not None and bool(cited & set(report.root_cause.supports))


def _opening(turn: TurnContext) -> str:
    alert = read_alert(turn.alert)
    if turn.history:
        words = f"A follow-up: “{one_line(turn.prompt, 200)}”. I read the evidence again with that in mind."
    elif alert is not None:
        severity = f" ({alert.severity})" if alert.severity else ""
        words = f"The alert{severity}: “{one_line(alert.summary or alert.title, 300)}”."
    else:
        words = f"The question: “{one_line(turn.prompt, 300)}”. No alert came with it."
    return (
        f"{words} Plan: see what evidence there is; read metrics for what moved, events and logs for what is reported, "
        "states for what is wrong now; weigh the explanations, “nothing is wrong” among them."
    )


def _overview(end: ToolEnd, steps: Sequence[Step]) -> str:
    missing = [one for one in end.observations if mapping(one.value).get("type") == "missing"]
    sources = [one for one in end.observations if mapping(one.value).get("type") == "source"]
    if not sources:
        words = "There is no source to query"
        words += ": only the alert itself." if any(one.source == "alert" for one in end.observations) else "."
    else:
        words = f"There are {len(sources)} sources: {', '.join(one.object for one in sources[:12])}."
    if missing:
        words += f" Missing: {', '.join(f'{one.object} ({_reason(one)})' for one in missing[:6])}."
    if steps:
        words += f" Next: {', '.join(step.why[0].lower() + step.why[1:] for step in steps)}."
    return words


def _reason(missing: Observation) -> str:
    return str(mapping(missing.value).get("reason", ""))


def _noticed(step: Step, observations: Sequence[Observation]) -> str:
    """Say what stands out of one answer, before it is weighed with the rest."""
    signs = [sign for sign in case_of(facts_from(observations), None).signs if sign.current and sign.strength >= 0.25]
    named = _NAMES.get(step.tool, step.tool)
    if step.tool == "service_topology" and observations:
        return f"{len(observations)} services call others; causes are followed along these calls."
    if not observations:
        return f"There are no {named} to judge."
    if not signs:
        return f"Nothing in the {named} is out of order by itself."
    told = "; ".join(dict.fromkeys(one_line(sign.text, 160) for sign in signs[:3]))
    return f"What stands out in the {named}: {told}" + (f"; and {len(signs) - 3} more." if len(signs) > 3 else ".")


def _weighing(verdict: Verdict) -> str:
    root = verdict.root
    words = f"Weighing: {root.headline} ({root.category.value.replace('_', ' ')}, {root.hypothesis().confidence:.0%})"
    if verdict.others:
        rivals = [f"{other.headline} ({other.hypothesis().confidence:.0%})" for other in verdict.others[:3]]
        words += f" before {', '.join(rivals)}"
    if verdict.ruled_out:
        words += f". Ruled out: {', '.join(item.hypothesis.lower() for item in verdict.ruled_out[:6])}"
    return words + "."


def _guided(state: _Turn, message: str) -> str:
    """Take a message into account and say how."""
    facts = state.investigation.facts()
    pointers = pointers_in(message, facts)
    state.asked.append(message)
    quoted = one_line(message, 200)
    if pointers.objects:
        state.investigation.focus_on(pointers.objects)
    if pointers:
        return f"Guidance: “{quoted}”. I narrow the work to {pointers.words()}: what is wrong there counts first."
    return f"Guidance: “{quoted}”. It names nothing that the evidence knows, so the plan stays; I answer it at the end."


def _thought(text: str) -> RuntimeEvent:
    return RuntimeEvent(EventType.THOUGHT, Thought(text=text))

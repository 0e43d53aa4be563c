"""What a reader gets of a thread's runs: nothing that is addressed to its starter alone."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.core.actor import Actor, Role
from controlplane.core.errors import PermissionDenied
from controlplane.investigations.lifecycle import run_claim, run_suspend
from controlplane.investigations.log import append, new_event
from controlplane.investigations.models import Audience, Thread
from controlplane.investigations.selectors import question_pending, runs_page, thread_detail
from controlplane.runtimes.events import EventType, Question, QuestionItem, Result, ToolEnd
from controlplane.runtimes.evidence import Observation, ObservationKind
from controlplane.runtimes.report import Claim, Report, ReportStatus, Severity
from tests.factories import Tree, actor_for_user, make_user
from tests.support.runs import start_run


@pytest.fixture
def starter(tree: Tree) -> Actor:
    return actor_for_user(make_user(tree.payments, Role.RESPONDER))


@pytest.fixture
def colleague(tree: Tree) -> Actor:
    return actor_for_user(make_user(tree.payments, Role.RESPONDER))


def finding(audience: Audience) -> list[Any]:
    """Return a tool's answer and a result whose report cites it."""
    seen = Observation(id="t1-1.1", source="memory", object="o", kind=ObservationKind.LOG, quote="what I told you")
    report = Report(
        title="t",
        status=ReportStatus.ONGOING,
        severity=Severity.LOW,
        summary="s",
        claims=(Claim(text="c", citations=("t1-1.1", "t1-9.9")),),
    )
    end = ToolEnd(tool_use_id="t1-1", name="memory_recall", success=True, observations=(seen,))
    result = Result(text="my answer", success=True, report=report)
    return [
        new_event(EventType.TOOL_END, end, run_id=None, audience=audience),
        new_event(EventType.RESULT, result, run_id=None, audience=audience),
    ]


def record(thread: Thread, audience: Audience) -> None:
    run_id = thread.active_run
    append(thread_id=thread.pk, events=[replace(event, run_id=run_id) for event in finding(audience)])


def test_thread_detail__for_everybody__answer_and_only_what_is_cited(
    tree: Tree, starter: Actor, colleague: Actor
) -> None:
    thread = start_run(starter, tree.payments, visibility="team").thread
    record(thread, Audience.THREAD)

    view = thread_detail(colleague, thread.pk).runs[0]

    assert view.answer == "my answer"
    assert {id_: ref.quote for id_, ref in view.observations.items()} == {"t1-1.1": "what I told you"}


def test_thread_detail__for_the_starter_alone__others_get_neither_answer_nor_quotes(
    tree: Tree, starter: Actor, colleague: Actor
) -> None:
    thread = start_run(starter, tree.payments, visibility="team").thread
    record(thread, Audience.STARTER)

    mine, theirs = (thread_detail(actor, thread.pk).runs[0] for actor in (starter, colleague))

    assert (mine.answer, len(mine.observations)) == ("my answer", 1)
    assert (theirs.answer, theirs.report, theirs.observations) == ("", None, {})


def test_question_pending__waiting__for_those_who_may_answer(tree: Tree, starter: Actor, colleague: Actor) -> None:
    thread = start_run(starter, tree.payments, visibility="team").thread
    claim = run_claim(owner="w")
    assert claim is not None
    question = Question(request_id="q1", questions=(QuestionItem(question="Which?"),))
    asking = [new_event(EventType.QUESTION, question, run_id=claim.run_id)]
    run_suspend(claim, request_id="q1", expires_at=None, asking=asking)
    viewer = actor_for_user(make_user(tree.payments, Role.VIEWER))

    _, pending = question_pending(colleague, thread.pk)

    assert pending is not None
    assert pending["questions"][0]["question"] == "Which?"
    with pytest.raises(PermissionDenied):
        question_pending(viewer, thread.pk)


def test_runs_page__large_alerts__are_not_read(tree: Tree, django_assert_num_queries: Any) -> None:
    for _ in range(3):
        start_run(tree.system, tree.payments, alert={"annotations": "x" * 10_000})

    with django_assert_num_queries(1):
        page = runs_page(tree.system)
        titles = [(run.prompt, run.thread.node.slug, run.thread.organization.slug) for run in page.results]

    assert len(titles) == 3
    assert "alert" in page.results[0].get_deferred_fields()

"""The thread's page, its fragments, and its plain forms."""

import json
from typing import Any

import pytest

from controlplane.investigations.models import Message, Run, RunStatus, Thread
from controlplane.runtimes import events
from tests.factories import Tree
from tests.web.support import EVIL, Person, ask, finish, observed, report, start


def page_of(person: Person, thread: Thread) -> str:
    answer = person.client.get(f"/app/threads/{thread.pk}")
    assert answer.status_code == 200
    return answer.content.decode()


def report_of(person: Person, run: Run) -> str:
    answer = person.client.get(f"/app/threads/{run.thread_id}/runs/{run.pk}/report")
    assert answer.status_code == 200
    return answer.content.decode()


def test_thread__finished__has_the_report_without_scripts(responder: Person, team_thread: Thread) -> None:
    page = page_of(responder, team_thread)
    assert '<h2 id="report-' in page
    assert "data-loaded=" in page
    assert '<div class="strip" data-strip hidden>' in page


def test_thread__running__has_stop_and_says_what_it_does(tree: Tree, responder: Person) -> None:
    started = start(responder, tree.payments)
    page = page_of(responder, started.thread)
    assert f'action="/app/threads/{started.thread.pk}/stop"' in page
    assert "Queued, waiting for a worker" in page
    assert "taken up at the next step" in page


def test_thread__sample__is_marked(tree: Tree, responder: Person) -> None:
    page = page_of(responder, start(responder, tree.payments, sample=True).thread)
    assert "A shipped example on recorded evidence" in page


def test_thread__alert__is_shown_folded_and_escaped(tree: Tree, responder: Person) -> None:
    page = page_of(responder, start(responder, tree.payments, alert={"title": EVIL}).thread)
    assert EVIL not in page
    assert "&lt;script&gt;alert(1)" in page


def test_thread__hostile_prompt_report_and_answer__stay_text(tree: Tree, responder: Person) -> None:
    started = start(responder, tree.payments, prompt=EVIL)
    result = events.Result(text=EVIL, success=True, report=report(title=EVIL, summary=EVIL, lessons=(EVIL,)))
    finish(started, result=result, tool_end=observed(object_=EVIL, quote=EVIL))
    for html in (page_of(responder, started.thread), report_of(responder, started.run)):
        assert "<script>alert" not in html
        assert "<img" not in html.replace('<img src="/static/web/img/logo.svg"', "")


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        ("failed", "runtime_error", "The run failed before it had an answer"),
        ("timeout", "wall_clock", "The run reached its time limit before it had an answer"),
        ("interrupted", "worker_lost", "The worker that ran this was lost"),
        ("interrupted", "", "The run was interrupted before it had an answer"),
        ("completed", "", "The run completed without an answer"),
    ],
)
def test_report__no_answer__says_why(tree: Tree, responder: Person, status: str, reason: str, words: str) -> None:
    result = events.Result(text="", success=True) if status == "completed" else None
    started = finish(start(responder, tree.payments), status=status, reason=reason, result=result)
    assert words in report_of(responder, started.run)


def test_report__stopped_by_somebody__names_them(tree: Tree, responder: Person, colleague: Person) -> None:
    started = start(responder, tree.payments, visibility="team")
    colleague.client.post(f"/app/threads/{started.thread.pk}/stop")
    assert "Stopped by carl" in report_of(responder, started.run)


def test_report__limit_reached__says_which(tree: Tree, responder: Person) -> None:
    result = events.Result(text="So far.", success=False, subtype="error_max_cost", report=report())
    started = finish(start(responder, tree.payments), result=result)
    assert "reached its limit of cost" in report_of(responder, started.run)


def test_report__answer_without_report__is_rendered_markdown(tree: Tree, responder: Person) -> None:
    started = finish(start(responder, tree.payments), result=events.Result(text="It is **fine**.", success=True))
    assert "<strong>fine</strong>" in report_of(responder, started.run)


def test_report__run_not_ended__is_empty(tree: Tree, responder: Person) -> None:
    assert report_of(responder, start(responder, tree.payments).run).strip() == ""


def test_question__pending__is_a_form_of_its_own(tree: Tree, responder: Person) -> None:
    started = start(responder, tree.payments)
    path = f"/app/threads/{started.thread.pk}/question"
    assert responder.client.get(path).status_code == 204
    request_id = ask(started, "Which database?", "primary", "<b>replica</b>")
    html = responder.client.get(path).content.decode()
    assert f'data-request="{request_id}"' in html
    assert 'value="primary"' in html
    assert "<b>replica" not in html
    assert "Which database?" in page_of(responder, started.thread)


def test_question__viewer__is_not_asked(tree: Tree, responder: Person, viewer: Person) -> None:
    started = start(responder, tree.payments, visibility="team")
    ask(started, "Which database?")
    assert viewer.client.get(f"/app/threads/{started.thread.pk}/question").status_code == 204
    assert '<form class="question' not in page_of(viewer, started.thread)


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({"question_0.choice": ["primary"]}, "primary"),
        ({"question_0.choice": ["primary", "replica"], "question_0.comment": " both "}, "primary, replica // both"),
        ({"question_0.comment": "neither"}, "neither"),
    ],
)
def test_answer__plain_form__reaches_the_run(
    tree: Tree, responder: Person, fields: dict[str, Any], answer: str
) -> None:
    started = start(responder, tree.payments)
    request_id = ask(started, "Which database?", "primary", "replica")
    responder.client.post(f"/app/threads/{started.thread.pk}/answers", {"request_id": request_id, **fields})
    started.run.refresh_from_db()
    assert started.run.status == RunStatus.QUEUED
    assert started.run.resume == {"request_id": request_id, "outcome": "answered", "answers": {"question_0": answer}}


def test_answer__empty_or_late__is_told_and_changes_nothing(tree: Tree, responder: Person) -> None:
    started = start(responder, tree.payments)
    request_id = ask(started, "Which database?")
    path = f"/app/threads/{started.thread.pk}/answers"
    empty = responder.client.post(path, {"request_id": request_id, "question_0.comment": "  "}, follow=True)
    late = responder.client.post(path, {"request_id": "other", "question_0.comment": "x"}, follow=True)
    assert "at least one answer" in empty.content.decode()
    assert "does not wait for this answer" in late.content.decode()
    started.run.refresh_from_db()
    assert started.run.status == RunStatus.WAITING


def test_message__running__is_queued(tree: Tree, responder: Person) -> None:
    started = start(responder, tree.payments)
    answer = responder.client.post(f"/app/threads/{started.thread.pk}/messages", {"text": "Look at the replica."})
    assert answer["Location"] == f"/app/threads/{started.thread.pk}"
    assert Message.objects.get().text == "Look at the replica."
    assert Run.objects.count() == 1


def test_message__refused__is_there_again_once(responder: Person, team_thread: Thread) -> None:
    text = "x" * 32_001
    path = f"/app/threads/{team_thread.pk}"
    again = responder.client.post(f"{path}/messages", {"text": text}, follow=True).content.decode()
    assert "at most 32000 are accepted" in again
    assert f">{text}</textarea>" in again
    assert text not in responder.client.get(path).content.decode()


def test_stop__nothing_running__is_told(responder: Person, team_thread: Thread) -> None:
    page = responder.client.post(f"/app/threads/{team_thread.pk}/stop", follow=True).content.decode()
    assert "Nothing is running on this thread." in page


def test_forms__get__is_refused(responder: Person, team_thread: Thread) -> None:
    for name in ("messages", "stop", "answers"):
        assert responder.client.get(f"/app/threads/{team_thread.pk}/{name}").status_code == 405


def test_thread__script_gets_what_it_needs(responder: Person, team_thread: Thread) -> None:
    page = page_of(responder, team_thread)
    team_thread.refresh_from_db()
    assert f'data-api="/api/v1/threads/{team_thread.pk}"' in page
    assert f'data-head="{team_thread.last_seq}"' in page
    events_page = json.loads(responder.client.get(f"/api/v1/threads/{team_thread.pk}/events?after=0&limit=500").content)
    assert events_page["head"] == team_thread.last_seq

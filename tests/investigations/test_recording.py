"""Recordings: what they hold, for whom, and that playing one gives the run again."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from controlplane.core.actor import Actor, Role
from controlplane.core.errors import AppError
from controlplane.investigations import recording as recording_module
from controlplane.investigations.models import Event, Run
from controlplane.investigations.recording import run_recording
from controlplane.investigations.services import question_answer, run_interrupt
from controlplane.investigations.starting import investigation_start
from controlplane.runtimes.samples import load_sample
from tests.factories import Tree, actor_for_user, make_user
from tests.support.runs import (
    envelopes,
    start_run,
    thoughts,
    types,
    wait_for_status,
    wait_until,
    work_on,
    working,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def asker(tree: Tree) -> Actor:
    return actor_for_user(make_user(tree.payments, Role.RESPONDER))


def recorded(actor: Actor, run: Run) -> dict[str, Any]:
    return run_recording(actor=actor, thread_id=run.thread_id, run_id=run.pk)


def played(tree: Tree, actor: Actor, recording: dict[str, Any], **changed: Any) -> Run:
    evidence = {**recording, "speed": 0} | changed
    return investigation_start(
        actor=actor, team=tree.payments, prompt=recording["prompt"], alert=recording["alert"], evidence=evidence
    ).run


def without_times(recording: dict[str, Any]) -> dict[str, Any]:
    events = [(event["type"], event["data"]) for event in recording["events"]]
    return {name: recording[name] for name in ("prompt", "alert", "turn", "status", "reason")} | {"events": events}


def test_recording__of_a_real_investigation__played_again_is_the_same_run(tree: Tree, asker: Actor) -> None:
    sample = load_sample()
    first = work_on(
        investigation_start(
            actor=asker, team=tree.payments, prompt=sample.prompt, alert=sample.alert, evidence=sample.snapshot
        ).run
    )
    recording = recorded(asker, first)
    assert (recording["format"], recording["runtime"], recording["status"]) == ("replay/1", "builtin", "completed")
    assert [event["type"] for event in recording["events"]] == types(first.thread_id)[1:-1]
    assert [event["at_ms"] for event in recording["events"]] == sorted(event["at_ms"] for event in recording["events"])

    again = work_on(played(tree, asker, recording))

    assert (again.runtime, again.status, again.headline) == ("replay", "completed", first.headline)
    assert without_times(recorded(asker, again)) == without_times(recording)
    once_more = work_on(played(tree, asker, recorded(asker, again)))
    assert without_times(recorded(asker, once_more)) == without_times(recording)


def test_replay__of_a_later_turn__citations_lead_to_the_replayed_events(tree: Tree, asker: Actor) -> None:
    sample = load_sample()
    started = investigation_start(
        actor=asker, team=tree.payments, prompt=sample.prompt, alert=sample.alert, evidence=sample.snapshot
    )
    work_on(started.run)
    recording = recorded(asker, started.run) | {"turn": 1}
    shifted = json.loads(json.dumps(recording).replace('"t1-', '"t7-')) | {"turn": 7}
    again = work_on(played(tree, asker, shifted))
    log = envelopes(again.thread_id)
    observed = {item["id"] for event in log if event["type"] == "tool_end" for item in event["data"]["observations"]}
    (result,) = [event["data"] for event in log if event["type"] == "result"]
    cited = {id_ for claim in result["report"]["claims"] for id_ in claim["citations"]}
    assert cited
    assert cited <= observed


def test_replay__questions__told_and_nobody_is_asked(tree: Tree, asker: Actor) -> None:
    run = work_on(start_run(asker, tree.payments, {"ask": "Which?"}, {"thought": "after"}).run)
    question_answer(actor=asker, thread_id=run.thread_id, request_id=run.waiting_for, answers={"question_0": "blue"})
    run = work_on(run)
    again = work_on(played(tree, asker, recorded(asker, run)))
    assert again.status == "completed"
    assert "question" not in types(again.thread_id)
    assert thoughts(again.thread_id) == [
        "Asked then: Which?", f"Answered then by {asker.label}: blue", "answer: blue", "after",
    ]  # fmt: skip


def test_replay__with_its_time__can_be_stopped(tree: Tree, asker: Actor) -> None:
    run = work_on(start_run(asker, tree.payments, {"thought": "a"}, {"result": "b"}).run)
    recording = recorded(asker, run)
    recording["events"][1]["at_ms"] = 3_600_000
    slow = played(tree, asker, recording, speed=1)
    with working():
        wait_until(lambda: thoughts(slow.thread_id) == ["a"], what="the first event")
        run_interrupt(actor=asker, thread_id=slow.thread_id)
        wait_for_status(slow)
    assert slow.status == "interrupted"


def test_recording__addressed_to_the_starter__withheld_from_others_and_not_played(tree: Tree, asker: Actor) -> None:
    run = work_on(start_run(asker, tree.payments, {"thought": "mine"}, {"result": "b"}, visibility="team").run)
    Event.objects.filter(run_id=run.pk, type="thought").update(audience="starter")
    colleague = actor_for_user(make_user(tree.payments, Role.VIEWER))
    assert recorded(asker, run)["events"][0]["data"]["text"] == "mine"
    theirs = recorded(colleague, run)
    assert theirs["events"][0]["data"] == {"withheld": True}
    assert "mine" not in str(theirs["events"])
    again = work_on(played(tree, asker, theirs))
    assert thoughts(again.thread_id) == []


def test_recording__not_ended_foreign_or_too_large__refused(
    tree: Tree, asker: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_run(asker, tree.payments, {"thought": "a"}, {"result": "b"}).run
    other = actor_for_user(make_user(tree.platform, Role.ADMIN))
    for actor, code in ((asker, "run_active"), (other, "not_found")):
        with pytest.raises(AppError) as refused:
            recorded(actor, run)
        assert refused.value.code == code
    run = work_on(run)
    monkeypatch.setattr(recording_module, "MAX_EVENTS", 1)
    with pytest.raises(AppError) as refused:
        recorded(asker, run)
    assert (refused.value.status, refused.value.code) == (413, "recording_too_large")


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"events": "x"}, "/evidence/events"),
        ({"speed": -1}, "/evidence/speed"),
        ({"surprise": 1}, "/evidence/surprise"),
        ({"events": [{"type": "run_ended", "at_ms": 0, "data": {}}]}, "/evidence/events/0/type"),
        ({"events": [{"type": "nonsense", "at_ms": 0, "data": {}}]}, "/evidence/events/0/type"),
        ({"events": [{"type": "thought", "at_ms": -1, "data": {"text": "a"}}]}, "/evidence/events/0/at_ms"),
        ({"events": [{"type": "thought", "at_ms": 0, "data": {"text": 5}}]}, "/evidence/events/0/data/text"),
    ],
)
def test_recording__broken__refused_at_its_place(
    tree: Tree, asker: Actor, change: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(AppError) as refused:
        played(tree, asker, {"format": "replay/1", "prompt": "x", "alert": None, "events": []}, **change)
    assert (refused.value.status, refused.value.code) == (422, "invalid_evidence")
    assert pointer in [error.pointer for error in refused.value.errors]


def test_replay__without_a_recording__says_so(tree: Tree, asker: Actor) -> None:
    run = work_on(start_run(asker, tree.payments, prompt="x", runtime="replay").run)
    assert (run.status, run.reason) == ("failed", "no_recording")


def test_investigate_command__replay_of_a_file__plays_it(
    tree: Tree, asker: Actor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = work_on(start_run(asker, tree.payments, {"thought": "from the file"}, {"result": "b"}).run)
    file = tmp_path / "run.json"
    file.write_text(json.dumps(recorded(asker, run)))
    with pytest.raises(SystemExit) as ended:
        call_command("investigate", replay=file, speed=0, json=True, verbosity=1)
    assert ended.value.code == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert "from the file" in [line["data"].get("text") for line in lines]

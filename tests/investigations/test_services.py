"""Starting and steering investigations: what is stored, what is refused, who may."""

from typing import Any

import pytest

from controlplane.audit.models import AuditEvent
from controlplane.core.actor import Role
from controlplane.core.errors import AppError, Conflict, InvalidInput, NotFound, PermissionDenied
from controlplane.investigations.inputs import MAX_ALERT_BYTES, MAX_PROMPT_CHARS
from controlplane.investigations.models import Artifact, Message, Run, Thread
from controlplane.investigations.services import (
    artifact_content,
    message_post,
    question_answer,
    run_interrupt,
)
from controlplane.investigations.starting import investigation_start
from controlplane.orgs.services import node_archive
from tests.factories import Tree, actor_for_token, actor_for_user, make_team_token, make_user
from tests.support.runs import envelopes, in_threads, start_run, types


def secret() -> str:
    return "ghp_" + "a1B2" * 9


def test_investigation_start__person__private_thread_queued_run_and_audit(tree: Tree) -> None:
    person = make_user(tree.payments, Role.RESPONDER)
    actor = actor_for_user(person)

    started = investigation_start(actor=actor, team=tree.payments, prompt="  Why is checkout slow?\nSince 9:00 ")

    thread, run = Thread.objects.get(), Run.objects.get()
    assert (started.thread.pk, started.run.pk) == (thread.pk, run.pk)
    assert (thread.title, thread.visibility, thread.starter_id) == ("Why is checkout slow?", "private", person.pk)
    assert (run.status, run.number, run.runtime, run.prompt) == (
        "queued",
        1,
        "builtin",
        "Why is checkout slow?\nSince 9:00",
    )
    assert thread.active_run == run.pk
    event = AuditEvent.objects.filter(action="investigation.start").get()
    assert (event.actor, event.object_id, event.node_id) == (actor.principal, str(thread.pk), tree.payments.pk)
    started_event = envelopes(thread.pk)[0]
    assert started_event["type"] == "run_started"
    assert started_event["data"]["by"] == actor.label


def test_investigation_start__configuration_chain__is_pinned_root_first(tree: Tree) -> None:
    run = start_run(tree.system, tree.payments).run

    assert run.config_chain == [[str(node.pk), 0] for node in (tree.root, tree.engineering, tree.payments)]


def test_investigation_start__team_token__team_thread(tree: Tree) -> None:
    actor = actor_for_token(make_team_token(tree.payments))

    assert start_run(actor, tree.payments).thread.visibility == "team"


def test_investigation_start__secrets_everywhere__none_is_stored(tree: Tree) -> None:
    started = investigation_start(
        actor=tree.system,
        team=tree.payments,
        prompt=f"my token is {secret()}",
        alert={"title": "x", "annotations": {"curl": f"Authorization: Bearer {secret()}"}},
        evidence={"format": "snapshot/1", "alert": None, "scenario": None, "sources": {"app_logs": {"line": secret()}}},
    )

    run = Run.objects.get(pk=started.run.pk)
    assert run.artifact is not None
    stored = f"{run.prompt} {run.alert} {artifact_content(run.artifact)} {envelopes(run.thread_id)} {run.thread.title}"
    assert secret() not in stored
    assert stored.count("[redacted:") >= 4


def test_investigation_start__evidence__immutable_artifact_with_its_digest(tree: Tree) -> None:
    evidence = {"format": "snapshot/1", "alert": {"title": "x"}, "scenario": None, "sources": {"a": {"b": [1, 2.5]}}}

    run = start_run(tree.system, tree.payments, evidence=evidence).run

    assert run.artifact is not None
    content = artifact_content(run.artifact)
    assert content["sources"] == {"a": {"b": [1, 2.5]}}
    Artifact.objects.update(sha256="0" * 64)
    with pytest.raises(NotFound, match="damaged"):
        artifact_content(Artifact.objects.get())


@pytest.mark.parametrize(
    ("fields", "pointer", "code"),
    [
        ({"prompt": ""}, "/prompt", "blank"),
        ({"prompt": " \n\t"}, "/prompt", "blank"),
        ({"prompt": "x" * (MAX_PROMPT_CHARS + 1)}, "/prompt", "too_long"),
        ({"prompt": "x" * 5_000_000}, "/prompt", "too_long"),
        ({"prompt": 7}, "/prompt", "not_text"),
        ({"alert": ["a"]}, "/alert", "not_an_object"),
        ({"alert": {"a": "x" * MAX_ALERT_BYTES}}, "/alert", "too_large"),
        ({"evidence": "/etc/passwd"}, "/evidence", "evidence_not_inline"),
        ({"visibility": "public"}, "/visibility", "unknown_visibility"),
        ({"visibility": "private"}, "/visibility", "private_needs_person"),
        ({"runtime": "nope"}, "/runtime/kind", "unknown_runtime"),
    ],
)
def test_investigation_start__bad_field__named_and_nothing_stored(
    tree: Tree, fields: dict[str, Any], pointer: str, code: str
) -> None:
    arguments: dict[str, Any] = {"actor": tree.system, "team": tree.payments, "prompt": "why?"} | fields

    with pytest.raises(InvalidInput) as caught:
        investigation_start(**arguments)

    assert caught.value.code == code
    assert [(error.pointer, error.code) for error in caught.value.errors] == [(pointer, code)]
    assert not Thread.objects.exists()
    assert not AuditEvent.objects.filter(action="investigation.start").exists()


def test_investigation_start__nul_and_odd_characters__kept_without_nul(tree: Tree) -> None:
    started = investigation_start(
        actor=tree.system, team=tree.payments, prompt="a\x00b \u202e\U0001f600", alert={"t": "x\x00y"}
    )

    run = Run.objects.get(pk=started.run.pk)
    assert run.prompt == "a\ufffdb \u202e\U0001f600"
    assert run.alert == {"t": "x\ufffdy"}


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        (Role.OWNER, None),
        (Role.ADMIN, None),
        (Role.RESPONDER, None),
        (Role.REVIEWER, PermissionDenied),
        (Role.VIEWER, PermissionDenied),
        (None, NotFound),
    ],
)
def test_investigation_start__each_role__only_responders_and_above(
    tree: Tree, role: Role | None, expected: type[AppError] | None
) -> None:
    actor = actor_for_user(make_user(tree.root, role))

    if expected is None:
        assert start_run(actor, tree.payments).run.status == "queued"
    else:
        with pytest.raises(expected):
            start_run(actor, tree.payments)


def test_investigation_start__other_tenant_or_team__not_there(tree: Tree, other_tree: Tree) -> None:
    person = actor_for_user(make_user(tree.payments, Role.RESPONDER))

    for team in (other_tree.payments, tree.platform):
        with pytest.raises(NotFound):
            start_run(person, team)


def test_investigation_start__archived_team__refused(tree: Tree) -> None:
    node_archive(actor=tree.system, node=tree.payments)

    with pytest.raises(InvalidInput) as caught:
        start_run(tree.system, tree.payments)

    assert caught.value.code == "team_archived"


def test_message_post__idle_thread__starts_the_next_run_with_its_evidence(tree: Tree) -> None:
    evidence: dict[str, Any] = {"format": "snapshot/1", "alert": None, "scenario": None, "sources": {"a": {}}}
    first = start_run(tree.system, tree.payments, evidence=evidence, alert={"t": 1})
    run_interrupt(actor=tree.system, thread_id=first.thread.pk)

    accepted = message_post(actor=tree.system, thread_id=first.thread.pk, text="and now?")

    run = Run.objects.get(number=2)
    assert accepted.run is not None
    assert (accepted.run.pk, accepted.pending_count) == (run.pk, 0)
    assert (run.prompt, run.alert, run.artifact_id) == ("and now?", {"t": 1}, first.run.artifact_id)
    assert Message.objects.get().delivered_at is not None
    log = envelopes(first.thread.pk)
    assert [event["type"] for event in log[-2:]] == ["message_queued", "run_started"]
    assert log[-2]["run_id"] is None


def test_message_post__busy_thread__queued_and_said(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments)

    first = message_post(actor=tree.system, thread_id=started.thread.pk, text="one")
    second = message_post(actor=tree.system, thread_id=started.thread.pk, text="two")

    assert (first.run, second.run) == (None, None)
    assert (first.pending_count, second.pending_count) == (1, 2)
    assert Run.objects.count() == 1
    last = envelopes(started.thread.pk)[-1]
    assert (last["type"], last["run_id"], last["data"]["text"]) == ("message_queued", str(started.run.pk), "two")


@pytest.mark.django_db(transaction=True)
def test_message_post__two_callers_at_once_on_an_idle_thread__one_run_one_queued(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments)
    run_interrupt(actor=tree.system, thread_id=started.thread.pk)

    outcomes = in_threads(
        *(
            lambda text=text: message_post(actor=tree.system, thread_id=started.thread.pk, text=text)
            for text in ("left", "right")
        )
    )

    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert sorted(outcome.run is None for outcome in outcomes) == [False, True]
    assert Run.objects.filter(thread=started.thread).count() == 2
    assert types(started.thread.pk).count("run_started") == 2
    assert types(started.thread.pk).count("message_queued") == 2


def test_run_interrupt__queued__ends_at_once_and_only_once(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments)

    ended = run_interrupt(actor=tree.system, thread_id=started.thread.pk)

    assert (ended.status, ended.reason) == ("interrupted", "stopped")
    with pytest.raises(Conflict) as caught:
        run_interrupt(actor=tree.system, thread_id=started.thread.pk)
    assert caught.value.code == "nothing_running"
    assert types(started.thread.pk) == ["run_started", "result", "run_ended"]
    assert AuditEvent.objects.filter(action="run.interrupt").count() == 1


def test_question_answer__nothing_asked__conflict(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments)

    with pytest.raises(Conflict) as caught:
        question_answer(actor=tree.system, thread_id=started.thread.pk, request_id="q", answers={"a": "b"})

    assert caught.value.code == "not_waiting"


@pytest.mark.parametrize(
    ("answers", "code"),
    [({}, "answers_required"), ("x", "answers_required"), ({"a": ""}, "blank"), ({"a": 1}, "not_text")],
)
def test_question_answer__bad_answers__named(tree: Tree, answers: Any, code: str) -> None:
    started = start_run(tree.system, tree.payments)

    with pytest.raises(InvalidInput) as caught:
        question_answer(actor=tree.system, thread_id=started.thread.pk, request_id="q", answers=answers)

    assert caught.value.code == code


def test_steering__viewer_of_a_team_thread__sees_and_may_not(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments)
    viewer = actor_for_user(make_user(tree.payments, Role.VIEWER))
    thread_id = started.thread.pk

    for act in (
        lambda: message_post(actor=viewer, thread_id=thread_id, text="x"),
        lambda: run_interrupt(actor=viewer, thread_id=thread_id),
        lambda: question_answer(actor=viewer, thread_id=thread_id, request_id="q", answers={"a": "b"}),
    ):
        with pytest.raises(PermissionDenied):
            act()

    assert types(thread_id) == ["run_started"]


def test_node_delete__with_investigations__refused_with_the_reason(tree: Tree) -> None:
    from controlplane.orgs.services import node_delete

    start_run(tree.system, tree.payments)

    with pytest.raises(AppError, match="1 investigation"):
        node_delete(actor=tree.system, node=tree.payments)


def test_investigation_start__integer_beyond_what_can_be_written__never_a_crash(tree: Tree) -> None:
    from controlplane.core.errors import MalformedRequest
    from controlplane.core.strict_json import parse_json

    with pytest.raises(MalformedRequest) as caught:
        parse_json(b'{"alert": {"x": 18446744073709551616}}', max_bytes=1000)

    assert caught.value.code == "number_out_of_range"


def test_message_post__fifty_wait_already__refused(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments)
    for number in range(50):
        message_post(actor=tree.system, thread_id=started.thread.pk, text=f"m{number}")

    with pytest.raises(Conflict) as caught:
        message_post(actor=tree.system, thread_id=started.thread.pk, text="one too many")

    assert caught.value.code == "too_many_messages"
    assert Message.objects.count() == 50

"""What memory is told of a run: who said what."""

from typing import Any
from uuid import uuid4

import pytest

from controlplane.investigations.log import append, new_event
from controlplane.investigations.models import Message, Thread
from controlplane.investigations.services import message_post
from controlplane.memory.extraction import extract, extractor_named
from controlplane.memory.transcripts import Transcript, transcript_of
from controlplane.runtimes import events
from controlplane.runtimes.events import EventType
from tests.factories import Tree, actor_for_user, make_user
from tests.support.runs import start_run
from tests.web.support import Person, finish, start

FACT = "checkout-api runs on eks-prod-2."


def spans(transcript: Transcript | None) -> list[tuple[str, str, str]]:
    assert transcript is not None
    return [(said.speaker, said.author, said.text) for said in transcript.said]


def tool_end(name: str, output: str) -> events.ToolEnd:
    return events.ToolEnd(tool_use_id="t1", name=name, success=True, output=output)


def test_transcript__run_of_a_person__each_span_with_its_speaker_and_seq(tree: Tree) -> None:
    user = make_user(tree.payments)
    started = start(Person.signed_in(user), tree.payments, prompt=FACT, visibility="private")
    finish(started, result=events.Result(text="All is well.", success=True), tool_end=tool_end("query", "cpu 3"))
    transcript = transcript_of(started.run.pk)

    me = f"user:{user.pk}"
    assert spans(transcript) == [("user", me, FACT), ("tool", "", "cpu 3"), ("assistant", "", "All is well.")]
    assert transcript is not None
    assert [said.seq for said in transcript.said] == sorted(said.seq for said in transcript.said)
    assert (transcript.person, transcript.private, transcript.sample) == (me, True, False)
    (candidate,) = extract(transcript, extractor=extractor_named("builtin"))
    assert candidate.quotes[0].seqs == (transcript.said[0].seq,)


@pytest.mark.parametrize("name", ["memory_recall", "mcp__opensre__memory_recall", "recall_incident_context"])
def test_transcript__result_of_a_recall__is_recalled(tree: Tree, name: str) -> None:
    started = start(Person.signed_in(make_user(tree.payments)), tree.payments, prompt="What runs where?")
    finish(started, result=events.Result(text="As recalled.", success=True), tool_end=tool_end(name, FACT))
    transcript = transcript_of(started.run.pk)
    assert ("recalled", "", FACT) in spans(transcript)
    assert transcript is not None
    assert extract(transcript, extractor=extractor_named("builtin")) == []


def test_transcript__messages_of_two_people__each_has_its_author(tree: Tree) -> None:
    jane, john = make_user(tree.payments), make_user(tree.payments)
    started = start(Person.signed_in(jane), tree.payments, prompt="Why?", visibility="team")
    message_post(actor=actor_for_user(john), thread_id=started.thread.pk, text=FACT)
    message_post(actor=actor_for_user(jane), thread_id=started.thread.pk, text="I prefer UTC times.")
    finish(started)
    followed = Message.objects.filter(thread=started.thread).order_by("created_at")
    run = followed[0].run
    assert run is not None
    assert spans(transcript_of(run.pk)) == [
        ("user", f"user:{john.pk}", FACT),
        ("user", f"user:{jane.pk}", "I prefer UTC times."),
    ]


def test_transcript__sample_run__flagged_whatever_is_said(tree: Tree) -> None:
    started = start(Person.signed_in(make_user(tree.payments)), tree.payments, prompt=FACT, sample=True)
    transcript = transcript_of(started.run.pk)
    assert transcript is not None
    assert transcript.sample
    assert extract(transcript, extractor=extractor_named("builtin")) == []


def test_transcript__run_in_a_machines_name__prompt_is_no_persons_word(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments, prompt=FACT, visibility="team")
    transcript = transcript_of(started.run.pk)
    assert spans(transcript) == [("tool", "", FACT)]
    assert transcript is not None
    assert transcript.person == ""


def test_transcript__query_count__does_not_grow(tree: Tree, django_assert_num_queries: Any) -> None:
    started = start(Person.signed_in(make_user(tree.payments)), tree.payments, prompt=FACT)
    thoughts = [new_event(EventType.THOUGHT, events.Thought(text="hm"), run_id=started.run.pk) for _ in range(30)]
    append(thread_id=started.thread.pk, events=thoughts)
    with django_assert_num_queries(3):
        transcript_of(started.run.pk)


def test_transcript__no_such_run__none(tree: Tree) -> None:
    assert transcript_of(uuid4()) is None
    assert not Thread.objects.exists()

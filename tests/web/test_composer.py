"""Starting an investigation by the plain form."""

import json
from typing import Any

import pytest
from django.core.cache import cache
from django.core.files.uploadedfile import SimpleUploadedFile

from controlplane.core import clock
from controlplane.investigations.models import Run, Thread, Visibility
from controlplane.investigations.services import message_post
from controlplane.orgs.models import Node
from tests.factories import Tree, make_node, make_user
from tests.web.support import Person, finish, start

SNAPSHOT = {
    "format": "snapshot/1",
    "alert": {"title": "Lag"},
    "scenario": {"engine": "postgres"},
    "sources": {"aws_rds_events": {"events": []}},
}


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    cache.clear()


def evidence(content: bytes) -> SimpleUploadedFile:
    return SimpleUploadedFile("snapshot.json", content, content_type="application/json")


def typed(**fields: Any) -> dict[str, Any]:
    return {
        "prompt": "Why is checkout slow?",
        "team": "payments",
        "visibility": "team",
        "key": "k1",
        "alert": "",
    } | fields


def test_new__everything_given__starts_and_goes_to_the_thread(tree: Tree, responder: Person) -> None:
    fields = typed(alert='{"title": "Latency"}', evidence=evidence(json.dumps(SNAPSHOT).encode()))
    answer = responder.client.post("/app/new", fields)
    thread = Thread.objects.get()
    run = Run.objects.get()
    assert answer["Location"] == f"/app/threads/{thread.pk}"
    assert (thread.visibility, thread.node.slug, thread.channel) == (Visibility.TEAM, "payments", "web")
    assert run.alert == {"title": "Latency"}
    assert run.artifact is not None


def test_new__nothing_said_about_visibility__is_private(tree: Tree, responder: Person) -> None:
    fields = typed()
    del fields["visibility"]
    responder.client.post("/app/new", fields)
    assert Thread.objects.get().visibility == Visibility.PRIVATE


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"prompt": "   "}, "prompt", "must not be empty"),
        ({"prompt": "x" * 32_001}, "prompt", "at most 32000"),
        ({"team": "nowhere"}, "team", "no such team"),
        ({"team": ""}, "team", "Name the team"),
        ({"alert": "{oops"}, "alert", "This is not JSON"),
        ({"alert": "[1]"}, "alert", "must be a JSON object"),
        ({"alert": '{"a": 1, "a": 2}'}, "alert", "appears twice"),
        ({"visibility": "everybody"}, "visibility", "private or team"),
        ({"evidence": b"\xff\xfe"}, "evidence", "not UTF-8"),
        ({"evidence": b'{"format": "snapshot/9"}'}, "evidence", ""),
        ({"evidence": b'["a"]'}, "evidence", "must be a JSON object"),
    ],
)
def test_new__bad_field__is_named_and_nothing_typed_is_lost(
    tree: Tree, responder: Person, fields: dict[str, Any], field: str, words: str
) -> None:
    if "evidence" in fields:
        fields = {"evidence": evidence(fields["evidence"])}
    sent = typed(**({"alert": '{"title": "Kept"}'} | fields))
    answer: Any = responder.client.post("/app/new", sent)
    composer = answer.context["composer"]
    page = answer.content.decode()
    assert answer.status_code in {400, 413, 422}
    assert words in composer.errors[field]
    assert (composer.prompt, composer.alert) == (sent["prompt"], sent["alert"])
    assert f'data-error-for="{field}" >' in page
    assert not Thread.objects.exists()


def test_new__two_bad_documents__both_are_named(tree: Tree, responder: Person) -> None:
    answer: Any = responder.client.post("/app/new", typed(alert="{", evidence=evidence(b"{")))
    assert set(answer.context["composer"].errors) == {"alert", "evidence"}


def test_new__evidence_of_nine_mebibytes__is_refused_with_its_limit(tree: Tree, responder: Person) -> None:
    answer: Any = responder.client.post("/app/new", typed(evidence=evidence(b" " * (9 * 1024 * 1024))))
    assert "at most 8 MiB" in answer.context["composer"].errors["evidence"]


def test_new__sent_twice__starts_once(tree: Tree, responder: Person) -> None:
    first = responder.client.post("/app/new", typed())
    second = responder.client.post("/app/new", typed())
    assert first["Location"] == second["Location"]
    assert Thread.objects.count() == 1


def test_new__refused_then_corrected__starts(tree: Tree, responder: Person) -> None:
    assert responder.client.post("/app/new", typed(prompt="")).status_code == 422
    assert responder.client.post("/app/new", typed()).status_code == 302


def test_new__hostile_text__is_shown_as_text(tree: Tree, responder: Person) -> None:
    evil = "</textarea><script>alert(1)</script>"
    page = responder.client.post("/app/new", typed(prompt=evil, team="nowhere", alert=evil)).content.decode()
    assert "<script>alert(1)" not in page
    assert page.count("&lt;/textarea&gt;&lt;script&gt;alert(1)") == 2


def test_new__example__is_in_the_field(tree: Tree, responder: Person) -> None:
    page = responder.client.get("/app/new", {"prompt": "Why?"}).content.decode()
    assert ">Why?</textarea>" in page


def test_home__one_team__is_not_asked_for(tree: Tree, db: None) -> None:
    person = Person.signed_in(make_user(tree.platform))
    page = person.client.get("/app/").content.decode()
    assert "<select" not in page
    assert '<input type="hidden" name="team" value="platform">' in page


def test_home__nothing_yet__gives_examples(tree: Tree, responder: Person) -> None:
    page = responder.client.get("/app/").content.decode()
    assert "No investigations yet" in page
    assert "data-example=" in page


def test_home__several_turns_of_a_thread__are_one_row(tree: Tree, responder: Person) -> None:
    started = finish(start(responder, tree.payments))
    message_post(actor=responder.actor, thread_id=started.thread.pk, text="And now?")
    answer: Any = responder.client.get("/app/")
    assert [run.number for run in answer.context["active"]] == [2]
    assert answer.context["recent"] == []


@pytest.mark.parametrize("path", ["/app/", "/app/new"])
def test_composer__several_teams__the_one_this_person_asked_last_is_chosen(
    tree: Tree, responder: Person, colleague: Person, path: str
) -> None:
    chosen = '<option value="{}" selected>'
    assert chosen.format("payments") not in responder.client.get(path).content.decode()
    start(responder, tree.payments)
    start(responder, tree.platform)
    finish(start(colleague, tree.payments, visibility="team"))
    page = responder.client.get(path).content.decode()
    assert chosen.format("platform") in page
    assert "Choose…" not in page
    for _ in range(40):  # more of others than the home page reads
        finish(start(colleague, tree.payments, visibility="team"))
    assert chosen.format("platform") in responder.client.get(path).content.decode()


def test_composer__last_team_is_none_of_theirs_any_more__asks(tree: Tree, responder: Person) -> None:
    start(responder, tree.platform)
    Node.objects.filter(pk=tree.platform.pk).update(archived_at=clock.now())
    make_node(tree.engineering, "third")
    assert "Choose…" in responder.client.get("/app/").content.decode()


def test_composer__visibility__says_for_whom(tree: Tree, responder: Person) -> None:
    page = responder.client.get("/app/new").content.decode()
    assert ">Visible to</span>" in page
    assert ">only me</label>" in page
    assert ">my team</label>" in page


def test_new__files_by_plain_form__go_along_and_are_downloads_on_the_page(tree: Tree, responder: Person) -> None:
    note, graph = SimpleUploadedFile("note.txt", b"look"), SimpleUploadedFile("graph.png", b"\x89PNG\r\n\x1a\n...")
    body = {"prompt": "Why?", "team": "demo/payments", "attachments": [note, graph]}
    answer = responder.client.post("/app/new", body, follow=True)
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "note.txt" in page
    thread = Thread.objects.get()
    file = thread.files.get(name="graph.png")
    assert f'href="/api/v1/threads/{thread.pk}/files/{file.pk}" download' in page
    download = responder.client.get(f"/api/v1/threads/{thread.pk}/files/{file.pk}")
    assert download["Content-Disposition"].startswith("attachment")


def test_new__file_that_is_refused__form_comes_back_with_the_words(tree: Tree, responder: Person) -> None:
    body = {"prompt": "Why?", "team": "demo/payments", "attachments": [SimpleUploadedFile("a.zip", b"PK\x03\x04")]}
    answer = responder.client.post("/app/new", body)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "a.zip: Only text, JSON, PNG" in page
    assert not Thread.objects.exists()

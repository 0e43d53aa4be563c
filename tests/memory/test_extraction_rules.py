"""Extraction without a model: statements of the person, and what is none."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.memory.drafts import MemoryDraft, Quote
from controlplane.memory.extraction import (
    MOST_CANDIDATES,
    Candidate,
    candidates,
    extract,
    extractor_named,
    register_extractor,
    window,
)
from controlplane.memory.extraction.passes import MAX_CHARS, MAX_SPANS
from controlplane.memory.extraction.rules import extract_by_rules
from controlplane.memory.transcripts import Said, Speaker, Transcript

ME = "user:1"
AT = datetime(2026, 12, 1, tzinfo=UTC)


def said(text: str, speaker: Speaker = "user", *, seq: int = 1, author: str = ME) -> Said:
    return Said(seq, speaker, author if speaker == "user" else "", text, AT)


def transcript(*spans: Said, sample: bool = False, person: str = ME) -> Transcript:
    return Transcript(uuid4(), uuid4(), UUID(int=1), UUID(int=2), sample, True, person, spans)


def found(*spans: Said) -> list[Candidate]:
    return extract(transcript(*spans), extractor=extract_by_rules)


@pytest.mark.parametrize(
    ("text", "type_", "subject", "attribute"),
    [
        ("I prefer timestamps in UTC.", "preference", "me", "time zone"),
        ("Please always answer in short bullet points.", "preference", "me", "answer length"),
        ("I'm the on-call lead for payments.", "user", "me", "role"),
        ("I am on the storage team.", "user", "me", "team"),
        ("checkout-api runs on eks-prod-2.", "infrastructure", "checkout-api", "run on"),
        ("The orders-db is replicated to eu-west-1.", "infrastructure", "orders-db", "is replicated to"),
        ("checkout-api doesn't depend on redis-7.", "infrastructure", "checkout-api", "depend on"),
        ("The root cause was a leaked connection pool in orders-db.", "investigation_learning", "orders-db", None),
        ("Remember that the cabinet key hangs in room 12.", "user", "me", None),
    ],
)
def test_rules__statement_of_the_person__candidate_in_their_words(
    text: str, type_: str, subject: str, attribute: str | None
) -> None:
    (candidate,) = found(said(text, seq=7))
    draft, quote = candidate.draft, candidate.quotes[0]
    assert (draft.type, draft.subject) == (type_, subject)
    assert attribute is None or draft.attribute == attribute
    assert draft.statement in text
    assert (quote.text, quote.speaker, quote.seqs, quote.author) == (draft.statement, "user", (7,), ME)
    assert candidate.explicit == text.startswith("Remember")


@pytest.mark.parametrize(
    "text",
    [
        "Does checkout-api run on eks-prod-2?",
        "checkout-api runs on eks-prod-2?",
        "Is it true that checkout-api runs on eks-prod-2",
        "I think checkout-api runs on eks-prod-2.",
        "If checkout-api runs on eks-prod-2, restart it.",
        "checkout-api is down since 14:00.",
        "checkout-api currently runs on eks-prod-2.",
        "> checkout-api runs on eks-prod-2.",
        "```\ncheckout-api runs on eks-prod-2.\n```",
        "Why is checkout slow?",
        "It runs on eks-prod-2.",
        "show me the last deploys",
        "Remember to restart svc-1 tonight.",
    ],
)
def test_rules__no_statement__nothing(text: str) -> None:
    assert found(said(text)) == []


@pytest.mark.parametrize("speaker", ["assistant", "recalled", "tool"])
def test_rules__said_by_another_speaker__nothing(speaker: Speaker) -> None:
    assert found(said("checkout-api runs on eks-prod-2.", speaker)) == []


def test_rules__said_by_another_person__nothing() -> None:
    assert found(said("checkout-api runs on eks-prod-2.", author="user:2")) == []


def test_rules__ten_rounds_of_recall_and_extract__add_nothing() -> None:
    spans = [said("checkout-api runs on eks-prod-2.", seq=1)]
    known: list[str] = []
    for round_ in range(10):
        candidates = extract(transcript(*spans), extractor=extract_by_rules, known=known)
        assert len(candidates) == (1 if round_ == 0 else 0)
        known += [item.draft.statement for item in candidates]
        recalled = f"1. [m-1, user stated] {known[0]}"
        spans += [said(recalled, "recalled", seq=2 * round_ + 2), said(known[0], "assistant", seq=2 * round_ + 3)]


def test_rules__recalled_text_said_again_by_the_person__nothing_even_when_not_known() -> None:
    recalled = said("m-1: checkout-api runs on eks-prod-2. (user stated)", "recalled", seq=1)
    assert found(recalled, said("Right, \ncheckout-api runs on  eks-prod-2", seq=2)) == []


def test_extract__sample_run__is_not_read() -> None:
    spans = (said("I prefer timestamps in UTC."),)
    assert extract(transcript(*spans, sample=True), extractor=extract_by_rules) == []
    assert len(extract(transcript(*spans), extractor=extract_by_rules)) == 1


def test_extract__run_in_nobodys_name__is_not_read() -> None:
    assert extract(transcript(said("I prefer UTC times.", author=""), person=""), extractor=extract_by_rules) == []


def test_extract__evidence_of_something_forgotten__is_left_out() -> None:
    run = transcript(said("I prefer timestamps in UTC.", seq=3), said("I am on the storage team.", seq=4))
    (candidate,) = extract(run, extractor=extract_by_rules, spent={3})
    assert candidate.draft.attribute == "team"


def test_extract__more_than_five_statements__five_and_what_was_asked_for_first() -> None:
    text = (
        "".join(f"svc-{number} runs on node-{number}. " for number in range(9)) + "Remember that I am on the core team."
    )
    candidates = found(said(text))
    assert len(candidates) == MOST_CANDIDATES
    assert candidates[0].draft.attribute == "team"


def test_extract__credential_or_personal_data__the_extractor_sees_neither() -> None:
    value = "x9" * 12
    seen: list[str] = []

    def spy(run: Transcript, _known: object) -> list[Candidate]:
        seen.extend(item.text for item in run.said)
        return []

    extract(transcript(said(f"DB_PASSWORD={value}, ask jane@example.com")), extractor=spy)
    assert value not in seen[0]
    assert "jane" not in seen[0]
    assert found(said("orders-db is owned by jane@example.com.")) == []


def test_extract__extractor_that_fails__finds_nothing_and_raises_nothing() -> None:
    def broken(_run: Transcript, _known: object) -> list[Candidate]:
        raise RuntimeError("model gone")

    assert extract(transcript(said("I prefer UTC times.")), extractor=broken) == []


@pytest.mark.parametrize(
    "quote",
    [
        Quote("user", "I prefer CET times.", seqs=(1,)),
        Quote("user", "I prefer UTC times.", seqs=(2,)),
        Quote("tool", "I prefer UTC times.", seqs=(1,)),
        Quote("assistant", "You prefer UTC.", seqs=(2,)),
    ],
)
def test_extract__quote_that_was_not_said_so__candidate_dropped(quote: Quote) -> None:
    draft = MemoryDraft("preference", "me", "time zone", "I prefer UTC times.")
    run = transcript(said("I prefer UTC times."), said("You prefer UTC.", "assistant", seq=2))
    assert extract(run, extractor=lambda _run, _known: [Candidate(draft, (quote,))]) == []
    good = Candidate(draft, (Quote("user", "I prefer UTC times.", seqs=(1,)),))
    assert extract(run, extractor=lambda _run, _known: [good, Candidate(draft, ())]) == [good]


def test_extractor_named__runtime_without_its_own__the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(_run: Transcript, _known: object) -> list[Candidate]:
        return []

    monkeypatch.setattr(candidates, "_extractors", {})
    register_extractor("test-runtime", mine)
    assert extractor_named("test-runtime") is mine
    assert extractor_named("builtin") is extract_by_rules


@given(st.lists(st.text(max_size=400), max_size=80))
def test_window__any_transcript__bounded_and_in_order(texts: list[str]) -> None:
    run = window(transcript(*(said(text * 40, seq=seq) for seq, text in enumerate(texts))))
    assert sum(len(item.text) for item in run.said) <= MAX_CHARS
    assert len(run.said) <= MAX_SPANS
    assert [item.seq for item in run.said] == sorted(item.seq for item in run.said)


@given(st.text(alphabet="I prefer utc. checkout-api runs on eks-2?!\n>`", max_size=300))
def test_rules__any_text__statements_are_the_persons_words(text: str) -> None:
    for candidate in found(said(text)):
        assert candidate.draft.statement in text
        assert "?" not in candidate.draft.statement

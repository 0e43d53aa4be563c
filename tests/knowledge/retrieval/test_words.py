"""Texts as terms and passages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.knowledge.retrieval.words import MAX_TERMS, passages_of, spoken, terms_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("KubePodCrashLooping", ["kubepodcrashloop", "kube", "pod", "crash", "loop"]),
        ("the pods are crashing", ["pod", "crash"]),
        ("kube-state-metrics", ["kube-state-metr", "kube", "state", "metric"]),
        ("HTTPErrors5xx", ["httperrors5xx", "http", "error", "5", "xx"]),
        ("naïve Größe", ["naïv", "grösse"]),
        ("the of and", []),
        ("", []),
        ("\x00 \ud800", []),
    ],
)
def test_terms__text__stems_and_whole_names(text: str, expected: list[str]) -> None:
    assert terms_of(text) == expected


def test_terms__endless_text__is_bounded() -> None:
    assert len(terms_of("disk " * 50_000)) == MAX_TERMS


@given(st.text(max_size=300))
def test_terms__any_text__none_is_empty_and_case_does_not_matter_for_plain_words(text: str) -> None:
    assert all(terms_of(text))
    plain = " ".join(word for word in text.split() if word.isascii() and word.isalpha())
    assert terms_of(plain.lower()) == terms_of(plain.upper())


def test_passages__headings__each_with_the_title() -> None:
    text = "# Disk\n\nfull\n\n## What to do\n\nclean up\n"
    assert list(passages_of("NodeDiskFull", text)) == [
        "Node Disk Full. # Disk\n\nfull\n",
        "Node Disk Full. ## What to do\n\nclean up",
    ]


def test_passages__nothing_but_a_title__is_one() -> None:
    assert list(passages_of("NodeDiskFull", " \n")) == ["Node Disk Full"]
    assert list(passages_of("", "")) == []


def test_spoken__names__as_words() -> None:
    assert spoken("etcdHighNumberOfFailedGRPCRequests") == "etcd High Number Of Failed GRPC Requests"

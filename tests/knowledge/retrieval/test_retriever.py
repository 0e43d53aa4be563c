"""Ranking under a hard filter: whose texts, and valid when."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.knowledge.retrieval import Document, Retriever, default_embedder
from controlplane.knowledge.retrieval import retriever as retriever_module

NOW = datetime(2026, 12, 1, tzinfo=UTC)
WORDS = ["disk", "pod", "crash", "queue", "latency", "cache", "checkout", "payment"]

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
documents = st.lists(st.tuples(st.sampled_from(["mine", "theirs", "team"]), texts), max_size=12)


class Broken:
    """An embedder that fails."""

    id = "broken"
    dimensions = 4

    def embed(self, texts: list[str]) -> Any:
        raise RuntimeError("no weights")


def filled(documents: list[tuple[str, str]], **made: Any) -> Retriever:
    index = Retriever(**made)
    for number, (scope, text) in enumerate(documents):
        index.put(Document(f"{number:02}", "", text, scope))
    return index


def keys(index: Retriever, query: str, **asked: Any) -> list[str]:
    return [hit.key for hit in index.search(query, **asked).hits]


class TestScopes:
    @given(documents, texts)
    def test_search__what_others_wrote__changes_neither_hits_nor_scores(
        self, given_documents: list[tuple[str, str]], query: str
    ) -> None:
        everybody = filled(given_documents)
        alone = Retriever()
        for number, (scope, text) in enumerate(given_documents):
            if scope != "theirs":
                alone.put(Document(f"{number:02}", "", text, scope))
        scopes = ("mine", "team")
        assert everybody.search(query, scopes=scopes) == alone.search(query, scopes=scopes)

    def test_search__no_scope__finds_nothing_and_says_so(self) -> None:
        found = filled([("mine", "disk")]).search("disk", scopes=())
        assert (found.hits, found.total_visible, found.reason) == ((), 0, "nothing_visible")

    def test_search__counts__only_what_may_be_seen(self) -> None:
        index = filled([("mine", "disk"), ("theirs", "disk"), ("mine", "queue")])
        found = index.search("disk", scopes=("mine",))
        assert ([hit.key for hit in found.hits], found.total_visible) == (["00"], 2)
        assert index.search("nothing of it", scopes=("mine",)).reason == "nothing_matched"


class TestTime:
    def test_search__outside_of_its_time__is_not_there(self) -> None:
        index = Retriever()
        index.put(Document("old", "", "disk", valid_to=NOW))
        index.put(Document("new", "", "disk", valid_from=NOW))
        assert keys(index, "disk", at=NOW - timedelta(seconds=1)) == ["old"]
        assert keys(index, "disk", at=NOW) == ["new"]


class TestChanges:
    @given(documents, st.data())
    def test_put_and_drop__in_any_order__as_if_made_at_once(
        self, given_documents: list[tuple[str, str]], data: st.DataObject
    ) -> None:
        index = filled([("mine", "cache cache latency")] * 3 + given_documents)
        for number in range(3):
            index.drop(f"{number:02}")
        gone = data.draw(st.sets(st.integers(3, 2 + len(given_documents)), max_size=4)) if given_documents else set()
        for number in gone:
            index.drop(f"{number:02}")
        kept = Retriever()
        for number, (scope, text) in enumerate(given_documents, 3):
            if number not in gone:
                kept.put(Document(f"{number:02}", "", text, scope))
        scopes = ("mine", "theirs", "team")
        for word in WORDS:
            assert index.search(word, scopes=scopes) == kept.search(word, scopes=scopes)
        assert len(index) == len(kept)

    def test_put__same_key__replaces(self) -> None:
        index = Retriever()
        index.put(Document("one", "Disk", "full"))
        index.put(Document("one", "Queue", "long"))
        assert (keys(index, "disk"), keys(index, "queue"), len(index)) == ([], ["one"], 1)

    def test_drop__most_of_a_large_index__is_packed_and_found_as_before(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(retriever_module, "PACK_FROM", 10)
        index = filled([("mine", f"disk {number}") for number in range(40)])
        built = index.provenance.built_at
        for number in range(30):
            index.drop(f"{number:02}")
        assert index.provenance.built_at > built
        assert keys(index, "disk 35", scopes=("mine",))[0] == "35"
        assert len(index) == 10

    def test_search__while_others_write__always_answers(self) -> None:
        index = filled([("mine", "disk queue")] * 20)
        failed: list[BaseException] = []

        def write(start: int) -> None:
            try:
                for number in range(start, start + 200):
                    index.put(Document(f"{number}", "disk", "queue cache", "mine"))
            except (RuntimeError, BufferError, IndexError) as error:
                failed.append(error)

        writers = [threading.Thread(target=write, args=(start,)) for start in (1_000, 2_000)]
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers):
            assert index.search("disk", scopes=("mine",)).hits
        assert not failed
        assert len(index) == 420


class TestOrder:
    def test_search__alike__by_key(self) -> None:
        index = Retriever()
        for key in ("c", "a", "b"):
            index.put(Document(key, "", "disk full"))
        assert keys(index, "disk") == ["a", "b", "c"]

    def test_search__title__counts_more_than_text(self) -> None:
        index = Retriever()
        index.put(Document("text", "queue", "disk disk latency cache pod"))
        index.put(Document("title", "disk", "queue queue latency cache pod"))
        assert keys(index, "disk")[0] == "title"

    def test_search__more_than_asked_for__the_best(self) -> None:
        index = filled([("mine", "disk " * number + "queue") for number in range(1, 20)])
        assert len(index.search("disk", scopes=("mine",)).hits) == 8
        assert len(index.search("disk", scopes=("mine",), limit=3).hits) == 3


class TestMeaning:
    def test_search__embedder_fails__words_alone_answer(self) -> None:
        index = filled([("mine", "disk"), ("mine", "queue")], embedder=Broken())
        found = index.search("disk", scopes=("mine",))
        assert ([hit.key for hit in found.hits], found.retrieval) == (["00"], "keyword")

    def test_search__other_words_for_the_same__is_found_by_meaning(self) -> None:
        embedder = default_embedder()
        if embedder is None:
            pytest.skip("no embedder for this Python")
        index = Retriever(embedder)
        index.put(Document("disk", "NodeFilesystemSpaceFillingUp", "# Meaning\n\nThe filesystem runs out of space."))
        index.put(Document("clock", "NodeClockSkew", "# Meaning\n\nThe clock of the host is off."))
        found = index.search("storage is almost exhausted")
        assert (found.hits[0].key, found.retrieval, found.hits[0].keyword) == ("disk", "hybrid", 0.0)
        assert index.provenance.embedder == embedder.id

    def test_embedder__texts__rows_of_unit_length(self) -> None:
        embedder = default_embedder()
        if embedder is None:
            pytest.skip("no embedder for this Python")
        vectors = embedder.embed(["disk full", "queue"])
        assert vectors.shape == (2, embedder.dimensions)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)
        assert embedder.embed([]).shape == (0, embedder.dimensions)

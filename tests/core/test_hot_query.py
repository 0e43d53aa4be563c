"""Look-ups for hot routes: shared round trips, nothing stale, nobody takes another down."""

import asyncio
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connection
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from controlplane.core import hot_query
from controlplane.core.hot_query import HotLookup, Match, Row, statement
from controlplane.orgs.models import Node
from tests.factories import Tree


def nodes_by_slug(match: Match) -> Any:
    return Node.objects.filter(**match("slug")).order_by("name").values_list("slug", "name")


class Recorded(HotLookup):
    """Answers from memory, when it is let go on."""

    def __init__(self, stored: dict[str, str]) -> None:
        super().__init__(nodes_by_slug, name="recorded")
        self.stored = stored
        self.asked: list[list[str]] = []
        self.go_on = asyncio.Event()
        self.error: Exception | None = None

    @override
    async def _found(self, keys: list[str]) -> dict[str, list[Row]]:
        self.asked.append(keys)
        found = {key: [(key, self.stored[key])] for key in keys if key in self.stored}
        await self.go_on.wait()
        if self.error is not None:
            raise self.error
        return found


async def started(lookup: Recorded, *keys: str) -> list["asyncio.Task[list[Row]]"]:
    tasks = [asyncio.create_task(lookup.rows(key)) for key in keys]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_rows__asked_together__share_one_query() -> None:
    lookup = Recorded({"a": "1", "b": "2"})
    lookup.go_on.set()
    assert await asyncio.gather(*(lookup.rows(key) for key in "abac")) == [[("a", "1")], [("b", "2")], [("a", "1")], []]
    assert lookup.asked == [["a", "b", "c"]]


async def test_rows__asked_while_a_query_runs__are_read_after_the_asking() -> None:
    lookup = Recorded({"a": "old"})
    early = await started(lookup, "a")
    lookup.stored["a"] = "new"
    late = await started(lookup, "a")
    lookup.go_on.set()
    assert [await early[0], await late[0]] == [[("a", "old")], [("a", "new")]]


async def test_rows__a_caller_goes_away__the_others_get_theirs() -> None:
    lookup = Recorded({"a": "1"})
    gone, stays = await started(lookup, "a", "a")
    gone.cancel()
    lookup.go_on.set()
    assert await stays == [("a", "1")]
    assert await lookup.rows("a") == [("a", "1")]


async def test_rows__query_fails__is_told_to_those_who_asked_and_to_nobody_after() -> None:
    lookup = Recorded({"a": "1"})
    lookup.error = DatabaseError("away")
    failed = await started(lookup, "a", "b")
    lookup.go_on.set()
    assert {str(error) for error in await asyncio.gather(*failed, return_exceptions=True)} == {"away"}
    lookup.error = None
    assert await lookup.rows("a") == [("a", "1")]


async def test_rows__more_keys_than_a_statement_takes__are_asked_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot_query, "MOST_KEYS", 2)
    lookup = Recorded({key: key.upper() for key in "abcde"})
    lookup.go_on.set()
    assert await asyncio.gather(*map(lookup.rows, "abcde")) == [[(key, key.upper())] for key in "abcde"]
    assert lookup.asked == [["a", "b"], ["c", "d"], ["e"]]


async def test_rows__database_hangs__is_an_error_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot_query, "MOST_WAIT_S", 0.01)
    with pytest.raises(TimeoutError):
        await Recorded({}).rows("a")


async def test_close__somebody_waits__is_cancelled() -> None:
    lookup = Recorded({})
    (waiting,) = await started(lookup, "a")
    await lookup.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting


@given(
    stored=st.dictionaries(st.sampled_from("abcdef"), st.text(max_size=3)),
    keys=st.lists(st.sampled_from("abcdefgh"), max_size=20),
)
async def test_rows__any_callers__each_gets_its_own(stored: dict[str, str], keys: list[str]) -> None:
    lookup = Recorded(stored)
    lookup.go_on.set()
    answers = await asyncio.gather(*map(lookup.rows, keys))
    assert answers == [[(key, stored[key])] if key in stored else [] for key in keys]


@pytest.mark.django_db(transaction=True)
async def test_rows__real_database__are_those_of_the_queryset(tree: Tree) -> None:
    lookup = HotLookup(nodes_by_slug, name="test")
    try:
        slugs = [tree.payments.slug, tree.root.slug, "no-such-node"]
        found = await asyncio.gather(*map(lookup.rows, slugs))
    finally:
        await lookup.close()
    assert found == [[(tree.payments.slug, tree.payments.name)], [(tree.root.slug, tree.root.name)], []]


@pytest.mark.django_db(transaction=True)
async def test_rows__connection_killed__next_one_is_answered(tree: Tree) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no connection to lose")
    lookup = HotLookup(nodes_by_slug, name="killed")
    try:
        assert await lookup.rows(tree.root.slug)
        assert lookup._pool is not None
        async with lookup._pool.connection() as held:
            backend = held.info.backend_pid
        async with await psycopg.AsyncConnection.connect(**hot_query._parameters()) as other:
            await other.execute("SELECT pg_terminate_backend(%s)", [backend])
        with pytest.raises(hot_query.NoAnswer):
            await lookup.rows(tree.root.slug)
        assert await lookup.rows(tree.root.slug) == [(tree.root.slug, tree.root.name)]
    finally:
        await lookup.close()


def test_statement__constant_of_its_own__is_refused() -> None:
    with pytest.raises(ValueError, match="other parameters"):
        statement(lambda match: Node.objects.filter(kind="team", **match("slug")).values_list("slug"))

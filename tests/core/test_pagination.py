"""Cursor pagination: every row once, in order, whatever the order and the ties; odd cursors refused."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.core.errors import MalformedRequest
from controlplane.core.pagination import cursor_decode, cursor_encode, limit_of, page_of
from controlplane.orgs.models import Organization

START = datetime(2030, 1, 1, tzinfo=UTC)
ORDERINGS = [
    ["slug"],
    ["-slug"],
    ["created_at", "id"],
    ["-created_at", "-id"],
    ["name", "-slug"],
    ["-name", "created_at", "id"],
]


def walk(ordering: list[str], limit: int) -> list[Any]:
    seen: list[Any] = []
    cursor: str | None = ""
    while cursor is not None:
        page = page_of(Organization.objects.all(), ordering=ordering, params={"limit": limit, "cursor": cursor})
        assert len(page.results) == limit or page.next is None
        seen += page.results
        cursor = page.next
    return seen


@pytest.mark.django_db
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(st.sampled_from(["a", "b", "ä", "'", "%"]), st.integers(0, 2)), max_size=9),
    ordering=st.sampled_from(ORDERINGS),
    limit=st.integers(1, 5),
)
def test_page_of__any_rows_and_order__each_once_in_order(
    rows: list[tuple[str, int]], ordering: list[str], limit: int
) -> None:
    with transaction.atomic():
        for number, (name, minutes) in enumerate(rows):
            made = Organization.objects.create(slug=f"org-{number}", name=name)
            # Microseconds, so that a cursor that loses some would be noticed.
            moment = START + timedelta(minutes=minutes, microseconds=minutes)
            Organization.objects.filter(pk=made.pk).update(created_at=moment)
        assert walk(ordering, limit) == list(Organization.objects.order_by(*ordering))
        transaction.set_rollback(True)


@pytest.mark.django_db
def test_page_of__row_deleted_behind_the_cursor__goes_on(django_assert_num_queries: Any) -> None:
    for number in range(4):
        Organization.objects.create(slug=f"org-{number}", name="x")
    first = page_of(Organization.objects.all(), ordering=["slug"], params={"limit": 2})
    Organization.objects.filter(slug="org-1").delete()
    with django_assert_num_queries(1):
        second = page_of(Organization.objects.all(), ordering=["slug"], params={"limit": 2, "cursor": first.next})
    assert [row.slug for row in second.results] == ["org-2", "org-3"]
    assert second.as_dict(["x"]) == {"results": ["x"], "next": None}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("ordering", "position"),
    [
        (["slug"], [5]),
        (["slug"], ["a", "b"]),
        (["slug"], [None]),
        (["slug"], [True]),
        (["slug"], [["a"]]),
        (["slug"], ["a\x00"]),
        (["slug"], ["\ud800"]),
        (["created_at", "id"], ["yesterday", "x"]),
        (["created_at", "id"], ["2030-01-01T00:00:00", "01a22dae-971c-7b5f-88c2-e19b0e494b88"]),
        (["created_at", "id"], ["2030-01-01T00:00:00+00:00", "x"]),
        (["created_at", "id"], ["9999-99-99T00:00:00+00:00", "01a22dae-971c-7b5f-88c2-e19b0e494b88"]),
        (["created_at", "id"], [10**30, 10**30]),
    ],
)
def test_page_of__cursor_of_another_list__refused(ordering: list[str], position: list[Any]) -> None:
    with pytest.raises(MalformedRequest) as caught:
        page_of(Organization.objects.all(), ordering=ordering, params={"cursor": cursor_encode(position)})
    assert caught.value.code == "bad_cursor"


@given(st.text(max_size=60))
def test_cursor_decode__any_text__position_or_refusal(text: str) -> None:
    with suppress(MalformedRequest):  # and no other error
        assert isinstance(cursor_decode(text, length=1)[0], str | int)


@given(st.lists(st.integers() | st.text(st.characters(categories=["L", "N", "P", "S"])), min_size=1, max_size=4))
def test_cursor_decode__what_was_encoded__round_trips(position: list[str | int]) -> None:
    assert cursor_decode(cursor_encode(position), length=len(position)) == position


@pytest.mark.parametrize("text", ["1", "50", "200", 7])
def test_limit_of__in_range__number(text: str | int) -> None:
    assert limit_of({"limit": text}) == int(text)
    assert limit_of({}) == 50


@pytest.mark.parametrize("text", ["", "0", "201", "-1", "1.0", "1e2", " 5", "²", "9" * 99])
def test_limit_of__otherwise__refused(text: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        limit_of({"limit": text})
    assert caught.value.code == "bad_limit"

"""The event log: gapless numbers, fencing, redaction."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import orjson
import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.investigations import bus
from controlplane.investigations.envelope import LoggedEvent
from controlplane.investigations.lifecycle import run_claim
from controlplane.investigations.log import (
    MAX_DATA_BYTES,
    Fence,
    LeaseLost,
    NewEvent,
    append,
    new_event,
    read_page,
)
from controlplane.investigations.models import Audience, Event, Thread
from controlplane.investigations.starting import Started
from controlplane.runtimes.events import EventType, RunEnded, Thought, ToolEnd, ToolStart
from controlplane.runtimes.evidence import Observation, ObservationKind
from tests.factories import Tree
from tests.support.runs import envelopes, in_threads, start_run


def thought(text: str = "x", audience: Audience = Audience.THREAD) -> NewEvent:
    return new_event(EventType.THOUGHT, Thought(text=text), run_id=None, audience=audience)


@pytest.fixture
def started(tree: Tree) -> Started:
    return start_run(tree.system, tree.payments)


def test_append__several_events__consecutive_numbers_and_counter(started: Started) -> None:
    logged = append(thread_id=started.thread.pk, events=[thought("a"), thought("b"), thought("c")])

    assert [event.seq for event in logged] == [2, 3, 4]
    assert Thread.objects.get(pk=started.thread.pk).last_seq == 4
    assert [event["data"].get("text") for event in envelopes(started.thread.pk)[1:]] == ["a", "b", "c"]


def test_append__returned_events__equal_what_is_read_back(started: Started) -> None:
    logged = append(thread_id=started.thread.pk, events=[thought("ä \u2028 \U0001f600")])

    assert [event.envelope() for event in read_page(started.thread.pk, after=1, limit=10).events] == [
        event.envelope() for event in logged
    ]


def test_append__rolled_back__leaves_no_hole(started: Started) -> None:
    with transaction.atomic():
        append(thread_id=started.thread.pk, events=[thought("never")])
        transaction.set_rollback(True)

    append(thread_id=started.thread.pk, events=[thought("after")])

    assert [event["type"] for event in envelopes(started.thread.pk)] == ["run_started", "thought"]


def test_append__unknown_thread__is_refused(tree: Tree) -> None:
    with pytest.raises(LeaseLost):
        append(thread_id=uuid4(), events=[thought()])


def test_append__fence_of_the_claim__writes(started: Started) -> None:
    claim = run_claim(owner="w")
    assert claim is not None

    logged = append(thread_id=started.thread.pk, events=[thought()], fence=claim.fence)

    assert logged[0].seq == 2


@pytest.mark.parametrize("change", ["epoch", "run", "no_lease"])
def test_append__fence_that_does_not_hold__writes_nothing(started: Started, change: str) -> None:
    claim = run_claim(owner="w")
    assert claim is not None
    fence = claim.fence
    if change == "epoch":
        fence = Fence(fence.run_id, fence.epoch - 1)
    elif change == "run":
        fence = Fence(uuid4(), fence.epoch)
    else:
        Thread.objects.filter(pk=started.thread.pk).update(lease_until=None)

    with pytest.raises(LeaseLost):
        append(thread_id=started.thread.pk, events=[thought("late")], fence=fence)

    assert [event["type"] for event in envelopes(started.thread.pk)] == ["run_started"]
    assert Thread.objects.get(pk=started.thread.pk).last_seq == 1


def test_append__query_count__is_one_statement_or_one_short_transaction(
    started: Started, django_assert_max_num_queries: Any
) -> None:
    new = [thought(str(index)) for index in range(20)]

    with django_assert_max_num_queries(4):  # PostgreSQL: 1; SQLite: savepoint, UPDATE, INSERT, release
        append(thread_id=started.thread.pk, events=new)

    assert Event.objects.filter(thread=started.thread).count() == 21


def test_new_event__secret_in_the_data__is_redacted_before_it_exists() -> None:
    secret = "ghp_" + "a1B2" * 9

    event = new_event(EventType.THOUGHT, Thought(text=f"token is {secret} ok"), run_id=None)

    assert secret not in event.data
    assert "[redacted:" in event.data


def test_new_event__wrong_model__is_a_programming_error() -> None:
    with pytest.raises(TypeError, match="thought needs data of type Thought"):
        new_event(EventType.THOUGHT, RunEnded(status="completed"), run_id=None)


def test_new_event__data_above_the_limit__is_cut_and_says_so() -> None:
    event = new_event(EventType.THOUGHT, Thought(text="word " * MAX_DATA_BYTES), run_id=None)

    data = Thought.model_validate_json(event.data)
    assert len(event.data) < MAX_DATA_BYTES
    assert data.text.startswith("word word")
    assert "[cut: the event had" in data.text


def test_append__nul_and_controls__survive_as_they_are(started: Started) -> None:
    append(thread_id=started.thread.pk, events=[thought("a\x00b\x1b[31m")])

    assert envelopes(started.thread.pk)[-1]["data"]["text"] == "a\x00b\x1b[31m"


@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=200))
def test_envelope__any_text__is_one_line_of_json(text: str) -> None:
    event = new_event(EventType.THOUGHT, Thought(text=text), run_id=None)
    from controlplane.core import clock

    logged = LoggedEvent(uuid4(), 1, None, event.type, clock.now(), event.audience, event.data)

    assert b"\n" not in logged.envelope()
    assert b"\r" not in logged.envelope()
    assert orjson.loads(logged.envelope())["data"]["text"] is not None


def test_envelope__withheld__keeps_number_and_type_and_hides_the_data(started: Started) -> None:
    logged = append(thread_id=started.thread.pk, events=[thought("private", Audience.STARTER)])[0]

    hidden = orjson.loads(logged.envelope(starter=False))

    assert (hidden["seq"], hidden["type"], hidden["data"]) == (2, "thought", {"withheld": True})


@pytest.mark.django_db(transaction=True)
def test_append__eight_writers_at_once__gapless_and_in_commit_order(tree: Tree) -> None:
    thread_id = start_run(tree.system, tree.payments).thread.pk
    heard: list[int] = []
    unsubscribe = bus.events.add(lambda events: heard.extend(event.seq for event in events))

    def write(writer: int) -> Callable[[], Any]:
        return lambda: [append(thread_id=thread_id, events=[thought(f"{writer}.{n}")]) for n in range(15)]

    try:
        outcomes = in_threads(*(write(writer) for writer in range(8)))
    finally:
        unsubscribe()

    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    log = envelopes(thread_id)
    assert len(log) == 1 + 8 * 15
    for writer in range(8):
        mine = [event["data"]["text"] for event in log[1:] if event["data"]["text"].startswith(f"{writer}.")]
        assert mine == [f"{writer}.{n}" for n in range(15)]
    assert sorted(heard) == list(range(2, 122))


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(batches=st.lists(st.integers(min_value=1, max_value=7), min_size=1, max_size=6), cut=st.integers(0, 50))
def test_read_page__any_cursor__is_the_log_after_it(started: Started, batches: list[int], cut: int) -> None:
    for size in batches:
        append(thread_id=started.thread.pk, events=[thought() for _ in range(size)])
    head = Thread.objects.get(pk=started.thread.pk).last_seq

    page = read_page(started.thread.pk, after=cut, limit=10_000)

    assert [event.seq for event in page.events] == list(range(cut + 1, head + 1))
    assert not page.more


def test_new_event__field_made_longer_by_redaction__still_fits_its_schema() -> None:
    secret = "ghp_" + "a1B2" * 9
    quote = "x " * 980 + secret
    observation = Observation(id="t1-1.1", source="s", object="o", kind=ObservationKind.LOG, quote=quote[:2000])
    end = ToolEnd(tool_use_id="t1-1", name="query_logs", success=True, observations=(observation,))

    event = new_event(EventType.TOOL_END, end, run_id=None)

    stored = ToolEnd.model_validate_json(event.data)
    assert len(stored.observations[0].quote) <= 2000
    assert secret not in event.data


@pytest.mark.parametrize(
    "data",
    [
        ToolStart(tool_use_id="t1-1", name="n", input={f"k{i}": "word " * 4000 for i in range(400)}),
        ToolStart(tool_use_id="t1-1", name="n", input={f"k{i}": [["x" * 300] * 30] * 4 for i in range(60)}),
        ToolEnd(tool_use_id="t1-1", name="n", success=True, output="line\n" * 300_000),
    ],
    ids=["many texts", "many lists", "one text"],
)
def test_new_event__oversized__is_readable_by_its_own_schema(data: ToolStart | ToolEnd) -> None:
    type_ = EventType.TOOL_START if isinstance(data, ToolStart) else EventType.TOOL_END

    event = new_event(type_, data, run_id=None)

    assert len(event.data) <= MAX_DATA_BYTES
    assert type(data).model_validate_json(event.data).tool_use_id == "t1-1"


def test_read_page__large_events__stops_at_its_byte_bound_and_says_so(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.investigations.log._PIECE_EVENTS", 4)
    monkeypatch.setattr("controlplane.investigations.log.PAGE_BYTES", 20_000)
    for _ in range(20):
        append(thread_id=started.thread.pk, events=[thought("word " * 1000)])

    page = read_page(started.thread.pk, after=0, limit=500)
    rest = read_page(started.thread.pk, after=page.events[-1].seq, limit=500)

    assert page.more
    assert 4 <= len(page.events) <= 8
    assert rest.events[0].seq == page.events[-1].seq + 1

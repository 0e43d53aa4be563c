"""Messages of the bus: what goes in comes out, in pieces that fit, and nobody else's is taken for ours."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.investigations.buses.messages import (
    WORK_ITEM,
    channel_name,
    decode,
    encode,
    event_item,
    head_item,
    rights_item,
)
from controlplane.investigations.buses.outbox import Outbox
from controlplane.investigations.envelope import LoggedEvent
from tests.support.processes import ROOT

KEY = b"k" * 32
ORIGIN = "0" * 32
LIMIT = 7_500


def event(seq: int, data: str = '{"text":"x"}', thread_id: UUID | None = None, audience: str = "thread") -> LoggedEvent:
    at = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
    return LoggedEvent(thread_id or uuid4(), seq, uuid4() if seq % 2 else None, "thought", at, audience, data)


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=3000), max_size=20))
def test_encode__events_of_any_text__come_out_as_they_went_in_and_fit(texts: list[str]) -> None:
    events = [event(index, text, audience="starter") for index, text in enumerate(texts, start=1)]
    items = [event_item(one, 10_000) for one in events]

    payloads = list(encode([*items, WORK_ITEM], origin=ORIGIN, key=KEY, limit=12_000))
    messages = [decode(payload, key=KEY) for payload in payloads]

    assert all(len(payload) <= 12_000 for payload in payloads)
    assert [one for message in messages if message for one in message.events] == events
    assert messages[-1] is not None
    assert messages[-1].work


def test_event_item__larger_than_a_payload__is_sent_as_its_number() -> None:
    large = event(7, '"' + "x" * LIMIT + '"')
    [payload] = encode([event_item(large, LIMIT - 100)], origin=ORIGIN, key=KEY, limit=LIMIT)
    message = decode(payload, key=KEY)
    assert message is not None
    assert (message.events, message.heads) == ([], [(large.thread_id, 7)])


def test_decode__another_installation_or_forged__is_nothing() -> None:
    organization = uuid4()
    [payload] = encode([rights_item(organization)], origin=ORIGIN, key=KEY, limit=LIMIT)
    ours = decode(payload, key=KEY)
    assert ours is not None
    assert ours.rights == [organization]
    for other in (payload.replace(str(organization).encode(), str(uuid4()).encode()), payload[1:], b"", b"\n\n"):
        assert decode(other, key=KEY) is None
    assert decode(payload, key=b"o" * 32) is None
    assert channel_name(KEY) != channel_name(b"o" * 32)


@pytest.mark.parametrize("carrying", [True, False])
def test_outbox__many_commits__wake_once_and_keep_numbers_alone_without_a_connection(carrying: bool) -> None:
    woken: list[bool] = []
    outbox = Outbox(lambda: woken.append(True))
    outbox.carrying = carrying
    thread_id = uuid4()
    events = [event(seq, thread_id=thread_id) for seq in range(1, 4)]

    for one in events:
        outbox.add_events([one])
    items = outbox.take().items(LIMIT)

    assert woken == [True]
    whole = [event_item(one, LIMIT) for one in events]
    assert items == (whole if carrying else [head_item(thread_id, 3)])
    assert outbox.take().items(LIMIT) == []


def test_buses__one_process_on_sqlite__loads_no_driver_of_a_bus() -> None:
    names = "redis", "controlplane.investigations.buses.redis", "controlplane.investigations.buses.postgres"
    code = f"import sys, controlplane.asgi; print([name for name in {names} if name in sys.modules])"
    env = {name: value for name, value in os.environ.items() if name not in {"TEST_DATABASE_URL", "EVENT_BUS"}}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"

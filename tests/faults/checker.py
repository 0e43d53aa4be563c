"""What must hold after every fault, read from the database itself and not through the code under test."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

Rows = Callable[[str], list[tuple[Any, ...]]]

END = frozenset({"completed", "failed", "interrupted", "timeout"})
ACTIVE = frozenset({"queued", "running", "waiting"})


@dataclass
class Acknowledged:
    """What clients were told is accepted: threads by their id, messages by their id with their text."""

    threads: set[str] = field(default_factory=set)
    messages: dict[str, str] = field(default_factory=dict)


def check(rows: Rows, acknowledged: Acknowledged, *, settled: bool = True) -> dict[str, int]:
    """Check the whole database and return how many runs have each status.

    Args:
        rows: runs a query and returns its rows.
        acknowledged: what must be there, once.
        settled: nothing is expected to be active any more.

    Raises:
        AssertionError: naming the thread or run that is not as it must be.
    """
    events = _events(rows)
    runs = rows("SELECT id, thread_id, status, number FROM investigations_run ORDER BY thread_id, number")
    _check_log(rows, events)
    for run_id, thread_id, status, _ in runs:
        _check_run(plain(run_id), status, events[plain(thread_id)], settled=settled)
    _check_threads(rows, runs)
    _check_acknowledged(rows, acknowledged, events, {plain(run[0]): run[2] for run in runs})
    statuses = [run[2] for run in runs]
    return {status: statuses.count(status) for status in sorted(set(statuses))}


def plain(id_: Any) -> str:
    """Return a UUID as 32 digits: PostgreSQL gives an object, SQLite the digits, the API a text with hyphens."""
    return str(id_).replace("-", "")


def _events(rows: Rows) -> dict[str, list[tuple[int, str | None, str, Mapping[str, Any]]]]:
    found: dict[str, list[Any]] = {}
    for (thread_id,) in rows("SELECT id FROM investigations_thread"):
        found[plain(thread_id)] = []
    for thread_id, seq, run_id, type_, data in rows(
        "SELECT thread_id, seq, run_id, type, data FROM investigations_event ORDER BY thread_id, seq"
    ):
        found[plain(thread_id)].append((seq, run_id and plain(run_id), type_, orjson.loads(data)))
    return found


def _check_log(rows: Rows, events: Mapping[str, list[Any]]) -> None:
    for thread_id, last_seq in rows("SELECT id, last_seq FROM investigations_thread"):
        seqs = [event[0] for event in events[plain(thread_id)]]
        assert seqs == list(range(1, last_seq + 1)), f"the log of {thread_id} has a gap or a duplicate"


def _check_run(run_id: str, status: str, events: list[Any], *, settled: bool) -> None:
    assert status in END | ACTIVE, f"run {run_id} is {status}"
    assert not settled or status in END, f"run {run_id} is still {status}"
    own = [(type_, data) for _, run, type_, data in events if run == run_id]
    types = [type_ for type_, _ in own]
    ends = [data for type_, data in own if type_ == "run_ended"]
    assert types.count("run_started") == 1, f"run {run_id} started {types.count('run_started')} times"
    assert len(ends) == int(status in END), f"run {run_id} is {status} with {len(ends)} ends in the log"
    assert types.count("result") <= 1, f"run {run_id} has {types.count('result')} results"
    if ends:
        assert ends[0]["status"] == status, f"run {run_id} is {status}, its end says {ends[0]['status']}"
        assert types[-1] == "run_ended", f"run {run_id} goes on after its end: {types[-3:]}"
        opened = {data["tool_use_id"] for type_, data in own if type_ == "tool_start"}
        closed = {data["tool_use_id"] for type_, data in own if type_ == "tool_end"}
        assert opened == closed, f"run {run_id} has tool calls without an end: {opened ^ closed}"


def _check_threads(rows: Rows, runs: Collection[tuple[Any, ...]]) -> None:
    active = {plain(thread_id): plain(run_id) for run_id, thread_id, status, _ in runs if status in ACTIVE}
    for thread_id, active_run, leased in rows(
        "SELECT id, active_run, lease_until IS NOT NULL FROM investigations_thread"
    ):
        expected = active.get(plain(thread_id))
        assert (active_run and plain(active_run)) == expected, f"thread {thread_id} names the wrong active run"
        running = any(plain(run[1]) == plain(thread_id) and run[2] == "running" for run in runs)
        assert bool(leased) == running, f"thread {thread_id}: a lease without a running run, or the reverse"


def _check_acknowledged(
    rows: Rows, acknowledged: Acknowledged, events: Mapping[str, list[Any]], statuses: Mapping[str, str]
) -> None:
    missing = {plain(id_) for id_ in acknowledged.threads} - set(events)
    assert not missing, f"threads that were acknowledged are not there: {missing}"
    stored = {plain(row[0]): row for row in rows("SELECT id, text, run_id, delivered_at FROM investigations_message")}
    told: dict[str, int] = {}
    for log in events.values():
        for _, _, type_, data in log:
            if type_ == "message_queued" and data["text"]:
                told[plain(data["message_id"])] = told.get(plain(data["message_id"]), 0) + 1
    for id_, text in acknowledged.messages.items():
        row = stored.get(plain(id_))
        assert row is not None, f"message {id_} was acknowledged and is not there"
        assert row[1] == text, f"message {id_} has other words"
        assert told.get(plain(id_)) == 1, f"message {id_} is in the log {told.get(plain(id_), 0)} times"
        taken = row[3] is not None and statuses.get(plain(row[2])) is not None
        assert taken or ACTIVE & set(statuses.values()), f"message {id_} was taken up by no run"
    texts = [row[1] for row in stored.values() if row[1] in set(acknowledged.messages.values())]
    assert len(texts) == len(set(texts)), "a message is stored twice"

"""Loki as a source of log lines."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.runtimes.sources.records import Level
from tests.runtimes.live.peer import Asked, Peer, Raw, failure, matches, serving, success
from tests.runtimes.live.support import EVERYTHING, alert, info_of, source

START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
LABELS: Mapping[str, Sequence[str]] = {
    "app": ["cart", "checkout", "checkout-worker"],
    "level": ["error", "info"],
    "namespace": ["shop"],
}
START_NS = int(START.timestamp()) * 10**9


def stream(values: list[tuple[int, str]], **labels: str) -> dict[str, Any]:
    """Return a stream of lines, each with its seconds after the alert began, newest first as Loki sends them."""
    newest = sorted(values, reverse=True)
    return {"stream": labels, "values": [[str(START_NS + second * 10**9), line] for second, line in newest]}


STREAMS = [
    stream(
        [
            (1, "order 17 took 5 ms"),
            (3, "connection refused by payments:443"),
            (2, '{"level":"warn","msg":"retrying","error":"timeout after 2s"}'),
            (4, 'ts=2026-11-02T09:00:04Z level=error msg="giving up"'),
        ],
        app="checkout",
        namespace="shop",
        detected_level="unknown",
    ),
    stream([(0, "shutting down")], app="checkout-worker", level="error"),
]


def respond(asked: Asked) -> Raw:
    if asked.path == "/loki/api/v1/labels":
        return success(sorted(LABELS))
    if match := re.fullmatch(r"/loki/api/v1/label/(\w+)/values", asked.path):
        return success(LABELS.get(match.group(1), []))
    if asked.path == "/loki/api/v1/query_range":
        return success({"resultType": "streams", "result": STREAMS, "stats": {}})
    return Raw(404, b"404 page not found\n", "text/plain")


@pytest.fixture
def peer() -> Iterator[Peer]:
    with serving(Peer(respond)) as made:
        yield made


def query_of(peer: Peer) -> Asked:
    (asked,) = peer.to("/query_range")
    return asked


async def test_log_lines__alert_on_a_service__its_streams_newest_thousand_backward(peer: Peer) -> None:
    made = source(peer.url, "loki", alert=alert(START, service="checkout", namespace="shop"))
    await info_of(made)

    asked = query_of(peer)
    assert asked.first("query") == '{app=~"checkout|checkout\\\\-worker", namespace="shop"}'
    assert (asked.first("limit"), asked.first("direction")) == ("1000", "backward")
    assert (int(asked.first("start")), int(asked.first("end"))) == (START_NS - 3600 * 10**9, START_NS + 900 * 10**9)


async def test_log_lines__oldest_first_with_level_and_message_from_the_line_or_its_labels(peer: Peer) -> None:
    lines = (await source(peer.url, "loki", alert=alert(START, app="checkout")).log_lines(EVERYTHING)).records

    assert [(one.object, one.level, one.message) for one in lines] == [
        ("checkout-worker", Level.ERROR, "shutting down"),
        ("checkout", Level.INFO, "order 17 took 5 ms"),
        ("checkout", Level.WARNING, "retrying: timeout after 2s"),
        ("checkout", Level.ERROR, "connection refused by payments:443"),
        ("checkout", Level.ERROR, 'ts=2026-11-02T09:00:04Z level=error msg="giving up"'),
    ]
    assert [one.at.second for one in lines if one.at] == [0, 1, 2, 3, 4]


async def test_log_lines__alert_on_nothing_that_logs__loud_lines_of_all_streams(peer: Peer) -> None:
    info = await info_of(source(peer.url, "loki", alert=alert(START, service="unheard-of")))

    loud = " |~ `(?i)error|warn|fatal|panic|exception`"
    assert sorted(one.first("query") for one in peer.to("/query_range")) == [
        f'{{namespace="", app="", level=~".+"}}{loud}',
        f'{{namespace="", app=~".+"}}{loud}',
        f'{{namespace=~".+"}}{loud}',
    ]
    assert info.problems == (
        "the alert names no object that has logs: read are lines that speak of errors, of all streams",
    )


async def test_log_lines__streams_without_the_first_label__are_read_too(peer: Peer) -> None:
    own = [stream([(5, "ERROR disk full")], job="varlogs", filename="/var/log/syslog")]

    def respond_by_stream(asked: Asked) -> Raw:
        if asked.path.endswith("/labels"):
            return success(["app", "filename", "job", "__stream_shard__"])
        if "query_range" in asked.path:
            fitting = [one for one in (*STREAMS, *own) if matches(asked.first("query"), one["stream"])]
            return success({"resultType": "streams", "result": fitting})
        return success([])

    peer.respond = respond_by_stream
    lines = (await source(peer.url, "loki", alert=alert(START)).log_lines(EVERYTHING)).records

    assert lines[-1].message == "ERROR disk full"
    assert sorted(one.message for one in lines).count("shutting down") == 1
    assert len(lines) == 6


async def test_log_lines__more_labels_than_are_asked_by__says_which_streams_were_read(peer: Peer) -> None:
    def many(asked: Asked) -> Raw:
        named = [f"own_{letter}" for letter in "abcd"] + ["job", "app", "level"]
        return success(named) if asked.path.endswith("/labels") else respond(asked)

    peer.respond = many
    info = await info_of(source(peer.url, "loki", alert=alert(START)))

    assert len(peer.to("/query_range")) == 5
    assert info.problems[0].endswith("of all streams with a label job or app or own_a or own_b or own_c")


async def test_log_lines__values_of_one_label_fail__said_and_the_others_decide(peer: Peer) -> None:
    def failing(asked: Asked) -> Raw:
        if asked.path.endswith("/label/pod/values"):
            return failure(500, "internal", "too many values")
        return success([*LABELS, "pod"]) if asked.path.endswith("/labels") else respond(asked)

    peer.respond = failing
    made = source(peer.url, "loki", alert=alert(START, app="checkout"))

    assert len((await made.log_lines(EVERYTHING)).records) == 5
    assert query_of(peer).first("query").startswith('{app=~"checkout|')
    assert (await info_of(made)).problems == ("The server answers with an error (HTTP 500): too many values.",)


async def test_log_lines__one_of_several_queries_fails__said_and_the_other_lines_are_kept(peer: Peer) -> None:
    def failing(asked: Asked) -> Raw:
        if '{namespace=""' in asked.first("query"):
            return failure(429, "limit", "slow down")
        return respond(asked)

    peer.respond = failing
    made = source(peer.url, "loki", alert=alert(START))

    assert len((await made.log_lines(EVERYTHING)).records) == 5
    assert any("gets too many requests" in problem for problem in (await info_of(made)).problems)


async def test_log_lines__as_many_as_are_read__says_that_there_may_be_more(peer: Peer) -> None:
    full = [stream([(number, f"line {number}") for number in range(1000)], app="checkout")]

    def many(asked: Asked) -> Raw:
        return success({"resultType": "streams", "result": full}) if "query_range" in asked.path else respond(asked)

    peer.respond = many
    info = await info_of(source(peer.url, "loki", alert=alert(START, app="checkout")))

    assert info.counts == {"log lines": 1000}
    assert info.problems[0].startswith("only the newest 1,000 lines were read")


async def test_log_lines__label_configured__names_the_object(peer: Peer) -> None:
    made = source(peer.url, "loki", alert=alert(START, namespace="shop"), labels={"object": "namespace"})
    lines = (await made.log_lines(EVERYTHING)).records

    assert query_of(peer).first("query") == '{namespace=~"shop", namespace="shop"}'
    assert {one.object for one in lines} == {"shop", "checkout-worker"}
